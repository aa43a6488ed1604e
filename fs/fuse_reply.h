// What the FUSE handlers share: the request's context, conversions, replies. Only fuse_*.cpp include this.
#pragma once

#include <sys/stat.h>

#include <string_view>

#include "fs/fuse_requests.h"

namespace varve::fs {

RequestContext& context_of(fuse_req_t request);
Operations& operations_of(fuse_req_t request);
Caller caller_of(fuse_req_t request);

struct stat stat_of(const Attributes& attributes);
/// A name and its type alone.
struct stat stat_of(const DirectoryEntry& entry);
Time time_of(const timespec& time);
fuse_entry_param entry_of(fuse_req_t request, const Entry& entry);

/// Answers with the errno. Damage and broken disks are for the operator's eyes; the rest is what programs do all day.
void reply_error(fuse_req_t request, std::string_view operation, const Error& error);
void reply_status(fuse_req_t request, std::string_view operation, const Status& status);
/// A reply that does not arrive (the mount is gone) leaves no count behind.
void reply_entry(fuse_req_t request, std::string_view operation, const Result<Entry>& entry);
void reply_attributes(fuse_req_t request, std::string_view operation, const Result<Attributes>& attributes);

/// This thread's buffer for replies, of at least `size` bytes, kept by the thread: fresh pages cost more than the copy
/// into them. nullptr when memory is out. What it held is lost when it grows.
char* reply_buffer(size_t size);

}  // namespace varve::fs
