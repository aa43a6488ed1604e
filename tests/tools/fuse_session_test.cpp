// The FUSE session alone: a file system in memory behind a real mount, used through system calls.
#include "fs/fuse_session.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "fs/fuse_mount_table.h"
#include "memory_operations.h"

namespace varve::fs {
namespace {

/// Waits up to ten seconds for something that other threads bring about.
bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, std::string_view data) {
  std::ofstream(path, std::ios::binary).write(data.data(), static_cast<std::streamsize>(data.size()));
}

MountOptions options_for(const std::string& mountpoint, const std::string& source,
                         const std::vector<std::string>& kernel_options = {}) {
  MountOptions options;
  options.mountpoint = mountpoint;
  options.source = source;
  options.kernel_options = kernel_options;
  return options;
}

ino_t inode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Runs `body` in a child process; its exit status, or -1.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class FuseSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "SKIPPED: /dev/fuse cannot be used here, nothing is tested";
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "varve-fuse-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = std::filesystem::canonical(pattern).string();
    if (const auto status = mount(); !status.ok()) {
      GTEST_SKIP() << "SKIPPED: cannot mount here: " << status.error().text;
    }
  }

  void TearDown() override {
    unmount_now();
    if (!directory_.empty()) {
      EXPECT_FALSE(mount_at(directory_).has_value()) << "a mount was left behind";
      rmdir(directory_.c_str());
    }
  }

  Status mount() {
    VARVE_ASSIGN(session_, FuseSession::mount(options_for(directory_, "a store, with commas"), operations_));
    server_ = std::thread([this] { served_ = session_->serve(); });
    return {};
  }

  void unmount_now() {
    if (server_.joinable()) {
      session_->stop();
      server_.join();
      EXPECT_TRUE(served_.ok()) << served_.error().text;
    }
    session_.reset();
  }

  std::string path(std::string_view name) const { return directory_ + "/" + std::string(name); }

  std::string directory_;
  MemoryOperations operations_;
  std::unique_ptr<FuseSession> session_;
  std::thread server_;
  Status served_;
};

TEST_F(FuseSessionTest, ShowsInTheMountTable) {
  const auto entry = mount_at(directory_);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->type, "fuse.varve");
  EXPECT_EQ(entry->source, "a store, with commas");
  struct statvfs space {};
  ASSERT_EQ(statvfs(directory_.c_str(), &space), 0);
  EXPECT_EQ(space.f_blocks, 1000U);
  EXPECT_EQ(space.f_bavail, 400U);
  EXPECT_EQ(space.f_ffree, 66U);
  EXPECT_EQ(space.f_namemax, 255U);
}

TEST_F(FuseSessionTest, ReadsBackWhatWasWrittenAtAnyOffset) {
  std::mt19937_64 random(7);
  std::string model;
  const int file = ::open(path("data").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_GE(file, 0);
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random() % 5000000;
    std::string piece(random() % (i % 10 == 0 ? 3000000 : 5000) + 1, '\0');
    std::ranges::generate(piece, [&] { return static_cast<char>(random()); });
    ASSERT_EQ(pwrite(file, piece.data(), piece.size(), static_cast<off_t>(offset)), ssize_t(piece.size()));
    model.resize(std::max(model.size(), offset + piece.size()));
    model.replace(offset, piece.size(), piece);
    std::string back(random() % 3000000 + 1, '\0');
    const size_t from = random() % model.size();
    const ssize_t count = pread(file, back.data(), back.size(), static_cast<off_t>(from));
    ASSERT_EQ(count, ssize_t(std::min(back.size(), model.size() - from)));
    ASSERT_EQ(back.substr(0, size_t(count)), model.substr(from, size_t(count)));
  }
  close(file);
  operations_.keep_cache = false;
  EXPECT_EQ(read_file(path("data")), model);
}

