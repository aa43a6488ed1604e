// The pool with a worker that works, and with one that misbehaves in every way there is.
#include "fs/formats/worker.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "fs/formats/confine.h"
#include "hdf5_maker.h"

namespace varve::fs {
namespace {

using std::chrono::milliseconds;

WorkerOptions good() {
  WorkerOptions options;
  options.program = VARVE_GOOD_WORKER;
  return options;
}

WorkerOptions bad(milliseconds limit = milliseconds(1500)) {
  WorkerOptions options;
  options.program = VARVE_BAD_WORKER;
  options.time_limit = limit;
  return options;
}

std::string npy_file() {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header + std::string(16, 'x');
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

size_t children() {
  std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  return static_cast<size_t>(std::distance(std::istream_iterator<int>(list), std::istream_iterator<int>()));
}

TEST(RecogniserPool, AnswersAsRecogniseDoes) {
  ScratchFolder folder;
  Hdf5Maker maker(folder.file("x.h5"));
  ASSERT_GE(maker.dataset("a", {.shape = {100, 70}, .chunk = {9, 9}}), 0);
  ASSERT_GE(maker.dataset("b", {.type = H5T_STD_I16BE, .shape = {1000}}), 0);
  maker.close();
  RecogniserPool pool(good());
  for (int round = 0; round < 3; ++round) {
    MemoryView hdf5(read_whole(folder.file("x.h5")));
    auto found = pool.recognise("x.h5", hdf5, std::nullopt);
    ASSERT_TRUE(found.ok()) << found.error().text;
    ASSERT_TRUE(*found);
    EXPECT_EQ((*found)->arrays, recognise_file(folder.file("x.h5")).arrays);
    EXPECT_LT(hdf5.reads, 20U);  // blocks, not fields
    MemoryView npy{std::string_view(npy_file())};
    found = pool.recognise("x.npy", npy, std::nullopt);
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->format, "npy");
    MemoryView text(std::string_view("some text, long enough to look at"));
    found = pool.recognise("x.txt", text, std::nullopt);
    ASSERT_TRUE(found.ok());
    EXPECT_FALSE(*found);
    found = pool.recognise("x.txt", text, RawHint{codec::DType::u8, false, {3, 11}});
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->arrays[0].shape, (codec::Extents{3, 11}));
    found = pool.recognise("x.txt", text, RawHint{codec::DType::u8, false, {3, 12}});
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, EINVAL);
    MemoryView broken(std::string_view("\x89HDF\r\n\x1a\n and nothing else", 24));
    found = pool.recognise("x.h5", broken, std::nullopt);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, EBADMSG);
  }
}

TEST(RecogniserPool, MisbehaviourIsAnErrorAndTheNextCallWorks) {
  struct Case {
    const char* how;
    const char* text;
  };
  size_t before = open_descriptors();
  {
    RecogniserPool pool(bad());
    for (const Case& each : {Case{"crash", "signal 11"}, Case{"hang", "longer than 1.5 s"}, Case{"exit", "status 3"},
                             Case{"babble", "protocol"}, Case{"huge", "protocol"}, Case{"garbage", "protocol"},
                             Case{"liar", "protocol"}, Case{"request", "protocol"}, Case{"half", "status 0"},
                             Case{"deaf", "longer than 1.5 s"}, Case{"spin", "longer than 1.5 s"}}) {
      SCOPED_TRACE(each.how);
      MemoryView file(std::vector<std::byte>(2 << 20));
      auto start = std::chrono::steady_clock::now();
      auto result = pool.recognise(each.how, file, std::nullopt);
      EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(6000));
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.error().code, EIO);
      EXPECT_NE(result.error().text.find(each.text), std::string::npos) << result.error().text;
      EXPECT_NE(result.error().text.find("kept as bytes"), std::string::npos) << result.error().text;
      auto next = pool.recognise("well", file, std::nullopt);
      ASSERT_TRUE(next.ok()) << next.error().text;
      EXPECT_FALSE(*next);
    }
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(children(), 0U);
}

TEST(RecogniserPool, AWorkerIsConfined) {
  if (!kConfines) {
    GTEST_SKIP() << "not under this sanitizer";
  }
  MemoryView file(std::vector<std::byte>(100));
  RecogniserPool pool(bad());
  for (const char* how : {"write", "socket", "execve", "fork", "ptrace", "kill", "code"}) {
    const auto result = pool.recognise(std::string("try ") + how, file, std::nullopt);
    ASSERT_FALSE(result.ok()) << how;
    EXPECT_NE(result.error().text.find("signal 31"), std::string::npos) << how << ": " << result.error().text;
    EXPECT_NE(result.error().text.find("kept as bytes"), std::string::npos) << result.error().text;
  }
  const auto well = pool.recognise("try confined", file, std::nullopt);
  EXPECT_TRUE(well.ok()) << well.error().text;
  RecogniserPool workers(good());
  ASSERT_TRUE(workers.recognise("x.txt", file, std::nullopt).ok());
  std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  size_t confined = 0;
  for (pid_t child = 0; list >> child;) {
    confined += is_confined(child) ? 1 : 0;
  }
  EXPECT_EQ(confined, 2U);  // one of each pool
}

