// A tree of files copied from one place to another, in parallel, such that it can be stopped and gone on with: what
// `varve export` and `varve import` are made of. What is read and what is written are interfaces, each implemented for
// directories (transfer_plain.h) and for stores that are not mounted (transfer_store.h).
//
// Errors of one file are reported, and the others go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fs/operations.h"

namespace varve::tools {

/// Where unfinished files are: a directory in the root of what is written, which is gone at the end.
inline constexpr const char* kUnfinished = ".varve-unfinished";

struct Metadata {
  fs::Attributes facts;
  std::vector<std::pair<std::string, std::string>> xattrs;  ///< by name
};

/// A regular file that is read.
class SourceFile {
 public:
  virtual ~SourceFile() = default;
  /// Bytes read; 0: the file ends here.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> out) = 0;
  /// Begin and end of what lies between two holes, the first that ends after `offset`. Nothing: a hole to the end.
  virtual Result<std::optional<std::pair<uint64_t, uint64_t>>> data_after(uint64_t offset) = 0;
  /// EAGAIN: the file is not what it was when it was looked up.
  virtual Status check_unchanged() = 0;
};

/// Anything in the tree that is read.
class SourceNode {
 public:
  virtual ~SourceNode() = default;
  virtual const fs::Attributes& facts() const = 0;  ///< when it was looked up
  virtual Result<Metadata> metadata() = 0;
  virtual Result<std::string> link_target() = 0;
  virtual Result<std::vector<std::string>> names() = 0;  ///< of a directory's entries, in order
  virtual Result<std::shared_ptr<SourceNode>> child(const std::string& name) = 0;
  virtual Result<std::unique_ptr<SourceFile>> open() = 0;
};

/// A regular file that is written, from its beginning to its end.
class TargetFile {
 public:
  virtual ~TargetFile() = default;
  virtual Status write(uint64_t offset, std::span<const std::byte> data) = 0;
  virtual Status set_size(uint64_t size) = 0;
};

/// A directory of the tree that is written. Things come into it under their names when they are whole; what has the
/// name before is replaced, but for directories. Used by many threads at once.
class TargetFolder {
 public:
  virtual ~TargetFolder() = default;
  virtual Result<std::optional<fs::Attributes>> look(const std::string& name) = 0;
  /// Made if it is not there. ENOTDIR: something else is, a link for one.
  virtual Result<std::shared_ptr<TargetFolder>> folder(const std::string& name) = 0;
  virtual Status file(const std::string& name, const Metadata& wanted,
                      const std::function<Status(TargetFile&)>& fill) = 0;
  virtual Status symlink(const std::string& name, const std::string& target, const Metadata& wanted) = 0;
  /// FIFOs, sockets and devices.
  virtual Status special(const std::string& name, const Metadata& wanted) = 0;
  /// One more name for what `first` of `other` is.
  virtual Status link(TargetFolder& other, const std::string& first, const std::string& name) = 0;
  /// Sets what is other than wanted, but for the content, of an entry or, without a name, of the directory. That of the
  /// root comes last of all: the directory for unfinished files goes before.
  virtual Status set_metadata(const std::optional<std::string>& name, const Metadata& wanted) = 0;
};

/// A path for people: what would disturb a terminal is escaped.
std::string shown(const std::string& path);
/// What errno says, after `what`.
Error system_error(const std::string& what);

/// Counts what was done, tells of failures at once, and of progress where standard error is a terminal. Thread-safe.
class TransferReport {
 public:
  explicit TransferReport(std::string doing);
  void advance(uint64_t bytes);
  void written() { count(written_); }
  void kept() { count(kept_); }
  void linked() { count(linked_); }
  void failed(const std::string& path, const Error& error);
  /// There is no room for more: nothing else is begun.
  bool stopped() const;
  uint64_t failures() const;
  /// A line on standard output.
  void summarize();

 private:
  using Clock = std::chrono::steady_clock;
  void count(uint64_t& what);
  void clear_line();

  const std::string doing_;
  const bool visible_;
  mutable std::mutex mutex_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
  bool dirty_ = false, stopped_ = false;
  uint64_t bytes_ = 0, written_ = 0, kept_ = 0, linked_ = 0, failures_ = 0;
};

/// Threads that do what is added; add() waits while much is.
class WorkQueue {
 public:
  explicit WorkQueue(unsigned threads);
  ~WorkQueue() { finish(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  void add(std::function<void()> work);
  /// All is done when this returns; nothing is added afterwards.
  void finish();

 private:
  void serve();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

/// What --jobs says: 0 stands for one a core.
unsigned worker_count(unsigned jobs);

/// Copies all below `source` into `target`, and the metadata of both. A regular file that is there with the same size
/// and time of modification is kept. `jobs`: files at a time, at least 1.
void transfer(const std::shared_ptr<SourceNode>& source, const std::shared_ptr<TargetFolder>& target, unsigned jobs,
              TransferReport& report);

}  // namespace varve::tools
