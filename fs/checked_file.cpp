#include "fs/checked_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace varve::fs {

namespace {

constexpr uint64_t kNever = 0;

uint64_t sum_of(const std::byte* block) {
  const uint64_t sum = XXH3_64bits(block, CheckedFile::kBlock);
  return sum == kNever ? 1 : sum;
}

bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

CheckedFile::CheckedFile(std::unique_ptr<index::DeviceFile> file, std::string name, uint64_t unknown_below)
    : file_(std::move(file)), name_(std::move(name)), unknown_below_((unknown_below + kBlock - 1) / kBlock) {}

uint64_t CheckedFile::sum(uint64_t block) const {
  const auto group = sums_.find(block / kGroup);
  return group == sums_.end() ? kNever : (*group->second)[block % kGroup];
}

void CheckedFile::set_sum(uint64_t block, uint64_t sum) {
  auto& group = sums_[block / kGroup];
  if (!group) {
    group = std::make_unique<Sums>();
  }
  (*group)[block % kGroup] = sum;
}

Status CheckedFile::check(uint64_t block, std::span<const std::byte, kBlock> bytes) const {
  const uint64_t expected = sum(block);
  const bool good = expected != kNever ? sum_of(bytes.data()) == expected : block < unknown_below_ || all_zero(bytes);
  if (good) {
    return {};
  }
  return Error{EIO, fmt::format("{}: bytes {} to {} are not what was written there; the drive lost or changed them. "
                                "Write them again, and check the drive",
                                name_, block * kBlock, (block + 1) * kBlock - 1)};
}

Status CheckedFile::read_whole(uint64_t block, std::span<std::byte> out) const {
  VARVE_ASSIGN(const size_t got, file_->read(block * kBlock, out));
  std::memset(out.data() + got, 0, out.size() - got);
  for (size_t at = 0; at < out.size(); at += kBlock, ++block) {
    VARVE_TRY(check(block, std::span<const std::byte, kBlock>(out.data() + at, kBlock)));
  }
  return {};
}

Status CheckedFile::read_block(uint64_t block, Block& out) const {
  if (sum(block) == kNever && block >= unknown_below_) {
    out.fill(std::byte{0});
    return {};
  }
  return read_whole(block, out);
}

Status CheckedFile::read(uint64_t offset, std::span<std::byte> out) const {
  const auto part = [&](size_t length) -> Status {  // of one block
    Block bytes;
    VARVE_TRY(read_whole(offset / kBlock, bytes));
    std::memcpy(out.data(), bytes.data() + offset % kBlock, length);
    offset += length;
    out = out.subspan(length);
    return {};
  };
  if (offset % kBlock != 0 && !out.empty()) {
    VARVE_TRY(part(std::min<uint64_t>(kBlock - offset % kBlock, out.size())));
  }
  if (const size_t whole = out.size() / kBlock * kBlock; whole > 0) {
    VARVE_TRY(read_whole(offset / kBlock, out.first(whole)));
    offset += whole;
    out = out.subspan(whole);
  }
  return out.empty() ? Status() : part(out.size());
}

template <typename Change>
Result<uint64_t> CheckedFile::changed_sum(uint64_t block, Change&& change) const {
  Block bytes;
  VARVE_TRY(read_block(block, bytes));
  change(bytes);
  return sum_of(bytes.data());
}

Status CheckedFile::write(uint64_t offset, std::span<const std::byte> data) {
  if (data.empty()) {
    return {};
  }
  const uint64_t first = offset / kBlock;
  const uint64_t last = (offset + data.size() - 1) / kBlock;
  std::vector<uint64_t> sums;
  sums.reserve(last - first + 1);
  for (uint64_t block = first; block <= last; ++block) {
    const uint64_t begin = std::max(offset, block * kBlock);
    const uint64_t end = std::min(offset + data.size(), (block + 1) * kBlock);
    const std::byte* from = data.data() + (begin - offset);
    if (end - begin == kBlock) {
      sums.push_back(sum_of(from));
      continue;
    }
    VARVE_ASSIGN(const uint64_t sum, changed_sum(block, [&](Block& bytes) {
                   std::memcpy(bytes.data() + begin % kBlock, from, end - begin);
                 }));
    sums.push_back(sum);
  }
  Status written = file_->write(offset, data);
  if (!written.ok()) {
    forget(first, last + 1);
    return written;
  }
  for (uint64_t block = first; block <= last; ++block) {
    set_sum(block, sums[block - first]);
  }
  return {};
}

/// After a failure nobody knows what is there.
void CheckedFile::forget(uint64_t first, uint64_t end) {
  unknown_below_ = std::max(unknown_below_, end);
  clear_sums(first, end);
}

void CheckedFile::clear_sums(uint64_t first, uint64_t end) {
  for (auto group = sums_.lower_bound(first / kGroup); group != sums_.end(); ++group) {
    const uint64_t base = group->first * kGroup;
    const uint64_t from = std::max(first, base);
    const uint64_t to = std::min(end, base + kGroup);
    if (from >= to) {
      break;
    }
    std::fill(group->second->begin() + static_cast<ptrdiff_t>(from - base),
              group->second->begin() + static_cast<ptrdiff_t>(to - base), kNever);
  }
}

Status CheckedFile::truncate(uint64_t size) {
  const uint64_t last = size / kBlock;
  uint64_t last_sum = kNever;
  const bool cut = size % kBlock != 0 && sum(last) != kNever;
  if (cut) {
    VARVE_ASSIGN(last_sum, changed_sum(last, [&](Block& bytes) {
                   std::fill(bytes.begin() + static_cast<ptrdiff_t>(size % kBlock), bytes.end(), std::byte{0});
                 }));
  }
  VARVE_TRY(file_->truncate(size));
  if (cut) {
    set_sum(last, last_sum);
  }
  const uint64_t end = last + (size % kBlock != 0 ? 1 : 0);  // the first block without a byte
  unknown_below_ = std::min(unknown_below_, end);
  sums_.erase(sums_.lower_bound((end + kGroup - 1) / kGroup), sums_.end());
  clear_sums(end, UINT64_MAX);
  return {};
}

Status CheckedFile::punch(uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  std::vector<std::pair<uint64_t, uint64_t>> edges;  // blocks that keep a part, and their checksums
  const auto edge = [&](uint64_t block) -> Status {
    const uint64_t from = std::max(offset, block * kBlock);
    const uint64_t to = std::min(end, (block + 1) * kBlock);
    if (to <= from || to - from == kBlock || sum(block) == kNever || (!edges.empty() && edges[0].first == block)) {
      return {};
    }
    VARVE_ASSIGN(const uint64_t sum,
                 changed_sum(block, [&](Block& bytes) { std::memset(bytes.data() + from % kBlock, 0, to - from); }));
    edges.emplace_back(block, sum);
    return {};
  };
  VARVE_TRY(edge(offset / kBlock));
  VARVE_TRY(edge(end / kBlock));
  if (Status punched = file_->punch(offset, length); !punched.ok()) {
    forget(offset / kBlock, (end + kBlock - 1) / kBlock);
    return punched;
  }
  for (const auto& [block, sum] : edges) {
    set_sum(block, sum);
  }
  clear_sums((offset + kBlock - 1) / kBlock, end / kBlock);
  return {};
}

Result<uint64_t> CheckedFile::seek(uint64_t offset, bool data) const {
  if (unknown_below_ > 0) {
    return file_->seek(offset, data);
  }
  VARVE_ASSIGN(const uint64_t size, file_->size());
  if (offset >= size) {
    return Error{ENXIO, "seek past the end of the file"};
  }
  const uint64_t end = (size + kBlock - 1) / kBlock;
  uint64_t block = offset / kBlock;
  while (block < end && (sum(block) != kNever) != data) {
    const auto group = sums_.lower_bound(block / kGroup);
    const uint64_t next = group == sums_.end() ? end : group->first * kGroup;
    block = std::max(block + 1, next);
  }
  if (block >= end) {
    return data ? Result<uint64_t>(Error{ENXIO, "no data after this offset"}) : Result<uint64_t>(size);
  }
  return std::max(offset, block * kBlock);
}

}  // namespace varve::fs
