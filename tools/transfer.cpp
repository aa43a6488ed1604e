#include "tools/transfer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tools/report.h"

namespace varve::tools {
namespace {

constexpr size_t kBuffer = size_t{4} << 20;
constexpr size_t kWaiting = 64;  // files in the queue
constexpr std::chrono::milliseconds kRedraw{200};

/// A directory on its way. It gets its metadata when nothing is to come into it any more.
class Folder {
 public:
  Folder(std::shared_ptr<Folder> parent, std::string path, std::shared_ptr<SourceNode> source,
         std::shared_ptr<TargetFolder> target, TransferReport& report)
      : parent_(std::move(parent)),
        path_(std::move(path)),
        source_(std::move(source)),
        target_(std::move(target)),
        report_(report) {}
  ~Folder() {
    const auto metadata = source_->metadata();
    const Status set = metadata.ok() ? target_->set_metadata({}, *metadata) : Status(metadata.error());
    if (!set.ok()) {
      report_.failed(path_, set.error());
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  SourceNode& source() const { return *source_; }
  TargetFolder& target() const { return *target_; }
  const std::string& path() const { return path_; }
  std::string below(const std::string& name) const { return path_.empty() ? name : path_ + "/" + name; }

 private:
  const std::shared_ptr<Folder> parent_;  ///< done after this one
  const std::string path_;
  const std::shared_ptr<SourceNode> source_;
  const std::shared_ptr<TargetFolder> target_;
  TransferReport& report_;
};

using FolderPointer = std::shared_ptr<Folder>;

/// As far as can be told without reading. Not of directories.
bool same_content(const fs::Attributes& one, const fs::Attributes& other) {
  return ((one.mode ^ other.mode) & S_IFMT) == 0 && !S_ISDIR(one.mode) && one.size == other.size &&
         one.device == other.device && one.modified.seconds == other.modified.seconds &&
         one.modified.nanoseconds == other.modified.nanoseconds;
}

class Transfer {
 public:
  Transfer(TransferReport& report, unsigned jobs) : report_(report), queue_(jobs) {}

  void run(const std::shared_ptr<SourceNode>& source, const std::shared_ptr<TargetFolder>& target) {
    directory(std::make_shared<Folder>(nullptr, "", source, target, report_));
    queue_.finish();
  }

 private:
  /// Files first, so that what tells about a folder (Zarr's metadata) is there before what is in it.
  void directory(const FolderPointer& folder) {
    const auto names = folder->source().names();
    if (!names.ok()) {
      report_.failed(folder->path(), names.error());
      return;
    }
    std::vector<std::pair<std::string, std::shared_ptr<SourceNode>>> directories;
    for (const std::string& name : *names) {
      if (report_.stopped()) {
        return;
      }
      auto node = folder->source().child(name);
      if (!node.ok()) {
        report_.failed(folder->below(name), node.error());
      } else if (folder->path().empty() && name == kUnfinished) {
        report_.failed(name, Error{EEXIST, "the name is that of the folder for unfinished files"});
      } else if (S_ISDIR((*node)->facts().mode)) {
        directories.emplace_back(name, *std::move(node));
      } else {
        entry(folder, name, *std::move(node));
      }
    }
    for (auto& [name, node] : directories) {
      auto made = folder->target().folder(name);
      if (made.ok()) {
        directory(std::make_shared<Folder>(folder, folder->below(name), std::move(node), *std::move(made), report_));
      } else {
        report_.failed(folder->below(name), made.error());
      }
    }
  }

  void entry(const FolderPointer& folder, const std::string& name, std::shared_ptr<SourceNode> node) {
    if (node->facts().links > 1) {
      linked(folder, name, *node);
      return;
    }
    if (name.starts_with(".z") || name == "zarr.json") {
      static_cast<void>(place(*folder, name, *node));  // before the chunks that it tells about
      return;
    }
    queue_.add([this, folder, name, node = std::move(node)] {
      if (!report_.stopped()) {
        static_cast<void>(place(*folder, name, *node));
      }
    });
  }

  /// Of several names: the first is made here and now, the others are links to it.
  void linked(const FolderPointer& folder, const std::string& name, SourceNode& node) {
    const auto first = first_names_.find(node.facts().inode);
    if (first == first_names_.end()) {
      if (place(*folder, name, node)) {
        first_names_.emplace(node.facts().inode, FirstName{folder, name, node.facts().links - 1});
      }
      return;
    }
    FirstName& known = first->second;
    const Status made = folder->target().link(known.folder->target(), known.name, name);
    made.ok() ? report_.linked() : report_.failed(folder->below(name), made.error());
    if (--known.missing == 0) {
      first_names_.erase(first);
    }
  }

  bool place(Folder& folder, const std::string& name, SourceNode& node) {
    const auto done = [&]() -> Result<bool> {
      VARVE_ASSIGN(const Metadata wanted, node.metadata());
      VARVE_ASSIGN(const auto there, folder.target().look(name));
      if (there && same_content(*there, wanted.facts)) {
        VARVE_TRY(folder.target().set_metadata(name, wanted));
        return false;
      }
      VARVE_TRY(make(folder.target(), name, node, wanted));
      return true;
    }();
    if (!done.ok()) {
      report_.failed(folder.below(name), done.error());
      return false;
    }
    *done ? report_.written() : report_.kept();
    return true;
  }

  Status make(TargetFolder& target, const std::string& name, SourceNode& node, const Metadata& wanted) {
    if (S_ISLNK(wanted.facts.mode)) {
      VARVE_ASSIGN(const std::string leads_to, node.link_target());
      return target.symlink(name, leads_to, wanted);
    }
    if (!S_ISREG(wanted.facts.mode)) {
      return target.special(name, wanted);
    }
    VARVE_ASSIGN(const auto source, node.open());
    return target.file(name, wanted, [&](TargetFile& out) { return copy(*source, wanted.facts.size, out); });
  }

  Status copy(SourceFile& source, uint64_t size, TargetFile& out) {
    std::vector<std::byte> buffer(std::min<uint64_t>(kBuffer, size));
    for (uint64_t at = 0; at < size;) {
      VARVE_ASSIGN(const auto data, source.data_after(at));
      if (!data) {
        break;
      }
      const uint64_t end = std::min(data->second, size);
      for (at = std::max(at, data->first); at < end;) {
        const size_t most = std::min<uint64_t>(buffer.size(), end - at);
        VARVE_ASSIGN(const size_t got, source.read(at, {buffer.data(), most}));
        if (got == 0) {
          return Error{EIO, fmt::format("it ends at byte {}, not {}", at, size)};
        }
        VARVE_TRY(out.write(at, {buffer.data(), got}));
        at += got;
        report_.advance(got);
      }
    }
    VARVE_TRY(out.set_size(size));
    return source.check_unchanged();
  }

  /// Of a file with several names, the one under which it was made.
  struct FirstName {
    FolderPointer folder;
    std::string name;
    uint32_t missing = 0;  ///< names that may come
  };

  TransferReport& report_;
  std::map<fs::InodeNumber, FirstName> first_names_;
  WorkQueue queue_;  // last: its threads end first
};

}  // namespace

std::string shown(const std::string& path) {
  std::string text;
  for (const char one : path) {
    const auto byte = static_cast<unsigned char>(one);
    const bool harmless = byte >= 0x20 && byte != 0x7f && one != '\\';
    text += harmless ? std::string(1, one) : fmt::format("\\{:03o}", byte);
  }
  return text.empty() ? "." : text;
}

Error system_error(const std::string& what) {
  const int code = errno;
  return {code, fmt::format("{}: {}", what, std::generic_category().message(code))};
}

TransferReport::TransferReport(std::string doing) : doing_(std::move(doing)), visible_(::isatty(STDERR_FILENO) != 0) {}

void TransferReport::clear_line() {
  if (dirty_) {
    fmt::print(stderr, "\r\x1b[K");
    dirty_ = false;
  }
}

void TransferReport::count(uint64_t& what) {
  const std::lock_guard lock(mutex_);
  ++what;
}

void TransferReport::advance(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  const auto now = Clock::now();
  if (!visible_ || now < drawn_ + kRedraw) {
    return;
  }
  drawn_ = now;
  dirty_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  fmt::print(stderr, "\r{}: {} files, {}, {}/s\x1b[K", doing_, written_ + kept_, human_size(bytes_),
             human_size(static_cast<uint64_t>(static_cast<double>(bytes_) / seconds)));
  std::fflush(stderr);
}

void TransferReport::failed(const std::string& path, const Error& error) {
  const std::lock_guard lock(mutex_);
  ++failures_;
  clear_line();
  fmt::print(stderr, "varve: {}: {}\n", shown(path), error.text);
  if (!stopped_ && (error.code == ENOSPC || error.code == EDQUOT || error.code == EROFS)) {
    stopped_ = true;
    fmt::print(stderr, "varve: stopped: make room, and start it again to go on\n");
  }
}

bool TransferReport::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

uint64_t TransferReport::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

void TransferReport::summarize() {
  const std::lock_guard lock(mutex_);
  clear_line();
  fmt::print("{} files written ({}), {} were there, {} links, {} failed\n", written_, human_size(bytes_), kept_,
             linked_, failures_);
}

WorkQueue::WorkQueue(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { serve(); });
  }
}

void WorkQueue::add(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_.size() < kWaiting; });
  work_.push_back(std::move(work));
  changed_.notify_all();
}

void WorkQueue::finish() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

void WorkQueue::serve() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [&] { return ended_ || !work_.empty(); });
    if (work_.empty()) {
      return;
    }
    {
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      changed_.notify_all();
      lock.unlock();
      work();
    }
    lock.lock();
  }
}

unsigned worker_count(unsigned jobs) { return jobs != 0 ? jobs : std::max(1U, std::thread::hardware_concurrency()); }

void transfer(const std::shared_ptr<SourceNode>& source, const std::shared_ptr<TargetFolder>& target, unsigned jobs,
              TransferReport& report) {
  // A deep tree has a directory open for each of its levels, twice.
  struct rlimit files {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  Transfer(report, jobs).run(source, target);
}

}  // namespace varve::tools
