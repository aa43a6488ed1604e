#include "codec/container.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <mutex>

#include "codec/bytes.h"
#include "codec/geometry.h"

namespace varve::codec {

namespace {

constexpr std::array<std::byte, 8> kMagic = {std::byte{0x89}, std::byte{'V'},  std::byte{'R'},  std::byte{'V'},
                                             std::byte{'\r'}, std::byte{'\n'}, std::byte{0x1a}, std::byte{'\n'}};
constexpr uint32_t kVersion = 1;
constexpr size_t kFixed = 28;    // magic, version, size of the front, size of the whole
constexpr size_t kChecksum = 8;  // ends the front
constexpr size_t kLeastEntry = 11;

Error bad(std::string_view what) {
  return {EBADMSG, fmt::format("container of an array: {}; restore it from a copy", what)};
}

uint64_t checksum_of(std::span<const std::byte> data) { return XXH3_64bits(data.data(), data.size()); }

/// Coarse first, then levels 2, 1, 0; bricks ascending.
bool comes_before(const RecordId& left, const RecordId& right) {
  return left.level != right.level ? left.level > right.level : left.brick < right.brick;
}

/// Calls body(i) for 0 <= i < count; the error of one of those that fail.
Status for_each(const Parallel& parallel, size_t count, const std::function<Status(size_t)>& body) {
  if (!parallel || count < 2) {
    for (size_t i = 0; i < count; ++i) {
      VARVE_TRY(body(i));
    }
    return {};
  }
  std::mutex mutex;
  Status first;
  parallel(count, [&](size_t i) {
    Status status = body(i);
    if (!status.ok()) {
      const std::lock_guard lock(mutex);
      first = std::move(status);
    }
  });
  return first;
}

Result<EncodedArray> encode_tiles(const ArraySpec& spec, const ReadBox& read) {
  VARVE_ASSIGN(ArrayCodec codec, ArrayCodec::plan(spec, read));
  std::vector<std::vector<Record>> tiles(codec.tile_count());
  VARVE_TRY(for_each(spec.parallel, tiles.size(), [&](size_t tile) -> Status {
    const Box box = codec.tile_box(tile);
    Bytes data(element_count(box.shape) * element_size(spec.dtype));
    VARVE_TRY(read(box, data.data()));
    VARVE_ASSIGN(tiles[tile], codec.encode_tile(tile, data.data()));
    return {};
  }));
  return EncodedArray{std::move(codec), std::move(tiles), {}};
}

Bytes write(const EncodedArray& encoded) {
  std::vector<const Record*> records;
  uint64_t stored = 0;
  for (const auto& tile : encoded.tiles) {
    for (const Record& record : tile) {
      records.push_back(&record);
      stored += record.data.size();
    }
  }
  std::sort(records.begin(), records.end(),
            [](const Record* left, const Record* right) { return comes_before(left->id, right->id); });
  ByteWriter rest;
  const Bytes header = encoded.codec.header();
  rest.put_varint(header.size());
  rest.put_bytes(header);
  rest.put_varint(records.size());
  for (const Record* record : records) {
    rest.put_u8(record->id.level);
    rest.put_varint(record->id.brick);
    rest.put_varint(record->data.size());
    rest.put_u64(checksum_of(record->data));
  }
  const uint64_t front_size = kFixed + rest.size() + kChecksum;
  ByteWriter front;
  front.reserve(front_size + stored);
  front.put_bytes(kMagic);
  front.put_u32(kVersion);
  front.put_u64(front_size);
  front.put_u64(front_size + stored);
  front.put_bytes(rest.take());
  Bytes out = front.take();
  const uint64_t checksum = checksum_of(out);
  const auto raw = std::as_bytes(std::span(&checksum, 1));
  out.insert(out.end(), raw.begin(), raw.end());
  for (const Record* record : records) {
    out.insert(out.end(), record->data.begin(), record->data.end());
  }
  return out;
}

}  // namespace

Result<Bytes> make_container(const ArraySpec& spec) {
  const size_t size = element_size(spec.dtype);
  if (spec.shape.size() <= kMaxRank && size != 0 && spec.elements.size() != element_count(spec.shape) * size) {
    return Error{EINVAL, fmt::format("an array of {} bytes was given where its shape calls for {}",
                                     spec.elements.size(), element_count(spec.shape) * size)};
  }
  const ReadBox read = [&spec, size](const Box& box, std::byte* out) -> Status {
    copy_box(spec.shape, spec.elements.data(), box, size, out);
    return {};
  };
  const bool whole = spec.shape.size() <= kMaxRank && element_count(spec.shape) <= ArrayCodec::kEncodeWhole;
  VARVE_ASSIGN(const EncodedArray encoded, whole ? ArrayCodec::encode_array(spec, read) : encode_tiles(spec, read));
  return write(encoded);
}

Result<Container> Container::open(std::span<const std::byte> data) {
  ByteReader in(data);
  const auto magic = in.get_bytes(kMagic.size());
  if (in.failed() || !std::equal(magic.begin(), magic.end(), kMagic.begin())) {
    return Error{EBADMSG, "these bytes are no container of an array: they begin with something else"};
  }
  if (const uint32_t version = in.get_u32(); version != kVersion) {
    return bad(fmt::format("its version is {}, this program knows version {}", version, kVersion));
  }
  const uint64_t front_size = in.get_u64();
  const uint64_t size = in.get_u64();
  if (in.failed() || front_size < kFixed + kChecksum || front_size > data.size() || size < data.size()) {
    return bad(
        fmt::format("there are {} bytes where its front takes {} and all of it {}", data.size(), front_size, size));
  }
  const auto front = data.first(front_size - kChecksum);
  if (ByteReader(data.subspan(front.size(), kChecksum)).get_u64() != checksum_of(front)) {
    return bad("the checksum of its front is wrong");
  }
  ByteReader rest(front.subspan(kFixed));
  const auto header = rest.get_bytes(rest.get_varint());
  if (rest.failed()) {
    return bad("its header is cut short");
  }
  VARVE_ASSIGN(ArrayCodec codec, ArrayCodec::parse(header));
  Container made(std::move(codec));
  made.data_ = data;
  made.front_ = front_size;
  VARVE_TRY(made.read_directory(rest.get_bytes(rest.left())));
  if (made.size() != size) {
    return bad(fmt::format("its parts take {} bytes and not {}", made.size(), size));
  }
  return made;
}

Status Container::read_directory(std::span<const std::byte> directory) {
  ByteReader in(directory);
  const uint64_t count = in.get_varint();
  if (in.failed() || count > in.left() / kLeastEntry) {
    return bad("its directory is cut short");
  }
  entries_.reserve(count);
  const uint64_t tiles = codec_.tile_count();
  const uint64_t bricks = codec_.brick_count();
  uint64_t coarse = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Entry entry;
    entry.id.level = in.get_u8();
    entry.id.brick = in.get_varint();
    entry.size = in.get_varint();
    entry.checksum = in.get_u64();
    entry.offset = front_ + stored_;
    const bool is_coarse = entry.id.level == kCoarseLevel;
    if (in.failed() || entry.id.level > kCoarseLevel || entry.id.brick >= (is_coarse ? tiles : bricks) ||
        (!entries_.empty() && !comes_before(entries_.back().id, entry.id)) || entry.size > (uint64_t{1} << 48) ||
        stored_ > (uint64_t{1} << 62)) {
      return bad(fmt::format("entry {} of its directory makes no sense", i));
    }
    stored_ += entry.size;
    coarse += is_coarse ? 1 : 0;
    entries_.push_back(entry);
  }
  if (in.left() != 0) {
    return bad("there are bytes after its directory");
  }
  if (coarse != tiles) {
    return bad(fmt::format("it has coarse records of {} tiles where its shape has {}", coarse, tiles));
  }
  return {};
}

