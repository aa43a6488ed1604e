// Where HDF5 keeps what, after the "HDF5 File Format Specification Version 3.0": superblock, object headers and their
// messages, B-trees, heaps. Structures that only the newest versions have are found by their signatures.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "faults/structure.h"
#include "fs/formats/caching_view.h"
#include "fs/intervals.h"

namespace varve::faults {
namespace {

constexpr uint64_t kNowhere = UINT64_MAX;
constexpr size_t kMostSegments = size_t{1} << 20;
constexpr int kDeepest = 64;

constexpr std::array<std::string_view, 23> kMessages = {
    "nil",       "dataspace",      "link_info",   "datatype",       "fill_value_old", "fill_value",
    "link",      "external_files", "layout",      "bogus",          "group_info",     "filters",
    "attribute", "comment",        "time_old",    "shared_table",   "continuation",   "symbol_table",
    "time",      "b_tree_k",       "driver_info", "attribute_info", "reference_count"};

struct Signature {
  std::string_view bytes;
  std::string_view structure;
};
constexpr std::array<Signature, 22> kSignatures = {
    {{"GCOL", "global_heap"},      {"FRHP", "fractal_heap"},     {"FHDB", "fractal_heap"},
     {"FHIB", "fractal_heap"},     {"BTHD", "b_tree"},           {"BTIN", "b_tree"},
     {"BTLF", "b_tree"},           {"TREE", "b_tree"},           {"FSHD", "free_space"},
     {"FSSE", "free_space"},       {"SMTB", "shared_messages"},  {"SMLI", "shared_messages"},
     {"EAHD", "extensible_array"}, {"EAIB", "extensible_array"}, {"EASB", "extensible_array"},
     {"EADB", "extensible_array"}, {"FAHD", "fixed_array"},      {"FADB", "fixed_array"},
     {"OHDR", "object_header"},    {"OCHK", "object_header"},    {"SNOD", "symbol_node"},
     {"HEAP", "local_heap"}}};

/// A few bytes of the file, read as little-endian numbers; past their end: zeros, and failed().
class Fields {
 public:
  Fields(fs::FileView& file, uint64_t offset, uint64_t length) : bytes_(std::min<uint64_t>(length, 1 << 20)) {
    const auto got = file.read(offset, bytes_);
    bytes_.resize(got.ok() ? *got : 0);
  }
  uint64_t number(size_t width) {
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) {
      value |= at_ < bytes_.size() ? static_cast<uint64_t>(bytes_[at_]) << (8 * i) : 0;
      failed_ = failed_ || at_ >= bytes_.size();
      ++at_;
    }
    return value;
  }
  uint64_t address(size_t width) {
    const uint64_t value = number(width);
    return failed_ || (width < 8 && value == (uint64_t{1} << (8 * width)) - 1) ? kNowhere : value;
  }
  void skip(size_t count) { at_ += count; }
  bool starts_with(std::string_view text) const {
    return bytes_.size() >= text.size() && std::memcmp(bytes_.data(), text.data(), text.size()) == 0;
  }
  std::string text() {
    std::string value;
    for (; at_ < bytes_.size() && bytes_[at_] != std::byte{0}; ++at_) {
      value.push_back(static_cast<char>(bytes_[at_]));
    }
    return value;
  }
  size_t at() const { return at_; }
  bool failed() const { return failed_; }

 private:
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

class Walk {
 public:
  explicit Walk(fs::FileView& file) : file_(file) {}

  std::vector<Segment> run() {
    const uint64_t start = find_superblock();
    if (start != kNowhere) {
      read_superblock(start);
      name_the_rest(start);
    }
    return std::move(segments_);
  }

 private:
  uint64_t find_superblock() {
    constexpr std::string_view kMagic("\x89HDF\r\n\x1a\n", 8);
    for (uint64_t offset = 0; offset + 8 <= file_.size(); offset = offset == 0 ? 512 : offset * 2) {
      if (Fields(file_, offset, 8).starts_with(kMagic)) {
        return offset;
      }
    }
    return kNowhere;
  }

