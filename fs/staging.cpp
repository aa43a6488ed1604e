#include "fs/staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "fs/log.h"
#include "fs/note_keys.h"
#include "fs/serial.h"

namespace varve::fs {

Staging::Staging(index::Device& device, std::string directory, uint64_t id, index::ObjectId base, uint64_t base_limit)
    : device_(device),
      directory_(std::move(directory)),
      id_(id),
      base_(base),
      base_limit_(base_limit),
      size_(base_limit) {}

Staging::~Staging() = default;

std::string staging_file_name(uint64_t id) { return fmt::format("{:016x}", id); }

std::string Staging::path() const { return directory_ + "/" + staging_file_name(id_); }

Status Staging::spill() {
  if (file_) {
    return {};
  }
  VARVE_ASSIGN(auto opened, device_.open(path(), index::Device::Mode::create));
  VARVE_TRY(opened->truncate(0));  // a daemon that was killed may have left one that no note speaks of
  auto file = std::make_unique<CheckedFile>(std::move(opened), path());
  if (!memory_.empty()) {
    VARVE_TRY(file->write(0, memory_));
  }
  VARVE_TRY(file->truncate(size_));
  file_ = std::move(file);
  memory_ = {};
  return {};
}

Status Staging::write(uint64_t offset, std::span<const std::byte> data) {
  const uint64_t end = offset + data.size();
  if (!file_ && end <= kMemoryLimit && size_ <= kMemoryLimit) {
    memory_.resize(std::max<uint64_t>(memory_.size(), end));
    std::memcpy(memory_.data() + offset, data.data(), data.size());
  } else {
    VARVE_TRY(spill());
    VARVE_TRY(file_->write(offset, data));
  }
  dirty_.add(offset, end);
  size_ = std::max(size_, end);
  return {};
}

Status Staging::read(uint64_t offset, std::span<std::byte> out) {
  if (file_) {
    return file_->read(offset, out);
  }
  size_t got = 0;
  if (offset < memory_.size()) {
    got = std::min<uint64_t>(out.size(), memory_.size() - offset);
    std::memcpy(out.data(), memory_.data() + offset, got);
  }
  if (got < out.size()) {
    std::memset(out.data() + got, 0, out.size() - got);
  }
  return {};
}

Status Staging::truncate(uint64_t size) {
  if (!file_ && size <= kMemoryLimit) {
    memory_.resize(std::min<uint64_t>(memory_.size(), size));
  } else {
    VARVE_TRY(spill());
    VARVE_TRY(file_->truncate(size));
  }
  dirty_.remove(size, UINT64_MAX);
  base_limit_ = std::min(base_limit_, size);
  size_ = size;
  return {};
}

Status Staging::punch(uint64_t offset, uint64_t length) {
  const uint64_t end = std::min(offset + length, size_);
  if (offset >= end) {
    return {};
  }
  if (file_) {
    VARVE_TRY(file_->punch(offset, end - offset));
  } else if (offset < memory_.size()) {
    const uint64_t stop = std::min<uint64_t>(end, memory_.size());
    std::memset(memory_.data() + offset, 0, stop - offset);
  }
  dirty_.add(offset, end);
  return {};
}

Status Staging::reserve(uint64_t offset, uint64_t length) {
  VARVE_TRY(spill());
  return file_->reserve(offset, length);
}

Status Staging::sync() {
  if (!file_) {
    return {};
  }
  VARVE_TRY(file_->sync());
  if (!name_synced_) {
    VARVE_TRY(device_.sync_directory(directory_));
    name_synced_ = true;
  }
  return {};
}

std::string Staging::note(uint64_t run) const {
  SerialWriter out;
  out.number(id_);
  out.number(base_);
  out.number(base_limit_);
  out.number(size_);
  out.number(static_cast<uint64_t>(file_ ? StagingNote::Place::blocks : StagingNote::Place::memory));
  if (file_) {
    out.number(run);
  } else {
    out.text({reinterpret_cast<const char*>(memory_.data()), memory_.size()});
  }
  out.number(dirty_.count());
  for (const auto& [begin, end] : dirty_.intervals()) {
    out.number(begin);
    out.number(end - begin);
  }
  return out.take_text();
}

void Staging::put_notes(index::Batch& batch, index::InodeNumber inode, uint64_t run) {
  const bool synced = run == 0;
  batch.put_note(synced ? staging_note(inode) : unsynced_note(inode), note(run));
  (synced ? noted_ : unsynced_noted_) = true;
  if (!file_) {
    return;
  }
  file_->promise();
  for (const uint64_t group : file_->changed(synced)) {
    const std::string row = file_->row(group);
    if (row.empty() && synced) {
      batch.erase_note(block_note(true, id_, group));
    } else {
      batch.put_note(block_note(synced, id_, group), row);
      (synced ? rows_ : unsynced_rows_).insert(group);
    }
  }
  if (synced && unsynced_noted_) {
    batch.erase_note(unsynced_note(inode));
    for (const uint64_t group : unsynced_rows_) {
      batch.erase_note(block_note(false, id_, group));
    }
  }
}

void Staging::notes_put(uint64_t run) {
  if (file_) {
    file_->promised(run == 0);
  }
  if (run == 0) {
    unsynced_noted_ = false;
    unsynced_rows_.clear();
  }
}

void Staging::erase_notes(index::Batch& batch, index::InodeNumber inode) const {
  if (noted_) {
    batch.erase_note(staging_note(inode));
  }
  if (unsynced_noted_) {
    batch.erase_note(unsynced_note(inode));
  }
  for (const bool synced : {true, false}) {
    for (const uint64_t group : synced ? rows_ : unsynced_rows_) {
      batch.erase_note(block_note(synced, id_, group));
    }
  }
}

uint64_t Staging::unnoted() const {
  return file_ ? file_->changed(false).size() * CheckedFile::kGroup * CheckedFile::kBlock : 0;
}

Result<StagingNote> StagingNote::parse(std::string_view text) {
  SerialReader in(text);
  StagingNote note;
  note.id = in.number();
  note.base = in.number();
  note.base_limit = in.number();
  note.size = in.number();
  const uint64_t place = in.number();
  note.place = static_cast<Place>(std::min<uint64_t>(place, static_cast<uint64_t>(Place::blocks)));
  if (note.place == Place::memory) {
    note.data = in.text();
  } else if (note.place == Place::blocks) {
    note.run = in.number();
  }
  for (uint64_t left = in.count(); left > 0 && !in.failed(); --left) {
    const uint64_t begin = in.number();
    note.dirty.add(begin, begin + in.number());
  }
  if (in.failed() || !in.at_end() || place > static_cast<uint64_t>(Place::blocks)) {
    return Error{EIO, "the note about a file's staged data is malformed"};
  }
  return note;
}

Result<std::unique_ptr<Staging>> Staging::restore(index::Device& device, const std::string& directory,
                                                  const StagingNote& note, std::span<const BlockRow> rows) {
  auto staging = std::make_unique<Staging>(device, directory, note.id, note.base, note.base_limit);
  staging->size_ = note.size;
  staging->dirty_ = note.dirty;
  staging->noted_ = staging->unsynced_noted_ = true;  // there may be both
  const auto* bytes = reinterpret_cast<const std::byte*>(note.data.data());
  staging->memory_.assign(bytes, bytes + note.data.size());
  if (note.in_file()) {
    VARVE_TRY(staging->restore_file(note, rows));
  }
  return staging;
}

Status Staging::restore_file(const StagingNote& note, std::span<const BlockRow> rows) {
  using Mode = index::Device::Mode;
  const bool needed = note.needs_file();
  VARVE_ASSIGN(auto opened, device_.open(path(), needed ? Mode::write : Mode::create));
  VARVE_ASSIGN(const uint64_t on_disk, opened->size());
  file_ = std::make_unique<CheckedFile>(std::move(opened), path());
  if (note.place == StagingNote::Place::blocks) {
    for (const BlockRow& row : rows) {
      VARVE_TRY(file_->load(row.group, row.row));
      (row.synced ? rows_ : unsynced_rows_).insert(row.group);
    }
    file_->set_size(size_);
    return {};
  }
  // The file's size may exceed what was noted; a smaller one is of a truncation that came later.
  if (base_ == 0) {
    // Nothing shows through from below, so writes after the last sync may stay.
    size_ = on_disk;
    dirty_.add(0, on_disk);
  } else if (needed && on_disk < size_) {
    size_ = on_disk;
    base_limit_ = std::min(base_limit_, size_);
    dirty_.remove(size_, UINT64_MAX);
  }
  if (base_ == 0 || needed) {
    return file_->adopt(size_);
  }
  file_->set_size(size_);  // it was not noted what is in there
  return {};
}

void Staging::discard() {
  if (file_) {
    file_.reset();
    if (const Status removed = device_.remove(path()); !removed.ok()) {
      log_line(LogLevel::warning, fmt::format("cannot remove {}: {}", path(), removed.error().text));
    }
  }
}

Result<uint64_t> Staging::allocated() {
  if (file_) {
    return file_->allocated();
  }
  return static_cast<uint64_t>(memory_.size());
}

Result<uint64_t> Staging::seek(uint64_t offset, bool data) {
  if (file_) {
    return file_->seek(offset, data);
  }
  if (offset >= size_) {
    return Error{ENXIO, "seek past the end of the file"};
  }
  if (data) {
    return offset < memory_.size() ? Result<uint64_t>(offset) : Error{ENXIO, "no data after this offset"};
  }
  return std::max<uint64_t>(offset, memory_.size());
}

}  // namespace varve::fs
