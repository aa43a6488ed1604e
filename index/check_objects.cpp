// Objects and their holders, records and the packs that they lie in.
#include <fmt/format.h>

#include <algorithm>

#include "index/check_state.h"

namespace varve::index {
namespace {

struct ObjectFacts {
  bool published = false, pending = false, dying = false;
  std::optional<uint64_t> count;  ///< holders, as its row says
  bool layout = false;
  bool counted() const { return published || dying; }  ///< its records are live bytes
};

/// Where a record lies. Rows that share one have the same.
struct Range {
  uint32_t pack = 0;
  uint64_t begin = 0, end = 0;
  auto operator<=>(const Range&) const = default;
};

/// What is wrong with the records of one object.
struct BadRecords {
  uint64_t count = 0;
  std::string first;
};

constexpr std::string_view kRestoreFile = "reads that need them fail with EIO until the file is restored or removed";

class ObjectCheck {
 public:
  explicit ObjectCheck(CheckState& state) : state_(state) {}

  Status run() {
    VARVE_TRY(load_objects());
    VARVE_TRY(load_layouts());
    VARVE_TRY(check_holders());
    VARVE_TRY(open_packs());
    VARVE_TRY(check_records());
    check_overlaps();
    VARVE_TRY(check_live_bytes());
    VARVE_TRY(state_.require_counter("next_object", highest_object_));
    return state_.require_counter("next_pack", highest_pack_);
  }

 private:
  Status load_objects();
  Status load_layouts();
  Status check_holders();
  void check_object(ObjectId object, ObjectFacts& facts, uint64_t holders);
  Status open_packs();
  Status check_records();
  void check_record(const Identity& identity, std::string_view value);
  void finish_object(ObjectId object);
  void check_overlaps();
  Status check_live_bytes();

