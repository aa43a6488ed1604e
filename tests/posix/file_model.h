// What a file of a mount must hold, in memory. After a seal under a bound, elements that were written since the seal
// before may have moved within it, once; every other byte is as it was.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve::posix {

using Bytes = std::vector<uint8_t>;

struct Bound {
  enum class Kind { lossless, absolute, relative, pointwise, mantissa };
  Kind kind = Kind::lossless;
  double value = 0;

  /// May `wrote` be read as `read`? `range`: of the array; `least_normal`: of its type.
  bool allows(double wrote, double read, double range, double least_normal) const;
};

/// A run of floating-point elements in a file; `size` 4 or 8 bytes each. Integers are exact, as all other bytes are.
struct Span {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t size = 4;
};

struct Difference {
  uint64_t offset = 0;  ///< first byte that should not differ
  uint64_t count = 0;   ///< bytes of what was compared that differ in any way
  uint64_t last_write = 0;
  std::string text;
};

/// How what was read is compared.
enum class Expect {
  exact,    ///< nothing has been sealed since it was written
  sealing,  ///< a seal may have ended or not
  sealed,   ///< of the whole file: it has ended
};

class FileModel {
 public:
  FileModel(uint64_t number, Bound bound) : number(number), bound_(bound) {}

  const uint64_t number;
  unsigned links = 1;
  unsigned writers = 0;    ///< descriptions open for writing, those that only a map holds included
  bool changed = false;    ///< since the last seal
  bool lossy = false;      ///< the last seal moved elements
  double last_change = 0;  ///< seconds of the monotonic clock

  uint64_t size() const { return data_.size(); }
  std::span<const uint8_t> bytes(uint64_t offset, uint64_t length) const;
  Bound bound() const { return bound_; }
  void set_spans(std::vector<Span> spans) { spans_ = std::move(spans); }
  const std::vector<Span>& spans() const { return spans_; }
  /// Without a writer it is sealed some time soon, at the next open at the latest.
  bool sealing() const { return changed && writers == 0 && links > 0; }
  Expect expected() const { return sealing() || uncertain_ ? Expect::sealing : Expect::exact; }
  /// A file without a name is not sealed any more; if it was about to be, nobody knows whether it was.
  void drop_link() {
    uncertain_ = uncertain_ || (links == 1 && sealing());
    --links;
  }

  void write(uint64_t offset, std::span<const uint8_t> data, uint64_t operation);
  void zero(uint64_t offset, uint64_t length, uint64_t operation);
  void resize(uint64_t size, uint64_t operation);
  /// The bytes of a range were written as they are.
  void rewritten(uint64_t begin, uint64_t end);
  /// It became a copy that shares what is stored of the other: nothing may move.
  void become(const FileModel& other, uint64_t operation);

  /// The first byte that differs and may not.
  std::optional<Difference> compare(uint64_t offset, std::span<const uint8_t> got, Expect expect) const;
  /// Takes the whole content, which compare() accepted, for what every later read must give. `ended`: the seal has
  /// ended; else what did not move still may.
  void take(std::span<const uint8_t> got, bool ended);

 private:
  void note_change(uint64_t begin, uint64_t end, uint64_t operation);
  const Span* span_at(uint64_t offset) const;
  double range() const;
  std::optional<std::string> refuse(uint64_t element, const Span& span, std::span<const uint8_t> got,
                                    double range) const;

  Bound bound_;
  bool uncertain_ = false;
  std::vector<Span> spans_;
  Bytes data_;
  std::vector<uint8_t> fresh_;    ///< was written since the last seal
  std::vector<uint32_t> writer_;  ///< the operation that wrote it last
  double greatest_range_ = 0;
};

}  // namespace varve::posix
