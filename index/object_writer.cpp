// Objects that are being written: rows in memory, then ahead of publication in the tree; payloads in packs.
#include <fmt/format.h>

#include "index/keys.h"
#include "index/store.h"

namespace varve::index {
namespace {

constexpr size_t kRowBytes = size_t{1} << 20;  // of rows kept in memory

class StoreWriter final : public ObjectWriter {
 public:
  StoreWriter(Store& store, std::shared_ptr<Pending> pending) : store_(store), pending_(std::move(pending)) {}
  ~StoreWriter() override { store_.abandon(pending_); }
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  ObjectId object() const override { return pending_->object; }
  Status put(const RecordKey& key, std::span<const std::byte> record) override {
    return store_.put(*pending_, key, record);
  }
  Status share(ObjectId from, const RecordKey& key, const RecordKey& key_here) override {
    return store_.share(*pending_, from, key, key_here);
  }
  uint64_t stored() const override {
    const std::lock_guard lock(pending_->mutex);
    return pending_->stored;
  }
  Status finish() override { return store_.finish(*pending_); }

 private:
  Store& store_;
  std::shared_ptr<Pending> pending_;
};

uint64_t stored_bytes(const RecordValue& record, std::string_view value) {
  return record.packed ? record.pack_bytes() : value.size();
}

Error not_writable(const Pending& pending) {
  return Error{EINVAL, fmt::format("object {} is published already and takes no more records", pending.object)};
}

}  // namespace

Result<std::unique_ptr<ObjectWriter>> Store::begin_object(bool frees_space) {
  VARVE_TRY(writable());
  if (!frees_space) {
    VARVE_TRY(reserve_.check());
  }
  auto pending = std::make_shared<Pending>();
  pending->frees = frees_space;
  pending->object = counters_[1].next++;
  {
    const std::lock_guard lock(pending_mutex_);
    pending_[pending->object] = pending;
  }
  return std::unique_ptr<ObjectWriter>(std::make_unique<StoreWriter>(*this, std::move(pending)));
}

Status Store::put(Pending& pending, const RecordKey& key, std::span<const std::byte> record) {
  RecordValue value;
  value.origin = {pending.object, key};
  value.length = record.size();
  value.checksum = checksum_of(record);
  Packs::Appended appended;
  if (record.size() < options_.inline_limit) {
    value.payload = std::string_view(reinterpret_cast<const char*>(record.data()), record.size());
  } else {
    auto written = packs_->append(value.origin, record, value.checksum);
    if (pending.frees && !written.ok() && means_full(written.error()) && reserve_.give_up(written.error())) {
      written = packs_->append(value.origin, record, value.checksum);
    }
    VARVE_ASSIGN(appended, std::move(written));
    value.packed = true;
    value.pack = appended.pack->number;
    value.offset = appended.offset;
  }
  const std::lock_guard lock(pending.mutex);
  if (value.packed) {
    auto& touched = pending.packs[value.pack];
    touched.pack = appended.pack;
    touched.stamp = std::max(touched.stamp, appended.stamp);
    ++touched.pins;
  }
  if (pending.published) {
    unpin_all(pending);
    return not_writable(pending);
  }
  return add_row(pending, record_key(pending.object, key), record_value(value), value);
}

Status Store::share(Pending& pending, ObjectId from, const RecordKey& key, const RecordKey& key_here) {
  const std::lock_guard lock(pending.mutex);
  if (pending.published) {
    return not_writable(pending);
  }
  std::string bytes;
  {
    const std::lock_guard commit_lock(commit_mutex_);  // so that nobody erases or moves the record meanwhile
    VARVE_ASSIGN(const auto holder, tree_->get(Family::object, object_key(ObjectTag::published, from)));
    VARVE_ASSIGN(auto value, tree_->get(Family::record, record_key(from, key)));
    if (!holder || !value) {
      return Error{ENOENT, fmt::format("store {} has no record ({}) to share", path_, describe({from, key}))};
    }
    const auto record = parse_record_value(*value);
    if (!record) {
      return malformed("value", fmt::format("record ({})", describe({from, key})));
    }
    if (record->packed) {
      packs_->pin(record->pack);
      ++pending.packs[record->pack].pins;
    }
    bytes = *std::move(value);
  }
  const RecordValue record = *parse_record_value(bytes);
  return add_row(pending, record_key(pending.object, key_here), bytes, record);
}

/// With pending.mutex held. A row with this key from before is replaced.
Status Store::add_row(Pending& pending, std::string key, std::string value, const RecordValue& record) {
  std::optional<std::string> old;
  if (const auto found = pending.rows.find(key); found != pending.rows.end()) {
    old = found->second;
  } else if (pending.spilled) {
    VARVE_ASSIGN(old, tree_->get(Family::record, key));
  }
  if (old) {
    const auto replaced = parse_record_value(*old);
    if (!replaced) {
      return malformed("value", fmt::format("a record of object {}", pending.object));
    }
    if (replaced->packed) {
      pending.packs[replaced->pack].live -= static_cast<int64_t>(replaced->pack_bytes());
    }
    pending.stored -= stored_bytes(*replaced, *old);
  }
  if (record.packed) {
    pending.packs[record.pack].live += static_cast<int64_t>(record.pack_bytes());
  }
  pending.stored += stored_bytes(record, value);
  pending.row_bytes += key.size() + value.size();
  pending.rows[std::move(key)] = std::move(value);
  return pending.row_bytes < kRowBytes ? Status() : spill(pending);
}

/// With pending.mutex held: writes the rows ahead, with the marker by which the next open finds them.
Status Store::spill(Pending& pending) {
  const std::lock_guard lock(commit_mutex_);
  if (!pending.frees) {
    VARVE_TRY(reserve_.check());
  }
  VARVE_TRY(ready_to_write());
  rocksdb::WriteBatch batch;
  if (!pending.spilled) {
    tree_->put(batch, Family::object, object_key(ObjectTag::unpublished, pending.object), {});
  }
  for (const auto& [key, value] : pending.rows) {
    tree_->put(batch, Family::record, key, value);
  }
  pending.spilled = true;  // even if the write fails: it may have reached the log
  VARVE_TRY(apply(batch, {}));
  pending.rows.clear();
  pending.row_bytes = 0;
  return {};
}

/// With pending.mutex held.
Status Store::sync_packs(Pending& pending) {
  for (auto& [number, touched] : pending.packs) {
    if (touched.pack) {
      VARVE_TRY(packs_->sync(*touched.pack, touched.stamp));
    }
  }
  return {};
}

/// With pending.mutex held.
void Store::unpin_all(Pending& pending) {
  for (auto& [number, touched] : pending.packs) {
    packs_->unpin(number, touched.pins);
  }
  pending.packs.clear();
}

Status Store::finish(Pending& pending) {
  const std::lock_guard lock(pending.mutex);
  return sync_packs(pending);
}

void Store::abandon(const std::shared_ptr<Pending>& pending) {
  const std::lock_guard lock(pending->mutex);
  if (pending->published) {
    return;
  }
  pending->published = true;  // refuses whatever comes
  pending->rows.clear();
  unpin_all(*pending);
  {
    const std::lock_guard map_lock(pending_mutex_);
    pending_.erase(pending->object);
  }
  if (pending->spilled) {
    doom({{pending->object, false}});
  }
}

}  // namespace varve::index
