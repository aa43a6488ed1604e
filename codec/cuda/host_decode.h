// Decoding tiles of an array on a device; on the host. See host_jobs.h on Device.
#pragma once

#include "codec/cuda/decode_kernels.h"
#include "codec/cuda/device_codec.h"
#include "codec/cuda/host_jobs.h"

namespace varve::codec::cuda {

/// Records in the form that kernels read.
template <typename W>
class RecordList {
 public:
  /// The number of a record; nothing: it is damaged.
  std::optional<uint32_t> add(std::span<const std::byte> record, size_t points) {
    const auto parts = take_apart(record, points, sizeof(W));
    if (!parts.ok()) {
      return std::nullopt;
    }
    DeviceRecord input{};
    input.method = parts->method;
    input.lanes = static_cast<uint8_t>(parts->lanes);
    input.has_special_indices = parts->has_special_indices;
    input.raw = add_bytes(parts->raw);
    input.raw_size = static_cast<uint32_t>(parts->raw.size());
    input.special = add_bytes(parts->specials);
    input.special_count = static_cast<uint32_t>(parts->specials.size());
    input.escape = add_bytes(parts->escapes);
    input.escape_count = static_cast<uint32_t>(parts->escapes.size());
    input.elements = elements_.size();
    input.element_count = static_cast<uint32_t>(parts->exact.size() / sizeof(W));
    append(elements_, parts->exact);
    input.words = words_.size();
    if (parts->method == Method::tokens) {
      if (parts->coded.size() % sizeof(uint16_t) != 0) {
        return std::nullopt;
      }
      append(words_, parts->coded);
      input.word_count = static_cast<uint32_t>(parts->coded.size() / sizeof(uint16_t) - size_t{2} * parts->lanes);
    }
    records_.push_back(input);
    return static_cast<uint32_t>(records_.size() - 1);
  }
  const std::vector<DeviceRecord>& records() const { return records_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  const std::vector<BitsOf<W>>& elements() const { return elements_; }
  const std::vector<uint16_t>& words() const { return words_; }

 private:
  uint64_t add_bytes(std::span<const std::byte> some) {
    const uint64_t at = bytes_.size();
    append(bytes_, some);
    return at;
  }
  template <typename T>
  static void append(std::vector<T>& to, std::span<const std::byte> some) {
    const size_t at = to.size();
    to.resize(at + some.size() / sizeof(T));
    if (!some.empty()) {
      std::memcpy(to.data() + at, some.data(), some.size());
    }
  }
  std::vector<DeviceRecord> records_;
  std::vector<uint8_t> bytes_;
  std::vector<BitsOf<W>> elements_;
  std::vector<uint16_t> words_;
};

/// Decodes tiles of one array: see DeviceCodec. Throws DeviceError. W: the type of its elements.
template <typename W, typename Device>
class TileDecoder {
 public:
  TileDecoder(Device& device, const Settings& settings, const FindRecord& find, uint8_t finest, const Box& into,
              std::byte* out)
      : device_(device),
        settings_(settings),
        find_(find),
        finest_(finest),
        into_(into),
        out_(out),
        places_(settings, into) {}

  Status decode(const std::vector<uint64_t>& tiles, DecodeCounts& counts) {
    for (const uint64_t tile : tiles) {
      add_tile(tile);
    }
    if (!brick_jobs_.empty()) {
      run();
    }
    counts.device_bricks += bricks_.size() - damaged_bricks();
    for (const uint64_t brick : for_cpu_) {
      ++counts.cpu_bricks;
      VARVE_TRY(on_cpu(brick));
    }
    return {};
  }

