#include "tools/file_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "codec/box.h"
#include "codec/mapping.h"
#include "fs/formats/chunk_filters.h"
#include "fs/formats/worker.h"
#include "tools/description.h"
#include "tools/mount_point.h"

namespace varve::tools {
namespace {

using nlohmann::json;

/// How the mount reads a raw file that a rule describes.
std::optional<fs::RawHint> hint_from(const json& description) {
  const json* array = array_named(description, "");
  if (array == nullptr || description.value("format", json()) != json("raw")) {
    return std::nullopt;
  }
  const json dtype = array->value("dtype", json());
  const json shape = array->value("shape", json());
  const auto type = codec::parse_dtype(dtype.is_string() ? dtype.get<std::string>() : "");
  if (!type.ok() || !shape.is_array()) {
    return std::nullopt;
  }
  fs::RawHint hint;
  hint.dtype = *type;
  hint.big_endian = array->value("byte_order", json()) == json("big");
  for (const json& extent : shape) {
    hint.shape.push_back(extent.is_number_unsigned() ? extent.get<uint64_t>() : 0);
  }
  return hint;
}

template <typename E>
double value_of(const ElementDecoder& decoder, const std::byte* place) {
  using Bits = typename E::Bits;
  using Unsigned = std::make_unsigned_t<Bits>;
  std::array<std::byte, sizeof(Bits)> bytes;
  std::memcpy(bytes.data(), place, bytes.size());
  if (decoder.big_endian) {
    std::ranges::reverse(bytes);
  }
  Bits bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  const uint64_t pattern = static_cast<Unsigned>(bits);
  if (std::ranges::find(decoder.fill_values, pattern) != decoder.fill_values.end()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if constexpr (E::kIsInteger) {
    return static_cast<double>(bits);
  } else {
    return static_cast<double>(E::value(bits));
  }
}

/// Reads one row of points after another.
class RowReader {
 public:
  RowReader(fs::FileView& file, const fs::ArrayRegion& array)
      : file_(file),
        array_(array),
        decoder_{array.dtype, array.big_endian, array.fill_values},
        width_(codec::element_size(array.dtype)) {}

  /// `at`: the row's first point; `count` points along the last axis, `step` apart.
  Status row(const codec::Extents& at, uint64_t count, uint64_t step, double* out) {
    const size_t last = array_.shape.size() - 1;
    const uint64_t extent = array_.chunk_shape[last];
    for (uint64_t done = 0; done < count;) {
      const uint64_t x = at[last] + done * step;
      const uint64_t within = x % extent;
      const uint64_t here = std::min(count - done, (extent - within + step - 1) / step);
      VARVE_TRY(piece(at, x, here, step, out + done));
      done += here;
    }
    return {};
  }

 private:
  /// Points of one chunk.
  Status piece(const codec::Extents& at, uint64_t x, uint64_t count, uint64_t step, double* out) {
    const size_t last = array_.shape.size() - 1;
    uint64_t chunk = 0;
    uint64_t element = 0;
    for (size_t axis = 0; axis <= last; ++axis) {
      const uint64_t extent = array_.chunk_shape[axis];
      const uint64_t place = axis == last ? x : at[axis];
      chunk = chunk * ((array_.shape[axis] + extent - 1) / extent) + place / extent;
      element = element * extent + place % extent;
    }
    const auto found = std::ranges::lower_bound(array_.chunks, chunk, {}, &fs::ChunkPlace::chunk);
    if (found == array_.chunks.end() || found->chunk != chunk) {
      std::fill_n(out, count, std::numeric_limits<double>::quiet_NaN());
      return {};
    }
    if (!array_.filters.empty()) {
      VARVE_ASSIGN(const std::vector<std::byte>* elements, unfiltered(*found));
      decoder_.take(elements->data() + element * width_, count, step, out);
      return {};
    }
    const uint64_t offset = found->offset + element * width_;
    const size_t length = static_cast<size_t>((count - 1) * step + 1) * width_;
    buffer_.resize(std::max(buffer_.size(), length));
    VARVE_ASSIGN(const size_t got, file_.read(offset, std::span(buffer_).first(length)));
    if (got != length) {
      return Error{EIO, fmt::format("the file ends within its array {}", array_.name)};
    }
    decoder_.take(buffer_.data(), count, step, out);
    return {};
  }

  Result<const std::vector<std::byte>*> unfiltered(const fs::ChunkPlace& place) {
    const auto known = unfiltered_.find(place.chunk);
    if (known != unfiltered_.end()) {
      return &known->second;
    }
    if (!unfiltered_.empty() && unfiltered_.begin()->second.size() * unfiltered_.size() >= kMostUnfiltered) {
      unfiltered_.clear();
    }
    const auto read = [&](uint64_t offset, std::span<std::byte> out) -> Status {
      VARVE_ASSIGN(const size_t got, file_.read(offset, out));
      return got == out.size() ? Status() : Error{EIO, fmt::format("the file ends within its array {}", array_.name)};
    };
    VARVE_ASSIGN(std::vector<std::byte> elements, fs::unfiltered_chunk(array_, place, read));
    return &unfiltered_.emplace(place.chunk, std::move(elements)).first->second;
  }

  static constexpr size_t kMostUnfiltered = size_t{128} << 20;  // bytes

  fs::FileView& file_;
  const fs::ArrayRegion& array_;
  std::map<uint64_t, std::vector<std::byte>> unfiltered_;  // by chunk
  const ElementDecoder decoder_;
  const size_t width_;
  std::vector<std::byte> buffer_;
};

}  // namespace

void ElementDecoder::take(const std::byte* bytes, uint64_t count, uint64_t step, double* out) const {
  const size_t width = codec::element_size(dtype);
  codec::with_element(dtype, [&](auto element) {
    using E = decltype(element);
    for (uint64_t i = 0; i < count; ++i) {
      out[i] = value_of<E>(*this, bytes + i * step * width);
    }
  });
}

std::string axis_name(size_t axis, size_t rank) {
  constexpr std::string_view kNames = "xyzt";
  const size_t from_end = rank - 1 - axis;
  return from_end < kNames.size() ? std::string(1, kNames[from_end]) : std::to_string(axis);
}

Result<fs::RawHint> parse_raw(std::string_view text) {
  const Error bad{EINVAL, fmt::format("--raw \"{}\" makes no sense: give type and shape, slowest axis first, such as "
                                      "f32:256x384x384 or f64:100x200:be",
                                      text)};
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return bad;
  }
  fs::RawHint hint;
  VARVE_ASSIGN(hint.dtype, codec::parse_dtype(text.substr(0, colon)));
  std::string_view shape = text.substr(colon + 1);
  if (shape.ends_with(":be")) {
    hint.big_endian = true;
    shape.remove_suffix(3);
  }
  while (!shape.empty()) {
    uint64_t extent = 0;
    const auto [end, code] = std::from_chars(shape.data(), shape.data() + shape.size(), extent);
    const auto used = static_cast<size_t>(end - shape.data());
    if (code != std::errc() || extent == 0 || hint.shape.size() == codec::kMaxRank ||
        (used < shape.size() && (shape[used] != 'x' || used + 1 == shape.size()))) {
      return bad;
    }
    hint.shape.push_back(extent);
    shape.remove_prefix(std::min(used + 1, shape.size()));
  }
  return hint.shape.empty() ? Result<fs::RawHint>(bad) : Result<fs::RawHint>(std::move(hint));
}

const json* array_named(const json& description, const std::string& name) {
  const auto arrays = description.find("arrays");
  if (arrays != description.end() && arrays->is_array()) {
    for (const json& array : *arrays) {
      if (array.is_object() && array.value("name", json()) == json(name)) {
        return &array;
      }
    }
  }
  return nullptr;
}

Result<std::optional<json>> describe_if_mounted(const std::string& path) {
  if (!find_mount(path).ok()) {
    return std::optional<json>();
  }
  VARVE_ASSIGN(json description, describe(path));
  return std::optional<json>(std::move(description));
}

Result<fs::Recognised> arrays_of(fs::FileView& file, const std::vector<std::string>& paths, const std::string& raw,
                                 const std::optional<json>& description) {
  std::optional<fs::RawHint> hint = description ? hint_from(*description) : std::nullopt;
  if (!raw.empty()) {
    VARVE_ASSIGN(hint, parse_raw(raw));
    const uint64_t length = codec::element_count(hint->shape) * codec::element_size(hint->dtype);
    if (length != file.size()) {
      return Error{EINVAL,
                   fmt::format("{} has {} bytes, and --raw {} describes {}", paths[0], file.size(), raw, length)};
    }
  }
  fs::RecogniserPool pool(fs::WorkerOptions{});
  for (const std::string& path : paths) {
    auto found = pool.recognise(std::filesystem::path(path).filename().string(), file, hint);
    if (!found.ok() && !raw.empty()) {
      return found.error();
    }
    if (!found.ok()) {
      fmt::print(stderr, "varve: {} is taken as bytes: {}\n", paths[0], found.error().text);
      return fs::Recognised{};
    }
    if (found->has_value()) {
      return **std::move(found);
    }
  }
  return fs::Recognised{};
}

PointGrid every(const fs::ArrayRegion& array, uint64_t step) {
  PointGrid grid;
  for (const uint64_t extent : array.shape) {
    grid.start.push_back(0);
    grid.count.push_back((extent + step - 1) / step);
    grid.step.push_back(step);
  }
  return grid;
}

Result<std::vector<double>> read_points(fs::FileView& file, const fs::ArrayRegion& array, const PointGrid& grid) {
  const uint64_t total = codec::element_count(grid.count);
  std::vector<double> values(total);
  if (total == 0) {
    return values;
  }
  fs::ArrayRegion scalar;  // has no axis to walk along
  if (array.shape.empty()) {
    scalar = array;
    scalar.shape = scalar.chunk_shape = {1};
    VARVE_TRY(RowReader(file, scalar).row({0}, 1, 1, values.data()));
    return values;
  }
  RowReader reader(file, array);
  const size_t last = grid.count.size() - 1;
  codec::Extents index(last);
  for (uint64_t done = 0; done < total; done += grid.count[last]) {
    codec::Extents at = grid.start;
    for (size_t axis = 0; axis < last; ++axis) {
      at[axis] += index[axis] * grid.step[axis];
    }
    VARVE_TRY(reader.row(at, grid.count[last], grid.step[last], values.data() + done));
    codec::next_index(index, grid.count);
  }
  return values;
}

}  // namespace varve::tools