  void claim(uint64_t offset, uint64_t length, std::string_view structure, const std::string& name) {
    if (length == 0 || offset >= file_.size() || segments_.size() >= kMostSegments) {
      return;
    }
    Segment segment;
    segment.offset = offset;
    segment.length = std::min(length, file_.size() - offset);
    segment.structure = structure;
    segment.name = name;
    taken_.add(segment.offset, segment.end());
    segments_.push_back(std::move(segment));
  }
  /// False if it was seen before, or leads nowhere.
  bool visit(uint64_t address) { return address < file_.size() && seen_.insert(address).second; }
  uint64_t place(uint64_t address) const { return address == kNowhere ? kNowhere : base_ + address; }

  void read_superblock(uint64_t start) {
    base_ = start;
    Fields in(file_, start, 128);
    in.skip(8);
    const uint64_t version = in.number(1);
    uint64_t root = kNowhere;
    if (version < 2) {
      in.skip(4);
      offsets_ = in.number(1);
      lengths_ = in.number(1);
      in.skip(1);
      leaf_k_ = in.number(2);
      internal_k_ = in.number(2);
      in.skip(4);
      if (version == 1) {
        chunk_k_ = in.number(2);
        in.skip(2);
      }
      if (!sizes_make_sense()) {
        return;
      }
      in.skip(4 * offsets_ + offsets_);
      root = in.address(offsets_);
      in.skip(24);
      claim(start, in.at(), "superblock", "");
    } else {
      offsets_ = in.number(1);
      lengths_ = in.number(1);
      in.skip(1);
      if (!sizes_make_sense()) {
        return;
      }
      in.skip(offsets_);
      const uint64_t extension = in.address(offsets_);
      in.skip(offsets_);
      root = in.address(offsets_);
      claim(start, in.at() + 4, "superblock", "");
      read_object(place(extension), "(superblock extension)", 0);
    }
    read_object(place(root), "", 0);
  }
  bool sizes_make_sense() const {
    return (offsets_ == 2 || offsets_ == 4 || offsets_ == 8) && (lengths_ == 2 || lengths_ == 4 || lengths_ == 8);
  }