TEST_F(FuseSessionTest, ListsEveryEntryOnceWithTheInodeOfStat) {
  constexpr int kFiles = 3000;
  for (int i = 0; i < kFiles; ++i) {
    write_file(path(fmt::format("a file with a rather long name, number {}", i)), "x");
  }
  for (int round = 0; round < 2; ++round) {  // the first may be a plain readdir, the second a readdirplus
    std::set<std::string> names;
    DIR* directory = opendir(directory_.c_str());
    ASSERT_NE(directory, nullptr);
    while (const dirent* entry = readdir(directory)) {
      EXPECT_TRUE(names.insert(entry->d_name).second) << entry->d_name;
      if (names.size() < 50 && entry->d_name[0] == 'a') {
        EXPECT_EQ(entry->d_ino, inode_of(path(entry->d_name)));
        EXPECT_EQ(entry->d_type, DT_REG);
      }
    }
    closedir(directory);
    EXPECT_EQ(names.size(), kFiles + 2U);
  }
}

TEST_F(FuseSessionTest, ForgetsWhatIsRemoved) {
  std::filesystem::create_directory(path("d"));
  for (int i = 0; i < 300; ++i) {
    write_file(path(fmt::format("d/{}", i)), "x");
  }
  size_t listed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path("d"))) {
    listed += entry.file_size();
  }
  EXPECT_EQ(listed, 300U);
  EXPECT_EQ(operations_.node_count(), 302U);
  std::filesystem::remove_all(path("d"));
  EXPECT_TRUE(eventually([&] { return operations_.node_count() == 1; })) << operations_.node_count();
  EXPECT_TRUE(eventually([&] { return operations_.handle_count() == 0; })) << operations_.handle_count();
}

