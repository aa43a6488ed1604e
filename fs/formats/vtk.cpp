#include "fs/formats/vtk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "fs/formats/check.h"

namespace varve::fs {

namespace {

constexpr size_t kLongestLine = 1024;
constexpr size_t kMostArrays = 100000;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return result;
}

/// What the name of a type stands for. Nothing: not numbers of whole bytes.
std::optional<codec::DType> dtype_of(const std::string& type) {
  using codec::DType;
  // Identifiers are written as 32 bits, whatever the program has; `long` is that of the 64-bit machines.
  constexpr std::array<std::pair<std::string_view, DType>, 14> kTypes{{{"unsigned_char", DType::u8},
                                                                       {"char", DType::i8},
                                                                       {"signed_char", DType::i8},
                                                                       {"unsigned_short", DType::u16},
                                                                       {"short", DType::i16},
                                                                       {"unsigned_int", DType::u32},
                                                                       {"int", DType::i32},
                                                                       {"vtkidtype", DType::i32},
                                                                       {"unsigned_long", DType::u64},
                                                                       {"long", DType::i64},
                                                                       {"vtktypeint64", DType::i64},
                                                                       {"vtktypeuint64", DType::u64},
                                                                       {"float", DType::f32},
                                                                       {"double", DType::f64}}};
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& pair) { return pair.first == type; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

/// Reads lines of text, and notes the blocks of numbers between them. At the first thing that it does not understand it
/// stops.
class LegacyReader {
 public:
  explicit LegacyReader(FileView& file) : file_(file) {}

  /// False: text, or no data.
  bool read() {
    const std::string magic = next_line();
    next_line();  // a title
    if (failed_ || !magic.starts_with(kVtkMagic) || !next_words() || lower(words_[0]) != "binary") {
      return false;
    }
    while (arrays_.size() < kMostArrays && next_words() && section()) {
    }
    return !arrays_.empty();
  }

  std::vector<ArrayRegion> arrays_;

 private:
  /// The text up to the end of the line; the file's next byte is then after it.
  std::string next_line() {
    std::string line(kLongestLine, '\0');
    auto got = file_.read(at_, std::as_writable_bytes(std::span(line)));
    const size_t end = got.ok() ? std::string_view(line).substr(0, *got).find('\n') : std::string::npos;
    failed_ = failed_ || end == std::string::npos;
    line.resize(failed_ ? 0 : end);
    at_ += failed_ ? 0 : end + 1;
    return line;
  }
  /// The words of the next line that has any.
  bool next_words() {
    words_.clear();
    while (words_.empty() && !failed_) {
      const std::string line = next_line();
      constexpr std::string_view kSpace = " \t\r";
      for (size_t begin = line.find_first_not_of(kSpace); begin != std::string::npos;) {
        const size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
        words_.push_back(line.substr(begin, end - begin));
        begin = line.find_first_not_of(kSpace, end);
      }
    }
    return !failed_;
  }
  uint64_t number(size_t word) {
    uint64_t value = 0;
    const std::string text = word < words_.size() ? words_[word] : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    failed_ = failed_ || error != std::errc() || end != text.data() + text.size() || value > (uint64_t{1} << 60);
    return value;
  }
  std::string word(size_t index) {
    failed_ = failed_ || index >= words_.size();
    return failed_ ? "" : words_[index];
  }

  /// A block of numbers that begins here.
  bool block(const std::string& name, const std::string& type, codec::Extents shape, const char* keep_exact = "") {
    ArrayRegion region;
    const auto elements = checked_product(shape);
    const auto dtype = dtype_of(type);
    if (failed_ || !elements || (!dtype && type != "bit")) {
      return false;
    }
    region.dtype = dtype.value_or(codec::DType::u8);
    region.shape = region.chunk_shape = std::move(shape);
    const uint64_t bytes = dtype ? chunk_bytes(region).value_or(UINT64_MAX) : (*elements + 7) / 8;
    if (at_ > file_.size() || bytes > file_.size() - at_) {
      return false;
    }
    region.name = "/" + name;
    region.big_endian = codec::element_size(region.dtype) > 1;
    region.chunks = {{0, at_}};
    region.keep_exact = keep_exact;
    at_ += bytes;
    if (dtype && *elements > 0 && region.shape.size() <= codec::kMaxRank) {
      arrays_.push_back(std::move(region));
    }
    return true;
  }
  bool attribute(const std::string& type, uint64_t components) {
    return block(fmt::format("{}/{}", place_, word(1)), type, grid_.shape_of(tuples_, components));
  }

  bool section() {
    const std::string key = lower(words_[0]);
    if (key == "dataset" || key == "origin" || key == "spacing" || key == "aspect_ratio") {
      return true;
    }
    if (key == "metadata") {
      return metadata();
    }
    if (key == "dimensions") {
      const codec::Extents points{number(3), number(2), number(1)};
      return !failed_ && grid_.set(points);
    }
    if (key == "point_data" || key == "cell_data") {
      place_ = key == "point_data" ? "PointData" : "CellData";
      tuples_ = number(1);
      return !failed_;
    }
    if (key == "field") {
      return field(number(2));
    }
    return geometry(key) || (!failed_ && field_of_grid(key));
  }

  /// Points, coordinates, cells.
  bool geometry(const std::string& key) {
    if (key == "points") {
      return block("Points", lower(word(2)), grid_.shape_of(number(1), 3), "coordinate");
    }
    if (key == "x_coordinates" || key == "y_coordinates" || key == "z_coordinates") {
      return block(fmt::format("Coordinates/{}", key[0]), lower(word(2)), {number(1)}, "coordinate");
    }
    if (key == "cell_types") {
      return block("Cells/types", "int", {number(1)});
    }
    if (key == "offsets" || key == "connectivity") {
      return block(fmt::format("{}/{}", cells_, key), lower(word(1)),
                   {key == "offsets" ? cell_offsets_ : cell_numbers_});
    }
    if (key == "cells" || key == "vertices" || key == "lines" || key == "polygons" || key == "triangle_strips") {
      cells_ = words_[0];
      cell_offsets_ = number(1);
      cell_numbers_ = number(2);
      return offsets_follow() || block(cells_, "int", {cell_numbers_});
    }
    return false;
  }

  /// Since version 5.1, cells are two blocks with lines of their own.
  bool offsets_follow() {
    std::array<char, 8> text{};
    const auto got = file_.read(at_, std::as_writable_bytes(std::span(text)));
    return got.ok() && *got == text.size() && std::string_view(text.data(), text.size()) == "OFFSETS ";
  }

  /// What POINT_DATA and CELL_DATA are followed by.
  bool field_of_grid(const std::string& key) {
    if (key == "scalars") {
      const std::string type = lower(word(2));
      const uint64_t components = words_.size() > 3 ? number(3) : 1;
      const std::string name = word(1);
      if (!next_words() || lower(words_[0]) != "lookup_table") {
        return false;
      }
      return block(fmt::format("{}/{}", place_, name), type, grid_.shape_of(tuples_, components));
    }
    if (key == "vectors" || key == "normals") {
      return attribute(lower(word(2)), 3);
    }
    if (key == "tensors" || key == "tensors6") {
      return attribute(lower(word(2)), key == "tensors" ? 9 : 6);
    }
    if (key == "texture_coordinates") {
      return attribute(lower(word(3)), number(2));
    }
    if (key == "global_ids" || key == "pedigree_ids") {
      return attribute(lower(word(2)), 1);
    }
    if (key == "color_scalars") {
      return attribute("unsigned_char", number(2));
    }
    if (key == "lookup_table") {
      return block(fmt::format("{}/{}", key, word(1)), "unsigned_char", {number(2), 4});
    }
    return false;
  }

  /// FIELD: arrays with lines of their own.
  bool field(uint64_t arrays) {
    for (uint64_t i = 0; i < arrays && arrays_.size() < kMostArrays; ++i) {
      if (!next_words()) {
        return false;
      }
      if (lower(words_[0]) == "metadata") {
        if (!metadata() || !next_words()) {
          return false;
        }
      }
      const uint64_t components = number(1);
      const uint64_t tuples = number(2);
      if (!block(fmt::format("{}/{}", place_, word(0)), lower(word(3)), grid_.shape_of(tuples, components))) {
        return false;
      }
    }
    return !failed_;
  }

  /// Text, up to a line that is empty.
  bool metadata() {
    while (!failed_ && next_line().find_first_not_of(" \t\r") != std::string::npos) {
    }
    return !failed_;
  }

  FileView& file_;
  uint64_t at_ = 0;
  bool failed_ = false;
  std::vector<std::string> words_;
  VtkGrid grid_;
  std::string place_ = "FieldData", cells_;
  uint64_t tuples_ = 0, cell_offsets_ = 0, cell_numbers_ = 0;
};

}  // namespace

bool VtkGrid::set(codec::Extents points_along_axes) {
  points = std::move(points_along_axes);
  cells = points;
  for (uint64_t& extent : cells) {
    extent = std::max<uint64_t>(extent, 2) - 1;
  }
  return checked_product(points).value_or(0) > 0;
}

codec::Extents VtkGrid::shape_of(uint64_t tuples, uint64_t components) const {
  codec::Extents shape{tuples};
  if (!points.empty() && checked_product(points) == tuples) {
    shape = points;
  } else if (!cells.empty() && checked_product(cells) == tuples) {
    shape = cells;
  }
  if (components != 1) {
    shape.push_back(components);
  }
  return shape;
}

Result<std::optional<Recognised>> recognise_vtk(FileView& file) {
  LegacyReader reader(file);
  return reader.read() ? std::optional(Recognised{"", std::move(reader.arrays_)}) : std::nullopt;
}

}  // namespace varve::fs
