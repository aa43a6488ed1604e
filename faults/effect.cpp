#include "faults/effect.h"

#include <algorithm>
#include <cstring>

namespace varve::faults {
namespace {

std::vector<std::byte> noted(std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min(bytes.size(), kMostNoted));
  return {bytes.begin(), bytes.end()};
}

/// The part of an edit that lies in [offset, offset + size), as a range of it.
struct Part {
  size_t from_start = 0;  ///< of the edit
  size_t at = 0;          ///< in the buffer
  size_t length = 0;
};
Part part_of(const Edit& edit, uint64_t offset, size_t size) {
  const uint64_t begin = std::max(edit.offset, offset);
  const uint64_t end = std::min(edit.offset + edit.length, offset + size);
  if (begin >= end) {
    return {};
  }
  return {static_cast<size_t>(begin - edit.offset), static_cast<size_t>(begin - offset),
          static_cast<size_t>(end - begin)};
}

void lay(const Edit& edit, const Part& part, std::span<std::byte> data) {
  if (edit.from == Edit::From::fill) {
    std::memset(data.data() + part.at, edit.fill, part.length);
  } else if (part.from_start + part.length <= edit.bytes.size()) {
    std::memcpy(data.data() + part.at, edit.bytes.data() + part.from_start, part.length);
  }
}

}  // namespace

Result<std::vector<std::byte>> read_padded(Medium& file, uint64_t offset, uint64_t length) {
  std::vector<std::byte> bytes(length);
  VARVE_ASSIGN(const size_t got, file.read(offset, bytes));
  std::memset(bytes.data() + got, 0, bytes.size() - got);
  return bytes;
}

std::vector<Edit> edits_of(const std::map<uint64_t, std::byte>& changes) {
  std::vector<Edit> edits;
  for (const auto& [offset, byte] : changes) {
    if (edits.empty() || edits.back().offset + edits.back().length != offset) {
      edits.emplace_back();
      edits.back().offset = offset;
    }
    edits.back().bytes.push_back(byte);
    ++edits.back().length;
  }
  return edits;
}

Result<Stored> stored_instead(Effect& effect, uint64_t offset, std::span<const std::byte> data, Medium& file) {
  data = data.first(std::min<uint64_t>(data.size(), effect.count.value_or(data.size())));
  Stored stored{offset + static_cast<uint64_t>(effect.moved), {data.begin(), data.end()}};
  VARVE_ASSIGN(const uint64_t end, file.size());
  uint64_t persisted = offset;  // the last byte that makes it
  std::vector<bool> lost(effect.edits.empty() ? 0 : data.size());
  for (Edit& edit : effect.edits) {
    const Part part = part_of(edit, offset, data.size());
    edit.was = noted(data.subspan(part.at, part.length));
    if (part.length == 0) {
      continue;
    }
    if (edit.from != Edit::From::old) {
      lay(edit, part, stored.data);
      continue;
    }
    VARVE_ASSIGN(const auto before, read_padded(file, offset + part.at, part.length));
    edit.bytes = noted(before);
    std::memcpy(stored.data.data() + part.at, before.data(), part.length);
    std::fill_n(lost.begin() + static_cast<std::ptrdiff_t>(part.at), part.length, true);
  }
  for (size_t i = data.size(); i > 0 && !lost.empty() && persisted == offset; --i) {
    persisted = lost[i - 1] ? offset : offset + i;
  }
  if (!lost.empty() && !effect.grows && !file.only_appends()) {
    // Past the old end only what persisted is there.
    const uint64_t stop = std::max(persisted, std::min(end, offset + data.size()));
    stored.data.resize(stop > offset ? stop - offset : 0);
  }
  return stored;
}

void change_read(Effect& effect, uint64_t offset, std::span<std::byte> data) {
  for (Edit& edit : effect.edits) {
    const Part part = part_of(edit, offset, data.size());
    edit.was = noted(data.subspan(part.at, part.length));
    if (edit.from != Edit::From::old && part.length > 0) {
      lay(edit, part, data);
    }
  }
}

Status change_stored(Effect& effect, Medium& file) {
  for (Edit& edit : effect.edits) {
    VARVE_ASSIGN(std::vector<std::byte> bytes, read_padded(file, edit.offset, edit.length));
    edit.was = noted(bytes);
    if (edit.from != Edit::From::old) {
      lay(edit, {0, 0, bytes.size()}, bytes);
      VARVE_TRY(file.write(edit.offset, bytes));
    }
  }
  return {};
}

}  // namespace varve::faults