TEST(RecogniserPool, ProgramThatIsNotThere) {
  WorkerOptions options;
  options.program = "/no/such/program";
  RecogniserPool pool(options);
  MemoryView file{std::string_view(npy_file())};
  auto result = pool.recognise("x.npy", file, std::nullopt);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().text.find("/no/such/program"), std::string::npos) << result.error().text;
}

TEST(RecogniserPool, WorkerKilledWhileIdleIsReplaced) {
  RecogniserPool pool(good());
  for (int round = 0; round < 5; ++round) {
    MemoryView file{std::string_view(npy_file())};
    auto result = pool.recognise("x.npy", file, std::nullopt);
    ASSERT_TRUE(result.ok()) << result.error().text;
    std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    for (int pid = 0; list >> pid;) {
      ::kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

TEST(RecogniserPool, ManyThreadsShareFewProcesses) {
  RecogniserPool pool(good());
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        MemoryView file{std::string_view(npy_file())};
        auto result = pool.recognise("x.npy", file, std::nullopt);
        right += result.ok() && *result && (*result)->arrays.size() == 1 ? 1 : 0;
      }
    });
  }
  size_t most = 0;
  while (right < 100) {
    most = std::max(most, children());
    std::this_thread::sleep_for(milliseconds(1));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 160);
  EXPECT_LE(most, 2U);
}

class FailingView : public MemoryView {
 public:
  using MemoryView::MemoryView;
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    return fail ? Result<size_t>(Error{ENXIO, "the disk is on fire"}) : MemoryView::read(offset, out);
  }
  bool fail = true;
};

TEST(RecogniserPool, TheDaemonsOwnReadErrorComesThrough) {
  RecogniserPool pool(good());
  FailingView file{std::string_view(npy_file())};
  auto result = pool.recognise("x.npy", file, std::nullopt);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ENXIO);
  EXPECT_EQ(result.error().text, "the disk is on fire");
  file.fail = false;
  EXPECT_TRUE(pool.recognise("x.npy", file, std::nullopt).ok());
}

/// The worker must not outlive the daemon, even while it computes.
TEST(RecogniserPool, WorkersEndWithTheirParent) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  pid_t daemon = ::fork();
  if (daemon == 0) {
    {
      RecogniserPool pool(good());
      MemoryView file{std::string_view(npy_file())};
      (void)pool.recognise("x.npy", file, std::nullopt);
      std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
      int pid = 0;
      list >> pid;
      [[maybe_unused]] ssize_t written = ::write(pipe[1], &pid, sizeof pid);
      ::raise(SIGKILL);
    }
    std::_Exit(1);
  }
  int worker = 0;
  ASSERT_EQ(::read(pipe[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::close(pipe[0]);
  ::close(pipe[1]);
  int status = 0;
  ::waitpid(daemon, &status, 0);
  ASSERT_GT(worker, 0);
  for (int i = 0; i < 200 && ::kill(worker, 0) == 0; ++i) {
    std::ifstream state("/proc/" + std::to_string(worker) + "/stat");
    std::string text((std::istreambuf_iterator<char>(state)), std::istreambuf_iterator<char>());
    if (text.find(") Z ") != std::string::npos) {
      return;  // dead, and only waiting for whoever adopted it
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_NE(::kill(worker, 0), 0);
}

TEST(RecogniserPool, MemoryLimitMeansAnErrorNotACrashOfTheCaller) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more memory than any limit";
#endif
  ScratchFolder folder;
  Hdf5Maker maker(folder.file("x.h5"));
  ASSERT_GE(maker.dataset("a", {.shape = {300, 400}, .chunk = {1, 1}}), 0);
  maker.close();
  WorkerOptions options = good();
  MemoryView file(read_whole(folder.file("x.h5")));
  bool refused = false;
  for (uint64_t mib : {20, 40, 60, 80, 100, 120, 140, 2048}) {
    options.memory_limit = mib << 20;
    RecogniserPool limited(options);
    auto result = limited.recognise("x.h5", file, std::nullopt);
    refused = refused || !result.ok();
    if (mib == 2048) {
      ASSERT_TRUE(result.ok()) << result.error().text;
      EXPECT_EQ((*result)->arrays.size(), 1U);
    }
  }
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace varve::fs
