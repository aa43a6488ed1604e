// Encoding tiles of an array on a device, by settings that the CPU planned; on the host. See host_jobs.h on Device.
#pragma once

#include "codec/cuda/device_codec.h"
#include "codec/cuda/encode_kernels.h"
#include "codec/cuda/host_jobs.h"

namespace varve::codec::cuda {

/// Memory for records while they are encoded and when they are done.
template <typename W, typename Device>
class DeviceRecords {
 public:
  /// `points`: of the largest record; `all_points`: of all; `records`: how many there are.
  DeviceRecords(Device& device, size_t points, size_t blocks, size_t all_points, size_t records)
      : points_(points),
        tokens_(device.template make<uint8_t>(stream_room(points) * blocks, "a record's tokens")),
        contexts_(device.template make<uint8_t>(stream_room(points) * blocks, "a record's contexts")),
        segments_(device.template make<uint32_t>(size_t{kMostSegments} * blocks, "a record's segments")),
        raw_(device.template make<uint32_t>((points * (sizeof(W) / 4) + 1) * blocks, "a record's raw bits")),
        exact_(device.template make<BitsOf<W>>(points * blocks, "a record's exact elements")),
        special_(device.template make<uint8_t>(points * blocks, "a record's special indices")),
        escapes_(device.template make<uint8_t>(stream_room(points) * blocks, "a record's escapes")),
        coded_(device.template make<uint16_t>(stream_room(points) * blocks, "a record's words")),
        records_(device.template make<DeviceRecord>(records, "the records")),
        encoded_(device.upload(std::vector<uint32_t>(records, 0), "which records are done")),
        bytes_(device.template make<uint8_t>(all_points * sizeof(W) + records, "the records' bytes")),
        elements_(device.template make<BitsOf<W>>(all_points, "the records' elements")),
        words_(device.template make<uint16_t>((all_points * sizeof(W) + records) / 2, "the records' words")),
        used_(device.upload(std::vector<unsigned long long>(3, 0), "the records' sizes")),
        held_encoded_(records),
        held_records_(records) {}

  StreamMemory<W> stream() const {
    return {points_,      tokens_.get(),  contexts_.get(), segments_.get(), raw_.get(),
            exact_.get(), special_.get(), escapes_.get(),  coded_.get()};
  }
  RecordOutput<W> output() const {
    return {records_.get(), encoded_.get(), bytes_.get(), elements_.get(), words_.get(), used_.get()};
  }
  /// Brings what the kernels made to the host.
  void download() {
    std::array<unsigned long long, 3> used{};
    used_.download(used.data(), used.size());
    encoded_.download(held_encoded_.data(), held_encoded_.size());
    records_.download(held_records_.data(), held_records_.size());
    held_bytes_.resize(used[0]);
    bytes_.download(held_bytes_.data(), held_bytes_.size());
    held_elements_.resize(used[1]);
    elements_.download(held_elements_.data(), held_elements_.size());
    held_words_.resize(used[2]);
    words_.download(held_words_.data(), held_words_.size());
  }
  bool is_encoded(uint32_t number) const { return held_encoded_[number] != 0; }
  /// The bytes of a record that is.
  Bytes bytes_of(uint32_t number) const {
    const DeviceRecord& from = held_records_[number];
    if (from.method == Method::zero) {
      return {static_cast<std::byte>(Method::zero)};
    }
    if (has_elements(from.method)) {
      return pack_elements(some(held_elements_, from.elements, from.element_count), sizeof(W));
    }
    RecordParts parts;
    parts.method = from.method;
    parts.lanes = from.lanes;
    parts.raw = some(held_bytes_, from.raw, from.raw_size);
    parts.exact = some(held_elements_, from.elements, from.element_count);
    parts.specials = some(held_bytes_, from.special, from.special_count);
    parts.has_special_indices = from.has_special_indices;
    parts.escapes = some(held_bytes_, from.escape, from.escape_count);
    ByteWriter out;
    put_lists(out, parts, sizeof(W));
    out.put_bytes(some(held_words_, from.words, size_t{2} * from.lanes + from.word_count));
    return out.take();
  }

