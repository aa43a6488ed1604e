#include "fs/formats/amrex.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>

#include "fs/formats/check.h"

namespace varve::fs {

namespace {

constexpr size_t kLongestLine = 1024;
constexpr uint64_t kMostChunks = uint64_t{1} << 20;
constexpr size_t kMostAxes = 3;

/// Reads what is in the line of text before a box's numbers.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) {}

  /// These characters, whatever spaces are between them.
  bool take(std::string_view wanted) {
    for (const char c : wanted) {
      if (!at(c)) {
        failed_ = true;
        return false;
      }
      line_.remove_prefix(1);
    }
    return true;
  }
  bool at(char c) {
    skip_spaces();
    return !line_.empty() && line_.front() == c;
  }
  int64_t number() {
    skip_spaces();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), value);
    failed_ = failed_ || error != std::errc();
    line_.remove_prefix(static_cast<size_t>(end - line_.data()));
    return value;
  }
  /// "(8, (64 11 52 0 1 12 0 1023))": how many, and the numbers.
  std::vector<int64_t> counted() {
    std::vector<int64_t> numbers;
    take("(");
    const int64_t count = number();
    take(",(");
    while (!failed_ && !at(')') && numbers.size() < 64) {
      numbers.push_back(number());
    }
    take("))");
    failed_ = failed_ || count != static_cast<int64_t>(numbers.size());
    return numbers;
  }
  /// "(0,0,7)".
  std::vector<int64_t> point() {
    std::vector<int64_t> numbers;
    take("(");
    do {
      numbers.push_back(number());
    } while (!failed_ && at(',') && take(",") && numbers.size() < kMostAxes);
    take(")");
    return numbers;
  }
  /// All of it was read, and was as it must be.
  bool done() {
    skip_spaces();
    return !failed_ && line_.empty();
  }

 private:
  void skip_spaces() {
    while (!line_.empty() && line_.front() == ' ') {
      line_.remove_prefix(1);
    }
  }
  std::string_view line_;
  bool failed_ = false;
};

struct Fab {
  codec::DType dtype = codec::DType::f64;
  bool big_endian = false;
  codec::Extents shape;  ///< of the box, slowest axis first
  uint64_t components = 0;
};

/// The type that a floating-point format describes: bits; bits of exponent and mantissa; where sign, exponent and
/// mantissa begin; whether the mantissa's first bit is stored; the exponent's bias.
std::optional<codec::DType> dtype_of(const std::vector<int64_t>& format) {
  if (format == std::vector<int64_t>{64, 11, 52, 0, 1, 12, 0, 1023}) {
    return codec::DType::f64;
  }
  return format == std::vector<int64_t>{32, 8, 23, 0, 1, 9, 0, 127} ? std::optional(codec::DType::f32) : std::nullopt;
}

/// Whether numbers begin with their greatest byte, which is number 1. Nothing: they are in neither order.
std::optional<bool> is_big_endian(std::vector<int64_t> order, size_t bytes) {
  std::vector<int64_t> ascending;
  for (size_t i = 1; i <= bytes; ++i) {
    ascending.push_back(static_cast<int64_t>(i));
  }
  if (order == ascending) {
    return true;
  }
  std::reverse(order.begin(), order.end());
  return order == ascending ? std::optional(false) : std::nullopt;
}

/// "FAB ((8, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 2 1)))((0,0,0) (7,7,7) (0,0,0)) 5"
std::optional<Fab> parse_fab(std::string_view line) {
  LineReader in(line);
  in.take("FAB(");
  const std::vector<int64_t> format = in.counted();
  in.take(",");
  const std::vector<int64_t> order = in.counted();
  in.take(")(");
  const std::vector<int64_t> low = in.point();
  const std::vector<int64_t> high = in.point();
  const std::vector<int64_t> centring = in.point();
  in.take(")");
  const int64_t components = in.number();
  const auto dtype = dtype_of(format);
  if (!in.done() || !dtype || low.size() != high.size() || low.size() != centring.size() || components < 1) {
    return std::nullopt;
  }
  const auto big_endian = is_big_endian(order, codec::element_size(*dtype));
  if (!big_endian) {
    return std::nullopt;
  }
  Fab fab{*dtype, *big_endian, {}, static_cast<uint64_t>(components)};
  for (size_t axis = low.size(); axis-- > 0;) {
    constexpr int64_t kFarthest = int64_t{1} << 40;
    if (high[axis] < low[axis] || low[axis] < -kFarthest || high[axis] > kFarthest) {
      return std::nullopt;
    }
    fab.shape.push_back(static_cast<uint64_t>(high[axis] - low[axis] + 1));
  }
  return fab;
}

/// The line that begins at `offset`, without its end. Nothing: it is too long.
Result<std::optional<std::string>> read_line(FileView& file, uint64_t offset) {
  std::string line(kLongestLine, '\0');
  VARVE_ASSIGN(const size_t got, file.read(offset, std::as_writable_bytes(std::span(line))));
  const size_t end = std::string_view(line).substr(0, got).find('\n');
  line.resize(std::min(end, line.size()));
  return end == std::string::npos ? std::optional<std::string>() : std::optional(std::move(line));
}

/// Gathers boxes that follow on each other in a file into arrays.
class Boxes {
 public:
  /// False: there are too many, or the box that begins at `offset` does not end within the file.
  bool add(const Fab& fab, uint64_t offset, uint64_t file_size) {
    ArrayRegion region;
    region.dtype = fab.dtype;
    region.big_endian = fab.big_endian;
    region.chunk_shape = fab.shape;
    region.chunk_shape.insert(region.chunk_shape.begin(), 1);
    const auto bytes = chunk_bytes(region);
    if (!bytes || offset > file_size || *bytes > (file_size - offset) / fab.components ||
        fab.components > kMostChunks - chunks_) {
      return false;
    }
    chunks_ += fab.components;
    for (uint64_t component = 0; component < fab.components; ++component, offset += *bytes) {
      const auto [found, fresh] =
          by_kind_.emplace(Kind{fab.dtype, fab.big_endian, fab.shape, component}, arrays_.size());
      if (fresh) {
        arrays_.push_back(region);
        arrays_.back().name = fmt::format("/{}/{}", fmt::join(fab.shape, "x"), component);
        arrays_.back().shape = region.chunk_shape;
        arrays_.back().shape.front() = 0;
      }
      ArrayRegion& array = arrays_[found->second];
      array.chunks.push_back({array.shape.front()++, offset});
    }
    end_ = offset;
    return true;
  }
  uint64_t end() const { return end_; }  ///< of the last box
  std::vector<ArrayRegion> take() { return std::move(arrays_); }

 private:
  using Kind = std::tuple<codec::DType, bool, codec::Extents, uint64_t>;
  std::map<Kind, size_t> by_kind_;
  std::vector<ArrayRegion> arrays_;
  uint64_t chunks_ = 0, end_ = 0;
};

}  // namespace

Result<std::optional<Recognised>> recognise_amrex(FileView& file) {
  Boxes boxes;
  while (boxes.end() < file.size()) {
    VARVE_ASSIGN(const auto line, read_line(file, boxes.end()));
    const auto fab = line && line->starts_with(kFabMagic) ? parse_fab(*line) : std::nullopt;
    if (!fab || !boxes.add(*fab, boxes.end() + line->size() + 1, file.size())) {
      break;
    }
  }
  Recognised result{{}, boxes.take()};
  return result.arrays.empty() ? std::optional<Recognised>() : std::optional(std::move(result));
}

}  // namespace varve::fs
