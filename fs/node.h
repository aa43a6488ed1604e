// Inodes in memory: one Node for each inode that the kernel, an open file or unsealed data refers to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fs/damage.h"
#include "fs/reader.h"
#include "fs/staging.h"
#include "index/index.h"

namespace varve::fs {

enum class SealState : uint8_t {
  none,
  queued,   ///< waits for a thread; an open takes it over
  running,  ///< a thread encodes; opens wait
};

struct Node {
  explicit Node(index::Inode from) : number(from.number), inode(std::move(from)) {}

  const index::InodeNumber number;

  /// Guards everything below. Order of locks: the namespace's, then nodes by ascending number, then the table's.
  std::shared_mutex mutex;
  std::condition_variable_any changed;  ///< seal state or handles

  index::Inode inode;
  bool inode_changed = false;                            ///< differs from what the index has
  std::string name;                                      ///< a name it has, for recognisers, rules and the log
  std::optional<std::optional<std::string>> bound_text;  ///< of a directory: its own user.varve.bound, once read

  std::shared_ptr<const Sealed> sealed;  ///< inode.object, once opened
  std::unique_ptr<Staging> staging;      ///< what is written since
  bool staging_synced = false;           ///< a note of the staging, and its data, may be on the disk: fsync was called
  uint64_t version = 0;                  ///< grows with each change of content
  std::chrono::steady_clock::time_point last_write{};

  DamageList damage;  ///< its lock is taken last

  unsigned handles = 0;
  unsigned writers = 0;          ///< handles open for writing
  unsigned closing_writers = 0;  ///< of them, those with a closed descriptor and no write by a program since
  SealState seal = SealState::none;
  unsigned failed_seals = 0;
  Status write_error;        ///< of a seal that failed; told once at flush or fsync
  bool stale_pages = false;  ///< the kernel may hold pages from before a seal that changed what is read
};

using NodePointer = std::shared_ptr<Node>;

using NodeLock = std::unique_lock<std::shared_mutex>;

/// Locks two nodes, which may be the same one, in the order of locks.
inline std::pair<NodeLock, NodeLock> lock_both(Node& one, Node& other) {
  Node& first = one.number < other.number ? one : other;
  Node& second = &first == &one ? other : one;
  NodeLock first_lock(first.mutex);
  return {std::move(first_lock), &first == &second ? NodeLock() : NodeLock(second.mutex)};
}

/// Puts the inodes of nodes back as they were, unless keep_changes() is called: what a batch says is true in memory
/// once it is committed, not before. Their locks are held as long as this exists.
class NodeRollback {
 public:
  explicit NodeRollback(std::initializer_list<Node*> nodes) {
    for (Node* const node : nodes) {
      saved_.push_back({node, node->inode, node->inode_changed, node->name});
    }
  }
  ~NodeRollback() {
    for (Saved& saved : saved_) {
      saved.node->inode = std::move(saved.inode);
      saved.node->inode_changed = saved.inode_changed;
      saved.node->name = std::move(saved.name);
    }
  }
  NodeRollback(const NodeRollback&) = delete;
  NodeRollback& operator=(const NodeRollback&) = delete;
  void keep_changes() { saved_.clear(); }

 private:
  struct Saved {
    Node* node;
    index::Inode inode;
    bool inode_changed;
    std::string name;
  };
  std::vector<Saved> saved_;
};

/// A copy of the node's inode as it is now. The lock must not be held.
inline index::Inode inode_of(Node& node) {
  const std::shared_lock lock(node.mutex);
  return node.inode;
}

/// Thread-safe.
class NodeTable {
 public:
  explicit NodeTable(index::Index& index) : index_(index) {}

  /// The node of an inode, read from the index if it is not in memory. ENOENT: no such inode (any more).
  Result<NodePointer> get(index::InodeNumber number);
  /// Registers a new inode.
  NodePointer add(index::Inode inode);
  /// The kernel's count of references.
  void looked_up(const NodePointer& node);
  /// Returns the node when the kernel's count falls to zero.
  NodePointer forget(index::InodeNumber number, uint64_t count);
  /// Drops entries that nobody holds.
  void trim(index::InodeNumber number);
  std::vector<NodePointer> all();

 private:
  struct Slot {
    std::weak_ptr<Node> node;
    NodePointer pinned;  ///< while lookups > 0
    uint64_t lookups = 0;
  };
  index::Index& index_;
  std::mutex mutex_;
  std::unordered_map<index::InodeNumber, Slot> slots_;
};

}  // namespace varve::fs
