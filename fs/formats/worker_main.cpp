// The worker's side: lowers its own rights, then serves one request after another.
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>

#include "fs/formats/caching_view.h"
#include "fs/formats/confine.h"
#include "fs/formats/hdf5.h"
#include "fs/formats/worker.h"
#include "fs/formats/worker_protocol.h"

namespace varve::fs {

namespace {

// The shadow memory of these sanitizers is far larger than any limit one would set.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitMemory = false;
#else
constexpr bool kLimitMemory = true;
#endif

constexpr rlim_t kMostDescriptors = 16;

/// The daemon's file, asked for range by range.
class RemoteView : public FileView {
 public:
  RemoteView(int fd, uint64_t size) : fd_(fd), size_(size) {}

  uint64_t size() const override { return size_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size() && offset + done < size_) {
      ReadRange range{offset + done, std::min<uint64_t>(out.size() - done, kLongestRead)};
      VARVE_TRY(send_frame(fd_, FrameKind::read, encode(range), std::nullopt));
      VARVE_ASSIGN(Frame answer, receive_frame(fd_, std::nullopt));
      if (answer.kind == FrameKind::failure) {
        return decode_error(answer.payload);
      }
      if (answer.kind != FrameKind::data || answer.payload.size() > range.length) {
        return Error{EPROTO, "the daemon sent no data"};
      }
      if (answer.payload.empty()) {
        break;
      }
      std::memcpy(out.data() + done, answer.payload.data(), answer.payload.size());
      done += answer.payload.size();
    }
    return done;
  }

 private:
  int fd_;
  uint64_t size_;
};

void limit(decltype(RLIMIT_AS) what, rlim_t value) {
  rlimit wanted{value, value};
  setrlimit(what, &wanted);
}

void drop_rights() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (kLimitMemory) {  // the leak sanitizer traces its own process
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  }
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, kMostDescriptors);
  std::signal(SIGXFSZ, SIG_IGN);
}

void limit_for(const Request& request) {
  if (kLimitMemory && request.memory_limit > 0) {
    limit(RLIMIT_AS, request.memory_limit);
  }
  // CPU time counts from the start of the process: the limit is moved for each file (soft; the hard one stays open).
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  rlimit cpu{};
  getrlimit(RLIMIT_CPU, &cpu);
  cpu.rlim_cur = std::min<rlim_t>(cpu.rlim_max, static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                                                    static_cast<rlim_t>(request.cpu_milliseconds / 1000) + 2);
  setrlimit(RLIMIT_CPU, &cpu);
}

/// Ends the process when the daemon is gone, also in the middle of a computation. (PR_SET_PDEATHSIG would not do: it
/// tells of the end of the thread that started the worker, not of the process.)
void watch_for_hangup(int fd) {
  std::thread([fd] {
    pollfd entry{fd, POLLRDHUP, 0};
    while (::poll(&entry, 1, -1) <= 0 || (entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0) {
    }
    _exit(0);
  }).detach();
}

/// What is sent as `found`; empty: `nothing`.
Result<std::vector<std::byte>> find(const Request& request, FileView& file) {
  if (request.image) {
    VARVE_ASSIGN(FileImage image, make_image(*request.image, request.name, file, request.hint));
    VARVE_TRY(image.finish(request.file_size));
    auto bytes = serialise(image);
    if (bytes.size() > kLongestFrame) {
      return Error{EFBIG, fmt::format("an image of {} parts is more than can be told", image.parts.size())};
    }
    return bytes;
  }
  VARVE_ASSIGN(const auto recognised, recognise(request.name, file, request.hint));
  if (!recognised) {
    return std::vector<std::byte>();
  }
  auto bytes = serialise(*recognised);
  if (bytes.size() > kLongestFrame) {
    return Error{EFBIG, fmt::format("its {} arrays have too many chunks to list; the file is kept as bytes",
                                    recognised->arrays.size())};
  }
  return bytes;
}

Status answer(int fd, const Request& request) {
  limit_for(request);
  RemoteView remote(fd, request.file_size);
  CachingView file(remote);
  const auto result = [&]() -> Result<std::vector<std::byte>> {
    try {
      return find(request, file);
    } catch (const std::bad_alloc&) {
      return Error{ENOMEM, "its arrays need more memory than a recogniser may use; the file is kept as bytes"};
    } catch (const std::exception& problem) {
      return Error{EIO, fmt::format("the recogniser failed: {}", problem.what())};
    }
  }();
  if (!result.ok()) {
    return send_frame(fd, FrameKind::failure, encode(result.error()), std::nullopt);
  }
  return send_frame(fd, result->empty() ? FrameKind::nothing : FrameKind::found, *result, std::nullopt);
}

}  // namespace

int recogniser_worker_main(int fd) {
  try {
    drop_rights();
    watch_for_hangup(fd);
    prepare_hdf5();
    if (kConfines) {
      static_cast<void>(confine());  // the daemon looks whether it is, and tells
    }
    while (true) {
      auto frame = receive_frame(fd, std::nullopt);
      if (!frame.ok()) {
        return frame.error().code == ECONNRESET ? 0 : 1;
      }
      auto request = decode_request(frame->payload);
      if (frame->kind != FrameKind::request || !request.ok() || !answer(fd, *request).ok()) {
        return 1;
      }
    }
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace varve::fs
