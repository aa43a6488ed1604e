// Store::commit: a Batch becomes one write of the tree, reference counts, live bytes and counters included.
#include <fmt/format.h>

#include <algorithm>

#include "index/batch.h"
#include "index/keys.h"
#include "index/store.h"

namespace varve::index {

namespace {
constexpr uint64_t kCounterBlock = 4096;
constexpr std::string_view kNextPackKey = "next_pack";
}  // namespace

/// A batch on its way into the tree.
struct Store::Assembly {
  rocksdb::WriteBatch batch;
  LiveChanges live;
  std::map<ObjectId, int64_t> counts;  ///< of the objects that the batch touches, as they will be
  std::map<ObjectId, std::shared_ptr<Pending>> publishing;
  std::vector<Doomed> dying;
  std::vector<const BatchStep*> xattrs;  ///< put so far
};

/// With commit_mutex_ held: brings the tree back after a failure, if need be and if possible.
Status Store::ready_to_write(bool at_once) {
  VARVE_ASSIGN(const bool reopened, tree_->recover(at_once));
  if (reopened) {
    // A write that was reported as failed may have reached the log all the same.
    VARVE_TRY(load_live_bytes());
    for (auto& counter : counters_) {
      counter.limit = 0;
    }
    pack_number_written_ = 0;
  }
  return {};
}

/// With commit_mutex_ held: writes `batch` with the counts that go with it.
Status Store::apply(rocksdb::WriteBatch& batch, const LiveChanges& live) {
  std::map<uint32_t, uint64_t> totals;
  for (const auto& [pack, change] : live) {
    const int64_t total = static_cast<int64_t>(packs_->live(pack)) + change;
    if (total < 0) {
      return Error{EIO, fmt::format("the live bytes of pack {} in store {} do not add up; report this", pack, path_)};
    }
    if (change != 0) {
      totals[pack] = static_cast<uint64_t>(total);
      tree_->put(batch, Family::pack, number_key(pack), count_value(totals[pack]));
    }
  }
  std::array<uint64_t, 3> limits{};
  for (size_t i = 0; i < counters_.size(); ++i) {
    const uint64_t next = counters_[i].next;
    limits[i] = next > counters_[i].limit ? next + kCounterBlock : counters_[i].limit;
    if (limits[i] != counters_[i].limit) {
      tree_->put(batch, Family::meta, counters_[i].name, count_value(limits[i]));
    }
  }
  const uint64_t pack_number = packs_->next_number();
  if (pack_number != pack_number_written_) {
    tree_->put(batch, Family::meta, kNextPackKey, count_value(pack_number));
  }
  VARVE_TRY(tree_->write(batch));
  for (const auto& [pack, total] : totals) {
    packs_->set_live(pack, total);
  }
  for (size_t i = 0; i < counters_.size(); ++i) {
    counters_[i].limit = limits[i];
  }
  pack_number_written_ = pack_number;
  return {};
}

Status Store::commit(Batch batch, Durability durability) {
  VARVE_TRY(writable());
  bool frees = batch.changes_ && batch.changes_->frees;
  const std::vector<BatchStep> steps = batch.changes_ ? std::move(batch.changes_->steps) : std::vector<BatchStep>();
  Assembly assembly;
  VARVE_ASSIGN(const auto pendings, pendings_of(steps));
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& pending : pendings) {
    locks.emplace_back(pending->mutex);
    if (pending->published) {
      return Error{EINVAL, fmt::format("object {} is published already, or given up", pending->object)};
    }
    VARVE_TRY(sync_packs(*pending));
    frees = frees || pending->frees;
  }
  if (!steps.empty()) {
    const std::lock_guard lock(commit_mutex_);
    const auto change = [&]() -> Status {
      assembly = Assembly();
      for (const auto& pending : pendings) {
        assembly.publishing[pending->object] = pending;
      }
      VARVE_TRY(assemble(steps, assembly));
      return apply(assembly.batch, assembly.live);
    };
    if (frees) {
      VARVE_TRY(change_on_full_disk(change));
    } else {
      VARVE_TRY(reserve_.check());
      VARVE_TRY(ready_to_write());
      VARVE_TRY(change());
    }
  }
  for (const auto& pending : pendings) {
    pending->published = true;
    pending->rows.clear();
    unpin_all(*pending);
    const std::lock_guard lock(pending_mutex_);
    pending_.erase(pending->object);
  }
  locks.clear();
  doom(assembly.dying);
  return durability == Durability::synced ? tree_->sync() : Status();
}

/// With commit_mutex_ held: a change that frees space. On a full disk what is reserved is given up for it.
Status Store::change_on_full_disk(const std::function<Status()>& change) {
  Status status = ready_to_write();
  if (status.ok()) {
    status = change();
  }
  if (means_full(status)) {
    (void)reserve_.give_up(status.error());  // without one, removing a pack may have made room
    VARVE_TRY(ready_to_write(true));
    status = change();
  }
  return status;
}

