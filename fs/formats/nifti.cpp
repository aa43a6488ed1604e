#include "fs/formats/nifti.h"

#include <fmt/format.h>

#include <cmath>

#include "fs/formats/binary.h"
#include "fs/formats/check.h"
#include "fs/formats/contiguous.h"

namespace varve::fs {

namespace {

constexpr size_t kHeader1 = 348, kHeader2 = 540;       // bytes
constexpr uint64_t kExtender = 4;                      // what follows a header at least
constexpr int64_t kMostAxes = 7;                       // of either version
constexpr std::array<int32_t, 2> kLabels{1002, 1003};  // NIFTI_INTENT_LABEL, NIFTI_INTENT_NEURONAME
constexpr std::string_view kMagic1{"n+1\0", 4}, kMagic2{"n+2\0\r\n\x1a\n", 8};

Error malformed(std::string_view why) {
  return Error{EBADMSG, fmt::format("the NIfTI header cannot be read: {}; the file is kept as bytes", why)};
}

/// What both versions of the header have.
struct Header {
  int32_t type = 0, intent = 0;
  std::array<int64_t, kMostAxes + 1> axes{};  ///< their number, then the fastest first
  double offset = 0, slope = 0, intercept = 0;
  uint64_t end = 0;
};

Header header1(std::span<const std::byte> bytes, bool big) {
  Header header{load<int16_t>(bytes, 70, big), load<int16_t>(bytes, 68, big), {},      load<float>(bytes, 108, big),
                load<float>(bytes, 112, big),  load<float>(bytes, 116, big),  kHeader1};
  for (size_t i = 0; i < header.axes.size(); ++i) {
    header.axes[i] = load<int16_t>(bytes, 40 + 2 * i, big);
  }
  return header;
}

Header header2(std::span<const std::byte> bytes, bool big) {
  Header header{load<int16_t>(bytes, 12, big),
                load<int32_t>(bytes, 504, big),
                {},
                static_cast<double>(load<int64_t>(bytes, 168, big)),
                load<double>(bytes, 176, big),
                load<double>(bytes, 184, big),
                kHeader2};
  for (size_t i = 0; i < header.axes.size(); ++i) {
    header.axes[i] = load<int64_t>(bytes, 16 + 8 * i, big);
  }
  return header;
}

std::optional<ElementType> element_type(int32_t code) {
  using codec::DType;
  switch (code) {
    case 2:
      return ElementType{DType::u8};
    case 4:
      return ElementType{DType::i16};
    case 8:
      return ElementType{DType::i32};
    case 16:
      return ElementType{DType::f32};
    case 32:
      return ElementType{DType::f32, 2};
    case 64:
      return ElementType{DType::f64};
    case 128:  // red, green, blue
      return ElementType{DType::u8, 3};
    case 256:
      return ElementType{DType::i8};
    case 512:
      return ElementType{DType::u16};
    case 768:
      return ElementType{DType::u32};
    case 1024:
      return ElementType{DType::i64};
    case 1280:
      return ElementType{DType::u64};
    case 1792:
      return ElementType{DType::f64, 2};
    case 2304:  // with transparency
      return ElementType{DType::u8, 4};
    default:
      return std::nullopt;
  }
}

/// Scaling by 0 or by what is no number means none.
std::string_view reason(const Header& header) {
  const bool scaled = std::isfinite(header.slope) && header.slope != 0;
  if (scaled && (header.slope != 1 || header.intercept != 0)) {
    return "packed";
  }
  return std::find(kLabels.begin(), kLabels.end(), header.intent) != kLabels.end() ? "labels" : "";
}

/// Nothing: not made of numbers that the codec knows, or empty.
Result<std::optional<ArrayRegion>> image(const Header& header, bool big_endian, uint64_t file_size) {
  if (header.axes[0] < 1 || header.axes[0] > kMostAxes) {
    return malformed(fmt::format("an image of {} axes", header.axes[0]));
  }
  codec::Extents shape;
  for (auto axis = static_cast<size_t>(header.axes[0]); axis > 0; --axis) {
    if (header.axes[axis] < 0) {
      return malformed(fmt::format("axis {} has the length {}", axis, header.axes[axis]));
    }
    shape.push_back(static_cast<uint64_t>(header.axes[axis]));
  }
  const auto type = element_type(header.type);
  if (!type || checked_product(shape) == 0) {
    return std::optional<ArrayRegion>();
  }
  const auto least = static_cast<double>(header.end + kExtender);
  if (!(header.offset >= least && header.offset <= static_cast<double>(file_size)) ||
      header.offset != std::floor(header.offset)) {
    return malformed(fmt::format("the image would begin at byte {} of {}", header.offset, file_size));
  }
  const bool fortran_order = shape.size() > 1 && type->parts == 1;
  ArrayRegion array = contiguous_array(*type, std::move(shape), big_endian, static_cast<uint64_t>(header.offset));
  array.fortran_order = fortran_order;
  array.keep_exact = reason(header);
  if (!fits(array, file_size)) {
    return malformed(fmt::format("{} of shape ({}) do not fit into the file", codec::name_of(array.dtype),
                                 fmt::join(array.shape, ", ")));
  }
  return std::optional(std::move(array));
}

}  // namespace

bool may_be_nifti(const Candidate& candidate) {
  const auto size_is = [&](size_t size) {
    const std::array<char, 4> little{static_cast<char>(size), static_cast<char>(size >> 8), 0, 0};
    const std::array<char, 4> big{0, 0, little[1], little[0]};
    return candidate.has(0, {little.data(), 4}) || candidate.has(0, {big.data(), 4});
  };
  return (size_is(kHeader1) && candidate.has(kHeader1 - kMagic1.size(), kMagic1)) ||
         (size_is(kHeader2) && candidate.has(4, kMagic2));
}

Result<std::optional<Recognised>> recognise_nifti(FileView& file) {
  VARVE_ASSIGN(const auto start, read_exactly(file, 0, kHeader1));
  const bool big_endian = start[0] == std::byte{0};
  const bool second = load<int32_t>(start, 0, big_endian) == kHeader2;
  Header header;
  if (second) {
    VARVE_ASSIGN(const auto whole, read_exactly(file, 0, kHeader2));
    header = header2(whole, big_endian);
  } else {
    header = header1(start, big_endian);
  }
  Recognised result;
  VARVE_ASSIGN(auto array, image(header, big_endian, file.size()));
  if (array) {
    result.arrays.push_back(std::move(*array));
  }
  return std::optional(std::move(result));
}

}  // namespace varve::fs
