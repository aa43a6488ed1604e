#include "codec/codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/cuda/shared_device.h"
#include "codec/lorenzo.h"
#include "codec/settings.h"
#include "codec/view_error.h"

namespace varve::codec {

namespace {

Error no_such(std::string_view what, uint64_t number, uint64_t count) {
  return {EINVAL, fmt::format("{} {} does not exist: the array has {}", what, number, count)};
}

/// An array whose floats are decimal fractions, as their integers.
struct Integers {
  Decimal decimal;
  ArraySpec spec;
  ReadBox read;
  Bytes memory;  ///< what spec.elements lie in
};

/// Nothing: the array is not such, or has a bound.
Result<std::optional<Integers>> as_integers(const ArraySpec& spec, const ReadBox& read) {
  if (spec.bound.mode != BoundMode::lossless || spec.shape.size() > kMaxRank) {
    return std::optional<Integers>();
  }
  VARVE_ASSIGN(const std::optional<Decimal> decimal, find_decimal(spec, read));
  if (!decimal.has_value()) {
    return std::optional<Integers>();
  }
  std::optional<Integers> made(Integers{*decimal, spec, {}, {}});
  made->spec.dtype = integers_of(spec.dtype);
  made->spec.fill_values.clear();
  for (size_t i = 0; i < decimal->escapes.size(); ++i) {
    made->spec.fill_values.push_back(escape_bits(spec.dtype, i));
  }
  const auto convert = [type = spec.dtype, decimal = *decimal](const std::byte* from, size_t count, std::byte* to) {
    return to_integers(type, decimal, from, count, to);
  };
  if (!spec.elements.empty()) {
    made->memory.resize(spec.elements.size());
    convert(spec.elements.data(), spec.elements.size() / element_size(spec.dtype), made->memory.data());
    made->spec.elements = made->memory;
  }
  made->read = [&read, convert, size = element_size(spec.dtype)](const Box& box, std::byte* out) -> Status {
    const uint64_t count = element_count(box.shape);
    Bytes floats(count * size);
    VARVE_TRY(read(box, floats.data()));
    if (!convert(floats.data(), count, out)) {
      return Error{EIO, "the array changed while it was read; write it again"};
    }
    return {};
  };
  return made;
}

/// In a tile's first record, the coarse one: its integers are the bits of its floats, as not all of them are decimal,
/// or near enough to multiples of the step.
constexpr std::byte kBitsTile{0x80};

Extents steps_of(const Geometry& geometry, uint8_t level) {
  Extents steps(geometry.shape.size(), 1);
  for (const uint8_t axis : geometry.predicted) {
    steps[axis] = uint64_t{1} << std::min<unsigned>(level, geometry.coarse_shift);
  }
  return steps;
}

/// The points of a brick (`whole`: all of its elements) that are asked for.
void put_points(const Extents& brick, const Extents& steps, const std::byte* whole, size_t size,
                const BrickTarget& target, std::byte* out) {
  const size_t rank = brick.size();
  const uint64_t row = rank > 0 ? target.part.shape.back() : 1;
  Extents index(rank > 0 ? rank - 1 : 0);
  if (element_count(target.part.shape) == 0) {
    return;
  }
  do {
    uint64_t from = 0;
    uint64_t to = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const uint64_t at = axis + 1 < rank ? index[axis] : 0;
      from = from * brick[axis] + at * steps[axis];
      to = to * target.into.shape[axis] + at + target.part.origin[axis] - target.into.origin[axis];
    }
    copy_elements(whole + from * size, rank > 0 ? steps.back() : 1, row, size, out + to * size, 1);
  } while (next_index(index, target.part.shape));
}

/// codec::decode_brick() of an array of any kind: where floats are stored as integers, gives them as floats.
Status decode_elements(const Settings& settings, uint64_t brick, const CoarseGrid& coarse,
                       const std::array<std::optional<std::span<const std::byte>>, 3>& levels,
                       const BrickTarget& target, std::byte* out) {
  if (!settings.is_integers()) {
    return codec::decode_brick(settings, brick, coarse.data, levels, target, out);
  }
  const std::span<const std::byte> grid(coarse.data.data(), std::max<size_t>(coarse.data.size(), 1) - 1);
  if (settings.lorenzo.has_value()) {  // what is between points is not interpolated, so no level does without others
    const Box box = settings.geometry.brick_box(brick);
    const size_t size = element_size(settings.dtype);
    Bytes whole(element_count(box.shape) * size);
    VARVE_TRY(codec::decode_brick(settings, brick, grid, levels, {0, 0, box, box}, whole.data()));
    if (coarse.data.back() == std::byte{0}) {
      from_differences(settings, brick, whole.data());
    }
    put_points(box.shape, steps_of(settings.geometry, target.last), whole.data(), size, target, out);
    return {};
  }
  VARVE_TRY(codec::decode_brick(settings, brick, grid, levels, target, out));
  if (coarse.data.back() == std::byte{0}) {
    const DType type = settings.element_type();
    for_each_run(target.part, target.into.origin, target.into.shape, [&](uint64_t first, uint64_t count) {
      to_floats(type, *settings.decimal, out + first * element_size(type), count);
    });
  }
  return {};
}

}  // namespace

