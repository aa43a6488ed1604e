#include "fs/core.h"

#include <fmt/format.h>

#include <ctime>
#include <thread>

namespace varve::fs {

namespace {

unsigned worker_count(const FileSystemOptions& options) {
  return options.workers > 0 ? options.workers : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

Time now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return {time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
}

Result<std::unique_ptr<FileSystem>> FileSystem::create(std::unique_ptr<index::Index> index,
                                                       const FileSystemOptions& options) {
  auto core = std::make_unique<Core>(std::move(index), options);
  VARVE_TRY(core->start());
  return std::unique_ptr<FileSystem>(std::move(core));
}

Core::Core(std::unique_ptr<index::Index> index, const FileSystemOptions& options)
    : index_(std::move(index)),
      options_(options),
      staging_directory_(index_->path() + "/staging"),
      pool_(worker_count(options)),
      seal_pool_(worker_count(options)),
      cache_(options.cache_bytes),
      reader_(*index_, cache_, pool_),
      recognisers_(options.recogniser),
      sealer_(*index_, pool_, recognisers_, options.device.get(),
              [this] {
                return std::make_unique<Staging>(index_->device(), staging_directory_, index_->new_cookie(), 0, 0);
              }),
      policy_(index_->path() + "/policy.toml"),
      scrub_(*index_),
      nodes_(*index_) {}

Core::~Core() = default;

Status Core::start() {
  VARVE_TRY(policy_.load());
  if (options_.read_only) {
    return {};
  }
  VARVE_TRY(index_->device().make_directory(staging_directory_));
  VARVE_TRY(index_->device().sync_directory(index_->path()));
  return recover();
}

void Core::put_inode(index::Batch& batch, const Node& node) {
  index::Inode inode = node.inode;
  if (node.staging && !node.staging_synced) {
    inode.size = inode.object == 0 ? 0 : node.sealed ? node.sealed->layout.size : inode.size;
  }
  batch.put_inode(inode);
}

InodeNumber Core::inode_of_handle(uint64_t handle) {
  const Handle& open = *reinterpret_cast<const Handle*>(handle);  // NOLINT: the kernel kept it
  return open.node && open.virtual_inode == 0 ? open.node->number : 0;
}

bool Core::is_writable(uint64_t handle) {
  return reinterpret_cast<const Handle*>(handle)->writable;  // NOLINT: the kernel kept it
}

std::vector<InodeNumber> Core::inodes_in_use() {
  std::vector<InodeNumber> numbers;
  for (const NodePointer& node : nodes_.all()) {
    numbers.push_back(node->number);
  }
  return numbers;
}

Status Core::check_writable() const {
  if (options_.read_only) {
    return Error{EROFS, "the file system is mounted read-only"};
  }
  return {};
}

Result<FileSystemSpace> Core::space(const Caller&) {
  VARVE_ASSIGN(const index::DeviceSpace on_disk, index_->space());
  FileSystemSpace space;
  space.block_size = on_disk.block_size;
  space.blocks = on_disk.blocks;
  space.blocks_free = on_disk.blocks_free;
  space.blocks_available = on_disk.blocks_available;
  // Inodes are keys: as many as the disk has room for.
  space.files = on_disk.blocks;
  space.files_free = on_disk.blocks_available;
  return space;
}

Status Core::shut_down() {
  scrub_.stop();
  if (options_.read_only) {
    return {};
  }
  finish_seals();
  index::Batch batch;
  batch.frees_space();  // what is noted here is given back by the next start
  for (const NodePointer& node : nodes_.all()) {
    const NodeLock lock(node->mutex);
    if (node->staging && node->inode.links > 0) {
      // A seal failed (no space, say): keep the data staged.
      VARVE_TRY(node->staging->sync());
      node->staging->put_notes(batch, node->number, 0);
      node->inode_changed = true;
    }
    if (node->inode_changed && node->inode.links > 0) {
      batch.put_inode(node->inode);
      node->inode_changed = false;
    }
  }
  VARVE_TRY(commit(std::move(batch)));
  return index_->sync();
}

}  // namespace varve::fs
