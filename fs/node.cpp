#include "fs/node.h"

#include <fmt/format.h>

#include <algorithm>

namespace varve::fs {

Result<NodePointer> NodeTable::get(index::InodeNumber number) {
  // The index is read under the lock: else a node that another thread made, changed and dropped meanwhile would come
  // back as it was before.
  const std::lock_guard lock(mutex_);
  const auto known = slots_.find(number);
  if (known != slots_.end()) {
    if (NodePointer node = known->second.node.lock()) {
      return node;
    }
  }
  VARVE_ASSIGN(std::optional<index::Inode> inode, index_.inode(number));
  if (!inode) {
    return Error{ENOENT, fmt::format("inode {} does not exist", number)};
  }
  auto node = std::make_shared<Node>(*std::move(inode));
  slots_[number].node = node;
  return node;
}

NodePointer NodeTable::add(index::Inode inode) {
  auto node = std::make_shared<Node>(std::move(inode));
  const std::lock_guard lock(mutex_);
  slots_[node->number].node = node;
  return node;
}

void NodeTable::looked_up(const NodePointer& node) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[node->number];
  slot.node = node;
  slot.pinned = node;
  ++slot.lookups;
}

NodePointer NodeTable::forget(index::InodeNumber number, uint64_t count) {
  const std::lock_guard lock(mutex_);
  const auto slot = slots_.find(number);
  if (slot == slots_.end()) {
    return nullptr;
  }
  slot->second.lookups -= std::min(count, slot->second.lookups);
  return slot->second.lookups == 0 ? std::move(slot->second.pinned) : nullptr;
}

void NodeTable::trim(index::InodeNumber number) {
  const std::lock_guard lock(mutex_);
  const auto slot = slots_.find(number);
  if (slot != slots_.end() && slot->second.lookups == 0 && slot->second.node.expired()) {
    slots_.erase(slot);
  }
}

std::vector<NodePointer> NodeTable::all() {
  std::vector<NodePointer> nodes;
  const std::lock_guard lock(mutex_);
  for (auto& [number, slot] : slots_) {
    if (NodePointer node = slot.node.lock()) {
      nodes.push_back(std::move(node));
    }
  }
  return nodes;
}

}  // namespace varve::fs
