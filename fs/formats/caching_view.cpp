#include "fs/formats/caching_view.h"

#include <algorithm>
#include <cstring>

namespace varve::fs {

Result<const CachingView::Block*> CachingView::block(uint64_t number) {
  if (auto found = by_number_.find(number); found != by_number_.end()) {
    blocks_.splice(blocks_.begin(), blocks_, found->second);
    return &blocks_.front();
  }
  Block fresh;
  if (blocks_.size() == kMostBlocks) {  // its memory is used again
    fresh = std::move(blocks_.back());
    by_number_.erase(fresh.number);
    blocks_.pop_back();
  }
  uint64_t begin = number * kBlock;
  fresh.number = number;
  fresh.bytes.resize(std::min(kBlock, size_ - begin));
  VARVE_ASSIGN(size_t got, inner_.read(begin, fresh.bytes));
  fresh.bytes.resize(got);
  blocks_.push_front(std::move(fresh));
  by_number_[number] = blocks_.begin();
  return &blocks_.front();
}

Result<size_t> CachingView::read(uint64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size() && offset + done < size_) {
    uint64_t at = offset + done;
    VARVE_ASSIGN(const Block* source, block(at / kBlock));
    uint64_t skip = at % kBlock;
    if (skip >= source->bytes.size()) {
      break;  // the file was shorter than it said
    }
    size_t count = std::min<size_t>(out.size() - done, source->bytes.size() - skip);
    std::memcpy(out.data() + done, source->bytes.data() + skip, count);
    done += count;
  }
  return done;
}

}  // namespace varve::fs
