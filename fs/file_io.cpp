// Open files: read, write, truncate, seek, copy.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fs/core.h"
#include "fs/note_keys.h"

namespace varve::fs {

namespace {

/// A journal of faults, 64 MiB at most, is one that is written.
constexpr size_t kMostControlBytes = size_t{80} << 20;

constexpr uint64_t kMaxFileSize = uint64_t{1} << 60;
constexpr size_t kCopyPiece = 1 << 20;
constexpr size_t kCopyAtMost = 64 << 20;
constexpr uint64_t kNoteBytes = 16 << 20;  ///< written to a file until a kill of the daemon is to find them again

Handle& handle_at(uint64_t handle) { return *reinterpret_cast<Handle*>(handle); }  // NOLINT: the kernel kept it

bool opens_for_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

}  // namespace

Status Core::open_sealed(Node& node) {
  if (node.inode.object == 0 || (node.sealed && node.sealed->object == node.inode.object)) {
    return {};
  }
  VARVE_ASSIGN(node.sealed, Sealed::load(*index_, node.inode.object));
  return {};
}

Status Core::read_content(Node& node, uint64_t offset, std::span<std::byte> out, const ViewLevels& levels,
                          DamageHandler* damage) {
  if (!node.staging) {
    if (node.inode.object == 0) {
      std::memset(out.data(), 0, out.size());
      return {};
    }
    if (!node.sealed) {
      return Error{EIO, "the sealed content is not open"};
    }
    return reader_.read(*node.sealed, offset, out, levels, damage);
  }
  Staging& staging = *node.staging;
  if (staging.base() == 0) {
    return staging.read(offset, out);
  }
  Status status;
  staging.dirty().split(offset, offset + out.size(), [&](uint64_t begin, uint64_t end, bool staged) {
    std::span<std::byte> part = out.subspan(begin - offset, end - begin);
    if (staged) {
      status = staging.read(begin, part);
      return status.ok();
    }
    const uint64_t below = std::clamp(staging.base_limit(), begin, end);
    if (below > begin) {
      status = node.sealed ? reader_.read(*node.sealed, begin, part.first(below - begin), levels, damage)
                           : Status(Error{EIO, "the sealed content is not open"});
    }
    std::memset(part.data() + (below - begin), 0, end - below);
    return status.ok();
  });
  return status;
}

/// EIO unless every byte of the file is as it was written. The node's lock is held.
Status Core::check_exact(const Node& node) {
  if (!node.sealed || node.inode.object == 0) {
    return {};
  }
  for (size_t i = 0; i < node.sealed->codecs.size(); ++i) {
    if (node.sealed->codecs[i].info().absolute_bound > 0) {
      const ArrayEntry& entry = node.sealed->layout.arrays[i];
      return Error{EIO, fmt::format("{} is not bit-exact: array \"{}\" is stored under the bound {}", node.name,
                                    entry.region.name, codec::to_string(entry.bound))};
    }
  }
  return {};
}

Result<std::vector<uint8_t>> Core::bound_levels(const Node& node, const Handle& handle) {
  if (!handle.bound || !node.sealed || node.inode.object == 0) {
    return std::vector<uint8_t>();
  }
  return levels_within(*node.sealed, *handle.bound);
}

/// The node's staging, made if there is none. The lock is held exclusively.
Result<Staging*> Core::staging_of(Node& node) {
  if (!node.staging) {
    VARVE_TRY(open_sealed(node));
    const uint64_t limit = node.inode.object == 0 ? 0 : node.inode.size;
    node.staging =
        std::make_unique<Staging>(index_->device(), staging_directory_, index_->new_cookie(), node.inode.object, limit);
    node.staging_synced = false;
    if (node.inode.object == 0 && node.inode.size > 0) {
      VARVE_TRY(node.staging->truncate(node.inode.size));
    }
  }
  return node.staging.get();
}

/// Notes what is staged in a file, unless less than `least` bytes of it are new: without a sync, for a start after the
/// daemon was killed. The node's lock is held.
Status Core::note_unsynced(Node& node, uint64_t least) {
  const uint64_t run = index_->machine_run().number;
  if (run == 0 || !node.staging || node.staging->unnoted() < std::max<uint64_t>(least, 1)) {
    return {};
  }
  index::Batch batch;
  node.staging->put_notes(batch, node.number, run);
  VARVE_TRY(commit(std::move(batch)));
  node.staging->notes_put(run);
  return {};
}

void Core::content_changed(Node& node) {
  node.inode.size = node.staging ? node.staging->size() : node.inode.size;
  node.inode.modified = node.inode.changed = now();
  node.inode_changed = true;
  node.last_write = std::chrono::steady_clock::now();
  ++node.version;
}

Result<OpenFile> Core::open(const Caller& caller, InodeNumber inode, int flags) {
  if (view_of(inode) != View::none) {
    return open_view(caller, inode, flags);
  }
  const bool writable = opens_for_writing(flags);
  if (writable) {
    VARVE_TRY(check_writable());
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
  auto handle = std::make_unique<Handle>();
  handle->writable = writable;
  return open_node(node, std::move(handle), flags);
}

/// Opens a real file, or a view of it as the handle says.
Result<OpenFile> Core::open_node(const NodePointer& node, std::unique_ptr<Handle> handle, int flags) {
  if (auto rules = policy_.current();
      options_.interpolate_damage && rules->may_degrade() && !handle->writable && !handle->exact_only) {
    VARVE_ASSIGN(handle->path, path_of(node->number));
    handle->rules = std::move(rules);
  }
  NodeLock lock(node->mutex);
  if (S_ISDIR(node->inode.mode)) {
    return Error{EISDIR, "a directory"};
  }
  wait_for_seal(node, lock);
  VARVE_TRY(check_exists(*node));
  VARVE_TRY(open_sealed(*node));
  if (handle->exact_only) {
    VARVE_TRY(check_exact(*node));
  }
  VARVE_TRY(bound_levels(*node, *handle));
  if (handle->writable && (flags & O_TRUNC) != 0) {
    VARVE_TRY(truncate(*node, 0));
  }
  handle->node = node;
  ++node->handles;
  node->writers += handle->writable ? 1 : 0;
  if (!handle->writable && node->inode.object != 0 && handle->shows_node()) {
    remember_opened(node);
  }
  OpenFile opened;
  // Pages of what was interpolated: another handle may not be given it, and a shared mapping would write it back.
  const bool degraded = node->inode.object != 0 && !damage_of(*node).empty();
  if (handle->virtual_inode != 0) {
    const bool same = keep_view_pages(*node, handle->virtual_inode);
    opened.keep_cache = same && !degraded && !handle->bound;  // another bound may have had this number
  } else {
    opened.keep_cache = !node->stale_pages && !degraded;
    node->stale_pages = false;
  }
  opened.handle = reinterpret_cast<uint64_t>(handle.release());
  return opened;
}

Result<std::pair<Entry, OpenFile>> Core::create(const Caller& caller, InodeNumber parent, std::string_view name,
                                                uint32_t mode, int flags) {
  index::Inode inode;
  inode.mode = S_IFREG | (mode & ~uint32_t{S_IFMT});
  VARVE_ASSIGN(const NodePointer node, add_entry(caller, parent, name, std::move(inode)));
  VARVE_ASSIGN(const Entry entry, entry_of(node));
  auto opened = open(caller, node->number, (flags & ~O_TRUNC));
  if (!opened.ok()) {
    forget(node->number, 1);
    return opened.error();
  }
  return std::pair{entry, *opened};
}

Result<size_t> Core::read(const Caller&, uint64_t handle, uint64_t offset, std::span<std::byte> out) {
  return read_handle(handle_at(handle), offset, out, true);
}

/// `may_degrade`: to a program, if the handle's rules allow it. While the file is open for writing they do not: what is
/// interpolated must not come back, as the rest of a page that a program changes by a shared mapping.
Result<size_t> Core::read_handle(Handle& open, uint64_t offset, std::span<std::byte> out, bool may_degrade) {
  if (!open.node) {
    const std::lock_guard lock(open.mutex);
    const size_t length =
        offset < open.content.size() ? std::min<uint64_t>(out.size(), open.content.size() - offset) : 0;
    if (length > 0) {
      std::memcpy(out.data(), open.content.data() + offset, length);
    }
    return length;
  }
  Node& node = *open.node;
  const std::shared_lock lock(node.mutex);
  ReadDamage damage(*this, open);
  DamageHandler* const handler = may_degrade && open.rules && node.writers == 0 ? &damage : nullptr;
  if (open.image) {
    return read_image(open, offset, out, handler);
  }
  if (offset >= node.inode.size) {
    return size_t{0};
  }
  const size_t length = std::min<uint64_t>(out.size(), node.inode.size - offset);
  if (open.exact_only) {
    VARVE_TRY(check_exact(node));
  }
  VARVE_ASSIGN(const std::vector<uint8_t> levels, bound_levels(node, open));
  VARVE_TRY(read_content(node, offset, out.first(length), levels.empty() ? ViewLevels(open.finest) : ViewLevels(levels),
                         handler));
  return length;
}

Result<size_t> Core::write(const Caller& caller, uint64_t handle, uint64_t offset, std::span<const std::byte> data) {
  Handle& open = handle_at(handle);
  if (offset > kMaxFileSize || data.size() > kMaxFileSize - offset) {
    return Error{EFBIG, "a file has at most 2^60 bytes"};
  }
  if (!open.node) {
    const std::lock_guard lock(open.mutex);
    if (offset + data.size() > kMostControlBytes) {
      open.content.clear();  // a part of it is not obeyed when it is closed
      open.changed = false;
      return Error{EFBIG, "a control file has at most 80 MiB"};
    }
    open.content.resize(std::max<size_t>(open.content.size(), offset + data.size()));
    std::memcpy(open.content.data() + offset, data.data(), data.size());
    open.changed = true;
    VARVE_TRY(check_view(open));
    return data.size();
  }
  Node& node = *open.node;
  const NodeLock lock(node.mutex);
  if (open.descriptor_closed && !caller.writes_pages_back) {  // another descriptor shares the handle
    open.descriptor_closed = false;
    --node.closing_writers;
  }
  VARVE_TRY(index_->check_room());
  VARVE_ASSIGN(Staging* const staging, staging_of(node));
  VARVE_TRY(staging->write(offset, data));
  content_changed(node);
  VARVE_TRY(note_unsynced(node, kNoteBytes));
  return data.size();
}

Status Core::flush(const Caller&, uint64_t handle) {
  Handle& open = handle_at(handle);
  if (!open.node) {
    return close_view(open);
  }
  Node& node = *open.node;
  const NodeLock lock(node.mutex);
  if (open.writable && !open.descriptor_closed) {
    open.descriptor_closed = true;
    ++node.closing_writers;
  }
  // Programs that read have written nothing that could be lost; whoever writes, or asks by fsync, is told.
  return open.writable ? std::exchange(node.write_error, Status()) : Status();
}

void Core::release(uint64_t handle) {
  const std::unique_ptr<Handle> open(&handle_at(handle));
  const NodePointer node = open->node;
  if (!node) {
    return;
  }
  const NodeLock lock(node->mutex);
  --node->handles;
  if (open->writable) {
    --node->writers;
    node->closing_writers -= open->descriptor_closed ? 1 : 0;
  }
  if (node->inode.links == 0 && node->handles == 0) {
    index::Batch batch;
    batch.frees_space();
    erase_content(batch, *node);
    batch.erase_note(orphan_note(node->number));
    if (commit(std::move(batch)).ok()) {  // else the next start finds the note and repeats it
      content_erased(*node);
    }
  } else if (node->writers == 0) {
    if (node->staging && node->inode.links > 0) {
      static_cast<void>(note_unsynced(*node, 0));  // the seal needs the same disk, and tells
      queue_seal(node);
    } else if (node->inode_changed) {
      index::Batch batch;
      put_inode(batch, *node);
      node->inode_changed = !commit(std::move(batch)).ok();
    }
  }
  node->changed.notify_all();
}

Status Core::fsync(const Caller&, uint64_t handle, bool) {
  Handle& open = handle_at(handle);
  if (!open.node || options_.read_only) {
    return {};
  }
  Node& node = *open.node;
  {
    NodeLock lock(node.mutex);
    const bool quiet = std::chrono::steady_clock::now() - node.last_write >= options_.quiet;
    if (node.staging && node.inode.links > 0 && node.seal == SealState::none && quiet) {
      // A seal that fails leaves the data staged, and that is synced below.
      static_cast<void>(seal(open.node, lock, node.writers > 0));
    }
    index::Batch batch;
    if (node.staging) {
      VARVE_TRY(node.staging->sync());
      node.staging->put_notes(batch, node.number, 0);
      node.staging_synced = true;  // also if the commit fails: it may reach the disk
    }
    const bool changed = node.inode_changed && node.inode.links > 0;
    if (changed) {
      put_inode(batch, node);
    }
    VARVE_TRY(batch.empty() ? index_->sync() : index_->commit(std::move(batch), index::Durability::synced));
    node.inode_changed = node.inode_changed && !changed;
    if (node.staging) {
      node.staging->notes_put(0);
    }
    return std::exchange(node.write_error, Status());
  }
}

/// What is staged goes, after a commit that erased its note. The file that an fsync promised must not go before that
/// commit is safe from a power cut; if it cannot be made safe, the next start removes the file.
void Core::drop_staging(Node& node) {
  if (node.staging && (!node.staging->in_file() || !node.staging_synced || index_->sync().ok())) {
    node.staging->discard();
  }
  node.staging.reset();
  node.staging_synced = false;
}

/// The file becomes empty and unsealed.
Status Core::clear_content(Node& node) {
  index::Batch batch;
  batch.frees_space();
  if (node.inode.object != 0) {
    batch.release(node.inode.object);
  }
  if (node.staging) {
    node.staging->erase_notes(batch, node.number);
  }
  index::Inode cleared = node.inode;
  cleared.object = 0;
  cleared.size = 0;
  cleared.stored = 0;
  cleared.modified = cleared.changed = now();
  batch.put_inode(cleared);
  VARVE_TRY(commit(std::move(batch)));
  node.inode = cleared;
  node.inode_changed = false;
  node.sealed.reset();
  drop_staging(node);
  node.failed_seals = 0;
  node.write_error = {};  // what could not be sealed is gone
  ++node.version;
  static_cast<void>(recheck_damage(node));
  return {};
}

/// The lock is held exclusively.
Status Core::truncate(Node& node, uint64_t size) {
  if (size > kMaxFileSize) {
    return Error{EFBIG, "a file has at most 2^60 bytes"};
  }
  if (size == 0) {
    return clear_content(node);
  }
  if (size != node.inode.size) {
    const bool grows = size > node.inode.size;
    if (grows) {
      VARVE_TRY(index_->check_room());
    }
    VARVE_ASSIGN(Staging* const staging, staging_of(node));
    Status status = staging->truncate(size);
    if (!status.ok() && !grows && status.error().code == ENOSPC && index_->give_up_reserve(status.error())) {
      status = staging->truncate(size);
    }
    VARVE_TRY(std::move(status));
  }
  content_changed(node);
  return {};
}

Status Core::allocate(const Caller&, uint64_t handle, int mode, uint64_t offset, uint64_t length) {
  Handle& open = handle_at(handle);
  const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  const bool punch = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  if (!open.node || (mode & ~known) != 0 || (punch && !keep_size)) {
    return Error{EOPNOTSUPP, fmt::format("fallocate mode {:#x} is not supported", mode)};
  }
  if (length == 0) {
    return Error{EINVAL, "fallocate of no bytes"};
  }
  if (offset > kMaxFileSize || length > kMaxFileSize - offset) {
    return Error{EFBIG, "a file has at most 2^60 bytes"};
  }
  Node& node = *open.node;
  const NodeLock lock(node.mutex);
  const bool zero = punch || (mode & FALLOC_FL_ZERO_RANGE) != 0;
  const uint64_t end = offset + length;
  if (!zero && keep_size && !node.staging && node.inode.object != 0) {
    return {};  // what is sealed needs no room
  }
  VARVE_TRY(index_->check_room());
  VARVE_ASSIGN(Staging* const staging, staging_of(node));
  if (!keep_size && end > staging->size()) {
    VARVE_TRY(staging->truncate(end));
  }
  if (zero) {
    VARVE_TRY(staging->punch(offset, length));
  } else {
    VARVE_TRY(staging->reserve(offset, length));
  }
  content_changed(node);
  return {};
}

Result<uint64_t> Core::seek_sealed(const Sealed& sealed, uint64_t offset, bool data) {
  const Layout& layout = sealed.layout;
  while (offset < layout.size) {
    const Extent& extent = layout.extent_at(offset);
    const bool hole = extent.kind == Extent::Kind::hole;
    if (hole != data) {
      return offset;
    }
    offset = extent.offset + extent.length;
  }
  return data ? Result<uint64_t>(Error{ENXIO, "no data after this offset"}) : Result<uint64_t>(layout.size);
}

Result<uint64_t> Core::seek(const Caller&, uint64_t handle, uint64_t offset, int whence) {
  Handle& open = handle_at(handle);
  if (!open.node || (whence != SEEK_DATA && whence != SEEK_HOLE)) {
    return Error{EINVAL, "lseek: only SEEK_DATA and SEEK_HOLE come here"};
  }
  Node& node = *open.node;
  std::shared_lock lock(node.mutex);
  KernelCache* const cache = kernel_cache_.load();
  if (cache != nullptr && node.writers > 0 && !open.image) {  // a hole may have been filled through a map
    lock.unlock();
    cache->take_mapped_writes(node.number);
    lock.lock();
  }
  const uint64_t size = open.image ? open.image->image.size : node.inode.size;
  if (offset >= size) {
    return Error{ENXIO, "seek past the end of the file"};
  }
  const bool data = whence == SEEK_DATA;
  if (open.image) {
    return data ? offset : size;
  }
  if (node.staging && node.staging->base() == 0) {
    return node.staging->seek(offset, data);
  }
  if (!node.staging && node.sealed) {
    return seek_sealed(*node.sealed, offset, data);
  }
  return data ? offset : node.inode.size;
}

/// Makes an empty file hold the same records as a sealed one. False: it cannot be done this way.
bool Core::share_content(Node& from, Node& to) {
  if (from.staging || from.inode.object == 0 || to.staging || to.inode.object != 0 || to.inode.size != 0) {
    return false;
  }
  const auto policy = policy_of(to.number);
  if (!from.sealed || !policy.ok() || !may_share(*from.sealed, *policy)) {
    return false;
  }
  index::Batch batch;
  index::Inode inode = to.inode;
  inode.object = from.inode.object;
  inode.size = from.inode.size;
  inode.stored = from.inode.stored;
  inode.modified = inode.changed = now();
  batch.reference(inode.object);
  batch.put_inode(inode);
  if (!commit(std::move(batch)).ok()) {
    return false;
  }
  to.inode = inode;
  to.inode_changed = false;
  to.sealed = from.sealed;
  ++to.version;
  return true;
}

Result<size_t> Core::copy_range(const Caller& caller, uint64_t from_handle, uint64_t from_offset, uint64_t to_handle,
                                uint64_t to_offset, size_t length) {
  Handle& from = handle_at(from_handle);
  Handle& to = handle_at(to_handle);
  if (!from.node || !to.node) {
    return Error{EXDEV, "virtual files are copied by reading and writing"};
  }
  if (from.node != to.node && from.shows_node() && from_offset == 0 && to_offset == 0) {
    const auto locks = lock_both(*from.node, *to.node);
    const uint64_t size = from.node->inode.size;
    if (length >= size && share_content(*from.node, *to.node)) {
      return size;
    }
  }
  std::vector<std::byte> piece(std::min(length, kCopyPiece));
  size_t copied = 0;
  length = std::min(length, kCopyAtMost);
  while (copied < length) {
    const std::span<std::byte> part(piece.data(), std::min(piece.size(), length - copied));
    const auto got = read_handle(from, from_offset + copied, part, false);
    if (!got.ok() && copied == 0) {
      return got.error();
    }
    if (!got.ok() || *got == 0) {
      break;
    }
    const auto put = write(caller, to_handle, to_offset + copied, part.first(*got));
    if (!put.ok() && copied == 0) {
      return put.error();
    }
    if (!put.ok()) {
      break;
    }
    copied += *put;
  }
  return copied;
}

}  // namespace varve::fs