 private:
  void add_tile(uint64_t tile) {
    const Geometry& geometry = settings_.geometry;
    const unsigned shift = geometry.coarse_shift;
    const std::vector<uint64_t> bricks = geometry.bricks_of(tile);
    const Box box = geometry.tile_box(tile);
    const Dims dims = geometry.dims_of(box);
    const Dims grid = coarsen(dims, shift);
    const auto record = find_({kCoarseLevel, tile});
    const auto number = record.has_value() ? list_.add(*record, grid.count()) : std::nullopt;
    if (!number.has_value()) {
      for_cpu_.insert(for_cpu_.end(), bricks.begin(), bricks.end());
      return;
    }
    BoxJob job = places_.job_of(box);
    job.grid = grid_shape(grid);
    job.points = coarse_points_;
    job.record[0] = *number;
    job.top = static_cast<uint8_t>(std::max(top_level(dims), shift));
    tile_jobs_.push_back(job);
    coarse_points_ += grid.count();
    largest_class_ = std::max(largest_class_, largest_class(grid));
    for (const uint64_t brick : bricks) {
      add_brick(brick, box);
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
    for (uint8_t level = finest_; level < geometry.coarse_shift; ++level) {
      const size_t points = points_of_level(dims, level);
      if (points == 0) {
        continue;
      }
      const auto record = find_({level, brick});
      const auto number = record.has_value() ? list_.add(*record, points) : std::nullopt;
      if (!number.has_value()) {
        for_cpu_.push_back(brick);
        return;
      }
      job.record[level] = *number;
    }
    brick_jobs_.push_back(job);
    bricks_.push_back(brick);
    brick_points_ = std::max(brick_points_, dims.count());
    largest_class_ = std::max(largest_class_, largest_class(dims));
  }

  void run() {
    const unsigned blocks = device_.blocks(brick_jobs_.size());
    const bool marks = !settings_.specials.empty();
    DeviceTerms<W, Device> terms(device_, settings_, finest_);
    const auto offsets = device_.upload(places_.offsets(), "places of batch items");
    terms.terms().item_offset = offsets.get();
    for (unsigned axis = 0; axis < 3; ++axis) {
      terms.terms().stride[axis] = places_.stride().at(axis);
    }
    const auto records = device_.upload(list_.records(), "records");
    const auto bytes = device_.upload(list_.bytes(), "the records' bytes");
    const auto elements = device_.upload(list_.elements(), "the records' elements");
    const auto words = device_.upload(list_.words(), "the records' words");
    const auto tiles = device_.upload(tile_jobs_, "tiles");
    const auto bricks = device_.upload(brick_jobs_, "bricks");
    const DeviceClassMemory<W, Device> work(device_, largest_class_, blocks);
    const DevicePoints<W, Device> coarse(device_, coarse_points_, marks, true);
    const DevicePoints<W, Device> points(device_, brick_points_ * blocks, marks, false);
    auto array = device_.template make<BitsOf<W>>(element_count(into_.shape), "the array");
    auto damaged = device_.template make<uint32_t>(list_.records().size(), "damage");
    const DecodeJob<W> job{terms.terms(),
                           {records.get(), bytes.get(), elements.get(), words.get()},
                           tiles.get(),
                           static_cast<uint32_t>(tile_jobs_.size()),
                           bricks.get(),
                           static_cast<uint32_t>(brick_jobs_.size()),
                           coarse.coarse(),
                           work.get(),
                           points.bricks(brick_points_),
                           array.get(),
                           damaged.get()};
    device_.launch(decode_tiles<W>, std::min<unsigned>(blocks, job.tile_count), job);
    device_.launch(decode_bricks<W>, blocks, job);
    damaged_.resize(list_.records().size());
    damaged.download(damaged_.data(), damaged_.size());
    array.download(reinterpret_cast<BitsOf<W>*>(out_), element_count(into_.shape));
  }

  /// Notes them for the CPU.
  uint64_t damaged_bricks() {
    uint64_t found = 0;
    for (size_t i = 0; i < bricks_.size(); ++i) {
      const BoxJob& job = brick_jobs_[i];
      bool any = damaged_[tile_jobs_[job.tile].record[0]] != 0;
      for (unsigned level = finest_; level < 3; ++level) {
        any = any || (job.record[level] != kNoRecord && damaged_[job.record[level]] != 0);
      }
      if (any) {
        for_cpu_.push_back(bricks_[i]);
        ++found;
      }
    }
    return found;
  }

  Status on_cpu(uint64_t brick) const {
    const uint64_t tile = settings_.geometry.tile_of(brick);
    const auto record = find_({kCoarseLevel, tile});
    VARVE_ASSIGN(const CoarseGrid coarse,
                 decode_coarse(settings_, tile, record.value_or(std::span<const std::byte>())));
    std::array<std::optional<std::span<const std::byte>>, 3> levels;
    for (uint8_t level = 0; level < 3; ++level) {
      levels.at(level) = find_({level, brick});
    }
    const Box box = settings_.geometry.brick_box(brick);
    return decode_brick(settings_, brick, coarse.data, levels, {finest_, 0, box, into_}, out_);
  }

  Device& device_;
  const Settings& settings_;
  const FindRecord& find_;
  uint8_t finest_;
  const Box& into_;
  std::byte* out_;
  PlaceList places_;
  RecordList<W> list_;
  std::vector<BoxJob> tile_jobs_;
  std::vector<BoxJob> brick_jobs_;
  std::vector<uint64_t> bricks_;  ///< numbers of those of brick_jobs_
  std::vector<uint64_t> for_cpu_;
  std::vector<uint32_t> damaged_;
  size_t coarse_points_ = 0;
  size_t brick_points_ = 0;
  size_t largest_class_ = kGroup;
};

}  // namespace varve::codec::cuda
