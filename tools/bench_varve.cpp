// This program's codec for `varve bench`.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>

#include "fs/box_copy.h"
#include "fs/serial.h"
#include "tools/bench_codecs.h"

namespace varve::tools {

using codec::ArrayCodec;
using codec::Box;
using codec::Bytes;
using codec::element_count;
using codec::element_size;

namespace {

/// The elements of `box` when they lie in one piece in an array of `shape`; else null.
const std::byte* in_one_piece(const Field& field, const Box& box) {
  size_t runs = 0;
  uint64_t first = 0;
  const codec::Extents origin(field.shape.size(), 0);
  if (field.shape.empty()) {
    return field.data.data();
  }
  codec::for_each_run(box, origin, field.shape, [&](uint64_t offset, uint64_t) {
    first = runs == 0 ? offset : first;
    ++runs;
  });
  return runs == 1 ? field.data.data() + first * element_size(field.dtype) : nullptr;
}

void gather(const Field& field, const Box& box, std::byte* out) {
  const size_t element = element_size(field.dtype);
  const codec::Extents origin(field.shape.size(), 0);
  codec::for_each_run(box, origin, field.shape, [&](uint64_t offset, uint64_t run) {
    std::memcpy(out, field.data.data() + offset * element, run * element);
    out += run * element;
  });
}

/// Calls body(i) for 0 <= i < count until one fails: in the pool, or in order by this thread.
Status for_each(fs::ThreadPool* pool, size_t count, const std::function<Status(size_t)>& body) {
  if (pool == nullptr) {
    for (size_t i = 0; i < count; ++i) {
      VARVE_TRY(body(i));
    }
    return {};
  }
  std::mutex mutex;
  Status first;
  pool->parallel_for(count, [&](size_t i) {
    Status status = body(i);
    const std::lock_guard lock(mutex);
    if (first.ok() && !status.ok()) {
      first = std::move(status);
    }
  });
  return first;
}

std::span<const std::byte> coarse_of(const std::vector<codec::Record>& records) {
  return records.empty() || records.front().id.level != codec::kCoarseLevel ? std::span<const std::byte>()
                                                                            : records.front().data;
}

using Levels = std::array<std::optional<std::span<const std::byte>>, 3>;

/// The records of each of `bricks` (all of one tile, ascending).
std::vector<Levels> levels_of(const std::vector<codec::Record>& records, const std::vector<uint64_t>& bricks) {
  std::vector<Levels> levels(bricks.size());
  for (const codec::Record& record : records) {
    const auto brick = std::lower_bound(bricks.begin(), bricks.end(), record.id.brick);
    if (record.id.level < codec::kCoarseLevel && brick != bricks.end() && *brick == record.id.brick) {
      levels[brick - bricks.begin()].at(record.id.level) = record.data;
    }
  }
  return levels;
}

class VarveCompressor : public Compressor {
 public:
  Status compress(const Field& field, const Setting& setting) override {
    VARVE_ASSIGN(encoded_, encode(field, setting.mode, nullptr));
    return {};
  }
  Status decompress(const Field& /*field*/, const Setting& /*setting*/, std::byte* out) override {
    return decode(encoded_, nullptr, out);
  }
  size_t stored() const override { return encoded_.stored(); }

  Bytes save() const override {
    fs::SerialWriter out;
    out.text(text_of(encoded_.header));
    out.number(encoded_.tiles.size());
    for (const auto& records : encoded_.tiles) {
      out.number(records.size());
      for (const codec::Record& record : records) {
        out.number(record.id.level);
        out.number(record.id.brick);
        out.text(text_of(record.data));
      }
    }
    return out.take();
  }

  Status load(std::span<const std::byte> saved) override {
    fs::SerialReader in(saved);
    encoded_.header = bytes_of(in.text());
    encoded_.tiles.resize(in.count());
    for (auto& records : encoded_.tiles) {
      records.resize(in.count());
      for (codec::Record& record : records) {
        record.id.level = static_cast<uint8_t>(in.number());
        record.id.brick = in.number();
        record.data = bytes_of(in.text());
      }
    }
    return in.failed() || !in.at_end() ? Status(Error{EBADMSG, "the saved records are damaged"}) : Status();
  }

