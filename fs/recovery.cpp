// What a start finds of earlier runs: staged data comes back and is sealed, files that were removed while open go.
#include <fmt/format.h>

#include <unordered_set>

#include "fs/core.h"
#include "fs/log.h"
#include "fs/note_keys.h"

namespace varve::fs {

/// What the index says about the staged data of one inode.
struct Core::FoundStaging {
  std::optional<Result<StagingNote>> synced;
  std::optional<StagingNote> unsynced;  ///< of this run of the machine
  bool stale = false;                   ///< there are unsynced notes, and they hold no more
  std::vector<BlockRow> rows;           ///< those that are in force, synced ones first
  std::vector<std::string> keys;        ///< of all rows

  const StagingNote* note() const { return unsynced ? &*unsynced : synced && synced->ok() ? &**synced : nullptr; }
};

/// All rows of a staging file.
Status Core::find_rows(FoundStaging& found, uint64_t id) {
  for (const bool synced : {true, false}) {
    const std::string prefix = block_notes(synced, id);
    VARVE_TRY(index_->notes(prefix, [&](std::string_view key, std::string_view value) {
      found.keys.emplace_back(key);
      if (synced || found.unsynced) {
        found.rows.push_back({number_in(key, prefix).value_or(UINT64_MAX), synced, std::string(value)});
      }
      return true;
    }));
  }
  return {};
}

Result<std::map<InodeNumber, Core::FoundStaging>> Core::find_staging() {
  std::map<InodeNumber, FoundStaging> staged;
  VARVE_TRY(index_->notes(kStagingNotes, [&](std::string_view key, std::string_view value) {
    staged[number_in(key, kStagingNotes).value_or(0)].synced = StagingNote::parse(value);
    return true;
  }));
  const index::MachineRun run = index_->machine_run();
  std::map<InodeNumber, uint64_t> stale;
  VARVE_TRY(index_->notes(kUnsyncedNotes, [&](std::string_view key, std::string_view value) {
    FoundStaging& found = staged[number_in(key, kUnsyncedNotes).value_or(0)];
    auto note = StagingNote::parse(value);
    if (note.ok() && run.since_last_write && note->run == run.number) {
      found.unsynced = *std::move(note);
    } else {
      found.stale = true;
      stale[number_in(key, kUnsyncedNotes).value_or(0)] = note.ok() ? note->id : 0;
    }
    return true;
  }));
  for (auto& [number, found] : staged) {
    if (const StagingNote* const note = found.note()) {
      VARVE_TRY(find_rows(found, note->id));
    } else if (stale.contains(number)) {
      VARVE_TRY(find_rows(found, stale[number]));
    }
  }
  return staged;
}

void Core::erase_notes(index::Batch& batch, InodeNumber number, const FoundStaging& found) {
  batch.erase_note(staging_note(number));
  batch.erase_note(unsynced_note(number));
  for (const std::string& key : found.keys) {
    batch.erase_note(key);
  }
}

/// Files that were open and unlinked when the last run ended.
Status Core::erase_orphans(std::map<InodeNumber, FoundStaging>& staged) {
  std::vector<InodeNumber> orphans;
  VARVE_TRY(index_->notes(kOrphanNotes, [&](std::string_view key, std::string_view) {
    orphans.push_back(number_in(key, kOrphanNotes).value_or(0));
    return true;
  }));
  for (const InodeNumber number : orphans) {
    index::Batch batch;
    batch.frees_space();
    VARVE_ASSIGN(const std::optional<index::Inode> inode, index_->inode(number));
    if (inode && inode->links == 0) {
      batch.erase_inode(number);
      if (inode->object != 0) {
        batch.release(inode->object);
      }
      if (const auto found = staged.find(number); found != staged.end()) {
        erase_notes(batch, number, found->second);
        staged.erase(found);
      }
    }
    batch.erase_note(orphan_note(number));
    VARVE_TRY(commit(std::move(batch)));
  }
  return {};
}

Status Core::recover() {
  VARVE_ASSIGN(auto staged, find_staging());
  VARVE_TRY(erase_orphans(staged));
  std::unordered_set<std::string> known;
  bool all_known = true;
  for (auto& [number, found] : staged) {
    if (const Status recovered = recover_staging(number, found); !recovered.ok()) {
      // Whatever is left of the data stays where it is.
      const StagingNote* const note = found.note();
      all_known = all_known && note != nullptr;
      known.insert(note != nullptr ? staging_file_name(note->id) : std::string());
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

Status Core::recover_staging(InodeNumber number, FoundStaging& found) {
  const auto drop = [&]() -> Status {
    index::Batch batch;
    batch.frees_space();
    erase_notes(batch, number, found);
    return commit(std::move(batch));
  };
  const auto there = nodes_.get(number);
  if (!there.ok()) {
    return there.error().code == ENOENT ? drop() : Status(there.error());
  }
  const NodePointer& node = *there;
  if (found.synced && !found.synced->ok()) {
    return found.synced->error();
  }
  if (found.note() == nullptr) {
    return drop();  // what a power cut made void
  }
  const StagingNote& note = *found.note();
  VARVE_ASSIGN(std::unique_ptr<Staging> staging,
               Staging::restore(index_->device(), staging_directory_, note, found.rows));
  if (staging->base() != node->inode.object) {
    return Error{EIO, "it belongs over another version of the file than the sealed one"};
  }
  {
    const NodeLock lock(node->mutex);
    if (staging->dirty().empty() && (node->inode.object == 0 || open_sealed(*node).ok())) {
      const uint64_t sealed_size = node->inode.object == 0 ? 0 : node->sealed->layout.size;
      if (staging->size() == sealed_size) {  // nothing was synced that differs from what is sealed
        index::Batch batch;
        batch.frees_space();
        node->inode.size = sealed_size;
        batch.put_inode(node->inode);
        erase_notes(batch, number, found);
        return commit(std::move(batch));
      }
    }
    if (found.stale || note.place == StagingNote::Place::bytes) {
      // One note that has all: of files of version 1, and where unsynced ones hold no more.
      index::Batch batch;
      batch.frees_space();
      erase_notes(batch, number, found);
      VARVE_TRY(staging->sync());
      staging->put_notes(batch, number, 0);
      VARVE_TRY(index_->commit(std::move(batch), index::Durability::synced));
      staging->notes_put(0);
    }
    node->inode.size = staging->size();
    node->inode_changed = true;
    node->staging_synced = found.synced.has_value();
    node->staging = std::move(staging);
    ++node->version;
  }
  queue_seal(node);
  return {};
}

}  // namespace varve::fs
