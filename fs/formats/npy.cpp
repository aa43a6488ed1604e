#include "fs/formats/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "fs/formats/check.h"

namespace varve::fs {

namespace {

constexpr uint64_t kLongestHeader = uint64_t{1} << 20;
constexpr int kDeepestNesting = 32;

Error malformed(std::string_view why) {
  return Error{EBADMSG, fmt::format("the .npy header cannot be read: {}; the file is kept as bytes", why)};
}

struct Header {
  std::optional<std::string> type;  ///< empty: `descr` is there, but is no string (a record)
  bool has_type = false;
  std::optional<bool> fortran_order;
  std::optional<codec::Extents> shape;
};

/// Reads the few Python literals that the header is made of.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  Result<Header> dictionary() {
    Header header;
    if (!take('{')) {
      return malformed("it does not start with '{'");
    }
    while (!take('}')) {
      VARVE_ASSIGN(std::string key, string());
      if (!take(':')) {
        return malformed(fmt::format("no ':' after '{}'", key));
      }
      VARVE_TRY(value_of(key, header));
      if (!take(',') && !at('}')) {
        return malformed(fmt::format("no ',' or '}}' after the value of '{}'", key));
      }
    }
    skip_space();
    if (position_ != text_.size()) {
      return malformed("text follows the dictionary");
    }
    return header;
  }

 private:
  Status value_of(const std::string& key, Header& header) {
    if (key == "descr") {
      header.has_type = true;
      if (at_string()) {
        VARVE_ASSIGN(header.type, string());
        return {};
      }
      return skip_value(0);
    }
    if (key == "fortran_order") {
      VARVE_ASSIGN(header.fortran_order, boolean());
      return {};
    }
    if (key == "shape") {
      VARVE_ASSIGN(header.shape, tuple());
      return {};
    }
    return skip_value(0);
  }

  void skip_space() {
    while (position_ < text_.size() && std::string_view(" \t\r\n\0", 5).find(text_[position_]) != text_.npos) {
      ++position_;
    }
  }

  bool at(char wanted) {
    skip_space();
    return position_ < text_.size() && text_[position_] == wanted;
  }

  bool take(char wanted) {
    if (!at(wanted)) {
      return false;
    }
    ++position_;
    return true;
  }

  /// Python 2 wrote u'...' now and then.
  bool at_string() {
    skip_space();
    std::string_view rest = text_.substr(position_, 2);
    if (rest.size() == 2 && (rest[0] == 'u' || rest[0] == 'b')) {
      rest.remove_prefix(1);
    }
    return !rest.empty() && (rest[0] == '\'' || rest[0] == '"');
  }

  Result<std::string> string() {
    if (!at_string()) {
      return malformed(fmt::format("no string at position {}", position_));
    }
    if (text_[position_] == 'u' || text_[position_] == 'b') {
      ++position_;
    }
    char quote = text_[position_++];
    std::string result;
    while (position_ < text_.size() && text_[position_] != quote) {
      if (text_[position_] == '\\' && position_ + 1 < text_.size()) {
        ++position_;
      }
      result.push_back(text_[position_++]);
    }
    if (position_ == text_.size()) {
      return malformed("a string does not end");
    }
    ++position_;
    return result;
  }