Result<ArrayCodec> ArrayCodec::plan(const ArraySpec& spec, const ReadBox& read) {
  VARVE_ASSIGN(std::optional<Integers> integers, as_integers(spec, read));
  VARVE_ASSIGN(Settings settings, integers ? make_plan(integers->spec, integers->read) : make_plan(spec, read));
  if (integers) {
    settings.decimal = std::move(integers->decimal);
  }
  return ArrayCodec(std::make_shared<const State>(State{std::move(settings)}));
}

Result<EncodedArray> ArrayCodec::encode_array(const ArraySpec& spec, const ReadBox& read) {
  if (spec.shape.size() <= kMaxRank && element_count(spec.shape) > kEncodeWhole) {
    return Error{EINVAL, fmt::format("array has more than {} elements; plan it and encode its tiles", kEncodeWhole)};
  }
  VARVE_ASSIGN(std::optional<Integers> integers, as_integers(spec, read));
  const bool metered = spec.measure && is_float(spec.dtype);
  VARVE_ASSIGN(WholeArray whole, integers ? codec::encode_array(integers->spec, integers->read, metered)
                                          : codec::encode_array(spec, read, metered));
  if (integers) {
    whole.settings.decimal = std::move(integers->decimal);
  }
  EncodedArray out{
      ArrayCodec(std::make_shared<const State>(State{std::move(whole.settings)})), std::move(whole.tiles), {}};
  const Settings& settings = out.codec.state_->settings;
  for (uint64_t tile = 0; tile < out.tiles.size() && spec.measure; ++tile) {
    if (settings.lorenzo.has_value()) {
      out.errors.emplace_back().most.fill(settings.absolute_bound);
      continue;
    }
    if (has_metered_views(settings, spec.fill_values)) {
      out.errors.push_back(errors_of_elements(settings, whole.errors[tile], false));
      continue;
    }
    const Box box = out.codec.tile_box(tile);
    Bytes data(element_count(box.shape) * element_size(spec.dtype));
    VARVE_TRY(read(box, data.data()));
    Measurement measure{spec.fill_values, {}};
    VARVE_TRY(out.codec.measure_tile(tile, data.data(), out.tiles[tile], measure));
    out.errors.push_back(measure.errors);
  }
  return out;
}

