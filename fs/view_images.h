// What the views .varve/region/SPEC/ and .varve/coarse/K/ keep in memory: images of files, and the SPECs in use.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "fs/image_reader.h"
#include "fs/node.h"
#include "fs/view_numbers.h"

namespace varve::fs {

/// An image of a file as it was when the image was made. Thread-safe but for the members that are public, which do not
/// change.
class ViewImage {
 public:
  /// The node's lock is held.
  ViewImage(FileImage from, const NodePointer& of);

  /// Whether the file has the content that the image was made of. The node's lock is held.
  bool shows(const NodePointer& node) const;
  /// See fs::arrays_of; found once for a sealed content.
  std::shared_ptr<const std::vector<std::optional<uint32_t>>> arrays_of(const Sealed& sealed);
  uint64_t memory() const;

  const FileImage image;

 private:
  const std::weak_ptr<Node> node_;
  const uint64_t version_;
  const index::ObjectId object_;  ///< 0: some of it was staged
  std::mutex mutex_;              ///< guards the rest
  index::ObjectId arrays_in_ = 0;
  std::shared_ptr<const std::vector<std::optional<uint32_t>>> arrays_;
};

using ViewImagePointer = std::shared_ptr<ViewImage>;

/// Thread-safe. Images by their inode, least recently used out first.
class ViewImageCache {
 public:
  ViewImagePointer find(InodeNumber view);
  void put(InodeNumber view, ViewImagePointer image);
  /// Those of one view.
  void drop(View view);

 private:
  struct Entry {
    InodeNumber view = 0;
    ViewImagePointer image;
  };
  /// The entry behind it. With mutex_ held.
  std::list<Entry>::iterator remove(std::list<Entry>::iterator entry);

  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<InodeNumber, std::list<Entry>::iterator> places_;
  uint64_t memory_ = 0;
};

/// Thread-safe. The names of folders - SPECs of regions, or bounds - that the kernel knows, each with a view of its
/// own.
class ViewFolders {
 public:
  /// The views from number `first` on, of which there are `most`. `what`: their names, for people.
  ViewFolders(View first, uint64_t most, std::string_view what) : first_(first), most_(most), what_(what) {}
  /// The view of a SPEC, with one more reference. ENOSPC: too many are in use.
  Result<View> open(std::string_view spec);
  /// One more reference to a view that has some.
  void refer(View view);
  /// True: nothing refers to it any more; its number will be another's.
  bool forget(View view, uint64_t count);
  /// "" when there is no such view.
  std::string spec_of(View view);

 private:
  struct Folder {
    std::string spec;
    uint64_t references = 0;
  };
  const View first_;
  const uint64_t most_;
  const std::string_view what_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Folder> folders_;  // by view
  std::unordered_map<std::string, uint64_t> by_spec_;
  uint64_t next_ = 0;
};

}  // namespace varve::fs
