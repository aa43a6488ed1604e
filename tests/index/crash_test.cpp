// A writer is killed at random moments; the store is opened again and must hold everything that was promised.
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "index/keys.h"
#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

constexpr uint64_t kFiles = 40;

/// Shared with the writer: the generation of each file that a synced commit has returned for.
struct Promises {
  std::atomic<uint64_t> generation[kFiles];
};

struct Shape {
  uint64_t records = 0;
  size_t size = 0;
};

Shape shape_of(uint64_t file, uint64_t generation) {
  std::mt19937_64 random(file * 1000003 + generation);
  return random() % 8 == 0 ? Shape{3000, 300} : Shape{1 + random() % 6, 1 + random() % 20000};
}

Payload payload_of(uint64_t file, uint64_t generation, uint64_t brick, size_t size) {
  return bytes_of((file << 40) + (generation << 20) + brick, size);
}

/// Writes generation after generation of file after file until killed. The first record of each generation but the
/// first is shared from the one before.
[[noreturn]] void write_for_ever(const std::string& store, const IndexOptions& options, Promises& promises,
                                 uint64_t seed) {
  auto opened = Index::open(store, options);
  if (!opened.ok()) {
    ::_exit(1);
  }
  Index& index = **opened;
  std::mt19937_64 random(seed);
  for (;;) {
    const uint64_t file = random() % kFiles;
    const InodeNumber number = 100 + file;
    const auto before = index.inode(number);
    if (!before.ok()) {
      ::_exit(2);
    }
    Inode inode = before->value_or(Inode());
    const ObjectId old = inode.object;
    inode.number = number;
    inode.mode = S_IFREG;
    ++inode.size;  // the generation
    auto writer = index.begin_object();
    const Shape shape = shape_of(file, inode.size);
    for (uint64_t brick = 0; brick < shape.records; ++brick) {
      if (!(*writer)->put({1, 0, brick}, payload_of(file, inode.size, brick, shape.size)).ok()) {
        ::_exit(3);
      }
    }
    if (old != 0 && !(*writer)->share(old, {1, 0, 0}, {2, 0, 0}).ok()) {
      ::_exit(4);
    }
    if (random() % 8 == 0) {
      continue;  // given up
    }
    if (!(*writer)->finish().ok()) {
      ::_exit(5);
    }
    inode.object = (*writer)->object();
    Batch batch;
    batch.put_inode(inode);
    batch.publish(inode.object, std::to_string(file) + ":" + std::to_string(inode.size));
    if (old != 0) {
      batch.release(old);
    }
    const bool synced = random() % 2 == 0;
    if (!index.commit(std::move(batch), synced ? Durability::synced : Durability::buffered).ok()) {
      ::_exit(6);
    }
    promises.generation[file] = inode.size;  // a killed process loses nothing that commit returned for
    if (random() % 16 == 0 && !index.collect().ok()) {
      ::_exit(7);
    }
  }
}

/// Holds each file against what its writer was promised, and notes what is there. Adds to `live` the bytes that the
/// files need in packs, to `generations` the files' generations.
void check_files(Index& index, const IndexOptions& options, Promises& promises, uint64_t& live, uint64_t& generations) {
  for (uint64_t file = 0; file < kFiles; ++file) {
    const auto inode = index.inode(100 + file);
    ASSERT_OK(inode);
    const uint64_t generation = inode->has_value() ? (*inode)->size : 0;
    EXPECT_GE(generation, promises.generation[file]) << "file " << file;
    if (generation == 0) {
      continue;
    }
    generations += generation;
    const ObjectId object = (*inode)->object;
    EXPECT_EQ(*index.layout(object), std::to_string(file) + ":" + std::to_string(generation));
    const Shape shape = shape_of(file, generation);
    uint64_t found = 0;
    EXPECT_OK(index.records(object, [&](const RecordInfo& info) {
      ++found;
      live += info.length < options.inline_limit ? 0 : info.length + kPackHeaderSize;
      if (info.key.region == 1) {
        const auto back = index.record(object, info.key);
        EXPECT_OK(back);
        if (back.ok()) {
          EXPECT_EQ(*back, payload_of(file, generation, info.key.brick, shape.size));
        }
      }
      return true;
    }));
    EXPECT_EQ(found, shape.records + (generation > 1 ? 1 : 0));
    if (generation > 1) {
      const auto shared = index.record(object, {2, 0, 0});
      EXPECT_OK(shared);
      if (shared.ok()) {
        EXPECT_EQ(*shared, payload_of(file, generation - 1, 0, shape_of(file, generation - 1).size));
      }
    }
    promises.generation[file] = generation;
  }
}

TEST(Crash, KilledWriterLosesNothingThatWasPromised) {
  const TemporaryDirectory directory;
  IndexOptions options;
  options.pack_limit = 300000;
  auto* promises = static_cast<Promises*>(
      ::mmap(nullptr, sizeof(Promises), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(promises), MAP_FAILED);
  std::mt19937_64 random(11);
  uint64_t generations = 0;
  for (uint64_t round = 0; round < 25; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      write_for_ever(directory.store(), options, *promises, round);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 250));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed at step " << WEXITSTATUS(status);

    auto opened = Index::open(directory.store(), options);
    ASSERT_OK(opened);
    Index& index = **opened;
    uint64_t live = 0;
    ASSERT_NO_FATAL_FAILURE(check_files(index, options, *promises, live, generations));
    EXPECT_OK(index.collect());
    EXPECT_EQ(index.statistics()->live_pack_bytes, live);
    EXPECT_LE(index.statistics()->pack_bytes, 2 * live + options.pack_limit + 100000);
  }
  // Nothing is left of objects that were never published, or that were released.
  auto opened = Index::open(directory.store(), options);
  ASSERT_OK(opened);
  ASSERT_OK((*opened)->collect());
  std::set<ObjectId> held;
  for (uint64_t file = 0; file < kFiles; ++file) {
    if (const auto inode = (*opened)->inode(100 + file); inode.ok() && inode->has_value()) {
      held.insert((*inode)->object);
    }
  }
  auto last = (*opened)->begin_object();
  ASSERT_OK(last);
  for (ObjectId object = 1; object < (*last)->object(); ++object) {
    bool rows = false;
    EXPECT_OK((*opened)->records(object, [&](const RecordInfo&) {
      rows = true;
      return false;
    }));
    EXPECT_EQ(rows, held.contains(object)) << "object " << object;
  }
  last->reset();
  EXPECT_GT(generations, 100U) << "the writer was too slow for this test to mean anything";
  ::munmap(promises, sizeof(Promises));
}

TEST(Crash, NumbersUsedBeforeAKillAreNotUsedAgain) {
  const TemporaryDirectory directory;
  std::set<InodeNumber> used;
  for (int round = 0; round < 5; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto opened = Index::open(directory.store(), IndexOptions());
      for (int i = 0; i < 3000; ++i) {
        Inode inode;
        inode.number = (*opened)->new_inode_number();
        Batch batch;
        batch.put_inode(inode);
        if (!(*opened)->commit(std::move(batch), Durability::buffered).ok() ||
            ::write(ends[1], &inode.number, sizeof(inode.number)) != sizeof(inode.number)) {
          ::_exit(1);
        }
      }
      ::kill(::getpid(), SIGKILL);
    }
    ::close(ends[1]);
    InodeNumber number = 0;
    while (::read(ends[0], &number, sizeof(number)) == sizeof(number)) {
      EXPECT_TRUE(used.insert(number).second) << number;
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_EQ(used.size(), 15000U);
}

}  // namespace
}  // namespace varve::index::testing