  std::string_view word() {
    skip_space();
    size_t begin = position_;
    while (position_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 ||
                                        std::string_view("_-+.").find(text_[position_]) != std::string_view::npos)) {
      ++position_;
    }
    return text_.substr(begin, position_ - begin);
  }

  Result<bool> boolean() {
    std::string_view text = word();
    if (text == "True" || text == "1") {
      return true;
    }
    if (text == "False" || text == "0") {
      return false;
    }
    return malformed(fmt::format("fortran_order is '{}', neither True nor False", text));
  }

  Result<codec::Extents> tuple() {
    if (!take('(')) {
      return malformed("the shape is no tuple");
    }
    codec::Extents extents;
    while (!take(')')) {
      std::string_view digits = word();
      if (digits.ends_with('L')) {  // a long integer of Python 2
        digits.remove_suffix(1);
      }
      uint64_t extent = 0;
      auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), extent);
      if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) {
        return malformed(fmt::format("the shape has '{}' for a length", digits));
      }
      extents.push_back(extent);
      if (extents.size() > codec::kMaxRank) {
        return malformed(fmt::format("more than {} axes", codec::kMaxRank));
      }
      if (!take(',') && !at(')')) {
        return malformed("the shape does not end");
      }
    }
    return extents;
  }

  Status skip_value(int depth) {  // NOLINT(misc-no-recursion): as deep as the limit says
    if (depth > kDeepestNesting) {
      return malformed("it is nested too deeply");
    }
    if (take('[') || take('(')) {
      while (!take(']') && !take(')')) {
        VARVE_TRY(skip_value(depth + 1));
        if (!take(',') && !at(']') && !at(')')) {
          return malformed("a list does not end");
        }
      }
      return {};
    }
    if (at_string()) {
      VARVE_ASSIGN(std::string ignored, string());
      return {};
    }
    return word().empty() ? Status(malformed(fmt::format("nothing readable at position {}", position_))) : Status();
  }

  std::string_view text_;
  size_t position_ = 0;
};

struct ElementType {
  codec::DType dtype = codec::DType::u8;
  bool big_endian = false;
  bool complex = false;
  bool time = false;
};

std::optional<codec::DType> number_type(char kind, size_t size) {
  using codec::DType;
  switch (kind) {
    case 'b':
      return size == 1 ? std::optional(DType::u8) : std::nullopt;
    case 'u':
      return size == 1   ? std::optional(DType::u8)
             : size == 2 ? std::optional(DType::u16)
             : size == 4 ? std::optional(DType::u32)
             : size == 8 ? std::optional(DType::u64)
                         : std::nullopt;
    case 'i':
      return size == 1   ? std::optional(DType::i8)
             : size == 2 ? std::optional(DType::i16)
             : size == 4 ? std::optional(DType::i32)
             : size == 8 ? std::optional(DType::i64)
                         : std::nullopt;
    case 'f':
      return size == 2   ? std::optional(DType::f16)
             : size == 4 ? std::optional(DType::f32)
             : size == 8 ? std::optional(DType::f64)
                         : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// "<f4", "|u1", ">c16", "<M8[ns]" ... Nothing: not made of numbers that the codec knows.
std::optional<ElementType> parse_type(std::string_view text) {
  ElementType type;
  if (text.size() < 2) {
    return std::nullopt;
  }
  if (std::string_view("<>=|").find(text[0]) != std::string_view::npos) {
    type.big_endian = text[0] == '>';
    text.remove_prefix(1);
  }
  if (text.empty()) {
    return std::nullopt;
  }
  char kind = text[0];
  size_t size = 0;
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data() + 1, last, size);
  if (error != std::errc{}) {
    return std::nullopt;
  }
  std::string_view unit(end, static_cast<size_t>(last - end));
  if (kind == 'M' || kind == 'm') {
    if (size != 8 || !(unit.empty() || (unit.front() == '[' && unit.back() == ']'))) {
      return std::nullopt;
    }
    type.dtype = codec::DType::i64;
    type.time = true;
    return type;
  }
  if (!unit.empty()) {
    return std::nullopt;
  }
  if (kind == 'c') {
    type.complex = true;
    kind = 'f';
    size = size == 8 || size == 16 ? size / 2 : 0;
  }
  auto dtype = number_type(kind, size);
  if (!dtype) {
    return std::nullopt;
  }
  type.dtype = *dtype;
  type.big_endian = type.big_endian && codec::element_size(*dtype) > 1;
  return type;
}

/// Length of the prefix before the header's text, and of that text.
Result<std::pair<uint64_t, uint64_t>> header_place(std::span<const std::byte> start) {
  unsigned version = std::to_integer<unsigned>(start[6]);
  if (version < 1 || version > 3) {
    return malformed(fmt::format("version {} is none of 1, 2, 3", version));
  }
  size_t digits = version == 1 ? 2 : 4;
  if (start.size() < 8 + digits) {
    return malformed("the file ends within its first bytes");
  }
  uint64_t length = 0;
  for (size_t i = digits; i-- > 0;) {
    length = length << 8 | std::to_integer<uint64_t>(start[8 + i]);
  }
  if (length > kLongestHeader) {
    return malformed(fmt::format("it would be {} bytes long, more than {}", length, kLongestHeader));
  }
  return std::pair<uint64_t, uint64_t>{8 + digits, length};
}

Result<ArrayRegion> region_of(const NpyHeader& header, const ElementType& type, uint64_t file_size) {
  const uint64_t offset = header.data;
  ArrayRegion array;
  array.dtype = type.dtype;
  array.big_endian = type.big_endian;
  array.fortran_order = header.fortran_order;
  array.keep_exact = type.time ? "time" : "";
  array.shape = header.shape;
  if (array.fortran_order) {
    std::reverse(array.shape.begin(), array.shape.end());
  }
  if (type.complex) {
    array.shape.push_back(2);
  }
  array.chunk_shape = array.shape;
  auto bytes = chunk_bytes(array);
  if (!bytes || *bytes > file_size - offset || array.shape.size() > codec::kMaxRank) {
    return Error{EBADMSG, fmt::format("the .npy header declares {} of shape ({}), more than the {} bytes that follow "
                                      "it; the file is kept as bytes",
                                      codec::name_of(array.dtype), fmt::join(array.shape, ", "), file_size - offset)};
  }
  array.chunks = {{0, offset}};
  return array;
}

}  // namespace