  // --- object headers ---
  void read_object(uint64_t at, const std::string& name, int depth) {
    if (depth > kDeepest || !visit(at)) {
      return;
    }
    Fields in(file_, at, 64);
    if (in.starts_with("OHDR")) {
      in.skip(5);
      const uint64_t flags = in.number(1);
      in.skip(((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0));
      const uint64_t length = in.number(size_t{1} << (flags & 3));
      claim(at, in.at(), "object_header", name);
      read_messages(at + in.at(), length, flags, name, depth);
      claim(at + in.at() + length, 4, "object_header", name);
      return;
    }
    if (in.number(1) != 1) {
      return;
    }
    in.skip(7);
    const uint64_t length = in.number(4);
    claim(at, 16, "object_header", name);
    read_messages(at + 16, length, kVersion1, name, depth);
  }

  void read_messages(uint64_t at, uint64_t length, uint64_t flags, const std::string& name, int depth) {
    const bool first_version = flags == kVersion1;
    const uint64_t header = first_version ? 8 : (flags & 4) != 0 ? 6 : 4;
    const uint64_t end = std::min(at + length, file_.size());
    while (at + header <= end && segments_.size() < kMostSegments) {
      Fields in(file_, at, header);
      const uint64_t type = in.number(first_version ? 2 : 1);
      const uint64_t size = std::min(in.number(2), end - at - header);
      const std::string_view kind = type < kMessages.size() ? kMessages[type] : "unknown";
      claim(at, header + size, fmt::format("object_header.{}", kind), name);
      read_message(type, at + header, size, flags, name, depth);
      at += header + size;
    }
    claim(at, end > at ? end - at : 0, "object_header", name);
  }

  void read_message(uint64_t type, uint64_t at, uint64_t size, uint64_t flags, const std::string& name, int depth) {
    Fields in(file_, at, size);
    if (type == 0x10) {
      const uint64_t block = place(in.address(offsets_));
      const uint64_t length = in.number(lengths_);
      if (visit(block) && depth < kDeepest) {
        const bool marked = Fields(file_, block, 4).starts_with("OCHK");
        claim(block, marked ? 4 : 0, "object_header", name);
        claim(marked ? block + length - std::min<uint64_t>(length, 4) : 0, marked ? 4 : 0, "object_header", name);
        read_messages(block + (marked ? 4 : 0), length - (marked ? std::min<uint64_t>(length, 8) : 0), flags, name,
                      depth + 1);
      }
    } else if (type == 0x11) {
      const uint64_t tree = place(in.address(offsets_));
      const uint64_t heap = place(in.address(offsets_));
      read_group(tree, read_local_heap(heap, name), name, depth + 1);
    } else if (type == 6) {
      read_link(in, name, depth);
    } else if (type == 8) {
      read_layout(in, name);
    }
  }

  void read_link(Fields& in, const std::string& name, int depth) {
    in.skip(1);
    const uint64_t flags = in.number(1);
    const uint64_t type = (flags & 8) != 0 ? in.number(1) : 0;
    in.skip(((flags & 4) != 0 ? 8 : 0) + ((flags & 16) != 0 ? 1 : 0));
    const uint64_t length = in.number(size_t{1} << (flags & 3));
    std::string child;
    for (uint64_t i = 0; i < length && !in.failed(); ++i) {
      child.push_back(static_cast<char>(in.number(1)));
    }
    if (type == 0 && !in.failed()) {
      read_object(place(in.address(offsets_)), fmt::format("{}/{}", name, child), depth + 1);
    }
  }

  void read_layout(Fields& in, const std::string& name) {
    const uint64_t version = in.number(1);
    if (version == 3) {
      const uint64_t kind = in.number(1);
      const uint64_t dimensions = kind == 2 ? in.number(1) : 0;
      const uint64_t address = kind == 0 ? kNowhere : place(in.address(offsets_));
      if (kind == 1 && address != kNowhere) {
        claim(address, in.number(lengths_), "raw_data", name);
      } else if (kind == 2) {
        read_chunks(address, dimensions, name, 0);
      }
    } else if (version == 4 && in.number(1) == 1) {
      const uint64_t address = place(in.address(offsets_));
      if (address != kNowhere) {
        claim(address, in.number(lengths_), "raw_data", name);
      }
    }
  }

  // --- groups and B-trees of version 1 ---
  uint64_t read_local_heap(uint64_t at, const std::string& name) {
    Fields in(file_, at, 8 + 2 * lengths_ + offsets_);
    if (at == kNowhere || !in.starts_with("HEAP")) {
      return kNowhere;
    }
    in.skip(8);
    const uint64_t size = in.number(lengths_);
    in.skip(lengths_);
    const uint64_t data = place(in.address(offsets_));
    if (visit(at)) {
      claim(at, 8 + 2 * lengths_ + offsets_, "local_heap", name);
      claim(data, data == kNowhere ? 0 : size, "local_heap", name);
    }
    return data;
  }

  void read_group(uint64_t at, uint64_t names, const std::string& name, int depth) {
    if (depth > kDeepest || !visit(at)) {
      return;
    }
    Fields in(file_, at, 8 + 2 * offsets_ + 2 * internal_k_ * (offsets_ + lengths_) + lengths_);
    if (in.starts_with("SNOD")) {
      read_symbols(at, names, name, depth);
      return;
    }
    if (!in.starts_with("TREE")) {
      return;
    }
    claim(at, 8 + 2 * offsets_ + 2 * internal_k_ * (offsets_ + lengths_) + lengths_, "b_tree", name);
    in.skip(6);
    const uint64_t used = in.number(2);
    in.skip(2 * offsets_ + lengths_);
    for (uint64_t i = 0; i < used && !in.failed(); ++i) {
      read_group(place(in.address(offsets_)), names, name, depth + 1);
      in.skip(lengths_);
    }
  }

  void read_symbols(uint64_t at, uint64_t names, const std::string& name, int depth) {
    const uint64_t entry = 2 * offsets_ + 24;
    claim(at, 8 + 2 * leaf_k_ * entry, "symbol_node", name);
    Fields in(file_, at, 8 + 2 * leaf_k_ * entry);
    in.skip(6);
    const uint64_t used = in.number(2);
    for (uint64_t i = 0; i < used && !in.failed(); ++i) {
      const uint64_t place_of_name = in.number(offsets_);
      const uint64_t object = place(in.address(offsets_));
      in.skip(24);
      const std::string child = names == kNowhere ? "?" : Fields(file_, names + place_of_name, 256).text();
      read_object(object, fmt::format("{}/{}", name, child), depth + 1);
    }
  }

  void read_chunks(uint64_t at, uint64_t dimensions, const std::string& name, int depth) {
    if (depth > kDeepest || !visit(at)) {
      return;
    }
    const uint64_t key = 8 + 8 * dimensions;
    const uint64_t size = 8 + 2 * offsets_ + 2 * chunk_k_ * (offsets_ + key) + key;
    Fields in(file_, at, size);
    if (!in.starts_with("TREE")) {
      return;
    }
    claim(at, size, "b_tree", name);
    in.skip(5);
    const uint64_t level = in.number(1);
    const uint64_t used = in.number(2);
    in.skip(2 * offsets_);
    for (uint64_t i = 0; i < used && !in.failed() && segments_.size() < kMostSegments; ++i) {
      const uint64_t bytes = in.number(4);
      in.skip(key - 4);
      const uint64_t child = place(in.address(offsets_));
      if (level > 0) {
        read_chunks(child, dimensions, name, depth + 1);
      } else {
        claim(child, child == kNowhere ? 0 : bytes, "raw_data", name);
      }
    }
  }

  /// What no pointer led to, by signature: from one to the next, or to the gap's end.
  void name_the_rest(uint64_t start) {
    std::vector<ByteRange> gaps;
    taken_.split(start, file_.size(), [&](uint64_t begin, uint64_t end, bool inside) {
      if (!inside) {
        gaps.emplace_back(begin, std::min(end, begin + (uint64_t{1} << 20)));
      }
      return true;
    });
    for (const auto& [begin, end] : gaps) {
      std::string_view open;
      uint64_t opened = begin;
      for (uint64_t at = begin; at + 4 <= end; ++at) {
        Fields in(file_, at, 4);
        const auto known = std::ranges::find_if(kSignatures, [&](const auto& s) { return in.starts_with(s.bytes); });
        if (known != kSignatures.end()) {
          claim(opened, open.empty() ? 0 : at - opened, open, "");
          open = known->structure;
          opened = at;
        }
      }
      claim(opened, open.empty() ? 0 : end - opened, open, "");
    }
  }

  static constexpr uint64_t kVersion1 = UINT64_MAX;

  fs::FileView& file_;
  uint64_t base_ = 0;
  uint64_t offsets_ = 8, lengths_ = 8;
  uint64_t leaf_k_ = 4, internal_k_ = 16, chunk_k_ = 32;
  std::vector<Segment> segments_;
  std::set<uint64_t> seen_;
  fs::IntervalSet taken_;
};

}  // namespace

const std::vector<std::string>& structure_names() {
  static const std::vector<std::string> names = [] {
    std::set<std::string> all = {"raw_data", "superblock", "unused", "header", "bytes", "object_header.unknown"};
    for (const Signature& signature : kSignatures) {
      all.emplace(signature.structure);
    }
    for (const std::string_view message : kMessages) {
      all.insert(fmt::format("object_header.{}", message));
    }
    return std::vector<std::string>(all.begin(), all.end());
  }();
  return names;
}

std::vector<Segment> hdf5_structures(fs::FileView& file) {
  fs::CachingView cached(file);
  return Walk(cached).run();
}

}  // namespace varve::faults
