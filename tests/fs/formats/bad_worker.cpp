// Misbehaves in the way that the name in the request says.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "fs/formats/confine.h"
#include "fs/formats/worker.h"
#include "fs/formats/worker_protocol.h"

namespace {

using varve::fs::FrameKind;

void say(FrameKind kind, const std::vector<std::byte>& payload) {
  (void)varve::fs::send_frame(varve::fs::kWorkerDescriptor, kind, payload, std::nullopt);
}

/// An array that lies outside a file of a few bytes.
std::vector<std::byte> liar() {
  varve::fs::ArrayRegion array;
  array.dtype = varve::codec::DType::f64;
  array.shape = array.chunk_shape = {1000, 1000};
  array.chunks = {{0, 1 << 20}};
  return varve::fs::serialise({"npy", {array}});
}

/// What nobody may do who is confined.
void break_out(const std::string& how) {
  const pid_t parent = ::getppid();
  if (!varve::fs::confine().ok()) {
    std::_Exit(4);
  }
  if (how == "confined") {
    if (::open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES) {
      std::_Exit(5);
    }
    const std::string whole(1 << 24, 'x');  // memory is no matter
    say(FrameKind::nothing, {});
  } else if (how == "write") {
    (void)::open("/tmp/varve-broke-out", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  } else if (how == "socket") {
    (void)::socket(AF_INET, SOCK_STREAM, 0);
  } else if (how == "execve") {
    ::execl("/bin/true", "true", nullptr);
  } else if (how == "fork") {
    (void)::fork();
  } else if (how == "ptrace") {
    (void)::ptrace(PTRACE_ATTACH, parent, nullptr, nullptr);
  } else if (how == "kill") {
    (void)::kill(parent, 0);
  } else if (how == "code") {
    (void)::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
}

void misbehave(const std::string& how) {
  if (how.starts_with("try ")) {
    break_out(how.substr(4));
    return;
  }
  if (how == "crash") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would make an exit of it
    std::raise(SIGSEGV);
  } else if (how == "hang") {
    std::this_thread::sleep_for(std::chrono::hours(1));
  } else if (how == "spin") {
    for (volatile bool on = true; on;) {
    }
  } else if (how == "exit") {
    std::_Exit(3);
  } else if (how == "babble") {
    std::string noise(4096, '\xa5');
    [[maybe_unused]] ssize_t written = ::write(varve::fs::kWorkerDescriptor, noise.data(), noise.size());
    std::this_thread::sleep_for(std::chrono::seconds(1));
  } else if (how == "huge") {
    say(FrameKind::read, varve::fs::encode(varve::fs::ReadRange{0, uint64_t{1} << 40}));
  } else if (how == "garbage") {
    say(FrameKind::found, std::vector<std::byte>(100, std::byte{7}));
  } else if (how == "liar") {
    say(FrameKind::found, liar());
  } else if (how == "request") {
    say(FrameKind::request, {});
  } else if (how == "half") {
    std::string half("\x04\0\0\0\xff\0", 6);
    [[maybe_unused]] ssize_t written = ::write(varve::fs::kWorkerDescriptor, half.data(), half.size());
    std::_Exit(0);
  } else if (how == "deaf") {  // asks for much and reads nothing: the daemon's sends must not block for ever
    for (int i = 0; i < 64; ++i) {
      say(FrameKind::read, varve::fs::encode(varve::fs::ReadRange{0, uint64_t{1} << 20}));
    }
    std::this_thread::sleep_for(std::chrono::hours(1));
  } else {
    say(FrameKind::nothing, {});
  }
}

}  // namespace

int main() {
  while (true) {
    auto frame = varve::fs::receive_frame(varve::fs::kWorkerDescriptor, std::nullopt);
    if (!frame.ok()) {
      return 0;
    }
    auto request = varve::fs::decode_request(frame->payload);
    if (!request.ok()) {
      return 1;
    }
    misbehave(request->name);
  }
}
