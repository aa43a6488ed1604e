// When staged content is sealed, and the switch from the old content to the new.
#include <fmt/format.h>

#include <algorithm>

#include "fs/core.h"
#include "fs/log.h"
#include "fs/note_keys.h"

namespace varve::fs {

namespace {

/// How long an open waits for the last close of a writer that has already closed its descriptor to arrive.
constexpr std::chrono::milliseconds kCloseGrace{50};
constexpr unsigned kMaxRetries = 3;
constexpr size_t kCopySources = 64;
constexpr uint64_t kSmallestCopy = 4096;
constexpr uint64_t kComparePiece = 1 << 20;

/// The ranges of a staging file that hold nothing.
IntervalSet holes_of(Staging& staging) {
  IntervalSet holes;
  if (!staging.in_file()) {
    return holes;
  }
  uint64_t at = 0;
  while (at < staging.size()) {
    const auto hole = staging.seek(at, false);
    if (!hole.ok() || *hole >= staging.size()) {
      break;
    }
    const auto data = staging.seek(*hole, true);
    const uint64_t end = data.ok() ? std::min(*data, staging.size()) : staging.size();
    holes.add(*hole, end);
    at = end;
  }
  return holes;
}

/// For whoever looks at a file's structure: what an element is does not matter.
class AnyElements final : public DamageHandler {
 public:
  bool may_interpolate(const Sealed&, uint32_t) override { return true; }
  void interpolated(const Sealed&, uint32_t, uint64_t, uint8_t, const Error&) override {}
};

}  // namespace

/// An open waits here until what earlier writers left is sealed, and does the work itself when no thread has begun.
void Core::wait_for_seal(const NodePointer& node, NodeLock& lock) {
  if (node->staging && node->writers > 0 && node->closing_writers == node->writers) {
    node->changed.wait_for(lock, kCloseGrace, [&] {
      return node->writers == 0 || node->closing_writers != node->writers || !node->staging;
    });
  }
  while (node->seal != SealState::none) {
    if (node->seal == SealState::queued) {
      node->seal = SealState::none;
      static_cast<void>(seal(node, lock, false));
    } else {
      node->changed.wait(lock);
    }
  }
}

/// The node's lock is held exclusively.
void Core::queue_seal(const NodePointer& node) {
  if (node->seal != SealState::none) {
    return;
  }
  node->seal = SealState::queued;
  {
    const std::lock_guard lock(pending_mutex_);
    pending_[node->number] = node;
    ++seals_in_flight_;
  }
  seal_pool_.submit([this, node] { run_queued_seal(node); });
}

void Core::run_queued_seal(const NodePointer& node) {
  bool staged = false;
  {
    NodeLock lock(node->mutex);
    if (node->seal == SealState::queued) {
      node->seal = SealState::none;
      if (node->writers == 0 && node->staging && node->inode.links > 0) {
        static_cast<void>(seal(node, lock, false));
      }
    }
    staged = node->staging != nullptr && node->inode.links > 0;
    node->changed.notify_all();
  }
  const std::lock_guard lock(pending_mutex_);
  if (!staged) {
    pending_.erase(node->number);  // else it stays pinned, with its data
  }
  --seals_in_flight_;
  pending_done_.notify_all();
}

Result<SealJob> Core::make_seal_job(const NodePointer& node) {
  VARVE_TRY(open_sealed(*node));
  SealJob job;
  job.name = node->name;
  VARVE_ASSIGN(job.policy, policy_of(node->number));
  job.size = node->inode.size;
  const uint64_t version = node->version;
  const auto read = [this, node, version](uint64_t offset, std::span<std::byte> out, DamageHandler* damage) -> Status {
    const std::shared_lock lock(node->mutex);
    if (node->version != version) {
      return Error{EAGAIN, "the file changed while it was being sealed"};
    }
    return read_content(*node, offset, out, {}, damage);
  };
  job.read = [read](uint64_t offset, std::span<std::byte> out) { return read(offset, out, nullptr); };
  job.look = [read](uint64_t offset, std::span<std::byte> out) {
    AnyElements any;
    return read(offset, out, &any);
  };
  Staging& staging = *node->staging;
  if (staging.base() == 0) {
    job.holes = holes_of(staging);
    return job;
  }
  job.base = node->sealed;
  job.dirty = staging.dirty();
  job.dirty.add(staging.base_limit(), job.size);
  job.holes = node->sealed->layout.holes;
  for (const auto& [begin, end] : job.dirty.intervals()) {
    job.holes.remove(begin, end);
  }
  job.holes.remove(job.size, UINT64_MAX);
  return job;
}

/// A copy of what is exact, made where a bound is in force, is to be encoded under that bound. Everything else is
/// shared: lossy content above all, which must not be rounded twice.
bool Core::may_share(const Sealed& sealed, const FilePolicy& policy) {
  return policy.choices.empty() || sealed.lossy();
}

void Core::remember_opened(const NodePointer& node) {
  const std::lock_guard lock(opened_mutex_);
  std::erase_if(opened_, [&](const std::weak_ptr<Node>& other) { return other.expired() || other.lock() == node; });
  opened_.push_front(node);
  if (opened_.size() > kCopySources) {
    opened_.pop_back();
  }
}

/// A program that copies a file by reading and writing it must not cause a second rounding, and needs no second
/// encoding: sources of the same size are compared, byte by byte.
std::optional<Twin> Core::find_twin(const SealJob& job) {
  if (job.base || job.size < kSmallestCopy) {
    return std::nullopt;
  }
  std::vector<NodePointer> sources;
  {
    const std::lock_guard lock(opened_mutex_);
    for (const std::weak_ptr<Node>& weak : opened_) {
      if (NodePointer node = weak.lock()) {
        sources.push_back(std::move(node));
      }
    }
  }
  std::vector<std::byte> ours(std::min(job.size, kComparePiece));
  std::vector<std::byte> theirs(ours.size());
  for (const NodePointer& source : sources) {
    Twin twin;
    {
      const std::shared_lock lock(source->mutex, std::try_to_lock);
      if (!lock.owns_lock() || !source->sealed || source->inode.object != source->sealed->object ||
          source->sealed->layout.size != job.size || !may_share(*source->sealed, job.policy)) {
        continue;
      }
      twin = {source->sealed, source->inode.stored};
    }
    bool equal = true;
    for (uint64_t at = 0; equal && at < job.size; at += ours.size()) {
      const size_t length = std::min<uint64_t>(ours.size(), job.size - at);
      const std::span<std::byte> here(ours.data(), length);
      const std::span<std::byte> there(theirs.data(), length);
      equal = job.read(at, here).ok() && reader_.read(*twin.sealed, at, there).ok() &&
              std::equal(here.begin(), here.end(), there.begin());
    }
    if (equal) {
      return twin;
    }
  }
  return std::nullopt;
}

/// Adds what makes `sealed` the node's content to a batch, and commits it. The lock is held.
Status Core::put_content(index::Batch& batch, Node& node, const std::shared_ptr<const Sealed>& sealed,
                         uint64_t stored) {
  if (node.inode.object != 0) {
    batch.release(node.inode.object);
  }
  if (node.staging) {
    node.staging->erase_notes(batch, node.number);
  }
  index::Inode inode = node.inode;
  inode.object = sealed->object;
  inode.stored = stored;
  batch.put_inode(inode);
  // Committed first and synced when the staging goes: after a sync that fails the switch has taken place all the same.
  VARVE_TRY(commit(std::move(batch)));
  node.inode = inode;
  node.inode_changed = false;
  node.sealed = sealed;
  drop_staging(node);
  static_cast<void>(recheck_damage(node));
  return {};
}

/// Everything of the new content is in the store; one batch makes it the file's.
Status Core::switch_content(Node& node, SealOutcome& outcome) {
  index::Batch batch;
  batch.publish(outcome.sealed->object, outcome.sealed->layout.serialise());
  return put_content(batch, node, outcome.sealed, outcome.stored);
}

/// Fails, and changes nothing, when the twin's last holder has gone meanwhile.
Status Core::switch_to_twin(Node& node, const Twin& twin) {
  index::Batch batch;
  batch.reference(twin.sealed->object);
  return put_content(batch, node, twin.sealed, twin.stored);
}

Status Core::seal(const NodePointer& node, NodeLock& lock, bool require_arrays) {
  auto job = make_seal_job(node);
  if (!job.ok()) {
    log_line(LogLevel::error, fmt::format("{}: cannot be sealed: {}", node->name, job.error().text));
    return job.error();
  }
  const uint64_t version = node->version;
  const InodeNumber directory = node->inode.parent;
  node->seal = SealState::running;
  lock.unlock();
  job->policy.raw = raw_hint(job->policy, directory, job->name, job->size);
  const std::optional<Twin> twin = find_twin(*job);
  Result<SealOutcome> outcome = SealOutcome();
  if (!twin) {
    outcome = sealer_.seal(*job, require_arrays);
  }
  lock.lock();
  node->seal = SealState::none;
  Status status;
  if (!outcome.ok()) {
    status = outcome.error();
  } else if (node->version != version || !node->staging) {
    status = Error{EAGAIN, "the file changed while it was being sealed"};
  } else {
    status = twin ? switch_to_twin(*node, *twin) : switch_content(*node, *outcome);
  }
  if (status.ok()) {
    node->failed_seals = 0;
    node->stale_pages = node->stale_pages || outcome->lossy;
    if (KernelCache* const cache = kernel_cache_.load()) {
      cache->invalidate_inode(node->number, outcome->lossy);
    }
    forget_view_pages(node->number);
  } else if ((twin || status.error().code == EAGAIN) && node->staging && node->writers == 0 && node->inode.links > 0 &&
             ++node->failed_seals <= kMaxRetries) {
    queue_seal(node);  // the file changed, or its twin went
  } else if (node->inode.links > 0 && status.error().code != EAGAIN) {
    // The data stays staged and readable; the next close, fsync or start tries again.
    ++node->failed_seals;
    node->write_error = status.error();
    log_line(LogLevel::error,
             fmt::format("{}: stays staged, could not be sealed: {}", node->name, status.error().text));
  }
  node->changed.notify_all();
  return status;
}

/// Seals what is staged and no longer open for writing, then waits until no seal is under way.
void Core::finish_seals() {
  std::vector<NodePointer> nodes;
  {
    const std::lock_guard lock(pending_mutex_);
    for (const auto& [number, node] : pending_) {
      nodes.push_back(node);
    }
  }
  for (const NodePointer& node : nodes) {
    const NodeLock lock(node->mutex);
    if (node->staging && node->writers == 0 && node->inode.links > 0) {
      queue_seal(node);
    }
  }
  std::unique_lock lock(pending_mutex_);
  pending_done_.wait(lock, [this] { return seals_in_flight_ == 0; });
}

/// Names of files whose seal failed, in order.
std::vector<std::string> Core::unsealed_files() {
  std::vector<NodePointer> nodes;
  {
    const std::lock_guard lock(pending_mutex_);
    for (const auto& [number, node] : pending_) {
      nodes.push_back(node);
    }
  }
  std::vector<std::string> names;
  for (const NodePointer& node : nodes) {
    const NodeLock lock(node->mutex);
    if (node->staging && node->failed_seals > 0 && node->inode.links > 0) {
      names.push_back(node->name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace varve::fs