/// The objects that `steps` publish, each once, ascending (the order in which they are locked).
Result<std::vector<std::shared_ptr<Pending>>> Store::pendings_of(const std::vector<BatchStep>& steps) {
  std::map<ObjectId, std::shared_ptr<Pending>> found;
  const std::lock_guard lock(pending_mutex_);
  for (const auto& step : steps) {
    if (step.kind != BatchStep::Kind::publish) {
      continue;
    }
    const auto pending = pending_.find(step.number);
    if (pending == pending_.end() || found.contains(step.number)) {
      return Error{EINVAL, fmt::format("object {} cannot be published: it is not being written", step.number)};
    }
    found[step.number] = pending->second;
  }
  std::vector<std::shared_ptr<Pending>> sorted;
  sorted.reserve(found.size());
  for (auto& [object, pending] : found) {
    sorted.push_back(std::move(pending));
  }
  return sorted;
}

Status Store::assemble(const std::vector<BatchStep>& steps, Assembly& assembly) {
  for (const auto& step : steps) {
    switch (step.kind) {
      case BatchStep::Kind::put:
        tree_->put(assembly.batch, step.family, step.key, step.value);
        if (step.family == Family::xattr) {
          assembly.xattrs.push_back(&step);
        }
        break;
      case BatchStep::Kind::erase:
        tree_->erase(assembly.batch, step.family, step.key);
        break;
      case BatchStep::Kind::erase_inode:
        VARVE_TRY(erase_inode(step.number, assembly));
        break;
      case BatchStep::Kind::publish:
        VARVE_TRY(publish(step, assembly));
        break;
      case BatchStep::Kind::reference:
        VARVE_TRY(change_references(step.number, 1, assembly));
        break;
      case BatchStep::Kind::release:
        VARVE_TRY(change_references(step.number, -1, assembly));
        break;
    }
  }
  return settle_references(assembly);
}

Status Store::erase_inode(InodeNumber inode, Assembly& assembly) {
  tree_->erase(assembly.batch, Family::inode, number_key(inode));
  for (const BatchStep* step : assembly.xattrs) {
    if (step->number == inode) {
      tree_->erase(assembly.batch, Family::xattr, step->key);
    }
  }
  return tree_->scan(Family::xattr, number_key(inode), {}, [&](std::string_view key, std::string_view) -> Result<bool> {
    tree_->erase(assembly.batch, Family::xattr, key);
    return true;
  });
}

Status Store::publish(const BatchStep& step, Assembly& assembly) {
  const Pending& pending = *assembly.publishing.at(step.number);
  VARVE_ASSIGN(const auto present, tree_->get(Family::object, object_key(ObjectTag::published, step.number)));
  if (!present) {  // else an earlier try was reported as failed and yet took place
    for (const auto& [key, value] : pending.rows) {
      tree_->put(assembly.batch, Family::record, key, value);
    }
    for (const auto& [pack, touched] : pending.packs) {
      assembly.live[pack] += touched.live;
    }
  }
  tree_->put(assembly.batch, Family::layout, number_key(step.number), step.value);
  if (pending.spilled) {
    tree_->erase(assembly.batch, Family::object, object_key(ObjectTag::unpublished, step.number));
  }
  assembly.counts[step.number] = 1;
  return {};
}

Status Store::change_references(ObjectId object, int64_t change, Assembly& assembly) {
  if (!assembly.counts.contains(object)) {
    VARVE_ASSIGN(const auto value, tree_->get(Family::object, object_key(ObjectTag::published, object)));
    if (!value) {
      return Error{ENOENT, fmt::format("object {} is not in store {}", object, path_)};
    }
    const auto count = parse_count(*value);
    if (!count) {
      return malformed("reference count", fmt::format("object {}", object));
    }
    assembly.counts[object] = static_cast<int64_t>(*count);
  }
  assembly.counts[object] += change;
  return {};
}

Status Store::settle_references(Assembly& assembly) {
  for (const auto& [object, count] : assembly.counts) {
    const std::string key = object_key(ObjectTag::published, object);
    if (count < 0) {
      return Error{EINVAL, fmt::format("object {} is released more often than it is held", object)};
    }
    if (count > 0) {
      tree_->put(assembly.batch, Family::object, key, count_value(static_cast<uint64_t>(count)));
    } else {
      tree_->erase(assembly.batch, Family::object, key);
      tree_->put(assembly.batch, Family::object, object_key(ObjectTag::dying, object), {});
      assembly.dying.push_back({object, true});
    }
  }
  return {};
}

}  // namespace varve::index
