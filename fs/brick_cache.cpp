#include "fs/brick_cache.h"

namespace varve::fs {

namespace {

constexpr uint64_t kEntryOverhead = 128;

}  // namespace

size_t BrickCache::Hash::operator()(const BrickName& name) const {
  uint64_t hash = name.object * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 29) ^ name.number) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 32) ^ (uint64_t{name.region} << 8 | name.kind)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

Result<BrickData> BrickCache::get(const BrickName& name, const std::function<Result<codec::Bytes>()>& make) {
  {
    std::unique_lock lock(mutex_);
    while (true) {
      if (const auto place = places_.find(name); place != places_.end()) {
        entries_.splice(entries_.begin(), entries_, place->second);
        return place->second->data;
      }
      if (making_.emplace(name, 1).second) {
        break;
      }
      made_.wait(lock);
    }
  }
  Result<codec::Bytes> made = make();
  const BrickData data = made.ok() ? std::make_shared<const codec::Bytes>(std::move(*made)) : nullptr;
  {
    const std::lock_guard lock(mutex_);
    making_.erase(name);
    if (data) {
      insert(name, data);
    }
  }
  made_.notify_all();
  return data ? Result<BrickData>(data) : Result<BrickData>(made.error());
}

bool BrickCache::contains(const BrickName& name) {
  const std::lock_guard lock(mutex_);
  return places_.contains(name);
}

void BrickCache::insert(const BrickName& name, const BrickData& data) {
  entries_.push_front({name, data});
  places_[name] = entries_.begin();
  bytes_ += data->size() + kEntryOverhead;
  while (bytes_ > limit_ && entries_.size() > 1) {
    bytes_ -= entries_.back().data->size() + kEntryOverhead;
    places_.erase(entries_.back().name);
    entries_.pop_back();
  }
}

void BrickCache::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  places_.clear();
  bytes_ = 0;
}

void BrickCache::drop_object(index::ObjectId object) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->name.object == object) {
      bytes_ -= entry->data->size() + kEntryOverhead;
      places_.erase(entry->name);
      entry = entries_.erase(entry);
    } else {
      ++entry;
    }
  }
}

}  // namespace varve::fs
