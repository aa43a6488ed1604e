#include "fs/formats/zip.h"

#include <fmt/format.h>

#include "fs/formats/binary.h"

namespace varve::fs {

namespace {

constexpr std::string_view kLocal = "PK\3\4", kEntry = "PK\1\2", kEnd = "PK\5\6", kEnd64 = "PK\6\6",
                           kLocator = "PK\6\7";
constexpr size_t kLocalSize = 30, kEntrySize = 46, kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20;
constexpr size_t kLongestComment = 65535;
constexpr uint64_t kLongestDirectory = uint64_t{64} << 20;
constexpr uint16_t kExtra64 = 1;      // an extra field with numbers of 64 bits
constexpr uint32_t kElsewhere = ~0U;  // instead of a number that is in that field
constexpr uint16_t kEncrypted = 1U;

using Bytes = std::span<const std::byte>;

Error malformed(std::string_view why) {
  return Error{EBADMSG, fmt::format("the ZIP archive cannot be read: {}; the file is kept as bytes", why)};
}

bool starts_with(Bytes bytes, std::string_view signature) {
  return bytes.size() >= signature.size() && std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
}

uint16_t short_at(Bytes bytes, size_t offset) { return load<uint16_t>(bytes, offset, false); }
uint32_t word_at(Bytes bytes, size_t offset) { return load<uint32_t>(bytes, offset, false); }
uint64_t long_at(Bytes bytes, size_t offset) { return load<uint64_t>(bytes, offset, false); }

struct Directory {
  uint64_t offset = 0, size = 0;
};

/// The record of ZIP64 that a locator just before `end` points to; nothing: there is none.
Result<std::optional<Directory>> directory64(FileView& file, uint64_t end) {
  if (end < kLocatorSize) {
    return std::optional<Directory>();
  }
  VARVE_ASSIGN(const auto locator, read_exactly(file, end - kLocatorSize, kLocatorSize));
  if (!starts_with(locator, kLocator)) {
    return std::optional<Directory>();
  }
  VARVE_ASSIGN(const auto record, read_exactly(file, long_at(locator, 8), kEnd64Size));
  if (!starts_with(record, kEnd64)) {
    return malformed("the end of its directory (ZIP64) is not where it should be");
  }
  return std::optional(Directory{long_at(record, 48), long_at(record, 40)});
}

Result<Directory> find_directory(FileView& file) {
  const uint64_t length = std::min<uint64_t>(file.size(), kEndSize + kLongestComment);
  const uint64_t begin = file.size() - length;
  VARVE_ASSIGN(const auto tail, read_exactly(file, begin, length));
  for (size_t end = tail.size(); end >= kEndSize; --end) {
    const Bytes record = Bytes(tail).subspan(end - kEndSize);
    if (starts_with(record, kEnd) && short_at(record, 20) == record.size() - kEndSize) {
      VARVE_ASSIGN(const auto found, directory64(file, begin + end - kEndSize));
      return found ? *found : Directory{word_at(record, 16), word_at(record, 12)};
    }
  }
  return malformed("it has no directory at its end");
}

/// Numbers of an entry that did not fit into 32 bits, in the order in which they are there.
void add_long_numbers(Bytes extra, std::initializer_list<uint64_t*> numbers) {
  while (extra.size() >= 4) {
    const uint16_t kind = short_at(extra, 0);
    const size_t size = std::min<size_t>(short_at(extra, 2), extra.size() - 4);
    Bytes field = extra.subspan(4, size);
    if (kind == kExtra64) {
      for (uint64_t* number : numbers) {
        if (*number == kElsewhere && field.size() >= 8) {
          *number = long_at(field, 0);
          field = field.subspan(8);
        }
      }
      return;
    }
    extra = extra.subspan(4 + size);
  }
}

}  // namespace

std::string_view first_zip_member(const Candidate& candidate) {
  if (!candidate.has(0, kLocal) || candidate.start.size() < kLocalSize) {
    return {};
  }
  const size_t length = std::min<size_t>(short_at(candidate.start, 26), candidate.start.size() - kLocalSize);
  return {reinterpret_cast<const char*>(candidate.start.data()) + kLocalSize, length};
}

Result<std::vector<ZipMember>> read_zip_directory(FileView& file) {
  VARVE_ASSIGN(const Directory place, find_directory(file));
  if (place.size > kLongestDirectory || place.size > file.size() || place.offset > file.size() - place.size) {
    return malformed(
        fmt::format("its directory of {} bytes at {} is too long or not in the file", place.size, place.offset));
  }
  VARVE_ASSIGN(const auto bytes, read_exactly(file, place.offset, place.size));
  std::vector<ZipMember> members;
  for (Bytes rest = bytes; !rest.empty();) {
    if (rest.size() < kEntrySize || !starts_with(rest, kEntry)) {
      return malformed("its directory has something else than entries");
    }
    const size_t name = short_at(rest, 28), extra = short_at(rest, 30), comment = short_at(rest, 32);
    if (rest.size() - kEntrySize < name + extra + comment) {
      return malformed("its directory ends within an entry");
    }
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(rest.data()) + kEntrySize, name);
    uint64_t whole = word_at(rest, 24);
    member.size = word_at(rest, 20);
    member.header = word_at(rest, 42);
    add_long_numbers(rest.subspan(kEntrySize + name, extra), {&whole, &member.size, &member.header});
    member.stored = (short_at(rest, 8) & kEncrypted) == 0 && short_at(rest, 10) == 0 && member.size == whole;
    members.push_back(std::move(member));
    rest = rest.subspan(kEntrySize + name + extra + comment);
  }
  return members;
}

Result<uint64_t> zip_data_offset(FileView& file, const ZipMember& member) {
  VARVE_ASSIGN(const auto header, read_exactly(file, member.header, kLocalSize));
  const size_t name = short_at(header, 26);
  const uint64_t offset = member.header + kLocalSize + name + short_at(header, 28);
  if (!starts_with(header, kLocal) || name != member.name.size() || offset > file.size() ||
      member.size > file.size() - offset) {
    return malformed(fmt::format("its member {} is not where the directory says", member.name));
  }
  return offset;
}

}  // namespace varve::fs
