#include "codec/codec.h"

#include <fmt/format.h>

#include "codec/settings.h"

namespace varve::codec {

namespace {

Error no_such(std::string_view what, uint64_t number, uint64_t count) {
  return {EINVAL, fmt::format("{} {} does not exist: the array has {}", what, number, count)};
}

}  // namespace

Result<ArrayCodec> ArrayCodec::plan(const ArraySpec& spec, const ReadBox& read) {
  VARVE_ASSIGN(Settings settings, make_plan(spec, read));
  return ArrayCodec(std::make_shared<const State>(State{std::move(settings)}));
}

Result<EncodedArray> ArrayCodec::encode_array(const ArraySpec& spec, const ReadBox& read) {
  if (spec.shape.size() <= kMaxRank && element_count(spec.shape) > kEncodeWhole) {
    return Error{EINVAL, fmt::format("array has more than {} elements; plan it and encode its tiles", kEncodeWhole)};
  }
  VARVE_ASSIGN(WholeArray whole, codec::encode_array(spec, read));
  return EncodedArray{ArrayCodec(std::make_shared<const State>(State{std::move(whole.settings)})),
                      std::move(whole.tiles)};
}

Result<ArrayCodec> ArrayCodec::parse(std::span<const std::byte> header) {
  VARVE_ASSIGN(Settings settings, read_header(header));
  return ArrayCodec(std::make_shared<const State>(State{std::move(settings)}));
}

std::optional<ArrayCodec> ArrayCodec::resized(const Extents& shape) const {
  Settings settings = state_->settings;
  Geometry& geometry = settings.geometry;
  if (shape.empty() || shape.size() != geometry.shape.size() ||
      !std::equal(shape.begin() + 1, shape.end(), geometry.shape.begin() + 1)) {
    return std::nullopt;
  }
  geometry.shape = shape;
  if (!geometry.check().ok()) {  // a tiny array that grows out of being one, or past 2^62 elements
    return std::nullopt;
  }
  return ArrayCodec(std::make_shared<const State>(State{std::move(settings)}));
}

Bytes ArrayCodec::header() const { return write_header(state_->settings); }
DType ArrayCodec::dtype() const { return state_->settings.dtype; }
const Extents& ArrayCodec::shape() const { return state_->settings.geometry.shape; }

CodecInfo ArrayCodec::info() const {
  const Settings& from = state_->settings;
  CodecInfo info;
  info.bound = from.bound;
  info.absolute_bound = from.absolute_bound;
  info.bound_exceeds_range = from.bound_exceeds_range;
  info.min = from.min;
  info.max = from.max;
  if (from.scheme == Scheme::elements) {
    info.method = "elements, shuffled, zstd";
    return info;
  }
  std::string axes;
  for (const uint8_t axis : from.geometry.predicted) {
    axes += fmt::format("{}{}", axes.empty() ? "" : ",", axis);
  }
  info.method = fmt::format("{}, {} along axes {}, {} tables", from.scheme == Scheme::codes ? "quantized" : "exact",
                            from.cubic ? "cubic" : "linear", axes, from.tables.size());
  return info;
}

uint64_t ArrayCodec::tile_count() const { return state_->settings.geometry.tile_count(); }
Box ArrayCodec::tile_box(uint64_t tile) const { return state_->settings.geometry.tile_box(tile); }
uint64_t ArrayCodec::brick_count() const { return state_->settings.geometry.brick_count(); }
Box ArrayCodec::brick_box(uint64_t brick) const { return state_->settings.geometry.brick_box(brick); }
uint64_t ArrayCodec::tile_of(uint64_t brick) const { return state_->settings.geometry.tile_of(brick); }
std::vector<uint64_t> ArrayCodec::bricks_of(uint64_t tile) const { return state_->settings.geometry.bricks_of(tile); }
std::vector<uint64_t> ArrayCodec::bricks_in(const Box& box) const { return state_->settings.geometry.bricks_in(box); }

Result<std::vector<Record>> ArrayCodec::encode_tile(uint64_t tile, const std::byte* data, bool exact) const {
  if (tile >= tile_count()) {
    return no_such("tile", tile, tile_count());
  }
  return codec::encode_tile(state_->settings, tile, data, exact);
}

Result<CoarseGrid> ArrayCodec::decode_coarse(uint64_t tile, std::span<const std::byte> record) const {
  if (tile >= tile_count()) {
    return no_such("tile", tile, tile_count());
  }
  return codec::decode_coarse(state_->settings, tile, record);
}

Status ArrayCodec::decode_brick(uint64_t brick, const CoarseGrid& coarse,
                                const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t finest,
                                std::byte* out) const {
  if (brick >= brick_count()) {
    return no_such("brick", brick, brick_count());
  }
  return codec::decode_brick(state_->settings, brick, coarse, levels, finest, out);
}

std::vector<RecordId> ArrayCodec::records_of(uint64_t brick, uint8_t finest) const {
  std::vector<RecordId> ids{{kCoarseLevel, tile_of(brick)}};
  for (uint8_t level = kCoarseLevel; level-- > finest && state_->settings.geometry.coarse_shift > 0;) {
    ids.push_back({level, brick});
  }
  return ids;
}

}  // namespace varve::codec
