#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "fs/formats/check.h"
#include "fs/formats/vtk.h"

namespace varve::fs {

namespace {

constexpr uint64_t kUsualText = uint64_t{1} << 16;
constexpr uint64_t kLongestText = uint64_t{1} << 22;
constexpr std::string_view kSpace = " \t\r\n";

std::optional<codec::DType> dtype_of(std::string_view type) {
  using codec::DType;
  constexpr std::array<std::pair<std::string_view, DType>, 10> kTypes{{{"Int8", DType::i8},
                                                                       {"UInt8", DType::u8},
                                                                       {"Int16", DType::i16},
                                                                       {"UInt16", DType::u16},
                                                                       {"Int32", DType::i32},
                                                                       {"UInt32", DType::u32},
                                                                       {"Int64", DType::i64},
                                                                       {"UInt64", DType::u64},
                                                                       {"Float32", DType::f32},
                                                                       {"Float64", DType::f64}}};
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& pair) { return pair.first == type; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// "0 47 0 47 0 13": the points along each axis, slowest first. Nothing: it is none.
std::optional<codec::Extents> points_of(std::string_view extent) {
  std::array<int64_t, 6> limits{};
  for (int64_t& limit : limits) {
    extent.remove_prefix(std::min(extent.find_first_not_of(kSpace), extent.size()));
    const auto [end, error] = std::from_chars(extent.data(), extent.data() + extent.size(), limit);
    if (error != std::errc() || limit < INT32_MIN || limit > INT32_MAX) {
      return std::nullopt;
    }
    extent.remove_prefix(static_cast<size_t>(end - extent.data()));
  }
  codec::Extents points;
  for (size_t axis = 3; axis-- > 0;) {
    const int64_t count = limits[2 * axis + 1] - limits[2 * axis] + 1;
    if (count < 1) {
      return std::nullopt;
    }
    points.push_back(static_cast<uint64_t>(count));
  }
  return points;
}

struct Tag {
  std::string name;
  bool opens = false, closes = false;
  std::map<std::string, std::string> attributes;

  std::string get(const std::string& name, const std::string& otherwise = "") const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? otherwise : found->second;
  }
};

/// An array of the appended data, as its element describes it.
struct Described {
  std::string name;
  codec::DType dtype = codec::DType::u8;
  VtkGrid grid;
  uint64_t components = 1;
  uint64_t offset = 0;
  bool exact = false;
};

/// Reads tags one after the other; between them is text that does not matter.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  /// Nothing: the text ends here.
  std::optional<Tag> next() {
    for (at_ = text_.find('<', at_); at_ != std::string_view::npos; at_ = text_.find('<', at_)) {
      if (!starts("<?") && !starts("<!")) {
        return tag();
      }
      at_ = starts("<!--") ? text_.find("-->", at_) : text_.find('>', at_);
    }
    return std::nullopt;
  }
  /// Behind the last tag.
  size_t position() const { return at_; }

 private:
  bool starts(std::string_view with) const { return text_.substr(at_).starts_with(with); }
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }

