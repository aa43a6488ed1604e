#include "fs/formats/mrc.h"

#include <fmt/format.h>

#include "fs/formats/binary.h"
#include "fs/formats/contiguous.h"

namespace varve::fs {

namespace {

constexpr size_t kHeader = 1024;  // bytes
constexpr size_t kMap = 208, kStamp = 212;
constexpr int32_t kFirstStack = 401, kLastStack = 630;  // space groups that stand for stacks of volumes

Error malformed(std::string_view why) {
  return Error{EBADMSG, fmt::format("the MRC header cannot be read: {}; the file is kept as bytes", why)};
}

std::optional<ElementType> element_type(int32_t mode) {
  using codec::DType;
  switch (mode) {
    case 0:
      return ElementType{DType::i8};
    case 1:
      return ElementType{DType::i16};
    case 2:
      return ElementType{DType::f32};
    case 4:
      return ElementType{DType::f32, 2};
    case 6:
      return ElementType{DType::u16};
    case 12:
      return ElementType{DType::f16};
    default:
      return std::nullopt;
  }
}

}  // namespace

bool may_be_mrc(const Candidate& candidate) {
  return candidate.has(kMap, "MAP") &&
         (candidate.has(kStamp, "\x44\x44") || candidate.has(kStamp, "\x44\x41") || candidate.has(kStamp, "\x11\x11"));
}

Result<std::optional<Recognised>> recognise_mrc(FileView& file) {
  VARVE_ASSIGN(const auto header, read_exactly(file, 0, kHeader));
  const bool big_endian = header[kStamp] == std::byte{0x11};
  const auto field = [&](size_t number) { return load<int32_t>(header, 4 * number, big_endian); };
  const int32_t columns = field(0), rows = field(1), sections = field(2), deep = field(9), group = field(22);
  const int32_t extended = field(23);
  if (columns < 0 || rows < 0 || sections < 0 || extended < 0) {
    return malformed(fmt::format("{} columns, {} rows, {} sections, {} bytes of extended header", columns, rows,
                                 sections, extended));
  }
  Recognised result;
  const auto type = element_type(field(3));
  if (!type || columns == 0 || rows == 0 || sections == 0) {
    return std::optional(std::move(result));
  }
  codec::Extents shape{static_cast<uint64_t>(sections), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns)};
  if (group >= kFirstStack && group <= kLastStack && deep > 0 && sections % deep == 0) {
    shape[0] = static_cast<uint64_t>(deep);
    shape.insert(shape.begin(), static_cast<uint64_t>(sections / deep));
  }
  const uint64_t offset = kHeader + static_cast<uint64_t>(extended);
  ArrayRegion array = contiguous_array(*type, std::move(shape), big_endian, offset);
  if (!fits(array, file.size())) {
    return malformed(fmt::format("{} of shape ({}) from byte {} on do not fit into the file",
                                 codec::name_of(array.dtype), fmt::join(array.shape, ", "), offset));
  }
  result.arrays.push_back(std::move(array));
  return std::optional(std::move(result));
}

}  // namespace varve::fs
