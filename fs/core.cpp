#include "fs/core.h"

#include <fmt/format.h>

#include <ctime>
#include <thread>
#include <unordered_set>

#include "fs/log.h"
#include "fs/note_keys.h"

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
      sealer_(*index_, pool_, recognisers_, options.device.get()),
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

/// Files that were open and unlinked when the last run ended go; staged data that was synced comes back and is sealed.
Status Core::recover() {
  std::vector<std::pair<InodeNumber, std::string>> staged;
  VARVE_TRY(index_->notes(kStagingNotes, [&](std::string_view key, std::string_view value) {
    staged.emplace_back(number_in(key, kStagingNotes).value_or(0), value);
    return true;
  }));
  std::vector<InodeNumber> orphans;
  VARVE_TRY(index_->notes(kOrphanNotes, [&](std::string_view key, std::string_view) {
    orphans.push_back(number_in(key, kOrphanNotes).value_or(0));
    return true;
  }));
  for (const InodeNumber number : orphans) {
    index::Batch batch;
    VARVE_ASSIGN(const std::optional<index::Inode> inode, index_->inode(number));
    if (inode && inode->links == 0) {
      batch.erase_inode(number);
      if (inode->object != 0) {
        batch.release(inode->object);
      }
      batch.erase_note(staging_note(number));
    }
    batch.erase_note(orphan_note(number));
    VARVE_TRY(commit(std::move(batch)));
  }
  std::unordered_set<std::string> known;
  bool all_known = true;
  for (const auto& [number, note] : staged) {
    if (const Status recovered = recover_staging(number, note); !recovered.ok()) {
      // Whatever is left of the data stays where it is.
      const auto parsed = StagingNote::parse(note);
      all_known = all_known && parsed.ok();
      known.insert(parsed.ok() ? staging_file_name(parsed->id) : std::string());
      log_line(LogLevel::error,
               fmt::format("staged data of inode {} cannot be recovered: {}", number, recovered.error().text));
    }
  }
  // Staging files that no note speaks of were never promised to anybody.
  for (const NodePointer& node : nodes_.all()) {
    if (node->staging && node->staging->in_file()) {
      known.insert(staging_file_name(node->staging->id()));
    }
  }
  VARVE_ASSIGN(const std::vector<std::string> files, index_->device().list(staging_directory_));
  for (const std::string& file : files) {
    if (all_known && !known.contains(file)) {
      VARVE_TRY(index_->device().remove(staging_directory_ + "/" + file));
    }
  }
  return {};
}

void Core::put_inode(index::Batch& batch, const Node& node) {
  index::Inode inode = node.inode;
  if (node.staging && !node.staging_synced) {
    inode.size = inode.object == 0 ? 0 : node.sealed ? node.sealed->layout.size : inode.size;
  }
  batch.put_inode(inode);
}

Status Core::recover_staging(InodeNumber number, std::string_view note) {
  auto found = nodes_.get(number);
  if (!found.ok()) {
    return commit([&] {
      index::Batch batch;
      batch.erase_note(staging_note(number));
      return batch;
    }());
  }
  const NodePointer node = *found;
  VARVE_ASSIGN(std::unique_ptr<Staging> staging, Staging::restore(index_->device(), staging_directory_, note));
  if (staging->base() != node->inode.object) {
    return Error{EIO, "it belongs over another version of the file than the sealed one"};
  }
  {
    const NodeLock lock(node->mutex);
    if (staging->dirty().empty() && (node->inode.object == 0 || open_sealed(*node).ok())) {
      const uint64_t sealed_size = node->inode.object == 0 ? 0 : node->sealed->layout.size;
      if (staging->size() == sealed_size) {  // nothing was synced that differs from what is sealed
        index::Batch batch;
        node->inode.size = sealed_size;
        batch.put_inode(node->inode);
        batch.erase_note(staging_note(number));
        return commit(std::move(batch));
      }
    }
    node->inode.size = staging->size();
    node->inode_changed = true;
    node->staging = std::move(staging);
    node->staging_noted = true;
    node->staging_synced = true;
    ++node->version;
  }
  queue_seal(node);
  return {};
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
  VARVE_ASSIGN(const index::DeviceSpace on_disk, index_->device().space(index_->path()));
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
  for (const NodePointer& node : nodes_.all()) {
    const NodeLock lock(node->mutex);
    if (node->staging && node->inode.links > 0) {
      // A seal failed (no space, say): keep the data staged.
      VARVE_TRY(node->staging->sync());
      batch.put_note(staging_note(node->number), node->staging->note());
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