uint64_t Container::prefix(uint8_t level) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->id.level >= codec_.finest_read(level)) {
      return entry->offset + entry->size;
    }
  }
  return front_;
}

const Container::Entry* Container::find(const RecordId& id) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), id,
                       [](const Entry& entry, const RecordId& sought) { return comes_before(entry.id, sought); });
  return found != entries_.end() && found->id == id ? &*found : nullptr;
}

Result<std::span<const std::byte>> Container::record(const Entry& entry) const {
  if (entry.offset > data_.size() || entry.size > data_.size() - entry.offset) {
    return bad(fmt::format("it is cut short: level {} of brick {} ends at byte {} and there are {}", entry.id.level,
                           entry.id.brick, entry.offset + entry.size, data_.size()));
  }
  const auto bytes = data_.subspan(entry.offset, entry.size);
  if (checksum_of(bytes) != entry.checksum) {
    return bad(fmt::format("the checksum of level {} of brick {} is wrong", entry.id.level, entry.id.brick));
  }
  return bytes;
}

Status Container::decode_part(uint64_t brick, const CoarseGrid& coarse, uint8_t finest, const Box& box,
                              std::byte* out) const {
  std::array<std::optional<std::span<const std::byte>>, 3> levels;
  for (uint8_t level = codec_.finest_read(finest); level < kCoarseLevel; ++level) {
    if (const Entry* const entry = find({level, brick}); entry != nullptr) {
      VARVE_ASSIGN(levels.at(level), record(*entry));
    }
  }
  const Box brick_box = codec_.brick_box(brick);
  const Box part = intersection(brick_box, box);
  if (part == brick_box) {
    return codec_.decode_brick_into(brick, coarse, levels, finest, box, out);
  }
  const size_t size = element_size(codec_.dtype());
  Bytes whole(element_count(brick_box.shape) * size);
  VARVE_TRY(codec_.decode_brick(brick, coarse, levels, finest, whole.data()));
  Box within = part;
  for (size_t axis = 0; axis < part.origin.size(); ++axis) {
    within.origin[axis] -= brick_box.origin[axis];
  }
  Bytes wanted(element_count(part.shape) * size);
  copy_box(brick_box.shape, whole.data(), within, size, wanted.data());
  const std::byte* from = wanted.data();
  for_each_run(part, box.origin, box.shape, [&](uint64_t first, uint64_t count) {
    std::copy_n(from, count * size, out + first * size);
    from += count * size;
  });
  return {};
}

