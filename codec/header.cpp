// The header of an array: its settings as bytes. See FORMAT.md.
#include <fmt/format.h>

#include <cmath>

#include "codec/settings.h"

namespace varve::codec {

namespace {

constexpr uint8_t kVersion = 2;

// Element types of arrays that are stored as integers.
constexpr uint8_t kDecimalF32 = 13;
constexpr uint8_t kDecimalF64 = 14;
constexpr uint8_t kLorenzoF32 = 15;
constexpr uint8_t kLorenzoF64 = 16;

constexpr unsigned kSchemeMask = 3;
constexpr unsigned kLinear = 4;
constexpr unsigned kExceeds = 8;
constexpr unsigned kTiny = 16;
constexpr unsigned kHasRange = 32;
constexpr unsigned kFinerCoarse = 64;
constexpr unsigned kMoreFlags = 128;

// The second byte of flags.
constexpr unsigned kMapped = 1;
constexpr unsigned kSecondBound = 2;
constexpr unsigned kQuintic = 4;
constexpr unsigned kDifferences = 8;

/// Those that headers without a second byte of flags can have.
constexpr unsigned kFirstModes = 3;

Error bad(std::string_view what) {
  return {EBADMSG, fmt::format("header of an array: {}; restore it from a copy", what)};
}

uint64_t get_element(ByteReader& in, size_t size) {
  const auto raw = in.get_bytes(size);
  uint64_t bits = 0;
  std::copy(raw.begin(), raw.end(), reinterpret_cast<std::byte*>(&bits));
  return bits;
}

void put_element(ByteWriter& out, uint64_t bits, size_t size) {
  out.put_bytes(std::as_bytes(std::span(&bits, 1)).first(size));
}

bool is_number(double value) { return std::isfinite(value) && value >= 0; }

Status read_type(ByteReader& in, Settings& made) {
  const unsigned type = in.get_u8();
  if (type < kDecimalF32 || type > kLorenzoF64) {
    made.dtype = static_cast<DType>(type);
    return {};
  }
  made.dtype = type == kDecimalF32 || type == kLorenzoF32 ? DType::i32 : DType::i64;
  std::vector<uint64_t>* list = nullptr;
  if (type <= kDecimalF64) {
    Decimal& decimal = made.decimal.emplace();
    decimal.digits = in.get_u8();
    if (decimal.digits > kMostDigits) {
      return bad("it has more decimal digits than there can be");
    }
    list = &decimal.escapes;
  } else {
    Lorenzo& lorenzo = made.lorenzo.emplace();
    lorenzo.step = in.get_f64();
    made.absolute_bound = in.get_f64();
    made.interpolation = Interpolation::none;
    for (const double value : {lorenzo.step, made.absolute_bound}) {
      if (!is_number(value) || value == 0) {
        return bad("its step or bound is not a positive number");
      }
    }
    list = &lorenzo.escapes;
  }
  const unsigned escapes = in.get_u8();
  if (escapes > kMostEscapes) {
    return bad("it has more escapes than there can be");
  }
  for (unsigned k = 0; k < escapes; ++k) {
    list->push_back(get_element(in, element_size(made.dtype)));
  }
  return {};
}

Status read_geometry(ByteReader& in, Geometry& geometry) {
  const uint64_t rank = in.get_varint();
  if (rank > kMaxRank) {
    return bad("its rank is out of range");
  }
  for (uint64_t axis = 0; axis < rank; ++axis) {
    geometry.shape.push_back(in.get_varint());
  }
  const unsigned predicted = in.get_u8();
  for (unsigned k = 0; k < std::min(predicted, 4U); ++k) {
    geometry.predicted.push_back(in.get_u8());
  }
  for (uint64_t axis = 0; axis < rank; ++axis) {
    const uint64_t edge = in.get_varint();
    const uint64_t times = in.get_u8();
    geometry.brick.push_back(edge);
    geometry.tile.push_back(edge < (uint64_t{1} << 32) ? edge * times : 0);
  }
  if (in.failed()) {
    return bad("it is cut short");
  }
  return geometry.check();
}

unsigned more_flags_of(const Settings& settings) {
  return (settings.is_mapped() ? kMapped : 0U) | (settings.interpolation == Interpolation::quintic ? kQuintic : 0U) |
         (settings.bound.mode == BoundMode::absolute_and_relative ? kSecondBound : 0U) |
         (settings.difference_axis.has_value() ? kDifferences : 0U);
}

/// What scheme codes needs, and whether it is possible.
Status read_codes(ByteReader& in, bool mapped, Settings& made) {
  made.absolute_bound = in.get_f64();
  made.quantum = in.get_f64();
  made.work_bound = made.absolute_bound;
  made.mapping.tolerance = made.absolute_bound;
  if (mapped) {
    made.mapping.kind = static_cast<MappingKind>(in.get_u8());
    made.mapping.kept_bits = in.get_u8();
    made.mapping.tolerance = in.get_f64();
    made.work_bound = in.get_f64();
  }
  for (const double value : {made.absolute_bound, made.quantum, made.work_bound}) {
    if (!is_number(value) || value == 0) {
      return bad("its bound or quantum is not a positive number");
    }
  }
  if (made.is_integers() || !is_valid(made.dtype, made.mapping) || !is_number(made.mapping.tolerance) ||
      is_identity(made.dtype, made.mapping) == mapped) {
    return bad("its mapping is none that its element type takes");
  }
  if (!has_wide_work(made.dtype, made.mapping) && made.quantum > double{std::numeric_limits<float>::max()}) {
    return bad("its quantum is beyond the work type's range");
  }
  return {};
}

void write_type(ByteWriter& out, const Settings& settings) {
  const auto put_escapes = [&](const std::vector<uint64_t>& escapes) {
    out.put_u8(static_cast<uint8_t>(escapes.size()));
    for (const uint64_t bits : escapes) {
      put_element(out, bits, element_size(settings.dtype));
    }
  };
  const bool wide = settings.dtype == DType::i64;
  if (settings.decimal.has_value()) {
    out.put_u8(wide ? kDecimalF64 : kDecimalF32);
    out.put_u8(static_cast<uint8_t>(settings.decimal->digits));
    put_escapes(settings.decimal->escapes);
  } else if (settings.lorenzo.has_value()) {
    out.put_u8(wide ? kLorenzoF64 : kLorenzoF32);
    out.put_f64(settings.lorenzo->step);
    out.put_f64(settings.absolute_bound);
    put_escapes(settings.lorenzo->escapes);
  } else {
    out.put_u8(static_cast<uint8_t>(settings.dtype));
  }
}

}  // namespace

Bytes write_header(const Settings& settings) {
  const Geometry& geometry = settings.geometry;
  const bool has_range = settings.bound.mode != BoundMode::lossless;
  const unsigned more = more_flags_of(settings);
  const bool has_more = more != 0 || static_cast<unsigned>(settings.bound.mode) >= kFirstModes;
  ByteWriter out;
  out.put_u8(kVersion);
  write_type(out, settings);
  out.put_u8(static_cast<uint8_t>(
      static_cast<unsigned>(settings.scheme) | (settings.interpolation == Interpolation::linear ? kLinear : 0U) |
      (settings.bound_exceeds_range ? kExceeds : 0U) | (geometry.coarse_shift == 0 ? kTiny : 0U) |
      (has_range ? kHasRange : 0U) | (settings.schedule == 1 ? kFinerCoarse : 0U) | (has_more ? kMoreFlags : 0U)));
  out.put_u8(static_cast<uint8_t>(settings.bound.mode));
  if (has_more) {
    out.put_u8(static_cast<uint8_t>(more));
  }
  if (settings.difference_axis.has_value()) {
    out.put_u8(*settings.difference_axis);
  }
  out.put_varint(geometry.shape.size());
  for (const uint64_t extent : geometry.shape) {
    out.put_varint(extent);
  }
  out.put_u8(static_cast<uint8_t>(geometry.predicted.size()));
  for (const uint8_t axis : geometry.predicted) {
    out.put_u8(axis);
  }
  for (size_t axis = 0; axis < geometry.shape.size(); ++axis) {
    out.put_varint(geometry.brick[axis]);
    out.put_u8(static_cast<uint8_t>(geometry.tile[axis] / geometry.brick[axis]));
  }
  if (has_range) {
    out.put_f64(settings.bound.value);
    out.put_f64(settings.min);
    out.put_f64(settings.max);
  }
  if ((more & kSecondBound) != 0) {
    out.put_f64(settings.bound.second);
  }
  if (settings.scheme == Scheme::codes) {
    out.put_f64(settings.absolute_bound);
    out.put_f64(settings.quantum);
  }
  if ((more & kMapped) != 0) {
    out.put_u8(static_cast<uint8_t>(settings.mapping.kind));
    out.put_u8(settings.mapping.kept_bits);
    out.put_f64(settings.mapping.tolerance);
    out.put_f64(settings.work_bound);
  }
  out.put_u8(static_cast<uint8_t>(settings.specials.size()));
  for (const uint64_t bits : settings.specials) {
    put_element(out, bits, element_size(settings.dtype));
  }
  if (settings.scheme == Scheme::residuals) {
    out.put_u8(settings.residual_base);
  }
  if (settings.scheme != Scheme::elements) {
    settings.tables.write(out);
  }
  return out.take();
}

Result<Settings> read_header(std::span<const std::byte> header) {
  ByteReader in(header);
  Settings made;
  if (const unsigned version = in.get_u8(); version != kVersion) {
    return bad(fmt::format("its version is {}, this program knows version {}", version, kVersion));
  }
  VARVE_TRY(read_type(in, made));
  const size_t size = element_size(made.dtype);
  const unsigned flags = in.get_u8();
  const unsigned mode = in.get_u8();
  const bool has_more = (flags & kMoreFlags) != 0;
  const unsigned more = has_more ? in.get_u8() : 0;
  if (size == 0 || (flags & kSchemeMask) > 2 ||
      mode > (has_more ? static_cast<unsigned>(BoundMode::bits) : kFirstModes - 1) ||
      (more & ~(kMapped | kSecondBound | kQuintic | kDifferences)) != 0) {
    return bad("its element type, flags or bound mode are unknown");
  }
  made.scheme = static_cast<Scheme>(flags & kSchemeMask);
  if (made.lorenzo.has_value()) {
    if (made.scheme != Scheme::residuals || (flags & kLinear) != 0 || (more & (kQuintic | kDifferences)) != 0) {
      return bad("its steps do not fit its scheme");
    }
  } else {
    made.interpolation = (flags & kLinear) != 0   ? Interpolation::linear
                         : (more & kQuintic) != 0 ? Interpolation::quintic
                                                  : Interpolation::cubic;
    if ((more & kQuintic) != 0 && made.scheme != Scheme::codes) {
      return bad("its interpolation does not fit its scheme");
    }
  }
  if ((more & kDifferences) != 0) {
    made.difference_axis = in.get_u8();
  }
  made.schedule = (flags & kFinerCoarse) != 0 ? 1 : 0;
  made.bound_exceeds_range = (flags & kExceeds) != 0;
  made.geometry.coarse_shift = (flags & kTiny) != 0 ? 0 : 3;
  made.bound.mode = static_cast<BoundMode>(mode);
  VARVE_TRY(read_geometry(in, made.geometry));
  if (made.difference_axis.has_value() &&
      (*made.difference_axis >= made.geometry.shape.size() || made.scheme == Scheme::elements)) {
    return bad("its axis of differences is none of its axes, or its scheme has no codes");
  }
  if ((flags & kHasRange) != 0) {
    made.bound.value = in.get_f64();
    made.min = in.get_f64();
    made.max = in.get_f64();
  }
  if ((more & kSecondBound) != 0) {
    made.bound.second = in.get_f64();
  }
  if (made.scheme == Scheme::codes) {
    VARVE_TRY(read_codes(in, (more & kMapped) != 0, made));
  }
  if (more_flags_of(made) != more || has_more != (more != 0 || mode >= kFirstModes)) {
    return bad("its second flags do not fit its scheme and bound mode");
  }
  const unsigned specials = in.get_u8();
  if (specials > kMaxSpecials) {
    return bad("it has too many special values");
  }
  for (unsigned k = 0; k < specials; ++k) {
    made.specials.push_back(get_element(in, size));
  }
  if (made.scheme == Scheme::residuals) {
    made.residual_base = in.get_u8();
  }
  if (made.scheme != Scheme::elements) {
    VARVE_ASSIGN(made.tables, TableSet::read(in));
  }
  if (in.failed() || in.left() != 0) {
    return bad("its length is wrong");
  }
  return made;
}

}  // namespace varve::codec
