#include "tools/web/array_slice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "fs/formats/npy.h"

namespace varve::tools {
namespace {

using nlohmann::json;

constexpr uint64_t kPiece = uint64_t{4} << 20;  ///< bytes read before somebody is asked whether they are still wanted
constexpr double kCodes = 65532;
constexpr uint16_t kBelow = 65533, kAbove = 65534, kMissing = 65535;

/// Numbers with `separator` between them. Nothing: something else.
std::optional<std::vector<uint64_t>> parse_numbers(std::string_view text, char separator) {
  std::vector<uint64_t> numbers;
  while (!text.empty()) {
    uint64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (code != std::errc() || (!text.empty() && (text[0] != separator || text.size() == 1))) {
      return std::nullopt;
    }
    numbers.push_back(number);
    text.remove_prefix(std::min<size_t>(text.size(), 1));
  }
  return numbers;
}

Result<std::optional<ShownAxis>> parse_axis(const HttpRequest& request, std::string_view name) {
  const auto text = request.parameter(name);
  if (!text) {
    return std::optional<ShownAxis>();
  }
  const auto numbers = parse_numbers(*text, ':');
  if (!numbers || numbers->size() != 4 || (*numbers)[1] > (*numbers)[2] || (*numbers)[3] == 0 ||
      (*numbers)[2] > uint64_t{1} << 62 || (*numbers)[3] > uint64_t{1} << 62) {
    return Error{EINVAL,
                 fmt::format("{}={}: give AXIS:START:STOP:STEP, START at most STOP, STEP above 0", name, *text)};
  }
  return std::optional(ShownAxis{(*numbers)[0], (*numbers)[1], (*numbers)[2], (*numbers)[3]});
}

/// A parameter that is one of a few words.
template <typename T, size_t N>
Status parse_word(const HttpRequest& request, std::string_view name, const std::pair<std::string_view, T> (&words)[N],
                  T& out) {
  const auto text = request.parameter(name);
  if (!text) {
    return {};
  }
  std::vector<std::string_view> known;
  for (const auto& [word, value] : words) {
    if (*text == word) {
      out = value;
      return {};
    }
    known.push_back(word);
  }
  return Error{EINVAL, fmt::format("{}={}: give {}", name, *text, fmt::join(known, ", "))};
}

/// The SPEC of .varve/region/ that has the slice.
std::string spec_of(const std::string& dataset, const codec::Extents& shape, const SliceQuery& query) {
  std::vector<std::string> indices;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    indices.push_back(std::to_string(query.at[axis]));
    for (const auto& shown : {query.rows, query.columns}) {
      if (shown && shown->axis == axis) {
        indices.back() = fmt::format("{}:{}:{}", shown->start, shown->stop, shown->step);
      }
    }
  }
  return fmt::format("{}[{}]{}", region_name(dataset),
                     indices.empty() ? "..." : fmt::format("{}", fmt::join(indices, ",")),
                     query.level > 0 ? fmt::format("@{}", query.level) : std::string());
}

struct Region {
  std::unique_ptr<fs::FileView> file;
  fs::NpyHeader header;
};

Result<Region> open_region(ArrayTree& tree, const Names& file, const std::string& spec) {
  Names names = in_view({".varve", "region", spec}, file);
  names.back() += ".npy";
  Region region;
  VARVE_ASSIGN(region.file, tree.open(names));
  VARVE_ASSIGN(auto header, fs::read_npy_header(*region.file));
  if (!header) {
    return Error{EIO, "the region has no header"};
  }
  region.header = *std::move(header);
  return region;
}

/// All elements of a region, in its order.
Result<codec::Bytes> read_all(Region& region, uint64_t length, const StillWanted& wanted) {
  if (region.file->size() != region.header.data + length) {
    return Error{ESTALE, "the file changed while it was read; ask again"};
  }
  codec::Bytes bytes(length);
  for (uint64_t done = 0; done < length;) {
    if (!wanted()) {
      return Error{ECANCELED, "nobody waits for it"};
    }
    const auto piece = std::span(bytes).subspan(done, std::min(kPiece, length - done));
    VARVE_ASSIGN(const size_t got, region.file->read(region.header.data + done, piece));
    if (got != piece.size()) {
      return Error{ESTALE, "the file changed while it was read; ask again"};
    }
    done += got;
  }
  return bytes;
}

double part_of(double real, double imaginary, SliceQuery::Part part) {
  switch (part) {
    case SliceQuery::Part::real:
      return real;
    case SliceQuery::Part::imaginary:
      return imaginary;
    case SliceQuery::Part::phase:
      return std::atan2(imaginary, real);
    case SliceQuery::Part::magnitude:
      break;
  }
  return std::isnan(real) || std::isnan(imaginary) ? std::numeric_limits<double>::quiet_NaN()
                                                   : std::hypot(real, imaginary);
}

template <typename T>
void put(std::string& out, size_t at, T value) {
  std::memcpy(out.data() + at * sizeof value, &value, sizeof value);
}

}  // namespace

