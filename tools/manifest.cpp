#include "tools/manifest.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "fs/note_keys.h"
#include "fs/serial.h"

namespace varve::tools {
namespace {

using index::Dentry;
using index::Inode;
using index::InodeNumber;
using index::ObjectId;

constexpr size_t kLongestName = 255;

Digest as_digest(const XXH128_hash_t& hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  Digest digest;
  std::memcpy(digest.data(), bytes.digest, digest.size());
  return digest;
}

class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(const void* bytes, size_t size) { XXH3_128bits_update(state_.get(), bytes, size); }
  Digest take() const { return as_digest(XXH3_128bits_digest(state_.get())); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

void put_time(fs::SerialWriter& out, const index::Time& time) {
  out.number(static_cast<uint64_t>(time.seconds));
  out.number(time.nanoseconds);
}

index::Time get_time(fs::SerialReader& in) {
  index::Time time;
  time.seconds = static_cast<int64_t>(in.number());
  time.nanoseconds = static_cast<uint32_t>(in.number());
  return time;
}

Result<std::vector<Dentry>> entries_of(index::Index& index, InodeNumber directory) {
  std::vector<Dentry> entries;
  VARVE_TRY(index.list(directory, 0, [&](const Dentry& entry) {
    entries.push_back(entry);
    return true;
  }));
  std::ranges::sort(entries, {}, &Dentry::name);
  return entries;
}

Error malformed() { return {EBADMSG, "the list of files in the stream makes no sense: send it again"}; }

Result<Inode> inode_of(index::Index& index, InodeNumber number) {
  VARVE_ASSIGN(auto inode, index.inode(number));
  if (!inode) {
    return Error{EIO, fmt::format("the store has no inode {} that a directory names: run varve fsck", number)};
  }
  return *std::move(inode);
}

class ManifestWriter {
 public:
  explicit ManifestWriter(index::Index& index) : index_(index) {}

  Result<Manifest> write() {
    VARVE_TRY(add_node(index::kRootInode));
    for (size_t next = 0; next < directories_.size(); ++next) {
      VARVE_ASSIGN(const auto entries, entries_of(index_, directories_[next]));
      out_.number(entries.size());
      for (const Dentry& entry : entries) {
        out_.text(entry.name);
        const auto known = numbers_.find(entry.inode);
        out_.number(known == numbers_.end() ? 0 : known->second);
        if (known == numbers_.end()) {
          VARVE_TRY(add_node(entry.inode));
        }
      }
    }
    made_.text = out_.take_text();
    return std::move(made_);
  }

 private:
  /// The root is number 0, which no entry names: 0 stands for a new node there.
  Status add_node(InodeNumber number) {
    VARVE_ASSIGN(const Inode inode, inode_of(index_, number));
    numbers_.emplace(number, numbers_.size());
    out_.number(inode.mode);
    for (const uint64_t value :
         {uint64_t{inode.uid}, uint64_t{inode.gid}, uint64_t{inode.links}, inode.device, inode.size, inode.stored}) {
      out_.number(value);
    }
    put_time(out_, inode.modified);
    put_time(out_, inode.changed);
    put_time(out_, inode.created);
    out_.text(inode.target);
    VARVE_TRY(add_object(inode.object));
    VARVE_ASSIGN(auto names, index_.xattr_names(number));
    std::ranges::sort(names);
    out_.number(names.size());
    for (const std::string& name : names) {
      VARVE_ASSIGN(const auto value, index_.xattr(number, name));
      out_.text(name);
      out_.text(value.value_or(""));
    }
    if (S_ISDIR(inode.mode)) {
      directories_.push_back(number);
    }
    return {};
  }
  Status add_object(ObjectId object) {
    if (object == 0) {
      out_.text("");
      return {};
    }
    auto known = digests_.find(object);
    if (known == digests_.end()) {
      VARVE_ASSIGN(const Digest digest, digest_of(index_, object));
      known = digests_.emplace(object, digest).first;
      made_.objects.emplace(digest, object);
    }
    out_.text({known->second.data(), known->second.size()});
    return {};
  }

  index::Index& index_;
  fs::SerialWriter out_;
  Manifest made_;
  std::map<InodeNumber, uint64_t> numbers_;
  std::map<ObjectId, Digest> digests_;
  std::vector<InodeNumber> directories_;
};

/// What is in a store, as a batch that removes it.
Status add_removal(index::Index& index, index::Batch& batch) {
  std::vector<InodeNumber> directories = {index::kRootInode};
  std::set<InodeNumber> seen = {index::kRootInode};
  for (size_t next = 0; next < directories.size(); ++next) {
    VARVE_ASSIGN(const auto entries, entries_of(index, directories[next]));
    for (const Dentry& entry : entries) {
      batch.erase_dentry(directories[next], entry);
      if (!seen.insert(entry.inode).second) {
        continue;
      }
      VARVE_ASSIGN(const Inode inode, inode_of(index, entry.inode));
      if (S_ISDIR(inode.mode)) {
        directories.push_back(entry.inode);
      }
      if (inode.object != 0) {
        batch.release(inode.object);
      }
      batch.erase_inode(entry.inode);
    }
  }
  VARVE_ASSIGN(const auto names, index.xattr_names(index::kRootInode));
  for (const std::string& name : names) {
    batch.erase_xattr(index::kRootInode, name);
  }
  return {};
}

/// A manifest as a batch. Trusts nothing that it reads.
class TreeMaker {
 public:
  TreeMaker(index::Index& index, const Manifest& manifest, const std::map<ObjectId, std::string>& fresh,
            index::Batch& batch)
      : index_(index), manifest_(manifest), fresh_(fresh), batch_(batch), in_(manifest.text) {}

  Status make() {
    VARVE_TRY(add_node(index::kRootInode));
    for (size_t next = 0; next < directories_.size(); ++next) {
      VARVE_TRY(add_entries(directories_[next]));
    }
    if (in_.failed() || !in_.at_end() ||
        std::ranges::any_of(nodes_, [](const auto& node) { return node.links_found != node.inode.links; })) {
      return malformed();
    }
    for (const Node& node : nodes_) {
      batch_.put_inode(node.inode);
    }
    return {};
  }

 private:
  struct Node {
    Inode inode;
    uint64_t links_found = 0;
  };

  Status add_node(InodeNumber number) {
    Inode inode;
    inode.number = number;
    inode.parent = number == index::kRootInode ? index::kRootInode : 0;
    inode.mode = static_cast<uint32_t>(in_.number());
    inode.uid = static_cast<uint32_t>(in_.number());
    inode.gid = static_cast<uint32_t>(in_.number());
    inode.links = static_cast<uint32_t>(in_.number());
    inode.device = in_.number();
    inode.size = in_.number();
    inode.stored = in_.number();
    inode.modified = get_time(in_);
    inode.changed = get_time(in_);
    inode.created = get_time(in_);
    inode.accessed = inode.modified;
    inode.target = in_.text();
    VARVE_TRY(take_object(inode));
    const uint64_t xattrs = in_.count(2);
    for (uint64_t i = 0; i < xattrs; ++i) {
      const std::string name = in_.text();
      batch_.put_xattr(number, name, in_.text());
    }
    const bool directory = S_ISDIR(inode.mode);
    if (in_.failed() || (number == index::kRootInode && !directory)) {
      return malformed();
    }
    if (directory) {
      directories_.push_back(nodes_.size());
    }
    nodes_.push_back({std::move(inode), directory ? uint64_t{2} : 0});
    return {};
  }

  Status take_object(Inode& inode) {
    const std::string text = in_.text();
    if (text.empty()) {
      return {};
    }
    Digest digest{};
    if (text.size() != digest.size() || !S_ISREG(inode.mode)) {
      return malformed();
    }
    std::ranges::copy(text, digest.begin());
    const auto found = manifest_.objects.find(digest);
    if (found == manifest_.objects.end()) {
      return malformed();
    }
    inode.object = found->second;
    const auto layout = fresh_.find(inode.object);
    if (layout != fresh_.end() && published_.insert(inode.object).second) {
      batch_.publish(inode.object, layout->second);
    } else {
      batch_.reference(inode.object);
    }
    return {};
  }

  Status add_entries(size_t directory) {
    const InodeNumber parent = nodes_[directory].inode.number;
    const uint64_t entries = in_.count(2);
    std::string before;
    for (uint64_t i = 0; i < entries; ++i) {
      Dentry entry;
      entry.name = in_.text();
      const bool valid = !entry.name.empty() && entry.name != "." && entry.name != ".." && before < entry.name &&
                         entry.name.size() <= kLongestName &&
                         entry.name.find_first_of(std::string("/\0", 2)) == std::string::npos;
      if (!valid || in_.failed()) {
        return malformed();
      }
      before = entry.name;
      size_t node = in_.number();
      if (node == 0) {
        node = nodes_.size();
        VARVE_TRY(add_node(index_.new_inode_number()));
        Inode& made = nodes_[node].inode;
        if (S_ISDIR(made.mode)) {
          made.parent = parent;
          ++nodes_[directory].links_found;
        }
      } else if (node >= nodes_.size() || S_ISDIR(nodes_[node].inode.mode)) {
        return malformed();
      }
      nodes_[node].links_found += S_ISDIR(nodes_[node].inode.mode) ? 0 : 1;
      entry.inode = nodes_[node].inode.number;
      entry.type = nodes_[node].inode.mode & S_IFMT;
      entry.cookie = index_.new_cookie();
      batch_.put_dentry(parent, entry);
    }
    return nodes_[directory].inode.size == entries ? Status() : malformed();
  }

  index::Index& index_;
  const Manifest& manifest_;
  const std::map<ObjectId, std::string>& fresh_;
  index::Batch& batch_;
  fs::SerialReader in_;
  std::vector<Node> nodes_;
  std::vector<size_t> directories_;
  std::set<ObjectId> published_;
};

}  // namespace

Digest digest_of(std::string_view bytes) { return as_digest(XXH3_128bits(bytes.data(), bytes.size())); }

Result<Digest> digest_of(index::Index& index, ObjectId object) {
  VARVE_ASSIGN(const std::string layout, index.layout(object));
  Hasher hasher;
  const std::array<uint64_t, 1> size = {layout.size()};
  hasher.add(size.data(), sizeof size);
  hasher.add(layout.data(), layout.size());
  VARVE_TRY(index.records(object, [&](const index::RecordInfo& record) {
    const std::array<uint64_t, 5> row = {record.key.region, record.key.level, record.key.brick, record.length,
                                         record.checksum};
    hasher.add(row.data(), sizeof row);
    return true;
  }));
  return hasher.take();
}

Result<Manifest> manifest_of(index::Index& index) { return ManifestWriter(index).write(); }

Status replace_tree(index::Index& index, const Manifest& manifest, const std::map<ObjectId, std::string>& fresh) {
  index::Batch batch;
  // What stays is held while its old holders go: names of the root have to go before new ones come.
  std::vector<ObjectId> held;
  for (const auto& [digest, object] : manifest.objects) {
    if (!fresh.contains(object)) {
      held.push_back(object);
      batch.reference(object);
    }
  }
  VARVE_TRY(add_removal(index, batch));
  VARVE_TRY(TreeMaker(index, manifest, fresh, batch).make());
  for (const ObjectId object : held) {
    batch.release(object);
  }
  return index.commit(std::move(batch), index::Durability::synced);
}

Status check_sealed(index::Index& index) {
  uint64_t found = 0;
  for (const std::string_view prefix : {fs::kStagingNotes, fs::kUnsyncedNotes, fs::kOrphanNotes}) {
    VARVE_TRY(index.notes(prefix, [&](std::string_view, std::string_view) {
      ++found;
      return true;
    }));
  }
  return found == 0 ? Status()
                    : Error{ENOTEMPTY, fmt::format("{} holds data that was written and not sealed when it was last in "
                                                   "use: mount it once, unmount it, and try again",
                                                   index.path())};
}

}  // namespace varve::tools
