#include "fs/check_layouts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fs/note_keys.h"
#include "fs/reader.h"
#include "fs/staging.h"

namespace varve::fs {

using index::Finding;
using index::InodeNumber;
using index::ObjectId;
using index::RecordKey;
using index::StoreCheck;

namespace {

constexpr std::string_view kRestore = "restore the file from a copy, or remove it";

/// What the layout of an object is compared with.
struct Holder {
  InodeNumber inode = 0;
  uint64_t size = 0;
  bool staged = false;  ///< a note tells the file's size
};

/// Which records an object needs and has.
class NeededRecords {
 public:
  explicit NeededRecords(const Sealed& sealed) : sealed_(sealed) {}

  /// A second copy of a record, of which there need not be one.
  bool is_copy(const RecordKey& key) const {
    return key.region > 0 && key.region <= sealed_.codecs.size() && key.level == kCoarseCopyLevel &&
           key.brick < sealed_.codecs[key.region - 1].tile_count();
  }

  /// Is this record one that the layout needs?
  bool knows(const RecordKey& key) const {
    if (index::is_bytes(key)) {
      return key.level == 0 && key.brick < chunks(key.region);
    }
    if (key.region > sealed_.codecs.size()) {
      return false;
    }
    const codec::ArrayCodec& codec = sealed_.codecs[key.region - 1];
    if (key.level == codec::kCoarseLevel) {
      return key.brick < codec.tile_count();
    }
    return key.level < codec::kCoarseLevel && key.brick < codec.brick_count() &&
           has_points(codec, key.brick, key.level);
  }

  /// Every one of them, until `visit` answers false.
  void each(const std::function<bool(const RecordKey&)>& visit) const {
    for (const uint32_t region : {index::kBytesRegion, index::kPatchRegion}) {
      for (uint64_t chunk = 0; chunk < chunks(region); ++chunk) {
        if (!visit({region, 0, chunk})) {
          return;
        }
      }
    }
    for (size_t array = 0; array < sealed_.codecs.size(); ++array) {
      const codec::ArrayCodec& codec = sealed_.codecs[array];
      const auto region = static_cast<uint32_t>(array + 1);
      for (uint64_t tile = 0; tile < codec.tile_count(); ++tile) {
        if (!visit({region, codec::kCoarseLevel, tile})) {
          return;
        }
      }
      for (uint64_t brick = 0; brick < codec.brick_count(); ++brick) {
        for (uint8_t level = 0; level < codec::kCoarseLevel; ++level) {
          if (has_points(codec, brick, level) && !visit({region, level, brick})) {
            return;
          }
        }
      }
    }
  }

  std::string name(const RecordKey& key) const {
    if (index::is_bytes(key)) {
      return fmt::format("chunk {} of its {} (128 KiB)", key.brick,
                         key.region == index::kBytesRegion ? "bytes outside arrays" : "rewritten parts");
    }
    const std::string array = fmt::format("array \"{}\"", sealed_.layout.arrays[key.region - 1].region.name);
    return key.level == codec::kCoarseLevel ? fmt::format("{}, coarse levels of tile {}", array, key.brick)
                                            : fmt::format("{}, level {} of brick {}", array, key.level, key.brick);
  }

 private:
  uint64_t chunks(uint32_t region) const {
    const uint64_t bytes = region == index::kPatchRegion ? sealed_.layout.patch_size : sealed_.layout.stream_size;
    return bytes / kStreamChunk + (bytes % kStreamChunk != 0 ? 1 : 0);
  }
  /// Points of levels >= `level` are a grid; those of `level` alone are in it and not in the next.
  static bool has_points(const codec::ArrayCodec& codec, uint64_t brick, uint8_t level) {
    return codec.level_shape(brick, level) != codec.level_shape(brick, level + 1);
  }

  const Sealed& sealed_;
};

class LayoutCheck {
 public:
  explicit LayoutCheck(StoreCheck& store) : store_(store) {}

  Result<std::unordered_set<InodeNumber>> unlinked();
  Status check_notes();
  Status check_layouts();

 private:
  Status check_orphan(const std::string& key);
  Status check_staging(std::string_view prefix);
  Status check_staging(std::string_view prefix, const std::string& key, const std::string& text);
  Status check_rows(std::string_view prefix);
  Status check_staging_files();
  Status check_object(ObjectId object, const std::vector<Holder>& holders);
  Status check_records(const std::string& where, const Sealed& sealed);
  Finding finding(std::string kind, std::string where, std::string what, std::string remedy) {
    return {Finding::State::left, std::move(kind), std::move(where), std::move(what), std::move(remedy)};
  }