 private:
  template <typename T>
  static std::span<const std::byte> some(const std::vector<T>& from, size_t begin, size_t count) {
    return std::as_bytes(std::span(from).subspan(begin, count));
  }
  size_t points_;
  typename Device::template Buffer<uint8_t> tokens_;
  typename Device::template Buffer<uint8_t> contexts_;
  typename Device::template Buffer<uint32_t> segments_;
  typename Device::template Buffer<uint32_t> raw_;
  typename Device::template Buffer<BitsOf<W>> exact_;
  typename Device::template Buffer<uint8_t> special_;
  typename Device::template Buffer<uint8_t> escapes_;
  typename Device::template Buffer<uint16_t> coded_;
  typename Device::template Buffer<DeviceRecord> records_;
  typename Device::template Buffer<uint32_t> encoded_;
  typename Device::template Buffer<uint8_t> bytes_;
  typename Device::template Buffer<BitsOf<W>> elements_;
  typename Device::template Buffer<uint16_t> words_;
  typename Device::template Buffer<unsigned long long> used_;
  std::vector<uint32_t> held_encoded_;
  std::vector<DeviceRecord> held_records_;
  std::vector<uint8_t> held_bytes_;
  std::vector<BitsOf<W>> held_elements_;
  std::vector<uint16_t> held_words_;
};

/// Encodes tiles of one array: see DeviceCodec. Throws DeviceError. W: the type of its elements.
template <typename W, typename Device>
class DeviceTileEncoder {
 public:
  DeviceTileEncoder(Device& device, const Settings& settings, const Box& from, const std::byte* data)
      : device_(device), settings_(settings), from_(from), data_(data), places_(settings, from) {}

  Result<std::vector<std::vector<Record>>> encode(const std::vector<uint64_t>& tiles, EncodeCounts& counts,
                                                  std::vector<WorkErrors>* errors) {
    measured_ = errors != nullptr;
    for (const uint64_t tile : tiles) {
      add_tile(tile);
    }
    std::vector<std::vector<Record>> out;
    if (tiles.empty()) {
      return out;
    }
    const auto made = run();
    for (const Tile& tile : tiles_) {
      const bool all = std::all_of(tile.records.begin(), tile.records.end(),
                                   [&](const auto& record) { return made.is_encoded(record.second); });
      if (!all) {
        ++counts.cpu_tiles;
        WorkErrors found;
        VARVE_ASSIGN(auto records, on_cpu(tile.number, measured_ ? &found : nullptr));
        out.push_back(std::move(records));
        if (measured_) {
          errors->push_back(found);
        }
        continue;
      }
      if (measured_) {
        errors->push_back(errors_of(tile));
      }
      ++counts.device_tiles;
      std::vector<Record>& records = out.emplace_back();
      for (const auto& [id, number] : tile.records) {
        records.push_back({id, made.bytes_of(number)});
      }
    }
    return out;
  }

 private:
  struct Tile {
    uint64_t number;
    std::vector<std::pair<RecordId, uint32_t>> records;  ///< in key order
    size_t first_brick;
    size_t bricks;
  };

  void add_tile(uint64_t number) {
    const Geometry& geometry = settings_.geometry;
    const unsigned shift = geometry.coarse_shift;
    const Box box = geometry.tile_box(number);
    const Dims dims = geometry.dims_of(box);
    const Dims grid = coarsen(dims, shift);
    BoxJob job = places_.job_of(box);
    job.grid = grid_shape(grid);
    job.points = coarse_points_;
    job.top = static_cast<uint8_t>(std::max(top_level(dims), shift));
    job.record[0] = add_record(grid.count());
    tile_jobs_.push_back(job);
    coarse_points_ += grid.count();
    largest_class_ = std::max(largest_class_, largest_class(grid));
    const size_t first = brick_jobs_.size();
    Tile& tile = tiles_.emplace_back(Tile{number, {{{kCoarseLevel, number}, job.record[0]}}, first, 0});
    if (shift == 0) {
      return;
    }
    const std::vector<uint64_t> bricks = geometry.bricks_of(number);
    tile.bricks = bricks.size();
    for (const uint64_t brick : bricks) {
      add_brick(brick, box);
    }
    for (uint8_t level = kCoarseLevel; level-- > 0;) {
      for (size_t i = 0; i < bricks.size(); ++i) {
        if (const uint32_t record = brick_jobs_[first + i].record[level]; record != kNoRecord) {
          tile.records.push_back({{level, bricks[i]}, record});
        }
      }
    }
  }

  void add_brick(uint64_t brick, const Box& tile) {
    const Geometry& geometry = settings_.geometry;
    const Box box = geometry.brick_box(brick);
    const Dims dims = geometry.dims_of(box);
    BoxJob job = places_.job_of(box);
    job.tile = static_cast<uint32_t>(tile_jobs_.size() - 1);
    const auto origin = coarse_origin(geometry, box, tile);
    for (unsigned axis = 0; axis < 3; ++axis) {
      job.origin[axis] = static_cast<uint32_t>(origin.at(axis));
    }
    for (unsigned level = 0; level < geometry.coarse_shift; ++level) {
      if (const size_t points = points_of_level(dims, level); points > 0) {
        job.record[level] = add_record(points);
      }
    }
    brick_jobs_.push_back(job);
    brick_points_ = std::max(brick_points_, dims.count());
    largest_class_ = std::max(largest_class_, largest_class(dims));
  }

  uint32_t add_record(size_t points) {
    largest_record_ = std::max(largest_record_, (points + 31) / 32 * 32);
    all_points_ += points;
    return records_++;
  }