std::string region_name(std::string_view dataset) {
  std::string out;
  for (const char c : dataset) {
    switch (c) {
      case '/':
        out.push_back(':');
        break;
      case '%':
      case ':':
      case '[':
        out += fmt::format("%{:02X}", c);
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

Result<SliceQuery> SliceQuery::parse(const HttpRequest& request) {
  SliceQuery query;
  const auto at = parse_numbers(request.parameter("at").value_or(""), ',');
  if (!at) {
    return Error{EINVAL, "at: give an index for each axis, such as at=128,0,0"};
  }
  query.at = *at;
  VARVE_ASSIGN(query.rows, parse_axis(request, "rows"));
  VARVE_ASSIGN(query.columns, parse_axis(request, "columns"));
  VARVE_TRY(parse_word<uint8_t>(request, "level", {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}}, query.level));
  VARVE_TRY(parse_word<Coding>(request, "type", {{"f32", Coding::f32}, {"f64", Coding::f64}, {"u16", Coding::u16}},
                               query.coding));
  VARVE_TRY(parse_word<Part>(
      request, "part",
      {{"magnitude", Part::magnitude}, {"phase", Part::phase}, {"real", Part::real}, {"imaginary", Part::imaginary}},
      query.part));
  return query;
}

Status SliceQuery::check(const codec::Extents& shape) const {
  if (at.size() != shape.size()) {
    return Error{EINVAL, fmt::format("at has {} indices, and the array has {} axes", at.size(), shape.size())};
  }
  if (rows && (!columns || rows->axis == columns->axis)) {
    return Error{EINVAL, "rows need columns along another axis"};
  }
  uint64_t points = 1;
  for (const auto& shown : {rows, columns}) {
    if (shown && (shown->axis >= shape.size() || shown->stop > shape[shown->axis])) {
      return Error{EINVAL, fmt::format("axis {} from {} to {} is not in an array of {}", shown->axis, shown->start,
                                       shown->stop, fmt::join(shape, " x "))};
    }
    if (shown && shown->count() > 0 && points > kMostPoints / shown->count()) {
      return Error{EFBIG, fmt::format("more than {} points: ask for a smaller part or a larger step", kMostPoints)};
    }
    points *= shown ? shown->count() : 1;
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool is_shown = (rows && rows->axis == axis) || (columns && columns->axis == axis);
    if (!is_shown && at[axis] >= shape[axis]) {
      return Error{EINVAL, fmt::format("index {} is not in axis {} of {} points", at[axis], axis, shape[axis])};
    }
  }
  return {};
}

Result<ArrayFace> face_of(ArrayTree& tree, const Names& file, const json& facts) {
  ArrayFace face;
  const json dtype = facts.value("dtype", json());
  VARVE_ASSIGN(face.elements.dtype, codec::parse_dtype(dtype.is_string() ? dtype.get<std::string>() : ""));
  face.elements.big_endian = facts.value("byte_order", json()) == json("big");
  for (const json& fill : facts.value("fill_values", json::array())) {
    if (fill.is_number_unsigned()) {
      face.elements.fill_values.push_back(fill.get<uint64_t>());
    }
  }
  const json name = facts.value("name", json());
  VARVE_ASSIGN(const Region region,
               open_region(tree, file, region_name(name.is_string() ? name.get<std::string>() : "") + "[...]"));
  face.shape = region.header.shape;
  face.complex = region.header.type.size() > 1 && region.header.type[1] == 'c';
  return face;
}

Result<Slice> read_slice(ArrayTree& tree, const Names& file, const json& facts, const ArrayFace& face,
                         const SliceQuery& query, const StillWanted& wanted) {
  VARVE_TRY(query.check(face.shape));
  Slice slice;
  slice.rows = query.rows ? query.rows->count() : 1;
  slice.columns = query.columns ? query.columns->count() : 1;
  slice.values.resize(slice.rows * slice.columns);
  if (slice.values.empty()) {
    return slice;
  }
  VARVE_ASSIGN(Region region, open_region(tree, file, spec_of(facts.value("name", ""), face.shape, query)));
  const uint64_t parts = face.complex ? 2 : 1;
  const size_t element = codec::element_size(face.elements.dtype);
  VARVE_ASSIGN(const codec::Bytes bytes, read_all(region, slice.values.size() * parts * element, wanted));
  // In the region axes come as in the array, and those of Fortran order from the last to the first.
  const bool columns_last = !query.rows || (query.rows->axis < query.columns->axis) != region.header.fortran_order;
  const uint64_t row_step = columns_last ? slice.columns : 1;
  const uint64_t column_step = columns_last ? 1 : slice.rows;
  std::vector<double> second(face.complex ? slice.columns : 0);
  for (uint64_t row = 0; row < slice.rows; ++row) {
    double* const out = slice.values.data() + row * slice.columns;
    const std::byte* const from = bytes.data() + row * row_step * parts * element;
    face.elements.take(from, slice.columns, column_step * parts, out);
    if (face.complex) {
      face.elements.take(from + element, slice.columns, column_step * parts, second.data());
      for (uint64_t i = 0; i < slice.columns; ++i) {
        out[i] = part_of(out[i], second[i], query.part);
      }
    }
  }
  return slice;
}

HttpResponse encode(const Slice& slice, const SliceQuery& query) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  uint64_t missing = 0;
  for (const double value : slice.values) {
    missing += std::isnan(value) ? 1 : 0;
    low = std::isfinite(value) ? std::min(low, value) : low;
    high = std::isfinite(value) ? std::max(high, value) : high;
  }
  HttpResponse response;
  response.type = "application/octet-stream";
  response.fields = {{"X-Varve-Rows", std::to_string(slice.rows)},
                     {"X-Varve-Columns", std::to_string(slice.columns)},
                     {"X-Varve-Level", std::to_string(query.level)},
                     {"X-Varve-Missing", std::to_string(missing)}};
  if (low <= high) {
    response.fields.emplace_back("X-Varve-Low", fmt::format("{}", low));
    response.fields.emplace_back("X-Varve-High", fmt::format("{}", high));
  }
  const size_t count = slice.values.size();
  std::string& out = response.body;
  switch (query.coding) {
    case SliceQuery::Coding::f64:
      out.assign(reinterpret_cast<const char*>(slice.values.data()), count * sizeof(double));
      break;
    case SliceQuery::Coding::f32:
      out.resize(count * sizeof(float));
      for (size_t i = 0; i < count; ++i) {
        put(out, i, static_cast<float>(slice.values[i]));
      }
      break;
    case SliceQuery::Coding::u16:
      out.resize(count * sizeof(uint16_t));
      for (size_t i = 0; i < count; ++i) {
        const double value = slice.values[i];
        // Halves, so that the span of the largest numbers is finite.
        const double share = high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0.0;
        put(out, i,
            std::isnan(value)   ? kMissing
            : std::isinf(value) ? (value > 0 ? kAbove : kBelow)
                                : static_cast<uint16_t>(std::lround(kCodes * std::clamp(share, 0.0, 1.0))));
      }
      break;
  }
  return response;
}

}  // namespace varve::tools