Status Container::decode(const Box& box, uint8_t finest, std::byte* out, const Parallel& parallel) const {
  if (!contains({Extents(codec_.shape().size(), 0), codec_.shape()}, box)) {
    return Error{EINVAL, "the box does not lie in the array"};
  }
  if (finest > kCoarseLevel) {
    return Error{EINVAL, fmt::format("there is no level {}: levels are 0 (all points) to 3", finest)};
  }
  const std::vector<uint64_t> bricks = codec_.bricks_in(box);
  std::vector<uint64_t> tiles;
  tiles.reserve(bricks.size());
  for (const uint64_t brick : bricks) {
    tiles.push_back(codec_.tile_of(brick));
  }
  std::sort(tiles.begin(), tiles.end());
  tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
  std::vector<CoarseGrid> grids(tiles.size());
  VARVE_TRY(for_each(parallel, tiles.size(), [&](size_t i) -> Status {
    const Entry* const entry = find({kCoarseLevel, tiles[i]});
    if (entry == nullptr) {
      return bad(fmt::format("tile {} has no coarse record", tiles[i]));
    }
    VARVE_ASSIGN(const auto bytes, record(*entry));
    VARVE_ASSIGN(grids[i], codec_.decode_coarse(tiles[i], bytes));
    return {};
  }));
  return for_each(parallel, bricks.size(), [&](size_t i) -> Status {
    const uint64_t tile = codec_.tile_of(bricks[i]);
    const auto grid = static_cast<size_t>(std::lower_bound(tiles.begin(), tiles.end(), tile) - tiles.begin());
    return decode_part(bricks[i], grids[grid], finest, box, out);
  });
}

Status Container::verify() const {
  for (const Entry& entry : entries_) {
    if (const auto bytes = record(entry); !bytes.ok()) {
      return bytes.error();
    }
  }
  return {};
}

}  // namespace varve::codec
