// Compares a file with its original: array elements under their bounds, all other bytes exactly. Streams; memory is
// bounded whatever the size of the files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/extremes.h"
#include "codec/types.h"
#include "fs/formats/recogniser.h"

namespace varve::tools {

/// A file on a disk or in a mount, read by pread.
class PlainFile : public fs::FileView {
 public:
  /// How it will be read: from the first byte to the last, or here and there, where reading ahead would be in vain.
  enum class Access : uint8_t { sequential, scattered };
  static Result<std::unique_ptr<PlainFile>> open(const std::string& path, Access access = Access::sequential);
  /// Takes over a descriptor; `path` is for errors.
  static Result<std::unique_ptr<PlainFile>> adopt(int descriptor, const std::string& path,
                                                  Access access = Access::sequential);
  ~PlainFile() override;
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override;

 private:
  PlainFile(int descriptor, uint64_t size, std::string path, Access access)
      : descriptor_(descriptor), size_(size), access_(access), path_(std::move(path)) {}
  /// pread past the page cache, for bytes that are sound in a page that is not: a page of a mounted file may span
  /// several bricks, one of them damaged. -1 and EIO where that does not work either.
  ssize_t read_exactly(uint64_t offset, std::span<std::byte> out) const;
  int descriptor_;
  uint64_t size_;
  Access access_;
  std::string path_;
};

/// What an array is held to.
struct Demand {
  codec::Bound bound;                    ///< lossless: bit for bit
  std::optional<double> absolute_bound;  ///< what the mount says that each element keeps; checked besides `bound`
};

struct ArrayVerdict {
  Demand demand;
  uint64_t elements = 0;
  uint64_t changed = 0;  ///< elements whose bits differ
  /// Elements that must be bit-equal: NaN, Inf, -0.0, fill values; zeros too where signs and zeros are exact (pwrel,
  /// bits)
  uint64_t exact = 0;
  uint64_t exact_changed = 0;    ///< of those, and of those that became one
  uint64_t beyond = 0;           ///< elements that moved further than pwrel or bits lets them
  double max_error = 0;          ///< over finite elements
  uint64_t max_error_index = 0;  ///< in file order within the array
  codec::Lowest<double> low;     ///< of the original's finite elements that are no fill values
  codec::Highest<double> high;
  double min = 0, max = 0;  ///< of those that do not stand for missing values undeclared (codec/extremes.h)
  uint64_t finite = 0;      ///< how many these are
  double squares = 0;       ///< sum of squared errors
  double limit = 0;         ///< the absolute bound that held it; infinity: none did (pwrel, psnr, bits)
  bool kept = false;

  /// In decibels, of the value range; nothing if no value moved.
  std::optional<double> psnr() const;
};

struct Comparison {
  std::vector<ArrayVerdict> arrays;  ///< as in Recognised
  uint64_t bytes = 0;                ///< outside arrays, padding of edge chunks included
  uint64_t bytes_different = 0;
  uint64_t first_difference = 0;  ///< file offset
  uint64_t original_size = 0, copy_size = 0;
  bool kept() const;
};

/// `arrays` must be checked to lie inside `original` (as recognise() does); `demands`: one each. `advance` is called
/// with the bytes compared. Errors: what the files' reads return.
Result<Comparison> compare(fs::FileView& original, fs::FileView& copy, const std::vector<fs::ArrayRegion>& arrays,
                           const std::vector<Demand>& demands, const std::function<void(uint64_t)>& advance);

}  // namespace varve::tools
