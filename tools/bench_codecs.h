// What `varve bench` measures: this program's codec and the compressors beside it, behind one interface.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec.h"
#include "fs/thread_pool.h"
#include "tools/bench_fields.h"

namespace varve::tools {

/// A bound as text ("rel:1e-3", "lossless"), and what it is for one field: the same absolute bound for all
/// compressors. 0: lossless.
struct Setting {
  std::string mode;
  double bound = 0;
};

/// Not thread-safe. compress() keeps its result, which the others use.
class Compressor {
 public:
  virtual ~Compressor() = default;
  virtual Status compress(const Field& field, const Setting& setting) = 0;
  /// Writes the field's elements; `out` has room for field.data.size() bytes. `field.data` is not looked at.
  virtual Status decompress(const Field& field, const Setting& setting, std::byte* out) = 0;
  /// All bytes that would be stored.
  virtual size_t stored() const = 0;
  /// The result as bytes, and back, so that another process can decompress it.
  virtual codec::Bytes save() const = 0;
  virtual Status load(std::span<const std::byte> saved) = 0;
};

enum class Purpose : uint8_t { lossy, lossless, psnr };

struct Contender {
  std::string name;
  std::vector<Purpose> purposes;  ///< psnr: compared by PSNR at the same ratio alone
  std::function<std::unique_ptr<Compressor>()> make;
  bool takes(Purpose purpose) const;
};

/// "varve" first, then those found when this program was built.
const std::vector<Contender>& contenders();
/// Nothing: no such name.
const Contender* find_contender(std::string_view name);

/// One of the files bench_*.cpp each.
std::unique_ptr<Compressor> make_varve_compressor();
void add_sz3(std::vector<Contender>& all);
void add_libraries(std::vector<Contender>& all);

/// Memory that nobody has touched yet.
std::unique_ptr<std::byte[]> fresh_memory(size_t size);

/// A compressor whose result is one buffer.
class BufferCompressor : public Compressor {
 public:
  size_t stored() const override { return size_; }
  codec::Bytes save() const override { return {data_.get(), data_.get() + size_}; }
  Status load(std::span<const std::byte> saved) override;

 protected:
  std::unique_ptr<std::byte[]> data_;
  size_t size_ = 0;
};

/// This program's codec on one array in memory, as fs/sealer.cpp and fs/reader.cpp use it: plan, then the tiles.
struct Encoded {
  codec::Bytes header;
  std::vector<std::vector<codec::Record>> tiles;  ///< in key order each
  size_t stored() const;
};

/// `pool`: for more threads, or null.
Result<codec::ArrayCodec> plan(const Field& field, const std::string& mode, fs::ThreadPool* pool = nullptr);
/// `pool`: tiles are encoded in parallel; null: by this thread, in order.
Result<Encoded> encode(const Field& field, const std::string& mode, fs::ThreadPool* pool);
Result<std::vector<codec::Record>> encode_tile(const codec::ArrayCodec& made, const Field& field, uint64_t tile);
/// `out` may be null: the bricks are decoded and forgotten.
Status decode(const Encoded& encoded, fs::ThreadPool* pool, std::byte* out);
/// One brick and the coarse grid that it needs.
Status decode_one_brick(const codec::ArrayCodec& made, const Encoded& encoded, uint64_t brick, std::byte* out);

}  // namespace varve::tools