  DeviceRecords<W, Device> run() {
    const unsigned blocks = device_.blocks(std::max(brick_jobs_.size(), tile_jobs_.size()));
    const bool marks = !settings_.specials.empty();
    DeviceTerms<W, Device> terms(device_, settings_, 0);
    const auto offsets = device_.upload(places_.offsets(), "places of batch items");
    terms.terms().item_offset = offsets.get();
    for (unsigned axis = 0; axis < 3; ++axis) {
      terms.terms().stride[axis] = places_.stride().at(axis);
    }
    const auto tiles = device_.upload(tile_jobs_, "tiles");
    const auto bricks = device_.upload(brick_jobs_, "bricks");
    std::vector<BitsOf<W>> elements(element_count(from_.shape));
    std::memcpy(elements.data(), data_, elements.size() * sizeof(W));
    const auto array = device_.upload(elements, "the array");
    const DeviceClassMemory<W, Device> work(device_, largest_class_, blocks);
    const DevicePoints<W, Device> coarse(device_, coarse_points_, marks, false);
    const DevicePoints<W, Device> points(device_, brick_points_ * blocks, marks, false, measured_);
    measures_.resize(measured_ ? brick_jobs_.size() : 0);
    const auto measures = device_.template make<BrickMeasures<W>>(measures_.size(), "measures");
    DeviceRecords<W, Device> records(device_, largest_record_, blocks, all_points_, records_);
    const EncodeJob<W> job{terms.terms(),
                           tiles.get(),
                           static_cast<uint32_t>(tile_jobs_.size()),
                           bricks.get(),
                           static_cast<uint32_t>(brick_jobs_.size()),
                           coarse.coarse(),
                           work.get(),
                           records.stream(),
                           points.bricks(brick_points_),
                           array.get(),
                           records.output(),
                           measured_ ? measures.get() : Global<BrickMeasures<W>>(nullptr)};
    device_.launch(encode_tiles<W>, std::min<unsigned>(blocks, job.tile_count), job);
    if (job.brick_count > 0) {
      device_.launch(encode_bricks<W>, std::min<unsigned>(blocks, job.brick_count), job);
    }
    records.download();
    measures.download(measures_.data(), measures_.size());
    return records;
  }

  /// Of a tile whose bricks were measured.
  WorkErrors errors_of(const Tile& tile) const {
    ViewErrors<W> errors(settings_);
    for (size_t i = tile.first_brick; i < tile.first_brick + tile.bricks; ++i) {
      const BrickMeasures<W>& from = measures_[i];
      const auto number = [](BitsOf<W> bits) { return static_cast<double>(std::bit_cast<W>(bits)); };
      const auto reach = [&](unsigned level) {
        std::array<double, 8> out{};
        for (unsigned c = 0; c < 8; ++c) {
          const double quantum = quantum_of<W>(settings_, level);
          const double by_code = static_cast<double>((uint64_t{from.code[level][c]} + 1) / 2) * quantum;
          out.at(c) = std::max(number(from.off[level][c]), by_code);
        }
        return out;
      };
      Dims dims{brick_jobs_[i].grid.batch, {}};
      for (unsigned axis = 0; axis < 3; ++axis) {
        dims.n.at(axis) = brick_jobs_[i].grid.n[axis];
      }
      errors.level_2(number(from.coarsest_3));
      errors.level_1(coarsen(dims, 1), reach(1), number(from.known[1]),
                     [&](unsigned k) { return number(k == 3 ? from.coarser_3 : from.coarser_2); });
      errors.level_0(dims, reach(0), number(from.known[0]), number(from.known[0]));
    }
    return errors.get();
  }

  Result<std::vector<Record>> on_cpu(uint64_t tile, WorkErrors* errors) const {
    const Box box = settings_.geometry.tile_box(tile);
    Bytes elements(element_count(box.shape) * sizeof(W));
    Box part = box;
    for (size_t axis = 0; axis < part.origin.size(); ++axis) {
      part.origin[axis] -= from_.origin[axis];
    }
    copy_box(from_.shape, data_, part, sizeof(W), elements.data());
    return encode_tile(settings_, tile, elements.data(), false, errors);
  }

  Device& device_;
  const Settings& settings_;
  const Box& from_;
  const std::byte* data_;
  PlaceList places_;
  std::vector<Tile> tiles_;
  std::vector<BoxJob> tile_jobs_;
  std::vector<BoxJob> brick_jobs_;
  size_t coarse_points_ = 0;
  size_t brick_points_ = 0;
  size_t largest_class_ = kGroup;
  size_t largest_record_ = 32;
  size_t all_points_ = 0;
  uint32_t records_ = 0;
  bool measured_ = false;  ///< whether errors of views are asked for
  std::vector<BrickMeasures<W>> measures_;
};

}  // namespace varve::codec::cuda
