// Decoded bricks, coarse grids and chunks of bytes, least recently used out first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "codec/types.h"
#include "index/schema.h"

namespace varve::fs {

struct BrickName {
  index::ObjectId object = 0;
  uint32_t region = 0;
  uint8_t kind = 0;  ///< 0...3: a brick decoded down to that level; 4: a chunk of a stream; 5: a tile's coarse grid;
                     ///< 6...8: a brick's points of levels 1...3 and up alone; 9...12: a chunk as the file has
                     ///< it, of the array's levels 0...3 and up
  uint64_t number = 0;
  bool operator==(const BrickName&) const = default;
};

using BrickData = std::shared_ptr<const codec::Bytes>;

/// Thread-safe. Holds at most `limit` bytes, give or take the entry being added.
class BrickCache {
 public:
  explicit BrickCache(uint64_t limit) : limit_(limit) {}

  /// The cached entry, or the result of `make`, which then is cached. Of several threads that ask for the same entry at
  /// once, one makes it and the others wait. Errors are not cached.
  Result<BrickData> get(const BrickName& name, const std::function<Result<codec::Bytes>()>& make);
  bool contains(const BrickName& name);
  void drop_object(index::ObjectId object);
  void clear();

 private:
  struct Hash {
    size_t operator()(const BrickName& name) const;
  };
  struct Entry {
    BrickName name;
    BrickData data;
  };
  void insert(const BrickName& name, const BrickData& data);

  const uint64_t limit_;
  std::mutex mutex_;
  std::condition_variable made_;
  uint64_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<BrickName, std::list<Entry>::iterator, Hash> places_;
  std::unordered_map<BrickName, int, Hash> making_;
};

}  // namespace varve::fs