  std::optional<Tag> tag() {
    Tag tag;
    ++at_;
    tag.closes = starts("/");
    tag.opens = !tag.closes;
    at_ += tag.closes ? 1 : 0;
    const size_t end = std::min(text_.find_first_of(" \t\r\n/>", at_), text_.size());
    tag.name = text_.substr(at_, end - at_);
    at_ = end;
    while (true) {
      skip_spaces();
      if (starts("/>")) {
        tag.closes = true;
        at_ += 2;
        return tag;
      }
      if (starts(">")) {
        ++at_;
        return tag;
      }
      const size_t equals = text_.find('=', at_);
      if (equals == std::string_view::npos) {
        return std::nullopt;
      }
      std::string_view name = text_.substr(at_, equals - at_);
      name = name.substr(0, name.find_last_not_of(kSpace) + 1);
      at_ = equals + 1;
      skip_spaces();
      const size_t close = at_ < text_.size() ? text_.find(text_[at_], at_ + 1) : std::string_view::npos;
      if (close == std::string_view::npos || (text_[at_] != '"' && text_[at_] != '\'')) {
        return std::nullopt;
      }
      tag.attributes[std::string(name)] = text_.substr(at_ + 1, close - at_ - 1);
      at_ = close + 1;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

/// Follows the elements down to the appended data.
class Description {
 public:
  /// False: not all of it is in the text. `raw()` tells whether the data can be arrays.
  bool read(std::string_view text) {
    XmlReader in(text);
    while (auto tag = in.next()) {
      if (tag->name == "AppendedData") {
        raw_ = raw_ && tag->get("encoding") == "raw";
        const size_t underscore = text.find_first_not_of(kSpace, in.position());
        data_ = underscore + 1;
        raw_ = raw_ && underscore != std::string_view::npos && text[underscore] == '_';
        return underscore != std::string_view::npos;
      }
      take(*tag);
    }
    return false;
  }
  bool raw() const { return raw_; }
  bool big_endian() const { return big_endian_; }
  size_t length_bytes() const { return length_bytes_; }
  uint64_t data() const { return data_; }
  const std::vector<Described>& arrays() const { return arrays_; }

 private:
  void take(const Tag& tag) {
    if (!tag.opens) {
      section_ = tag.name == section_ ? "" : section_;
      return;
    }
    if (tag.name == "VTKFile") {
      const std::string length = tag.get("header_type", "UInt32");
      big_endian_ = tag.get("byte_order") == "BigEndian";
      length_bytes_ = length == "UInt64" ? 8 : 4;
      raw_ = tag.get("compressor").empty() && (length == "UInt64" || length == "UInt32");
    } else if (tag.name == "Piece") {
      grid_ = {};
      const auto points = points_of(tag.get("Extent"));
      if (points) {
        grid_.set(*points);
      }
      ++pieces_;
    } else if (tag.name == "DataArray") {
      take_array(tag);
    } else if (!tag.closes) {
      section_ = tag.name;
    }
  }

  void take_array(const Tag& tag) {
    const auto dtype = dtype_of(tag.get("type"));
    const auto offset = number(tag.get("offset"));
    const auto components = number(tag.get("NumberOfComponents", "1"));
    if (tag.get("format") != "appended" || !dtype || !offset || !components || *components == 0) {
      return;
    }
    Described array{"", *dtype, grid_, *components, *offset, false};
    const std::string name = tag.get("Name");
    array.exact = section_ == "Points" || section_ == "Coordinates";
    array.name = pieces_ > 1 && section_ != "FieldData" ? fmt::format("/Piece{}", pieces_ - 1) : "";
    array.name += section_ == "Points" ? "/Points" : fmt::format("/{}/{}", section_, name);
    arrays_.push_back(std::move(array));
  }

  bool raw_ = false, big_endian_ = false;
  size_t length_bytes_ = 4;
  uint64_t data_ = 0;
  size_t pieces_ = 0;
  VtkGrid grid_;
  std::string section_;
  std::vector<Described> arrays_;
};

/// Where an array lies, after the number of its bytes. Nothing: not within the file, or no whole tuples.
Result<std::optional<ArrayRegion>> place(FileView& file, const Description& description, const Described& array) {
  const uint64_t begin = description.data() + array.offset;
  std::array<std::byte, 8> start{};
  const auto length = std::span(start).first(description.length_bytes());
  if (array.offset > file.size() || begin > file.size()) {
    return std::optional<ArrayRegion>();
  }
  VARVE_ASSIGN(const size_t got, file.read(begin, length));
  uint64_t bytes = 0;
  for (size_t i = 0; i < length.size(); ++i) {
    const size_t at = description.big_endian() ? i : length.size() - 1 - i;
    bytes = bytes << 8 | std::to_integer<uint64_t>(length[at]);
  }
  const size_t element = codec::element_size(array.dtype);
  if (got < length.size() || bytes > file.size() - begin - length.size() || bytes == 0 || array.components > bytes ||
      bytes % (element * array.components) != 0) {
    return std::optional<ArrayRegion>();
  }
  ArrayRegion region;
  region.name = array.name;
  region.dtype = array.dtype;
  region.big_endian = description.big_endian() && element > 1;
  region.shape = region.chunk_shape = array.grid.shape_of(bytes / element / array.components, array.components);
  region.chunks = {{0, begin + length.size()}};
  region.keep_exact = array.exact ? "coordinate" : "";
  return std::optional(std::move(region));
}

/// Arrays may share their data, as those of grids that do not change from step to step do: the first one has it.
void drop_shared(std::vector<ArrayRegion>& arrays) {
  std::stable_sort(arrays.begin(), arrays.end(), [](const ArrayRegion& a, const ArrayRegion& b) {
    return a.chunks.front().offset < b.chunks.front().offset;
  });
  uint64_t end = 0;
  std::erase_if(arrays, [&](const ArrayRegion& array) {
    const uint64_t begin = array.chunks.front().offset;
    const bool shared = begin < end;
    end = shared ? end : begin + chunk_bytes(array).value_or(0);
    return shared;
  });
}

}  // namespace

Result<std::optional<Recognised>> recognise_vtk_xml(FileView& file) {
  // Nothing says how long the text is: most are short.
  for (uint64_t length = kUsualText;; length *= 8) {
    std::string text(std::min(length, file.size()), '\0');
    VARVE_ASSIGN(const size_t got, file.read(0, std::as_writable_bytes(std::span(text))));
    text.resize(got);
    Description description;
    if (!description.read(text)) {
      if (length >= std::min(file.size(), kLongestText)) {
        return std::optional<Recognised>();
      }
      continue;
    }
    if (!description.raw()) {
      return std::optional<Recognised>();
    }
    Recognised result;
    for (const Described& array : description.arrays()) {
      VARVE_ASSIGN(auto region, place(file, description, array));
      if (region) {
        result.arrays.push_back(std::move(*region));
      }
    }
    drop_shared(result.arrays);
    return std::optional(std::move(result));
  }
}

}  // namespace varve::fs