/// Of arrays whose views are not metered.
Status ArrayCodec::measure_tile(uint64_t tile, const std::byte* data, const std::vector<Record>& records,
                                Measurement& measure) const {
  const Settings& settings = state_->settings;
  if (settings.lorenzo.has_value()) {  // views are as exact as the array
    measure.errors.most.fill(settings.absolute_bound);
    return {};
  }
  if (!is_float(dtype())) {
    measure.errors = errors_of_labels(*this, tile, data, measure.missing);
    return {};
  }
  std::vector<uint64_t> missing = measure.missing;
  for (const uint64_t bits : settings.specials) {
    // Zeros may be special because no relative bound allows them to move.
    if (!settings.decimal.has_value() && bits != 0) {
      missing.push_back(bits);
    }
  }
  VARVE_ASSIGN(measure.errors, errors_by_decoding(*this, tile, records, data, missing));
  return {};
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
DType ArrayCodec::dtype() const { return state_->settings.element_type(); }
const Extents& ArrayCodec::shape() const { return state_->settings.geometry.shape; }

CodecInfo ArrayCodec::info() const {
  const Settings& from = state_->settings;
  CodecInfo info;
  info.bound = from.bound;
  info.absolute_bound = from.absolute_bound;
  info.bound_exceeds_range = from.bound_exceeds_range;
  info.why = from.why;
  info.min = from.min;
  info.max = from.max;
  const std::string floats = from.decimal ? fmt::format("decimal, {} digits; ", from.decimal->digits) : "";
  if (from.scheme == Scheme::elements) {
    info.method = floats + "elements, shuffled, zstd";
    return info;
  }
  std::string axes;
  for (const uint8_t axis : from.geometry.predicted) {
    axes += fmt::format("{}{}", axes.empty() ? "" : ",", axis);
  }
  constexpr std::array<std::string_view, 3> kInterpolations = {"linear", "cubic", "quintic"};
  std::string how = "exact";
  if (from.scheme == Scheme::codes) {
    constexpr std::array<std::string_view, 3> kMappings = {"values", "orders", "rounded"};
    info.mapping = kMappings.at(static_cast<size_t>(from.mapping.kind));
    how = from.mapping.kind == MappingKind::values   ? "quantized"
          : from.mapping.kind == MappingKind::orders ? "quantized in relative steps"
                                                     : fmt::format("rounded to {} bits", from.mapping.kept_bits);
  }
  const std::string differences =
      from.difference_axis.has_value() ? fmt::format(", differences along axis {}", *from.difference_axis) : "";
  if (from.lorenzo.has_value()) {
    info.mapping = "values";
    info.method = fmt::format("quantized, Lorenzo along axes {}, {} tables", axes, from.tables.size());
    return info;
  }
  info.method = floats + fmt::format("{}, {} along axes {}{}, {} tables", how,
                                     kInterpolations.at(static_cast<size_t>(from.interpolation)), axes, differences,
                                     from.tables.size());
  return info;
}

uint64_t ArrayCodec::tile_count() const { return state_->settings.geometry.tile_count(); }
Box ArrayCodec::tile_box(uint64_t tile) const { return state_->settings.geometry.tile_box(tile); }
uint64_t ArrayCodec::brick_count() const { return state_->settings.geometry.brick_count(); }
Box ArrayCodec::brick_box(uint64_t brick) const { return state_->settings.geometry.brick_box(brick); }
uint64_t ArrayCodec::tile_of(uint64_t brick) const { return state_->settings.geometry.tile_of(brick); }
std::vector<uint64_t> ArrayCodec::bricks_of(uint64_t tile) const { return state_->settings.geometry.bricks_of(tile); }
std::vector<uint64_t> ArrayCodec::bricks_in(const Box& box) const { return state_->settings.geometry.bricks_in(box); }

Extents ArrayCodec::level_steps(uint8_t level) const { return steps_of(state_->settings.geometry, level); }

Extents ArrayCodec::level_shape(uint64_t brick, uint8_t level) const {
  Extents points = brick_box(brick).shape;
  const Extents steps = level_steps(level);
  for (size_t axis = 0; axis < steps.size(); ++axis) {
    points[axis] = (points[axis] + steps[axis] - 1) / steps[axis];
  }
  return points;
}

Result<std::vector<Record>> ArrayCodec::encode_tile(uint64_t tile, const std::byte* data, bool exact,
                                                    Measurement* measure, cuda::SharedDevice* device) const {
  if (tile >= tile_count()) {
    return no_such("tile", tile, tile_count());
  }
  const Settings& settings = state_->settings;
  const bool metered = measure != nullptr && has_metered_views(settings, measure->missing);
  WorkErrors errors;
  const auto finish = [&](std::vector<Record> records, bool known) -> Result<std::vector<Record>> {
    if (known) {
      measure->errors = errors_of_elements(settings, errors, exact);
    } else if (measure != nullptr) {
      VARVE_TRY(measure_tile(tile, data, records, *measure));
    }
    return records;
  };
  WorkErrors* const wanted = metered ? &errors : nullptr;
  if (device != nullptr && !exact && (measure == nullptr || metered)) {
    if (auto records = device->encode_tile(settings, tile, data, wanted)) {
      return finish(*std::move(records), metered);
    }
  }
  if (!settings.is_integers()) {
    VARVE_ASSIGN(auto records, codec::encode_tile(settings, tile, data, exact, wanted));
    return finish(std::move(records), metered);
  }
  const uint64_t count = element_count(tile_box(tile).shape);
  Bytes integers(count * element_size(settings.dtype));
  const bool fit = settings.decimal.has_value()
                       ? to_integers(dtype(), *settings.decimal, data, count, integers.data())
                       : !exact && to_differences(settings, tile_box(tile), bricks_of(tile), data, integers.data());
  if (fit) {
    VARVE_ASSIGN(auto records, codec::encode_tile(settings, tile, integers.data(), exact, wanted));
    return finish(std::move(records), metered);
  }
  VARVE_ASSIGN(auto records, codec::encode_tile(settings, tile, data, true));
  records.front().data.front() |= kBitsTile;
  return finish(std::move(records), false);
}

Result<CoarseGrid> ArrayCodec::decode_coarse(uint64_t tile, std::span<const std::byte> record) const {
  if (tile >= tile_count()) {
    return no_such("tile", tile, tile_count());
  }
  if (!state_->settings.is_integers()) {
    return codec::decode_coarse(state_->settings, tile, record);
  }
  Bytes plain(record.begin(), record.end());
  const bool bits = !plain.empty() && (plain.front() & kBitsTile) != std::byte{0};
  if (bits) {
    plain.front() &= ~kBitsTile;
  }
  VARVE_ASSIGN(CoarseGrid grid, codec::decode_coarse(state_->settings, tile, plain));
  grid.data.push_back(bits ? kBitsTile : std::byte{0});
  return grid;
}

Status ArrayCodec::decode_brick(uint64_t brick, const CoarseGrid& coarse,
                                const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t finest,
                                std::byte* out) const {
  if (brick >= brick_count()) {
    return no_such("brick", brick, brick_count());
  }
  return decode_brick_into(brick, coarse, levels, finest, brick_box(brick), out);
}

Status ArrayCodec::decode_brick_into(uint64_t brick, const CoarseGrid& coarse,
                                     const std::array<std::optional<std::span<const std::byte>>, 3>& levels,
                                     uint8_t finest, const Box& box, std::byte* out) const {
  if (brick >= brick_count()) {
    return no_such("brick", brick, brick_count());
  }
  const Box part = brick_box(brick);
  if (!contains(box, part)) {
    return Error{EINVAL,
                 fmt::format("brick {} is no part of the box it is to be decoded into; give one around it", brick)};
  }
  return decode_elements(state_->settings, brick, coarse, levels, {finest, 0, part, box}, out);
}

Status ArrayCodec::decode_points(uint64_t brick, const CoarseGrid& coarse,
                                 const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t level,
                                 std::byte* out) const {
  if (brick >= brick_count()) {
    return no_such("brick", brick, brick_count());
  }
  const Box points{Extents(shape().size(), 0), level_shape(brick, level)};
  return decode_elements(state_->settings, brick, coarse, levels, {level, level, points, points}, out);
}

uint8_t ArrayCodec::finest_read(uint8_t finest) const { return state_->settings.lorenzo.has_value() ? 0 : finest; }

std::vector<RecordId> ArrayCodec::records_of(uint64_t brick, uint8_t finest) const {
  std::vector<RecordId> ids{{kCoarseLevel, tile_of(brick)}};
  for (uint8_t level = kCoarseLevel; level-- > finest_read(finest) && state_->settings.geometry.coarse_shift > 0;) {
    ids.push_back({level, brick});
  }
  return ids;
}

}  // namespace varve::codec