  CheckState& state_;
  std::unordered_map<ObjectId, ObjectFacts> objects_;
  std::unique_ptr<Packs> packs_;
  std::map<uint32_t, PackFacts> files_;
  std::map<uint32_t, uint64_t> live_;
  std::vector<Range> ranges_;
  BadRecords bad_;          ///< of the object whose records are being read
  uint64_t ownerless_ = 0;  ///< of it, records of no object
  uint64_t highest_object_ = 0;
  uint64_t highest_pack_ = 0;
};

Status ObjectCheck::load_objects() {
  state_.counts.objects = 0;
  return state_.tree->scan(Family::object, {}, {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
    const auto object = parse_object_key(key);
    const char tag = key.empty() ? '\0' : key.front();
    if (!object || (tag != 'o' && tag != 'u' && tag != 'd')) {
      state_.repairable("object", "row of an object", "its key is malformed", "erases the row");
      state_.erase(Family::object, std::string(key));
      return true;
    }
    highest_object_ = std::max(highest_object_, *object);
    ObjectFacts& facts = objects_[*object];
    facts.published = facts.published || tag == 'o';
    facts.pending = facts.pending || tag == 'u';
    facts.dying = facts.dying || tag == 'd';
    if (tag == 'o') {
      facts.count = parse_count(value);
      ++state_.counts.objects;
    }
    return true;
  });
}

Status ObjectCheck::load_layouts() {
  return state_.tree->scan(Family::layout, {}, {}, [&](std::string_view key, std::string_view) -> Result<bool> {
    const ObjectId object = parse_number_key(key);
    const auto found = objects_.find(object);
    const bool held = state_.holder.contains(object);
    if (key.size() == 8 && (found != objects_.end() || held)) {
      objects_[object].layout = true;
      return true;
    }
    state_.repairable("layout", fmt::format("object {}", object), "its layout is there and the object is not",
                      "erases the layout");
    state_.erase(Family::layout, std::string(key));
    return true;
  });
}

/// The number of an object's holders is the number of inodes that refer to it.
Status ObjectCheck::check_holders() {
  std::unordered_map<ObjectId, uint64_t> holders;
  for (const auto& [number, facts] : state_.inodes) {
    if (facts.object != 0) {
      ++holders[facts.object];
      objects_[facts.object];
      highest_object_ = std::max(highest_object_, facts.object);
    }
  }
  std::vector<ObjectId> sorted;
  sorted.reserve(objects_.size());
  for (const auto& [object, facts] : objects_) {
    sorted.push_back(object);
  }
  std::ranges::sort(sorted);
  for (const ObjectId object : sorted) {
    const auto found = holders.find(object);
    check_object(object, objects_[object], found == holders.end() ? 0 : found->second);
  }
  return {};
}

void ObjectCheck::check_object(ObjectId object, ObjectFacts& facts, uint64_t holders) {
  const auto key = [object](ObjectTag tag) { return object_key(tag, object); };
  if (holders > 0) {
    if (!facts.published || facts.count != holders) {
      state_.repairable("object", state_.name_of_object(object),
                        facts.published ? fmt::format("{} inodes refer to it, and its count says {}", holders,
                                                      facts.count ? fmt::format("{}", *facts.count) : "nothing")
                                        : fmt::format("{} inodes refer to it, and it is not published", holders),
                        fmt::format("sets its count to {}", holders));
      state_.put(Family::object, key(ObjectTag::published), count_value(holders));
      facts.published = true;
    }
    if (facts.pending || facts.dying) {
      state_.repairable("object", state_.name_of_object(object), "a row says that it is to be erased, and it is in use",
                        "erases that row");
      state_.erase(Family::object, key(ObjectTag::unpublished));
      state_.erase(Family::object, key(ObjectTag::dying));
      facts.pending = facts.dying = false;
    }
    if (!facts.layout) {
      state_.problem("layout", state_.name_of_object(object), "its layout is missing: the content is lost",
                     "restore the file from a copy, or remove it");
    }
    return;
  }
  if (facts.published) {
    state_.repairable("object", fmt::format("object {}", object), "no inode refers to it",
                      "gives it up; the next mount frees its space");
    state_.erase(Family::object, key(ObjectTag::published));
    state_.put(Family::object, key(ObjectTag::dying), {});
    facts.published = false;
    facts.dying = true;
  }
  if (facts.dying && facts.pending) {
    state_.repairable("object", fmt::format("object {}", object), "it is both pending and given up",
                      "erases the row that says pending");
    state_.erase(Family::object, key(ObjectTag::unpublished));
    facts.pending = false;
  }
  if (facts.pending || facts.dying) {
    state_.harmless("object", fmt::format("object {}", object),
                    facts.dying ? "it was given up and is not erased yet" : "its making was interrupted",
                    "the next mount erases it");
  }
}

Status ObjectCheck::open_packs() {
  const std::string directory = state_.path + "/packs";
  auto packs = Packs::open(state_.device, directory, UINT64_MAX);
  if (!packs.ok() && packs.error().code == ENOENT && state_.repair) {
    VARVE_TRY(state_.device->make_directory(directory));
    packs = Packs::open(state_.device, directory, UINT64_MAX);
  }
  if (!packs.ok() && packs.error().code != ENOENT) {
    return packs.error();
  }
  if (packs.ok()) {
    packs_ = *std::move(packs);
    files_ = packs_->facts();
  }
  state_.counts.packs = files_.size();
  state_.counts.pack_bytes = 0;
  for (const auto& [number, facts] : files_) {
    state_.counts.pack_bytes += facts.size;
  }
  return {};
}

Status ObjectCheck::check_records() {
  state_.counts.records = 0;
  ObjectId last = 0;
  VARVE_TRY(
      state_.tree->scan(Family::record, {}, {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
        const auto identity = parse_record_key(key);
        if (!identity) {
          state_.repairable("record", "row of a record", "its key is malformed", "erases the row");
          state_.erase(Family::record, std::string(key));
          return true;
        }
        if (identity->object != last) {
          finish_object(last);
          last = identity->object;
        }
        ++state_.counts.records;
        highest_object_ = std::max(highest_object_, last);
        if (!objects_.contains(last)) {
          ++ownerless_;
          state_.erase(Family::record, std::string(key));
          return true;
        }
        check_record(*identity, value);
        return true;
      }));
  finish_object(last);
  return {};
}

void ObjectCheck::check_record(const Identity& identity, std::string_view value) {
  const ObjectFacts& object = objects_[identity.object];
  const auto bad = [&](std::string what) {
    if (object.published && bad_.count++ == 0) {
      bad_.first = std::move(what);
    }
  };
  const auto record = parse_record_value(value);
  if (!record) {
    bad(fmt::format("the row of record ({}) is malformed", describe(identity)));
    return;
  }
  if (!record->packed || !object.counted()) {
    return;
  }
  live_[record->pack] += record->pack_bytes();
  highest_pack_ = std::max<uint64_t>(highest_pack_, record->pack);
  if (!files_.contains(record->pack)) {
    bad(fmt::format("record ({}) lies in pack {}, which is missing", describe(identity), record->pack));
    return;
  }
  const uint64_t end = record->offset + record->pack_bytes();
  if (const Status checked = packs_->check(*record); !checked.ok()) {
    bad(checked.error().text);
  } else {
    ranges_.push_back({record->pack, record->offset, end});
  }
}

/// Reports what was found in the records of an object.
void ObjectCheck::finish_object(ObjectId object) {
  if (bad_.count > 0) {
    state_.problem("record", state_.name_of_object(object),
                   fmt::format("{} of its records cannot be read; {}", bad_.count, bad_.first),
                   std::string(kRestoreFile));
  }
  if (ownerless_ > 0) {
    state_.repairable("record", fmt::format("object {}", object),
                      fmt::format("{} records are there and the object is not", ownerless_), "erases their rows");
  }
  bad_ = {};
  ownerless_ = 0;
}

/// Of two records that lie over each other, one at least was overwritten.
void ObjectCheck::check_overlaps() {
  std::ranges::sort(ranges_);
  ranges_.erase(std::unique(ranges_.begin(), ranges_.end()), ranges_.end());
  for (size_t i = 1; i < ranges_.size(); ++i) {
    const Range& before = ranges_[i - 1];
    if (before.pack == ranges_[i].pack && before.end > ranges_[i].begin) {
      state_.problem("pack", fmt::format("pack {}", before.pack),
                     fmt::format("the records at offsets {} and {} overlap", before.begin, ranges_[i].begin),
                     "one of them was overwritten; varve scrub tells whose");
    }
  }
}

Status ObjectCheck::check_live_bytes() {
  std::map<uint32_t, uint64_t> rows;
  VARVE_TRY(state_.tree->scan(Family::pack, {}, {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
    const uint64_t number = parse_number_key(key);
    if (key.size() != 8 || number > UINT32_MAX) {
      state_.repairable("pack", "row of a pack", "its key is malformed", "erases the row");
      state_.erase(Family::pack, std::string(key));
      return true;
    }
    highest_pack_ = std::max(highest_pack_, number);
    const auto pack = static_cast<uint32_t>(number);
    const auto live = parse_count(value);
    const uint64_t sum = live_.contains(pack) ? live_[pack] : 0;
    rows[pack] = sum;
    if (live != sum) {
      state_.repairable("pack", fmt::format("pack {}", pack),
                        fmt::format("its records take {} bytes, and its row says {}", sum,
                                    live ? fmt::format("{}", *live) : "nothing"),
                        fmt::format("sets it to {}", sum));
      state_.put(Family::pack, number_key(pack), count_value(sum));
    }
    return true;
  }));
  for (const auto& [pack, sum] : live_) {
    if (sum > 0 && !rows.contains(pack)) {
      state_.repairable("pack", fmt::format("pack {}", pack),
                        fmt::format("its records take {} bytes, and it has no row", sum), "makes its row");
      state_.put(Family::pack, number_key(pack), count_value(sum));
    }
  }
  for (const auto& [number, facts] : files_) {
    if (const auto live = live_.find(number); live == live_.end() || live->second == 0) {
      state_.harmless("pack", fmt::format("pack {}", number),
                      fmt::format("nothing refers to it, it takes {} bytes", facts.size), "a mount frees them in time");
    }
  }
  return {};
}

}  // namespace

Status check_objects_once(CheckState& state) { return ObjectCheck(state).run(); }

}  // namespace varve::index
