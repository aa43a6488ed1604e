// One thread of random_files: random operations on its own files of a mount, each compared with the model.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "file_model.h"

namespace varve::posix {

/// The mount and the model differ; the text says all.
struct Differs : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Kind {
  bytes,    ///< any length, no format
  npy,      ///< rows of 40 x 50 elements; header and length may disagree
  raw,      ///< its name says the shape; any length
  pattern,  ///< a file made elsewhere: only its spans are written
};

/// A file that is always there, and what it is made of.
struct Slot {
  Kind kind = Kind::bytes;
  std::string directory, name;
  Bound bound;
  std::string type;  ///< of NumPy: <f4 ...; empty: bytes
  Bytes pattern;
  std::vector<Span> spans;  ///< of the pattern
  uint64_t element() const { return type.empty() ? 1 : static_cast<uint64_t>(type[2] - '0'); }
  /// Bytes at the start that are written as a whole or not at all.
  uint64_t header() const { return kind == Kind::npy ? 128 : 0; }
};

using FilePointer = std::shared_ptr<FileModel>;

struct Descriptor {
  int number = -1;
  FilePointer file;
  bool reads = false, writes = false, appends = false, direct = false;
};

struct Map {
  uint8_t* at = nullptr;
  uint64_t length = 0;
  FilePointer file;
  bool writes = false;
  bool counts = false;  ///< keeps a writing description open
};

/// The first 128 bytes of a .npy file with so many elements.
Bytes npy_header(const Slot& slot, uint64_t elements);

class Worker {
 public:
  Worker(uint64_t seed, std::vector<Slot> slots, bool verbose);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void create_files();
  void operate(uint64_t operations);
  /// Nothing of the mount stays open; each file is compared.
  void close_all();
  void check_all();
  uint64_t operations() const { return log_.size(); }
  /// What SIGBUS says.
  const char* current() const { return current_; }

 private:
  using Operation = void (Worker::*)();
  struct Choice {
    unsigned weight;
    Operation operation;
  };
  static const std::vector<Choice>& choices();

  // random_worker.cpp: helpers
  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool chance(unsigned percent) { return below(100) < percent; }
  void log(const FilePointer& file, std::string text);
  [[noreturn]] void fail(const FilePointer& file, const std::string& text);
  void check(bool holds, const FilePointer& file, const std::string& what);
  uint64_t number() const { return log_.size(); }
  void touched(FileModel& file);
  bool may_seal_on_sync(const FileModel& file) const;
  void compare(const FilePointer& file, uint64_t offset, std::span<const uint8_t> got, Expect expect,
               const std::string& how);

  size_t pick_slot() { return below(slots_.size()); }
  std::string path(size_t slot, std::string_view prefix = "") const;
  const FilePointer& file(size_t slot) const { return names_.at(path(slot)); }
  std::string some_name(size_t slot);
  std::pair<uint64_t, uint64_t> range_to_write(const Slot& slot, const FileModel& file, bool inside);
  std::pair<uint64_t, uint64_t> range_to_read(const FileModel& file);
  Bytes content(const Slot& slot, uint64_t length);
  Bytes whole_content(const Slot& slot);
  void set_spans(const Slot& slot, FileModel& file);

  Descriptor open(const std::string& path, int flags);
  Descriptor& keep(Descriptor descriptor);
  void close(size_t index);
  void unmap(size_t index);
  void let_go(const FilePointer& file);
  void settle(const std::string& path);
  Bytes read_whole(int descriptor, const FilePointer& file, Expect expect, const std::string& how);
  void read_part(int descriptor, const FilePointer& file, uint64_t offset, uint64_t length, const std::string& how);
  Descriptor& writer(size_t slot);
  Descriptor& reader(size_t slot);
  Map* map_of(size_t slot, bool writes);
  void put(const Slot& slot, Descriptor& descriptor, uint64_t offset, const Bytes& data);
  void make_file(size_t slot, std::string_view prefix);
  void rename_over(size_t slot, std::string_view prefix);

  // random_operations.cpp
  void write();
  void append();
  void read();
  void read_direct();
  void map_write();
  void map_read();
  void sync_map();
  void unmap_some();
  void sync_file();
  void after_sync(const FilePointer& synced, bool may_seal);
  void open_some();
  void close_some();
  void truncate();
  void allocate();
  void refuse();
  void copy_range();
  void copy_whole();
  void replace();
  void link();
  void recreate();
  void rewrite();
  void reshape();
  void look();
  void seek();
  void close_and_check();

  const uint64_t seed_;
  const bool verbose_;
  std::mt19937_64 random_;
  std::vector<Slot> slots_;
  std::map<std::string, FilePointer> names_;
  std::vector<Descriptor> descriptors_;
  std::vector<Map> maps_;
  uint64_t files_made_ = 0;
  struct Entry {
    uint64_t file;
    std::string text;
  };
  std::vector<Entry> log_;
  char current_[256] = "";
};

}  // namespace varve::posix
