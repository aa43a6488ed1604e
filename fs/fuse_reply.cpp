#include "fs/fuse_reply.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>

#include "fs/log.h"

namespace varve::fs {
namespace {

/// Aligned to, and at least as large as, a huge page.
class ReplyBuffer {
 public:
  /// `size` bytes, or nullptr when memory is out. What the buffer held is lost when it grows.
  char* get(size_t size) {
    if (size > capacity_) {
      memory_.reset();
      capacity_ = 0;
      const size_t rounded = (size + kHugePage - 1) / kHugePage * kHugePage;
      memory_.reset(static_cast<char*>(std::aligned_alloc(kHugePage, rounded)));
      if (memory_ == nullptr) {
        return nullptr;
      }
      madvise(memory_.get(), rounded, MADV_HUGEPAGE);  // a wish: works as well without
      capacity_ = rounded;
    }
    return memory_.get();
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory_;
  size_t capacity_ = 0;
};

timespec timespec_of(const Time& time) {
  return {.tv_sec = static_cast<time_t>(time.seconds), .tv_nsec = static_cast<int64_t>(time.nanoseconds)};
}

double timeout_of(fuse_req_t request, const Attributes& attributes) {
  return attributes.cacheable ? context_of(request).attribute_timeout : 0;
}

}  // namespace

RequestContext& context_of(fuse_req_t request) { return *static_cast<RequestContext*>(fuse_req_userdata(request)); }

Operations& operations_of(fuse_req_t request) { return *context_of(request).operations; }

Caller caller_of(fuse_req_t request) {
  const fuse_ctx* context = fuse_req_ctx(request);
  return {.uid = context->uid, .gid = context->gid, .umask = context->umask, .pid = context->pid};
}

void reply_error(fuse_req_t request, std::string_view operation, const Error& error) {
  const int code = error.code > 0 ? error.code : EIO;
  log_line(code == EIO ? LogLevel::error : LogLevel::debug, fmt::format("{}: {}", operation, error.text));
  fuse_reply_err(request, code);
}

void reply_status(fuse_req_t request, std::string_view operation, const Status& status) {
  if (status.ok()) {
    fuse_reply_err(request, 0);
  } else {
    reply_error(request, operation, status.error());
  }
}

Time time_of(const timespec& time) {
  return {.seconds = time.tv_sec, .nanoseconds = static_cast<uint32_t>(time.tv_nsec)};
}

struct stat stat_of(const Attributes& attributes) {
  struct stat result {};
  result.st_ino = attributes.inode;
  result.st_mode = attributes.mode;
  result.st_uid = attributes.uid;
  result.st_gid = attributes.gid;
  result.st_nlink = attributes.links;
  result.st_rdev = attributes.device;
  result.st_size = static_cast<off_t>(attributes.size);
  result.st_blocks = static_cast<blkcnt_t>(attributes.blocks);
  result.st_blksize = static_cast<blksize_t>(attributes.block_size);
  result.st_atim = timespec_of(attributes.accessed);
  result.st_mtim = timespec_of(attributes.modified);
  result.st_ctim = timespec_of(attributes.changed);
  return result;
}

fuse_entry_param entry_of(fuse_req_t request, const Entry& entry) {
  fuse_entry_param result{};
  result.ino = entry.attributes.inode;
  result.attr = stat_of(entry.attributes);
  result.attr_timeout = timeout_of(request, entry.attributes);
  result.entry_timeout = result.attr_timeout;
  return result;
}

void reply_entry(fuse_req_t request, std::string_view operation, const Result<Entry>& entry) {
  if (!entry.ok()) {
    reply_error(request, operation, entry.error());
    return;
  }
  Operations& operations = operations_of(request);
  const fuse_entry_param parameters = entry_of(request, *entry);
  if (fuse_reply_entry(request, &parameters) != 0) {
    operations.forget(entry->attributes.inode, 1);
  }
}

void reply_attributes(fuse_req_t request, std::string_view operation, const Result<Attributes>& attributes) {
  if (!attributes.ok()) {
    reply_error(request, operation, attributes.error());
    return;
  }
  const struct stat status = stat_of(*attributes);
  fuse_reply_attr(request, &status, timeout_of(request, *attributes));
}

struct stat stat_of(const DirectoryEntry& entry) {
  struct stat result {};
  result.st_ino = entry.inode;
  result.st_mode = entry.type;
  return result;
}

char* reply_buffer(size_t size) {
  thread_local ReplyBuffer buffer;
  return buffer.get(size);
}

}  // namespace varve::fs