  StoreCheck& store_;
  std::unordered_set<InodeNumber> staged_;         ///< inodes whose content a note tells
  std::unordered_set<std::string> staging_files_;  ///< that notes name
  std::unordered_set<std::string> present_;        ///< in staging/
};

/// Inodes that a note keeps without a name.
Result<std::unordered_set<InodeNumber>> LayoutCheck::unlinked() {
  std::unordered_set<InodeNumber> numbers;
  VARVE_TRY(store_.notes(kOrphanNotes, [&](std::string_view key, std::string_view) {
    if (const auto number = number_in(key, kOrphanNotes)) {
      numbers.insert(*number);
    }
    return true;
  }));
  return numbers;
}

Status LayoutCheck::check_notes() {
  const auto files = store_.device().list(store_.path() + "/staging");
  if (files.ok()) {
    present_.insert(files->begin(), files->end());
  } else if (files.error().code != ENOENT) {
    return files.error();
  }
  std::vector<std::string> orphans;
  VARVE_TRY(store_.notes(kOrphanNotes, [&](std::string_view key, std::string_view) {
    orphans.emplace_back(key);
    return true;
  }));
  for (const std::string& key : orphans) {
    VARVE_TRY(check_orphan(key));
  }
  for (const std::string_view prefix : {kStagingNotes, kUnsyncedNotes}) {
    VARVE_TRY(check_staging(prefix));
  }
  for (const std::string_view prefix : {kBlockNotes, kUnsyncedBlockNotes}) {
    VARVE_TRY(check_rows(prefix));
  }
  VARVE_TRY(check_staging_files());
  VARVE_ASSIGN(const bool wrote, store_.write_repairs());
  static_cast<void>(wrote);
  return {};
}

Status LayoutCheck::check_orphan(const std::string& key) {
  const auto number = number_in(key, kOrphanNotes);
  if (!number) {
    store_.drop_note(finding("note", key, "it names no inode", "erases the note"), key);
    return {};
  }
  VARVE_ASSIGN(const auto inode, store_.inode(*number));
  if (!inode) {
    store_.drop_note(finding("note", key, fmt::format("inode {} does not exist", *number), "erases the note"), key);
  } else if (inode->links > 0) {
    store_.drop_note(finding("note", store_.name_of(*number), "a note says that it was removed, and it has a name",
                             "erases the note"),
                     key);
  } else {
    Finding removed = finding("note", fmt::format("inode {}", *number), "it was removed while it was open",
                              "the next mount erases it");
    removed.state = Finding::State::harmless;
    store_.report(std::move(removed));
  }
  return {};
}

Status LayoutCheck::check_staging(std::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> staged;
  VARVE_TRY(store_.notes(prefix, [&](std::string_view key, std::string_view value) {
    staged.emplace_back(key, value);
    return true;
  }));
  for (const auto& [key, text] : staged) {
    VARVE_TRY(check_staging(prefix, key, text));
  }
  return {};
}

/// Rows about the blocks of staging files that no note names.
Status LayoutCheck::check_rows(std::string_view prefix) {
  std::map<std::string, std::vector<std::string>> unused;  // by file
  VARVE_TRY(store_.notes(prefix, [&](std::string_view key, std::string_view) {
    const std::string_view rest = key.substr(prefix.size());
    const std::string file(rest.substr(0, rest.find('/')));
    if (!staging_files_.contains(file)) {
      unused[file].emplace_back(key);
    }
    return true;
  }));
  for (const auto& [file, keys] : unused) {
    store_.drop_notes(finding("note", "staging/" + file,
                              fmt::format("{} note{} tell{} where its blocks lie, and no file has it", keys.size(),
                                          keys.size() == 1 ? "" : "s", keys.size() == 1 ? "s" : ""),
                              "erases them"),
                      keys);
  }
  return {};
}

/// The note of what is staged of a file: is it of this file, and is its data there?
Status LayoutCheck::check_staging(std::string_view prefix, const std::string& key, const std::string& text) {
  const auto number = number_in(key, prefix);
  VARVE_ASSIGN(const auto inode, store_.inode(number.value_or(0)));
  if (!inode || !S_ISREG(inode->mode)) {
    store_.drop_note(finding("staging", key, number ? fmt::format("inode {} is no file", *number) : "it names no inode",
                             "erases the note"),
                     key);
    return {};
  }
  const std::string where = store_.name_of(*number);
  const auto note = StagingNote::parse(text);
  if (!note.ok()) {
    staged_.insert(*number);
    store_.report(finding("staging", where, note.error().text,
                          "what was staged cannot be found; restore the file from a copy, or remove it"));
    return {};
  }
  VARVE_TRY(store_.require_cookie(note->id));
  const std::string file = staging_file_name(note->id);
  if (note->in_file()) {
    staging_files_.insert(file);
  }
  if (note->base != inode->object) {
    staged_.insert(*number);
    store_.report(finding("staging", where,
                          fmt::format("its staged data belongs over object {}, and its sealed content is object {}",
                                      note->base, inode->object),
                          "restore the file from a copy, or remove it"));
  } else if (prefix == kStagingNotes && note->needs_file() && !present_.contains(file) && inode->links > 0) {
    std::vector<std::string> keys = {key};
    VARVE_TRY(store_.notes(block_notes(true, note->id), [&](std::string_view row, std::string_view) {
      keys.emplace_back(row);
      return true;
    }));
    store_.drop_notes(finding("staging", where, fmt::format("its staged data is lost: staging/{} is missing", file),
                              inode->object != 0 ? "erases the note: the file has its last sealed content again"
                                                 : "erases the note: the file is empty"),
                      keys);
  } else {
    staged_.insert(*number);
    Finding staged =
        finding("staging", where, fmt::format("{} bytes are staged", note->size), "the next mount seals it");
    staged.state = Finding::State::harmless;
    store_.report(std::move(staged));
  }
  return {};
}

/// A file that no note names may have a number that was never made safe, and is used again once the file is gone.
Status LayoutCheck::check_staging_files() {
  for (const std::string& file : present_) {
    if (!staging_files_.contains(file)) {
      Finding unnoted =
          finding("staging", "staging/" + file, "no note speaks of this file", "the next mount removes it");
      unnoted.state = Finding::State::harmless;
      store_.report(std::move(unnoted));
    }
  }
  return {};
}

Status LayoutCheck::check_layouts() {
  std::map<ObjectId, std::vector<Holder>> objects;
  VARVE_TRY(store_.inodes([&](const index::Inode& inode) -> Status {
    const bool staged = staged_.contains(inode.number);
    if (inode.object != 0) {
      objects[inode.object].push_back({inode.number, inode.size, staged});
    }
    if (inode.object != 0 && !S_ISREG(inode.mode)) {
      store_.report(finding("inode", store_.name_of(inode.number), "it has content, and is no regular file",
                            std::string(kRestore)));
    }
    return {};
  }));
  for (const auto& [object, holders] : objects) {
    VARVE_TRY(check_object(object, holders));
  }
  VARVE_ASSIGN(const bool wrote, store_.write_repairs());
  static_cast<void>(wrote);
  return {};
}

Status LayoutCheck::check_object(ObjectId object, const std::vector<Holder>& holders) {
  VARVE_ASSIGN(const auto text, store_.layout(object));
  if (!text) {
    return {};  // reported with the objects
  }
  const std::string where = store_.name_of(holders.front().inode);
  auto layout = Layout::parse(*text);
  if (!layout.ok()) {
    store_.report(finding("layout", where, layout.error().text, std::string(kRestore)));
    return {};
  }
  for (const Holder& holder : holders) {
    if (!holder.staged && holder.size != layout->size) {
      VARVE_TRY(
          store_.set_size(finding("size", store_.name_of(holder.inode),
                                  fmt::format("its inode says {} bytes, its content has {}", holder.size, layout->size),
                                  fmt::format("sets it to {}", layout->size)),
                          holder.inode, layout->size));
    }
  }
  const auto sealed = Sealed::make(object, *std::move(layout));
  if (!sealed.ok()) {
    store_.report(finding("layout", where, sealed.error().text, std::string(kRestore)));
    return {};
  }
  return check_records(where, **sealed);
}

Status LayoutCheck::check_records(const std::string& where, const Sealed& sealed) {
  const NeededRecords needed(sealed);
  uint64_t found = 0;
  uint64_t spare = 0;
  RecordKey first_spare;
  VARVE_TRY(store_.records(sealed.object, [&](const index::RecordInfo& record) {
    const bool known = needed.knows(record.key);
    found += known ? 1 : 0;
    if (!known && !needed.is_copy(record.key) && spare++ == 0) {
      first_spare = record.key;
    }
    return true;
  }));
  if (spare > 0) {
    Finding unused = finding("record", where,
                             fmt::format("{} records are of no use to its layout, the first: region {}, level {}, "
                                         "brick {}",
                                         spare, first_spare.region, first_spare.level, first_spare.brick),
                             "they go when the file is removed or written anew");
    unused.state = Finding::State::harmless;
    store_.report(std::move(unused));
  }
  uint64_t wanted = 0;
  needed.each([&](const RecordKey&) { return ++wanted > 0; });
  if (found == wanted) {
    return {};
  }
  // Which: records come in the order of their keys, and are fewer than wanted.
  const auto order = [](const RecordKey& key) { return std::tuple(key.region, 255 - key.level, key.brick); };
  std::vector<RecordKey> present;
  VARVE_TRY(store_.records(sealed.object, [&](const index::RecordInfo& record) {
    present.push_back(record.key);
    return true;
  }));
  std::optional<RecordKey> missing;
  needed.each([&](const RecordKey& key) {
    if (!std::ranges::binary_search(present, order(key), {}, order)) {
      missing = key;
    }
    return !missing;
  });
  store_.report(finding("record", where,
                        fmt::format("{} of its {} records are missing, the first: {}", wanted - found, wanted,
                                    missing ? needed.name(*missing) : std::string("?")),
                        "reads that need them fail with EIO; " + std::string(kRestore)));
  return {};
}

}  // namespace

Status check_store(StoreCheck& store) {
  VARVE_ASSIGN(const bool whole, store.check_database());
  if (!whole) {
    return {};
  }
  LayoutCheck check(store);
  VARVE_ASSIGN(const auto unlinked, check.unlinked());
  VARVE_TRY(store.check_names(unlinked));
  VARVE_TRY(check.check_notes());
  VARVE_TRY(store.check_objects());
  VARVE_TRY(check.check_layouts());
  return store.close();
}

}  // namespace varve::fs
