#include "fs/formats/confine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>

namespace varve::fs {

namespace {

using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, decltype(&seccomp_release)>;

/// 0, or what went wrong first, as -errno.
class Rules {
 public:
  explicit Rules(scmp_filter_ctx filter) : filter_(filter) {}

  void add(uint32_t action, int call, std::initializer_list<scmp_arg_cmp> conditions = {}) {
    keep(seccomp_rule_add_array(filter_, action, call, static_cast<unsigned>(conditions.size()), conditions.begin()));
  }
  void keep(int result) { result_ = result_ != 0 ? result_ : result; }
  int result() const { return result_; }

 private:
  scmp_filter_ctx filter_;
  int result_ = 0;
};

scmp_arg_cmp has_none(unsigned argument, uint64_t bits) { return {argument, SCMP_CMP_MASKED_EQ, bits, 0}; }

scmp_arg_cmp equals(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }

}  // namespace

Status confine() {
  const Filter filter(seccomp_init(SCMP_ACT_KILL_PROCESS), seccomp_release);
  if (!filter) {
    return Error{ENOMEM, "no memory for a filter of system calls"};
  }
  Rules rules(filter.get());
  rules.keep(seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1));
  // The last two are of a thread that has just begun.
  for (const int call : {SCMP_SYS(read),
                         SCMP_SYS(write),
                         SCMP_SYS(writev),
                         SCMP_SYS(fstat),
                         SCMP_SYS(recvfrom),
                         SCMP_SYS(sendto),
                         SCMP_SYS(poll),
                         SCMP_SYS(ppoll),
                         SCMP_SYS(close),
                         SCMP_SYS(lseek),
                         SCMP_SYS(brk),
                         SCMP_SYS(munmap),
                         SCMP_SYS(mremap),
                         SCMP_SYS(madvise),
                         SCMP_SYS(futex),
                         SCMP_SYS(sched_yield),
                         SCMP_SYS(nanosleep),
                         SCMP_SYS(clock_nanosleep),
                         SCMP_SYS(clock_gettime),
                         SCMP_SYS(gettimeofday),
                         SCMP_SYS(time),
                         SCMP_SYS(getrusage),
                         SCMP_SYS(getrandom),
                         SCMP_SYS(getpid),
                         SCMP_SYS(getcwd),
                         SCMP_SYS(sysinfo),
                         SCMP_SYS(uname),
                         SCMP_SYS(sched_getaffinity),
                         SCMP_SYS(gettid),
                         SCMP_SYS(rt_sigaction),
                         SCMP_SYS(rt_sigprocmask),
                         SCMP_SYS(rt_sigreturn),
                         SCMP_SYS(restart_syscall),
                         SCMP_SYS(exit),
                         SCMP_SYS(exit_group),
                         SCMP_SYS(rseq),
                         SCMP_SYS(set_robust_list)}) {
    rules.add(SCMP_ACT_ALLOW, call);
  }
  const auto self = static_cast<uint64_t>(::getpid());
  rules.add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), {has_none(2, PROT_EXEC)});
  rules.add(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), {has_none(2, PROT_EXEC)});
  rules.add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), {equals(0, self)});  // abort()
  rules.add(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), {equals(0, 0)});
  rules.add(SCMP_ACT_ERRNO(EACCES), SCMP_SYS(openat), {has_none(2, O_ACCMODE | O_CREAT | O_TRUNC)});
  rules.add(SCMP_ACT_ERRNO(EACCES), SCMP_SYS(newfstatat));
  rules.add(SCMP_ACT_ERRNO(EACCES), SCMP_SYS(access));
  rules.add(SCMP_ACT_ERRNO(EACCES), SCMP_SYS(readlink));
  if (rules.result() == 0) {
    rules.keep(seccomp_load(filter.get()));
  }
  const int code = -rules.result();
  return code == 0 ? Status() : Error{code, fmt::format("the kernel takes no filter: {}", std::strerror(code))};
}

bool is_confined(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Seccomp:")) {
      return line.ends_with('2');
    }
  }
  return false;
}

}  // namespace varve::fs