 private:
  static std::string_view text_of(const Bytes& data) {
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  static Bytes bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  Encoded encoded_;
};

}  // namespace

std::unique_ptr<Compressor> make_varve_compressor() { return std::make_unique<VarveCompressor>(); }

size_t Encoded::stored() const {
  size_t total = header.size();
  for (const auto& records : tiles) {
    for (const codec::Record& record : records) {
      total += record.data.size();
    }
  }
  return total;
}

Result<codec::ArraySpec> spec_of(const Field& field, const std::string& mode) {
  VARVE_ASSIGN(const codec::Bound bound, codec::parse_bound(mode));
  return codec::ArraySpec{field.dtype, field.shape, bound, field.fill_values, field.data};
}

codec::ReadBox reader_of(const Field& field) {
  return [&field](const Box& box, std::byte* out) -> Status {
    gather(field, box, out);
    return {};
  };
}

Result<ArrayCodec> plan(const Field& field, const std::string& mode, fs::ThreadPool* pool) {
  VARVE_ASSIGN(codec::ArraySpec spec, spec_of(field, mode));
  if (pool != nullptr) {
    spec.parallel = [pool](size_t count, const std::function<void(size_t)>& work) { pool->parallel_for(count, work); };
  }
  return ArrayCodec::plan(spec, reader_of(field));
}

Result<std::vector<codec::Record>> encode_tile(const ArrayCodec& made, const Field& field, uint64_t tile) {
  const Box box = made.tile_box(tile);
  if (const std::byte* const whole = in_one_piece(field, box)) {
    return made.encode_tile(tile, whole);
  }
  thread_local Bytes slab;
  slab.resize(element_count(box.shape) * element_size(field.dtype));
  gather(field, box, slab.data());
  return made.encode_tile(tile, slab.data());
}

Result<Encoded> encode(const Field& field, const std::string& mode, fs::ThreadPool* pool) {
  Encoded encoded;
  if (element_count(field.shape) <= ArrayCodec::kEncodeWhole) {  // as the sealer does
    VARVE_ASSIGN(const codec::ArraySpec spec, spec_of(field, mode));
    VARVE_ASSIGN(codec::EncodedArray whole, ArrayCodec::encode_array(spec, reader_of(field)));
    encoded.header = whole.codec.header();
    encoded.tiles = std::move(whole.tiles);
    return encoded;
  }
  VARVE_ASSIGN(const ArrayCodec made, plan(field, mode, pool));
  encoded.header = made.header();
  encoded.tiles.resize(made.tile_count());
  VARVE_TRY(for_each(pool, encoded.tiles.size(), [&](size_t tile) -> Status {
    VARVE_ASSIGN(encoded.tiles[tile], encode_tile(made, field, tile));
    return {};
  }));
  return encoded;
}

Status decode(const Encoded& encoded, fs::ThreadPool* pool, std::byte* out) {
  VARVE_ASSIGN(const ArrayCodec made, ArrayCodec::parse(encoded.header));
  const size_t element = element_size(made.dtype());
  const Box all{codec::Extents(made.shape().size(), 0), made.shape()};
  for (uint64_t tile = 0; tile < encoded.tiles.size(); ++tile) {
    const auto& records = encoded.tiles[tile];
    VARVE_ASSIGN(const codec::CoarseGrid coarse, made.decode_coarse(tile, coarse_of(records)));
    const std::vector<uint64_t> bricks = made.bricks_of(tile);
    const std::vector<Levels> levels = levels_of(records, bricks);
    VARVE_TRY(for_each(pool, bricks.size(), [&](size_t i) -> Status {
      if (out != nullptr) {
        return made.decode_brick_into(bricks[i], coarse, levels[i], 0, all, out);
      }
      thread_local Bytes scratch;
      scratch.resize(element_count(made.brick_box(bricks[i]).shape) * element);
      return made.decode_brick(bricks[i], coarse, levels[i], 0, scratch.data());
    }));
  }
  return {};
}

Status decode_one_brick(const ArrayCodec& made, const Encoded& encoded, uint64_t brick, std::byte* out) {
  const uint64_t tile = made.tile_of(brick);
  const auto& records = encoded.tiles[tile];
  VARVE_ASSIGN(const codec::CoarseGrid coarse, made.decode_coarse(tile, coarse_of(records)));
  return made.decode_brick(brick, coarse, levels_of(records, {brick}).front(), 0, out);
}

}  // namespace varve::tools
