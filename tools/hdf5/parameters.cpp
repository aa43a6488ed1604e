#include "tools/hdf5/parameters.h"

#include <bit>

namespace varve::tools {

using codec::Bound;
using codec::BoundMode;

namespace {

constexpr unsigned kComplete = 0x56480001;
constexpr unsigned kBigEndian = 256;
constexpr unsigned kIntegers = 512;
constexpr unsigned kIntegersOfUser = 256;
constexpr unsigned kAxes = codec::kMaxRank;

Error bad(const char* what) { return {EINVAL, what}; }

/// Numbers from the front, zeros behind the end.
class Numbers {
 public:
  explicit Numbers(std::span<const unsigned> numbers) : numbers_(numbers) {}
  uint64_t next() {
    failed_ = failed_ || at_ >= numbers_.size();
    return failed_ ? 0 : numbers_[at_++];
  }
  uint64_t next_pair() {
    const uint64_t low = next();
    return low | next() << 32;
  }
  bool used_up() const { return !failed_ && at_ == numbers_.size(); }

 private:
  std::span<const unsigned> numbers_;
  size_t at_ = 0;
  bool failed_ = false;
};

Result<Bound> checked_bound(uint64_t mode, uint64_t value, uint64_t second) {
  if (mode > static_cast<uint64_t>(BoundMode::bits)) {
    return bad("the bound mode in the filter's parameters is none: 0 (lossless) to 7 (bits) are");
  }
  const Bound bound{static_cast<BoundMode>(mode), std::bit_cast<double>(value), std::bit_cast<double>(second)};
  return codec::parse_bound(codec::to_string(bound));
}

void put_pair(std::vector<unsigned>& out, uint64_t value) {
  out.push_back(static_cast<unsigned>(value));
  out.push_back(static_cast<unsigned>(value >> 32));
}

}  // namespace

uint64_t FilterParameters::chunk_bytes() const {
  constexpr uint64_t kMost = UINT32_MAX;
  uint64_t bytes = codec::element_size(dtype);
  for (const uint64_t extent : shape) {
    if (extent == 0 || extent > kMost || bytes * extent > kMost) {
      return 0;
    }
    bytes *= extent;
  }
  return bytes;
}

Result<FilterParameters> read_bound(std::span<const unsigned> numbers) {
  if (!numbers.empty() && numbers.front() == kComplete) {
    return read_parameters(numbers);
  }
  FilterParameters made;
  if (numbers.empty()) {
    return made;
  }
  if (numbers.size() != 1 && numbers.size() != 3 && numbers.size() != 5) {
    return bad("the filter takes no parameters, a bound mode, or one with the halves of one value or of two");
  }
  Numbers in(numbers);
  const uint64_t mode = in.next();
  const uint64_t value = numbers.size() > 1 ? in.next_pair() : 0;
  const uint64_t second = numbers.size() > 3 ? in.next_pair() : 0;
  made.integers = (mode & kIntegersOfUser) != 0;
  VARVE_ASSIGN(made.bound, checked_bound(mode & ~uint64_t{kIntegersOfUser}, value, second));
  return made;
}

Result<FilterParameters> read_parameters(std::span<const unsigned> numbers) {
  Numbers in(numbers);
  if (in.next() != kComplete) {
    return bad("the dataset's parameters of this filter are not of this version, or were not made by set_local");
  }
  FilterParameters made;
  const uint64_t type = in.next();
  made.dtype = static_cast<codec::DType>(type & 255);
  made.big_endian = (type & kBigEndian) != 0;
  made.integers = (type & kIntegers) != 0;
  const uint64_t mode = in.next();
  const uint64_t value = in.next_pair();
  const uint64_t second = in.next_pair();
  VARVE_ASSIGN(made.bound, checked_bound(mode, value, second));
  const uint64_t fills = in.next();
  if (fills > FilterParameters::kMostFills) {
    return bad("the dataset's parameters of this filter have too many missing values");
  }
  for (uint64_t i = 0; i < fills; ++i) {
    made.fill_values.push_back(in.next_pair());
  }
  const uint64_t rank = in.next();
  if (rank > kAxes) {
    return bad("the dataset's parameters of this filter have too many axes");
  }
  for (uint64_t axis = 0; axis < rank; ++axis) {
    made.shape.push_back(in.next());
  }
  if (!in.used_up() || type >= 2 * kIntegers || made.chunk_bytes() == 0) {
    return bad("the dataset's parameters of this filter make no sense");
  }
  return made;
}

std::vector<unsigned> write_parameters(const FilterParameters& parameters) {
  std::vector<unsigned> out{kComplete,
                            static_cast<unsigned>(parameters.dtype) + (parameters.big_endian ? kBigEndian : 0) +
                                (parameters.integers ? kIntegers : 0),
                            static_cast<unsigned>(parameters.bound.mode)};
  put_pair(out, std::bit_cast<uint64_t>(parameters.bound.value));
  put_pair(out, std::bit_cast<uint64_t>(parameters.bound.second));
  out.push_back(static_cast<unsigned>(parameters.fill_values.size()));
  for (const uint64_t bits : parameters.fill_values) {
    put_pair(out, bits);
  }
  out.push_back(static_cast<unsigned>(parameters.shape.size()));
  for (const uint64_t extent : parameters.shape) {
    out.push_back(static_cast<unsigned>(extent));
  }
  return out;
}

}  // namespace varve::tools
