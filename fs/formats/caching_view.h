// A FileView that keeps the blocks it has read: a recogniser's many reads of a few bytes become few requests.
#pragma once

#include <list>
#include <unordered_map>

#include "fs/formats/recogniser.h"

namespace varve::fs {

class CachingView : public FileView {
 public:
  static constexpr uint64_t kBlock = 65536;   ///< bytes
  static constexpr size_t kMostBlocks = 256;  ///< least recently used go first

  /// `inner` must outlive the view, and its content must not change meanwhile.
  explicit CachingView(FileView& inner) : inner_(inner), size_(inner.size()) {}

  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override;

 private:
  struct Block {
    uint64_t number = 0;
    std::vector<std::byte> bytes;
  };
  Result<const Block*> block(uint64_t number);

  FileView& inner_;
  uint64_t size_;
  std::list<Block> blocks_;  ///< most recently used first
  std::unordered_map<uint64_t, std::list<Block>::iterator> by_number_;
};

}  // namespace varve::fs
