// Every decoder of codec/ on bytes that nobody vouches for. The first byte of an input says for whom the rest is.
// Whatever comes, a decoder answers with success or EBADMSG and a sentence, answers the same when asked again, writes
// into its output alone, and allocates no more than the sizes that its input declares call for.
#include <malloc.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>

#include "codec/bytes.h"
#include "codec/codec.h"
#include "codec/container.h"

// ---- a count of the bytes on the heap -------------------------------------------------------------------------------

namespace {

int64_t held = 0;  // bytes from operator new; the decoders start no threads
int64_t peak = 0;

void* allocate(size_t size, size_t alignment) {
  void* memory = alignment == 0 ? std::malloc(std::max<size_t>(size, 1))
                                : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    std::fprintf(stderr, "broken: %zu bytes were asked for\n", size);
    std::abort();
  }
  held += static_cast<int64_t>(malloc_usable_size(memory));
  peak = std::max(peak, held);
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) {
    held -= static_cast<int64_t>(malloc_usable_size(memory));
    std::free(memory);
  }
}

}  // namespace

void* operator new(size_t size) { return allocate(size, 0); }
void* operator new[](size_t size) { return allocate(size, 0); }
void* operator new(size_t size, std::align_val_t alignment) { return allocate(size, static_cast<size_t>(alignment)); }
void* operator new[](size_t size, std::align_val_t alignment) { return allocate(size, static_cast<size_t>(alignment)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { release(memory); }

namespace varve::codec {
namespace {

/// Larger ones are left alone: they would only take time.
constexpr uint64_t kMostTileElements = 1U << 20;
constexpr uint64_t kMostBrickElements = 1U << 15;
constexpr size_t kMostTiles = 2;
constexpr size_t kMostBricks = 8;

/// An input that breaks a promise ends the program.
void must(bool holds, const char* promise) {
  if (!holds) {
    std::fprintf(stderr, "broken: %s\n", promise);
    std::abort();
  }
}

void must_be_refusal(const Error& error) {
  must(error.code == EBADMSG && !error.text.empty(), "a refusal is EBADMSG with a sentence");
}

/// Calls `work`, which may hold at most `limit` bytes more than were held before.
template <typename Work>
auto within_bytes(uint64_t limit, Work work) {
  const int64_t before = held;
  peak = held;
  auto result = work();
  if (peak - before > static_cast<int64_t>(limit)) {
    std::fprintf(stderr, "%lld bytes were allocated, %llu are allowed\n", static_cast<long long>(peak - before),
                 static_cast<unsigned long long>(limit));
    must(false, "allocations are bounded by what the input declares");
  }
  return result;
}

// What decoders need beside their output: tables; codes, activities and values of elements; parts of records.
constexpr uint64_t kForTables = uint64_t{4} << 20;
constexpr uint64_t kForScratch = uint64_t{1} << 20;
constexpr uint64_t kAnElement = 64;
constexpr uint64_t kARecordByte = 16;

Result<ArrayCodec> parse(std::span<const std::byte> header) {
  auto codec = within_bytes(kForTables + kARecordByte * header.size(), [&] { return ArrayCodec::parse(header); });
  if (!codec.ok()) {
    must_be_refusal(codec.error());
    return codec;
  }
  const Bytes form = codec->header();
  const auto again = ArrayCodec::parse(form);
  must(again.ok() && again->header() == form, "a header survives parsing");
  return codec;
}

/// The array lies in its shape.
void check_box(const ArrayCodec& codec, const Box& box) {
  const Extents& shape = codec.shape();
  must(box.origin.size() == shape.size() && box.shape.size() == shape.size(), "a box has the rank of its array");
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    must(box.origin[axis] <= shape[axis] && box.shape[axis] <= shape[axis] - box.origin[axis],
         "a box lies in its array");
  }
}

void check_geometry(const ArrayCodec& codec) {
  must(element_size(codec.dtype()) > 0 && codec.shape().size() <= kMaxRank, "a header names a type and a shape");
  static_cast<void>(codec.info());
  if (codec.tile_count() == 0) {
    must(codec.brick_count() == 0 && element_count(codec.shape()) == 0, "an array without tiles is empty");
    return;
  }
  for (const uint64_t tile : {uint64_t{0}, codec.tile_count() - 1}) {
    check_box(codec, codec.tile_box(tile));
  }
  for (const uint64_t brick : {uint64_t{0}, codec.brick_count() - 1}) {
    check_box(codec, codec.brick_box(brick));
    must(codec.tile_of(brick) < codec.tile_count(), "a brick lies in a tile");
    must(codec.records_of(brick).size() <= 4, "a brick has at most four records");
  }
}

using Store = std::map<std::pair<uint8_t, uint64_t>, std::span<const std::byte>>;

Store read_store(ByteReader& in) {
  Store store;
  while (in.left() > 0) {
    const uint8_t level = in.get_u8();
    const uint64_t brick = in.get_varint();
    const auto record = in.get_bytes(in.get_varint());
    if (in.failed()) {
      break;
    }
    store[{level, brick}] = record;
  }
  return store;
}

void decode_brick(const ArrayCodec& codec, uint64_t brick, const CoarseGrid& coarse, const Store& store) {
  std::array<std::optional<std::span<const std::byte>>, 3> levels;
  uint64_t stored = 0;
  for (uint8_t level = 0; level < kCoarseLevel; ++level) {
    if (const auto found = store.find({level, brick}); found != store.end()) {
      levels.at(level) = found->second;
      stored += found->second.size();
    }
  }
  const uint64_t elements = element_count(codec.brick_box(brick).shape);
  if (elements > kMostBrickElements) {
    return;
  }
  for (uint8_t finest = 0; finest <= kCoarseLevel; ++finest) {
    Bytes out(elements * element_size(codec.dtype()));  // to the byte, so that a sanitizer sees what lies beyond
    Bytes again(out.size());
    const uint64_t limit = kForScratch + kAnElement * elements + kARecordByte * stored;
    const auto status =
        within_bytes(limit, [&] { return codec.decode_brick(brick, coarse, levels, finest, out.data()); });
    const auto second = codec.decode_brick(brick, coarse, levels, finest, again.data());
    must(status.ok() == second.ok(), "the same records are as good as before");
    if (status.ok()) {
      must(out == again, "the same records decode to the same bytes");
    } else {
      must_be_refusal(status.error());
    }
  }
}

void decode_tile(const ArrayCodec& codec, uint64_t tile, std::span<const std::byte> record, const Store& store) {
  const uint64_t elements = element_count(codec.tile_box(tile).shape);
  if (elements > kMostTileElements) {
    return;
  }
  const uint64_t limit = kForScratch + kAnElement * elements + kARecordByte * record.size();
  const auto coarse = within_bytes(limit, [&] { return codec.decode_coarse(tile, record); });
  if (!coarse.ok()) {
    must_be_refusal(coarse.error());
    return;
  }
  const auto bricks = codec.bricks_of(tile);
  for (size_t i = 0; i < std::min(bricks.size(), kMostBricks); ++i) {
    check_box(codec, codec.brick_box(bricks[i]));
    must(codec.tile_of(bricks[i]) == tile, "a tile's brick lies in it");
    decode_brick(codec, bricks[i], *coarse, store);
  }
}

/// A header behind its length, then records as in the golden files.
void fuzz_array(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto codec = parse(in.get_bytes(in.get_varint()));
  if (!codec.ok()) {
    return;
  }
  check_geometry(*codec);
  const Store store = read_store(in);
  size_t tiles = 0;
  for (const auto& [id, record] : store) {
    if (id.first == kCoarseLevel && id.second < codec->tile_count() && tiles++ < kMostTiles) {
      decode_tile(*codec, id.second, record, store);
    }
  }
}

/// A container. Its front gets the checksum that it should have, so that what that guards is tried as well.
void fuzz_container(std::span<const std::byte> bytes) {
  constexpr size_t kChecksum = 8;
  Bytes data(bytes.begin(), bytes.end());
  ByteReader in(data);
  in.get_bytes(12);
  if (const uint64_t front = in.get_u64(); front >= kChecksum && front <= data.size()) {
    const uint64_t checksum = XXH3_64bits(data.data(), front - kChecksum);
    std::memcpy(data.data() + front - kChecksum, &checksum, kChecksum);
  }
  const auto container = within_bytes(kForTables + kARecordByte * data.size(), [&] { return Container::open(data); });
  if (!container.ok()) {
    must_be_refusal(container.error());
    return;
  }
  static_cast<void>(container->verify());
  must(container->size() >= data.size() && container->prefix(0) <= container->size(), "a container has its size");
  const Extents& shape = container->codec().shape();
  Box box{Extents(shape.size(), 0), shape};
  if (element_count(shape) > kMostBrickElements) {  // a corner
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      box.origin[axis] = shape[axis] > 1 ? 1 : 0;
      box.shape[axis] = std::min<uint64_t>(shape[axis] - box.origin[axis], 2);
    }
  }
  if (shape.size() > 8 || (container->codec().tile_count() > 0 &&
                           element_count(container->codec().tile_box(0).shape) > kMostTileElements)) {
    return;
  }
  for (uint8_t level = 0; level <= kCoarseLevel; ++level) {
    Bytes out(element_count(box.shape) * element_size(container->codec().dtype()));
    Bytes again(out.size());
    const auto status = container->decode(box, level, out.data());
    must(status.ok() == container->decode(box, level, again.data()).ok(), "the same records are as good as before");
    if (status.ok()) {
      must(out == again, "the same container decodes to the same bytes");
    } else {
      must_be_refusal(status.error());
    }
  }
}

/// How many bytes are expected, then the record.
void fuzz_bytes(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const uint64_t size = in.get_u16();
  const auto record = in.get_bytes(in.left());
  Bytes out(size);
  const auto status = within_bytes(kForScratch, [&] { return decode_bytes(record, out); });
  if (!status.ok()) {
    must_be_refusal(status.error());
  }
  Bytes back(record.size());
  const Bytes encoded = encode_bytes(record);
  must(decode_bytes(encoded, back).ok() && std::equal(back.begin(), back.end(), record.begin(), record.end()),
       "bytes survive");
  back.push_back({});
  must(!decode_bytes(encoded, back).ok(), "a record of another size is refused");
}

}  // namespace
}  // namespace varve::codec

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve::codec;
  if (size == 0) {
    return 0;
  }
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'a':
      fuzz_array(bytes);
      break;
    case 'b':
      fuzz_bytes(bytes);
      break;
    case 'c':
      fuzz_container(bytes);
      break;
    case 'h': {
      if (const auto codec = parse(bytes); codec.ok()) {
        check_geometry(*codec);
      }
      break;
    }
    default:
      break;
  }
  return 0;
}