TEST_F(FuseSessionTest, RenamesWithFlags) {
  write_file(path("a"), "1");
  write_file(path("b"), "2");
  EXPECT_EQ(renameat2(AT_FDCWD, path("a").c_str(), AT_FDCWD, path("b").c_str(), RENAME_NOREPLACE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(renameat2(AT_FDCWD, path("a").c_str(), AT_FDCWD, path("b").c_str(), RENAME_EXCHANGE), 0);
  EXPECT_EQ(read_file(path("a")), "2");
  EXPECT_EQ(rename(path("a").c_str(), path("b").c_str()), 0);
  EXPECT_EQ(read_file(path("b")), "2");
  EXPECT_EQ(access(path("a").c_str(), F_OK), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(FuseSessionTest, KeepsLinksAndRemovedOpenFiles) {
  write_file(path("a"), "hello");
  ASSERT_EQ(link(path("a").c_str(), path("b").c_str()), 0);
  ASSERT_EQ(symlink("b", path("s").c_str()), 0);
  EXPECT_EQ(std::filesystem::hard_link_count(path("a")), 2U);
  EXPECT_EQ(std::filesystem::read_symlink(path("s")), "b");
  const int file = ::open(path("s").c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  EXPECT_EQ(unlink(path("a").c_str()), 0);
  EXPECT_EQ(unlink(path("b").c_str()), 0);
  std::array<char, 16> buffer{};
  EXPECT_EQ(read(file, buffer.data(), buffer.size()), 5);
  struct stat status {};
  EXPECT_EQ(fstat(file, &status), 0);
  close(file);
  EXPECT_EQ(::open(path("s").c_str(), O_RDONLY), -1);
  EXPECT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(std::filesystem::is_fifo(path("fifo")));
}

TEST_F(FuseSessionTest, ServesExtendedAttributes) {
  const std::string file = path("f");
  write_file(file, "x");
  const std::string value(300, 'v');
  ASSERT_EQ(setxattr(file.c_str(), "user.name", value.data(), value.size(), 0), 0);
  EXPECT_EQ(setxattr(file.c_str(), "user.name", "w", 1, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(setxattr(file.c_str(), "user.other", "w", 1, XATTR_REPLACE), -1);
  EXPECT_EQ(errno, ENODATA);
  ASSERT_EQ(setxattr(file.c_str(), "user.empty", "", 0, 0), 0);
  std::string buffer(400, '\0');
  EXPECT_EQ(getxattr(file.c_str(), "user.name", nullptr, 0), 300);
  EXPECT_EQ(getxattr(file.c_str(), "user.name", buffer.data(), 299), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(getxattr(file.c_str(), "user.name", buffer.data(), buffer.size()), 300);
  EXPECT_EQ(buffer.substr(0, 300), value);
  EXPECT_EQ(getxattr(file.c_str(), "user.empty", buffer.data(), buffer.size()), 0);
  EXPECT_EQ(getxattr(file.c_str(), "user.none", buffer.data(), buffer.size()), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(listxattr(file.c_str(), nullptr, 0), ssize_t(sizeof("user.name") + sizeof("user.empty")));
  EXPECT_EQ(listxattr(file.c_str(), buffer.data(), 3), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(removexattr(file.c_str(), "user.empty"), 0);
  EXPECT_EQ(removexattr(file.c_str(), "user.empty"), -1);
  EXPECT_EQ(errno, ENODATA);
}

TEST_F(FuseSessionTest, AnswersWhatTheKernelAsksBeforeEachWriteItself) {
  const std::string file = path("f");
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT, 0666);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(write(descriptor, "x", 1), 1);
  }
  close(descriptor);
  std::array<char, 64> buffer{};
  EXPECT_EQ(getxattr(file.c_str(), "security.capability", buffer.data(), buffer.size()), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(getxattr(file.c_str(), "system.posix_acl_access", buffer.data(), buffer.size()), -1);
  EXPECT_TRUE(errno == EOPNOTSUPP || errno == ENODATA) << errno;
  EXPECT_EQ(operations_.xattr_calls, 0U);
}

TEST_F(FuseSessionTest, ChangesAttributes) {
  const std::string file = path("f");
  write_file(file, "hello");
  struct stat before {};
  struct stat after {};
  ASSERT_EQ(stat(file.c_str(), &before), 0);
  const timespec times[2] = {{.tv_sec = 12345, .tv_nsec = 678}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  ASSERT_EQ(stat(file.c_str(), &after), 0);
  EXPECT_EQ(after.st_atim.tv_sec, 12345);
  EXPECT_EQ(after.st_atim.tv_nsec, 678);
  EXPECT_EQ(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
  EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  const timespec now[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), now, 0), 0);
  ASSERT_EQ(stat(file.c_str(), &after), 0);
  EXPECT_EQ(after.st_atim.tv_sec, 12345);
  EXPECT_NE(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);

  EXPECT_EQ(chmod(file.c_str(), 0640), 0);
  EXPECT_EQ(truncate(file.c_str(), 3), 0);
  ASSERT_EQ(stat(file.c_str(), &after), 0);
  EXPECT_EQ(after.st_mode & 07777, 0640U);
  EXPECT_EQ(after.st_size, 3);
  EXPECT_EQ(read_file(file), "hel");
  close(::open(file.c_str(), O_WRONLY | O_TRUNC));
  EXPECT_EQ(std::filesystem::file_size(file), 0U);
  if (geteuid() == 0) {
    EXPECT_EQ(chown(file.c_str(), 12, 34), 0);
    ASSERT_EQ(stat(file.c_str(), &after), 0);
    EXPECT_EQ(after.st_uid, 12U);
    EXPECT_EQ(after.st_gid, 34U);
  }
}

TEST_F(FuseSessionTest, DropsSetUserIdWhenAnotherUserWrites) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "SKIPPED: needs root";
  }
  for (const bool truncates : {false, true}) {
    const std::string file = path("f");
    write_file(file, "x");
    ASSERT_EQ(chmod(file.c_str(), 04777), 0);
    EXPECT_EQ(in_child([&] {
                if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
                  return 1;
                }
                const int descriptor = ::open(file.c_str(), O_WRONLY | (truncates ? O_TRUNC : 0));
                return descriptor >= 0 && (truncates || write(descriptor, "y", 1) == 1) ? 0 : 2;
              }),
              0);
    struct stat status {};
    ASSERT_EQ(stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0777U) << (truncates ? "truncated" : "written");
  }
}

TEST_F(FuseSessionTest, FilesBelongToTheirCreator) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "SKIPPED: needs root";
  }
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  EXPECT_EQ(in_child([&] {
              umask(027);
              if (setgroups(0, nullptr) != 0 || setgid(1234) != 0 || setuid(4321) != 0) {
                return 1;
              }
              return ::open(path("mine").c_str(), O_CREAT | O_WRONLY, 0666) >= 0 ? 0 : 2;
            }),
            0);
  struct stat status {};
  ASSERT_EQ(stat(path("mine").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 4321U);
  EXPECT_EQ(status.st_gid, 1234U);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

TEST_F(FuseSessionTest, LocksExcludeOtherProcesses) {
  const std::string file = path("f");
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT, 0666);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 10;
  lock.l_len = 10;
  ASSERT_EQ(fcntl(descriptor, F_SETLK, &lock), 0);
  const auto posix_at = [&](off_t start) {
    return in_child([&] {
      const int other = ::open(file.c_str(), O_RDWR);
      struct flock wish {};
      wish.l_type = F_WRLCK;
      wish.l_whence = SEEK_SET;
      wish.l_start = start;
      wish.l_len = 5;
      return fcntl(other, F_SETLK, &wish) == 0 ? 0 : errno;
    });
  };
  EXPECT_EQ(posix_at(12), EAGAIN);
  EXPECT_EQ(posix_at(20), 0);
  ASSERT_EQ(flock(descriptor, LOCK_EX), 0);
  const auto flock_there = [&] {
    return in_child([&] {
      const int other = ::open(file.c_str(), O_RDWR);
      return flock(other, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    });
  };
  EXPECT_EQ(flock_there(), EWOULDBLOCK);
  close(descriptor);
  EXPECT_EQ(posix_at(12), 0);
  EXPECT_EQ(flock_there(), 0);
}

TEST_F(FuseSessionTest, AllocatesSeeksAndCopiesRanges) {
  const int file = ::open(path("f").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(pwrite(file, "0123456789", 10, 0), 10);
  ASSERT_EQ(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 4), 0);
  EXPECT_EQ(lseek(file, 0, SEEK_HOLE), 2);
  EXPECT_EQ(lseek(file, 3, SEEK_DATA), 6);
  EXPECT_EQ(lseek(file, 6, SEEK_HOLE), 10);
  EXPECT_EQ(lseek(file, 10, SEEK_DATA), -1);
  EXPECT_EQ(errno, ENXIO);
  EXPECT_EQ(fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(fallocate(file, 0, 0, 20), 0);
  const int copy = ::open(path("g").c_str(), O_RDWR | O_CREAT, 0666);
  off_t from = 6;
  off_t to = 1;
  EXPECT_EQ(copy_file_range(file, &from, copy, &to, 4, 0), 4);
  close(file);
  close(copy);
  EXPECT_EQ(read_file(path("g")), std::string("\0"
                                              "6789",
                                              5));
  EXPECT_EQ(std::filesystem::file_size(path("f")), 20U);
}

TEST_F(FuseSessionTest, ErrorsOfFlushReachClose) {
  const int file = ::open(path("f").c_str(), O_RDWR | O_CREAT, 0666);
  operations_.flush_error = ENOSPC;
  EXPECT_EQ(close(file), -1);
  EXPECT_EQ(errno, ENOSPC);
}

TEST_F(FuseSessionTest, InvalidationShowsNewContentToReadersAndMaps) {
  const std::string file = path("f");
  write_file(file, std::string(10000, 'o'));
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  std::array<char, 4> buffer{};
  ASSERT_EQ(pread(descriptor, buffer.data(), 4, 5000), 4);
  auto* map = static_cast<const volatile char*>(mmap(nullptr, 10000, PROT_READ, MAP_SHARED, descriptor, 0));
  ASSERT_NE(map, MAP_FAILED);
  EXPECT_EQ(map[5000], 'o');
  const ino_t inode = inode_of(file);
  operations_.set_content(inode, std::string(10000, 'n'));
  ASSERT_EQ(pread(descriptor, buffer.data(), 4, 5000), 4);
  EXPECT_EQ(buffer[0], 'o') << "the kernel keeps pages of a file opened with keep_cache";
  session_->kernel_cache().invalidate_inode(inode, true);
  session_->kernel_cache().invalidate_inode(999999, true);  // unknown to the kernel: no harm
  EXPECT_TRUE(eventually([&] { return map[5000] == 'n'; }));
  ASSERT_EQ(pread(descriptor, buffer.data(), 4, 5000), 4);
  EXPECT_EQ(buffer[0], 'n');
  munmap(const_cast<char*>(map), 10000);
  close(descriptor);
}

TEST_F(FuseSessionTest, StoppingWhileBusyWritesBackWhatWasMapped) {
  const std::string file = path("f");
  write_file(file, std::string(8192, 'o'));
  const ino_t inode = inode_of(file);
  const int descriptor = ::open(file.c_str(), O_RDWR);
  auto* map = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  ASSERT_NE(map, MAP_FAILED);
  map[4096] = 'n';
  unmount_now();
  EXPECT_FALSE(mount_at(directory_).has_value());
  EXPECT_EQ(operations_.content(inode).at(4096), 'n');
  munmap(map, 8192);
  close(descriptor);
}

TEST_F(FuseSessionTest, EndsWhenUnmountedFromOutside) {
  ASSERT_TRUE(unmount(directory_, false).ok());
  server_.join();
  EXPECT_TRUE(served_.ok());
}

TEST_F(FuseSessionTest, EndsOnEachStopSignal) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    write_file(path("f"), "x");  // so that it serves by now
    kill(getpid(), signal);
    server_.join();
    EXPECT_TRUE(served_.ok());
    EXPECT_FALSE(mount_at(directory_).has_value());
    session_.reset();
    ASSERT_TRUE(mount().ok());
  }
}

TEST_F(FuseSessionTest, TakesOffADeadMount) {
  unmount_now();
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    MemoryOperations operations;
    auto session = FuseSession::mount(options_for(directory_, "dead"), operations);
    (void)!write(ready[1], session.ok() ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  struct stat status {};
  EXPECT_EQ(stat(directory_.c_str(), &status), -1);
  EXPECT_EQ(errno, ENOTCONN);
  ASSERT_TRUE(mount().ok());
  write_file(path("alive"), "yes");
  EXPECT_EQ(read_file(path("alive")), "yes");
}

TEST_F(FuseSessionTest, ASessionNeverServedLeavesNoMount) {
  unmount_now();
  auto session = FuseSession::mount(options_for(directory_, "x"), operations_);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE(mount_at(directory_).has_value());
  session->reset();
  EXPECT_FALSE(mount_at(directory_).has_value());
}

TEST_F(FuseSessionTest, SaysWhatIsWrongWithAMountPoint) {
  auto missing = FuseSession::mount(options_for(directory_ + "-none", "x"), operations_);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ENOENT);
  EXPECT_NE(missing.error().text.find("mkdir"), std::string::npos) << missing.error().text;
  write_file(path("f"), "x");
  auto file = FuseSession::mount(options_for(path("f"), "x"), operations_);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ENOTDIR);
  auto option = FuseSession::mount(options_for(directory_, "x", {"nosuch"}), operations_);
  ASSERT_FALSE(option.ok());
  EXPECT_EQ(option.error().code, EINVAL);
  EXPECT_NE(option.error().text.find("nosuch"), std::string::npos) << option.error().text;
}

TEST_F(FuseSessionTest, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  threads.reserve(16);
  std::atomic<int> failures{0};
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string name = path(fmt::format("{}-{}", t, i % 7));
        const std::string data(1000 + static_cast<size_t>(i), static_cast<char>('a' + t));
        write_file(name, data);
        failures += read_file(name) != data;
        if (i % 3 == 0) {
          failures += ::unlink(name.c_str()) != 0;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
}

TEST(MountTable, ParsesEscapesAndOptionalFields) {
  const auto entries = parse_mount_table(
      "36 35 0:42 / /mnt/with\\040space rw,noatime shared:1 master:2 - fuse.varve /a\\134b rw,user_id=0\n"
      "37 35 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "nonsense\n"
      "38 35 x:y / / rw - ext4 /dev/sda1 rw\n");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].mountpoint, "/mnt/with space");
  EXPECT_EQ(entries[0].source, "/a\\b");
  EXPECT_EQ(entries[0].type, "fuse.varve");
  EXPECT_EQ(entries[0].minor, 42U);
  EXPECT_EQ(entries[1].major, 8U);
}

}  // namespace
}  // namespace varve::fs