Result<std::optional<NpyHeader>> read_npy_header(FileView& file) {
  std::array<std::byte, 12> start{};
  VARVE_ASSIGN(size_t got, file.read(0, start));
  if (got < 8 || !std::equal(kNpyMagic.begin(), kNpyMagic.end(), start.begin(),
                             [](char a, std::byte b) { return static_cast<std::byte>(a) == b; })) {
    return std::optional<NpyHeader>();
  }
  VARVE_ASSIGN(auto place, header_place(std::span(start).first(got)));
  auto [prefix, length] = place;
  std::string text(length, '\0');
  VARVE_ASSIGN(size_t text_got, file.read(prefix, std::as_writable_bytes(std::span(text))));
  if (text_got != length) {
    return malformed("the file ends within it");
  }
  VARVE_ASSIGN(Header header, LiteralReader(text).dictionary());
  if (!header.has_type || !header.fortran_order || !header.shape) {
    return malformed("it lacks descr, fortran_order or shape");
  }
  return std::optional(
      NpyHeader{header.type.value_or(""), *header.fortran_order, std::move(*header.shape), prefix + length});
}

Result<std::optional<NpyArray>> npy_array(const NpyHeader& header, uint64_t file_size) {
  const auto type = parse_type(header.type);
  if (!type || checked_product(header.shape) == 0) {
    return std::optional<NpyArray>();
  }
  VARVE_ASSIGN(ArrayRegion array, region_of(header, *type, file_size));
  return std::optional(NpyArray{std::move(array), type->complex ? size_t{1} : 0});
}

Result<std::optional<Recognised>> recognise_npy(FileView& file) {
  VARVE_ASSIGN(const auto header, read_npy_header(file));
  if (!header) {
    return std::optional<Recognised>();
  }
  Recognised result;
  VARVE_ASSIGN(auto array, npy_array(*header, file.size()));
  if (array) {
    result.arrays.push_back(std::move(array->region));
  }
  return std::optional(std::move(result));
}

}  // namespace varve::fs
