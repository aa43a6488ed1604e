#include "fs/unfiltered_array.h"

#include <fmt/format.h>

#include <algorithm>

#include "fs/formats/check.h"
#include "fs/formats/chunk_filters.h"

namespace varve::fs {

using codec::Bytes;

namespace {

/// Bytes of chunks that are tried at once.
constexpr uint64_t kTriedTogether = uint64_t{256} << 20;
/// So many are tried before others: where none of them comes back, none is expected to.
constexpr size_t kFirst = 16;

}  // namespace

UnfilteredArray::UnfilteredArray(const ArrayRegion& filtered, const ReadContent& read, std::unique_ptr<Staging> scratch)
    : filtered_(filtered),
      read_(read),
      scratch_(std::move(scratch)),
      region_(filtered),
      bytes_(*chunk_bytes(filtered)),
      stride_(bytes_ < CheckedFile::kBlock
                  ? bytes_
                  : (bytes_ + CheckedFile::kBlock - 1) / CheckedFile::kBlock * CheckedFile::kBlock),
      slots_(filtered.chunks.size()) {
  region_.filters.clear();
  region_.stored.clear();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    region_.chunks[slot].offset = slot * stride_;
  }
}

Status UnfilteredArray::put(size_t slot, std::span<const std::byte> elements) {
  const std::lock_guard lock(scratch_mutex_);
  return scratch_->write(slot * stride_, elements);
}

/// EBADMSG: it does not come back exactly.
Status UnfilteredArray::try_chunk(size_t index, uint64_t& sum) {
  const uint32_t skipped = filtered_.stored[index].skipped;
  Bytes stored(filtered_.stored[index].length);
  VARVE_TRY(read_(filtered_.chunks[index].offset, stored));
  VARVE_ASSIGN(Bytes elements, undo_filters(filtered_, skipped, stored, bytes_));
  VARVE_TRY(put(index, elements));
  VARVE_ASSIGN(const Bytes again, redo_filters(filtered_, skipped, std::move(elements)));
  if (again != stored) {
    return Error{EBADMSG, "a chunk of the file was filtered by other means"};
  }
  sum = is_deflated(filtered_) ? sum_of_chunk(stored) : 0;
  slots_[index] = Slot::filled;
  return {};
}

Status UnfilteredArray::keep_exact_chunks(ThreadPool& pool, const Known& known, ArrayRegion& filtered) {
  std::vector<size_t> to_try;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (const StoredChunk* before = known(i); before != nullptr) {
      filtered.stored[i].sum = before->sum;
    } else {
      slots_[i] = Slot::left_out;
      to_try.push_back(i);
    }
  }
  std::mutex mutex;
  Status problem;
  const size_t together = std::max<size_t>(kTriedTogether / bytes_, 1);
  size_t exact = 0;
  for (size_t done = 0; done < to_try.size();) {
    const size_t count = std::min({to_try.size() - done, together, done == 0 ? kFirst : to_try.size()});
    pool.parallel_for(count, [&](size_t i) {
      const size_t index = to_try[done + i];
      const Status tried = try_chunk(index, filtered.stored[index].sum);
      const std::lock_guard lock(mutex);
      exact += tried.ok() ? 1 : 0;
      if (!tried.ok() && tried.error().code != EBADMSG) {
        problem = tried;
      }
    });
    VARVE_TRY(problem);
    done += count;
    if (exact == 0) {
      break;
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] != Slot::left_out) {
      filtered.chunks[kept] = filtered.chunks[i];
      filtered.stored[kept] = filtered.stored[i];
      region_.chunks[kept] = region_.chunks[i];
      ++kept;
    }
  }
  filtered.chunks.resize(kept);
  filtered.stored.resize(kept);
  region_.chunks.resize(kept);
  if (kept == 0 || kept < slots_.size() / 2) {
    return Error{EINVAL,
                 fmt::format("of fewer than half of its chunks the filters, with {}, give the file's bytes again",
                             deflating_library())};
  }
  return {};
}

Status UnfilteredArray::fill(size_t slot) {
  const std::lock_guard lock(filling_.at(slot % filling_.size()));
  if (slots_[slot] != Slot::to_fill) {
    return {};
  }
  VARVE_ASSIGN(const Bytes elements, unfiltered_chunk(filtered_, filtered_.chunks[slot], read_));
  VARVE_TRY(put(slot, elements));
  slots_[slot] = Slot::filled;
  return {};
}

Status UnfilteredArray::read(uint64_t offset, std::span<std::byte> out) {
  const uint64_t end = offset + out.size();
  for (uint64_t slot = offset / stride_; slot * stride_ < end && slot < slots_.size(); ++slot) {
    if (slots_[slot] == Slot::to_fill) {
      VARVE_TRY(fill(slot));
    }
  }
  const std::shared_lock lock(scratch_mutex_);
  return scratch_->read(offset, out);
}

Status gather_box(const ArrayRegion& region, UnfilteredArray* unfiltered, const ReadContent& read,
                  const codec::Box& box, std::byte* out) {
  if (unfiltered == nullptr) {
    return gather_box(region, box, read, out);
  }
  const auto elements = [&](uint64_t offset, std::span<std::byte> to) { return unfiltered->read(offset, to); };
  return gather_box(unfiltered->region(), box, elements, out);
}

}  // namespace varve::fs
