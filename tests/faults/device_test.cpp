// The device seam: every model at a file of packs (index::Device) and at a file that RocksDB appends to, each against
// what the model should store; and the journal replays to the same bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/file_system.h>
#include <stdlib.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "faults/faulty_tables.h"

namespace varve::faults {
namespace {

using Content = std::vector<std::byte>;

constexpr std::array<size_t, 4> kLengths = {8192, 8192, 10000, 4096};
constexpr size_t kHit = 2;  // the write that faults aim at
constexpr size_t kOffset = 16384;
constexpr size_t kAll = 30480;

Content noise(unsigned seed, size_t length) {
  std::mt19937 generator(seed);
  Content content(length);
  for (std::byte& byte : content) {
    byte = static_cast<std::byte>(generator());
  }
  return content;
}

std::span<const std::byte> part(const Content& content, size_t offset, size_t length) {
  return std::span(content).subspan(offset, length);
}

/// A file of a store that is written from front to back in four pieces, and read.
class Port {
 public:
  virtual ~Port() = default;
  virtual std::string name() const = 0;
  /// What stands where nothing persists.
  virtual Content old() const = 0;
  /// Makes the file anew (below the seam), then writes; false: a write failed, and the rest was left.
  virtual void reset() = 0;
  virtual bool write_all(const Content& data, bool sync_before_hit = false) = 0;
  /// Nothing: it failed.
  virtual std::optional<Content> read(size_t offset, size_t length) = 0;
};

class DevicePort final : public Port {
 public:
  DevicePort(std::shared_ptr<index::Device> device, std::string store)
      : device_(std::move(device)), path_(std::move(store) + "/packs/1.pack") {}
  std::string name() const override { return "packs/1.pack"; }
  Content old() const override { return noise(1, kAll); }
  void reset() override {
    const Content content = old();
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  }
  bool write_all(const Content& data, bool sync_before_hit) override {
    auto file = device_->open(path_, index::Device::Mode::write);
    size_t at = 0;
    for (size_t i = 0; file.ok() && i < kLengths.size(); at += kLengths[i++]) {
      if ((i == kHit && sync_before_hit && !(*file)->sync().ok()) ||
          !(*file)->write(at, part(data, at, kLengths[i])).ok()) {
        return false;
      }
    }
    return file.ok();
  }
  std::optional<Content> read(size_t offset, size_t length) override {
    auto file = device_->open(path_, index::Device::Mode::read);
    Content out(length);
    const auto got = file.ok() ? (*file)->read(offset, out) : Result<size_t>(file.error());
    out.resize(got.ok() ? *got : 0);
    return got.ok() ? std::optional(out) : std::nullopt;
  }

 private:
  std::shared_ptr<index::Device> device_;
  std::string path_;
};

class TablePort final : public Port {
 public:
  TablePort(std::shared_ptr<rocksdb::FileSystem> files, std::string store)
      : files_(std::move(files)), path_(std::move(store) + "/db/000001.log") {}
  std::string name() const override { return "db/000001.log"; }
  Content old() const override { return Content(kAll); }
  void reset() override { std::filesystem::remove(path_); }
  bool write_all(const Content& data, bool sync_before_hit) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    bool good = files_->NewWritableFile(path_, {}, &file, nullptr).ok();
    size_t at = 0;
    for (size_t i = 0; good && i < kLengths.size(); at += kLengths[i++]) {
      good = (i != kHit || !sync_before_hit || file->Sync({}, nullptr).ok()) &&
             file->Append({reinterpret_cast<const char*>(data.data()) + at, kLengths[i]}, {}, nullptr).ok();
    }
    return good && file->Close({}, nullptr).ok();
  }
  std::optional<Content> read(size_t offset, size_t length) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    if (!files_->NewRandomAccessFile(path_, {}, &file, nullptr).ok()) {
      return std::nullopt;
    }
    Content out(length);
    rocksdb::Slice slice;
    const auto status = file->Read(offset, length, {}, &slice, reinterpret_cast<char*>(out.data()), nullptr);
    if (!status.ok()) {
      return std::nullopt;
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(slice.data());
    return Content(bytes, bytes + slice.size());
  }

 private:
  std::shared_ptr<rocksdb::FileSystem> files_;
  std::string path_;
};

/// The test's parameter: "pack" or "table".
class DeviceSeam : public testing::TestWithParam<std::string> {
 protected:
  DeviceSeam() {
    std::string pattern = testing::TempDir() + "/device-seam-XXXXXX";
    store_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(store_ + "/packs");
    std::filesystem::create_directories(store_ + "/db");
    injector_ = std::make_unique<Injector>(InjectorOptions{.journal = store_ + "/faults.jsonl", .recogniser = {}});
    auto device = faulty_device(index::posix_device(), store_, *injector_);
    if (GetParam() == "pack") {
      port_ = std::make_unique<DevicePort>(device, store_);
    } else {
      port_ = std::make_unique<TablePort>(faulty_tables(nullptr, index::posix_device(), store_, *injector_), store_);
    }
    data_ = noise(2, kAll);
    port_->reset();
  }
  ~DeviceSeam() override {
    injector_->disarm();
    std::filesystem::remove_all(store_);
  }

  void arm(const std::string& faults) {
    const Status armed = injector_->arm("seed = 5\n" + faults);
    ASSERT_TRUE(armed.ok()) << armed.error().text;
  }
  std::string rule(const std::string& model, const std::string& more) const {
    return fmt::format("[[fault]]\nseam = \"device\"\nmodel = \"{}\"\npath = \"{}\"\n{}\n", model, port_->name(), more);
  }
  /// What the file is then, from front to end.
  Content stored() {
    std::ifstream file(store_ + "/" + port_->name(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
  }
  /// Writes under one fault at the third write, checks that the journal replays to the same bytes; what is stored.
  Content under(const std::string& model, const std::string& more, bool success = true) {
    port_->reset();
    arm(rule(model, "nth = 3\n" + more));
    EXPECT_EQ(port_->write_all(data_), success) << model;
    const auto journal = injector_->journal();
    injector_->disarm();
    Content content = stored();
    port_->reset();
    const Status replay = injector_->replay(*journal);
    EXPECT_TRUE(replay.ok()) << model << ": " << replay.error().text;
    EXPECT_EQ(port_->write_all(data_), success) << model << ", replayed";
    EXPECT_EQ(stored(), content) << model << ", replayed";
    injector_->disarm();
    return content;
  }
  /// The twin, but that the faulty write stored `other` from its start on.
  Content with_write(const Content& other) const {
    Content content = data_;
    std::copy(other.begin(), other.end(), content.begin() + kOffset);
    return content;
  }
  Content mixed(const std::function<bool(size_t at)>& persists) const {
    Content content = data_;
    const Content before = port_->old();
    for (size_t at = kOffset; at < kOffset + kLengths[kHit]; ++at) {
      content[at] = persists(at) ? data_[at] : before[at];
    }
    return content;
  }
  size_t wrong_bits(const Content& content, const Content& wanted) const {
    EXPECT_EQ(content.size(), wanted.size());
    size_t bits = 0;
    for (size_t i = 0; i < std::min(content.size(), wanted.size()); ++i) {
      const bool hit = i >= kOffset && i < kOffset + kLengths[kHit];
      const int count = std::popcount(static_cast<unsigned>(content[i] ^ wanted[i]));
      EXPECT_TRUE(count == 0 || hit) << "byte " << i;
      bits += static_cast<size_t>(count);
    }
    return bits;
  }

  std::string store_;
  std::unique_ptr<Injector> injector_;
  std::unique_ptr<Port> port_;
  Content data_;
};

TEST_P(DeviceSeam, NothingArmedChangesNothing) {
  EXPECT_TRUE(port_->write_all(data_));
  EXPECT_EQ(stored(), data_);
  EXPECT_EQ(port_->read(100, 5000), Content(data_.begin() + 100, data_.begin() + 5100));
  arm("[[fault]]\nmodel = \"dropped_write\"\nseam = \"device\"\npath = \"elsewhere\"\n");
  port_->reset();
  EXPECT_TRUE(port_->write_all(data_));
  EXPECT_EQ(stored(), data_);
  EXPECT_FALSE(std::filesystem::exists(store_ + "/elsewhere"));
}

TEST_P(DeviceSeam, ContentModelsChangeTheWriteAlone) {
  EXPECT_EQ(wrong_bits(under("bit_flip", ""), data_), 1U);
  EXPECT_EQ(wrong_bits(under("bit_flip", "count = 4\nscattered = true"), data_), 4U);
  EXPECT_GE(wrong_bits(under("byte_corrupt", "count = 32"), data_), 32U);
  const Content zeros = under("zero_block", "size = 512");
  EXPECT_GT(wrong_bits(zeros, data_), 500U);
  EXPECT_TRUE(std::search_n(zeros.begin() + kOffset, zeros.end(), 512, std::byte{0}) != zeros.end());
}

TEST_P(DeviceSeam, LostPartsAreAsBefore) {
  EXPECT_EQ(under("shorn_write", "kept = 0.375"), mixed([](size_t at) { return at % 4096 < 1536; }));
  EXPECT_EQ(under("dropped_write", ""), mixed([](size_t) { return false; }));
  EXPECT_EQ(under("torn_write", "cut = \"page\"\nparts = 3\npersist = [0, 2]"), mixed([](size_t at) {
              return at < kOffset + 4096 || at >= kOffset + 8192;  // the only two borders inside
            }));
}

/// One of two or more parts that lasts and one that does not, whatever the seed; which they are differs.
TEST_P(DeviceSeam, SomePartsPersistAndSomeAreLost) {
  constexpr int kSeeds = 40;
  for (const std::string parts : {"parts = 2", "parts = 3", "cut = \"byte\"\nparts = 7"}) {
    std::set<Content> seen;
    for (int seed = 0; seed < kSeeds; ++seed) {
      port_->reset();
      const Status armed = injector_->arm(fmt::format("seed = {}\n{}", seed, rule("torn_write", "nth = 3\n" + parts)));
      ASSERT_TRUE(armed.ok()) << armed.error().text;
      EXPECT_TRUE(port_->write_all(data_));
      injector_->disarm();
      const Content content = stored();
      EXPECT_GT(wrong_bits(content, data_), 0U) << parts << ", seed " << seed << ": nothing is lost";
      EXPECT_NE(content, mixed([](size_t) { return false; })) << parts << ", seed " << seed << ": all is lost";
      seen.insert(content);
    }
    EXPECT_GT(seen.size(), 5U) << parts;
  }
}

TEST_P(DeviceSeam, SomeWritesOfARunPersistAndSomeAreLost) {
  constexpr int kSeeds = 60;
  constexpr size_t kRun = 3;
  std::set<std::array<bool, kRun>> seen;
  for (int seed = 0; seed < kSeeds; ++seed) {
    port_->reset();
    const Status armed = injector_->arm(fmt::format("seed = {}\n{}", seed, rule("torn_write", "nth = 1\nrun = 3")));
    ASSERT_TRUE(armed.ok()) << armed.error().text;
    EXPECT_TRUE(port_->write_all(data_));
    injector_->disarm();
    const Content content = stored();
    const Content before = port_->old();
    std::array<bool, kRun> persists{};
    for (size_t i = 0, at = 0; i < kRun; at += kLengths[i++]) {
      const auto is = [&](const Content& wanted) {
        return std::equal(wanted.begin() + static_cast<std::ptrdiff_t>(at),
                          wanted.begin() + static_cast<std::ptrdiff_t>(at + kLengths[i]),
                          content.begin() + static_cast<std::ptrdiff_t>(at));
      };
      persists[i] = is(data_);
      EXPECT_TRUE(persists[i] || is(before)) << "write " << i << " is whole or as before, seed " << seed;
    }
    EXPECT_NE(std::ranges::count(persists, true), 0) << "seed " << seed << ": no write persists";
    EXPECT_NE(std::ranges::count(persists, true), kRun) << "seed " << seed << ": no write is lost";
    seen.insert(persists);
  }
  EXPECT_EQ(seen.size(), 6U) << "each of the ways to lose one or two of three comes";
}

TEST_P(DeviceSeam, MisdirectedWritesAreElsewhere) {
  Content wanted = mixed([](size_t) { return false; });
  std::copy_n(data_.begin() + kOffset, kLengths[kHit], wanted.begin() + kOffset - 6000);
  EXPECT_EQ(under("misdirected_write", "distance = -6000"), wanted);
}

TEST_P(DeviceSeam, LateWritesComeOverLaterOnes) {
  EXPECT_EQ(under("unserializable_write", ""), data_) << "the fourth write does not overlap the third";
  if (GetParam() == "table") {
    return;  // nothing is written twice there
  }
  arm(rule("unserializable_write", "nth = 3\nwindow = 4"));
  const Content other = noise(3, kAll);
  EXPECT_TRUE(port_->write_all(data_));
  EXPECT_TRUE(port_->write_all(other));
  Content wanted = other;
  std::copy_n(data_.begin() + kOffset, kLengths[kHit], wanted.begin() + kOffset);
  EXPECT_EQ(stored(), wanted);
}

TEST_P(DeviceSeam, ShortAndLateIsWholeInTheEnd) {
  EXPECT_EQ(under("short_write", "bytes = 100"), data_);
  EXPECT_EQ(under("delay", "milliseconds = 1"), data_);
}

TEST_P(DeviceSeam, ErrorsReachTheCaller) {
  const Content before = port_->old();
  Content wanted = mixed([](size_t) { return false; });
  std::copy(before.begin() + kOffset, before.end(), wanted.begin() + kOffset);
  if (GetParam() == "table") {
    wanted.resize(kOffset);
  }
  EXPECT_EQ(under("errno", "errno = \"EIO\"", false), wanted);
  EXPECT_EQ(under("dead_device", "", false), wanted);
  port_->reset();
  arm(rule("enospc_at", "bytes = 20000"));
  EXPECT_FALSE(port_->write_all(data_));
  injector_->disarm();
  const Content content = stored();
  EXPECT_TRUE(std::equal(content.begin(), content.begin() + 20000, data_.begin()));
  EXPECT_EQ(content.size(), GetParam() == "table" ? 20000U : kAll);
}

TEST_P(DeviceSeam, PowerCutTakesWhatIsNotSynced) {
  for (const bool lie : {false, true}) {
    port_->reset();
    const std::string cut = rule("power_cut", "nth = 4\nthen = \"dead\"");
    arm(cut + (lie ? rule("lost_sync", "") : ""));
    EXPECT_FALSE(port_->write_all(data_, true));
    injector_->disarm();
    Content wanted = port_->old();
    std::copy_n(data_.begin(), lie ? 0 : kOffset, wanted.begin());
    if (GetParam() == "table") {
      wanted.resize(lie ? 0 : kOffset);
    }
    EXPECT_EQ(stored(), wanted) << "lying fsync: " << lie;
  }
}

TEST_P(DeviceSeam, StuckPagesTakeNoMoreWrites) {
  port_->reset();
  ASSERT_TRUE(port_->write_all(data_));
  if (GetParam() == "table") {
    return;  // nothing is written twice there
  }
  arm(rule("stuck_page", "nth = 1\noffset = [5000, 5001]"));
  const Content other = noise(3, kAll);
  EXPECT_TRUE(port_->write_all(other));
  Content wanted = other;
  std::copy_n(data_.begin() + 4096, 4096, wanted.begin() + 4096);
  EXPECT_EQ(stored(), wanted);
}

TEST_P(DeviceSeam, ReadModelsChangeOneRead) {
  ASSERT_TRUE(port_->write_all(data_));
  const Content good(data_.begin() + kOffset, data_.begin() + kOffset + 4096);
  const auto second = [&](const std::string& model, const std::string& more) {
    arm(rule(model, "nth = 2\noperation = \"read\"\n" + more));
    EXPECT_EQ(port_->read(kOffset, 4096), good);
    auto found = port_->read(kOffset, 4096);
    EXPECT_EQ(port_->read(kOffset, 4096), good);
    const auto journal = injector_->journal();
    const Status replay = injector_->replay(*journal);
    EXPECT_TRUE(replay.ok()) << replay.error().text;
    EXPECT_EQ(port_->read(kOffset, 4096), good);
    EXPECT_EQ(port_->read(kOffset, 4096), found) << model << ", replayed";
    injector_->disarm();
    EXPECT_EQ(stored(), data_) << model;
    return found;
  };
  const auto flipped = second("bit_flip", "");
  ASSERT_TRUE(flipped);
  size_t bits = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    bits += static_cast<size_t>(std::popcount(static_cast<unsigned>((*flipped)[i] ^ good[i])));
  }
  EXPECT_EQ(bits, 1U);
  EXPECT_FALSE(second("errno", ""));
  EXPECT_EQ(second("short_read", "bytes = 10"), good) << "a short read is gone on with";
  EXPECT_EQ(second("misdirected_read", "distance = -4096"),
            Content(data_.begin() + kOffset - 4096, data_.begin() + kOffset));
}

TEST_P(DeviceSeam, BadSectorsLastUntilWritten) {
  ASSERT_TRUE(port_->write_all(data_));
  arm(rule("latent_sector_error", "nth = 1\noffset = [1000, 1001]"));
  EXPECT_FALSE(port_->read(900, 200));
  EXPECT_FALSE(port_->read(1020, 100));
  EXPECT_TRUE(port_->read(1024, 100));
  EXPECT_TRUE(port_->read(0, 512));
  if (GetParam() == "pack") {
    EXPECT_TRUE(port_->write_all(data_));
    EXPECT_EQ(port_->read(0, kAll), data_);
  }
}

TEST_P(DeviceSeam, StaleReadsGiveWhatStoodThereBefore) {
  ASSERT_TRUE(port_->write_all(data_));
  if (GetParam() == "table") {
    return;  // nothing is written twice there
  }
  arm(rule("stale_read", "nth = 1"));
  EXPECT_TRUE(port_->write_all(noise(3, kAll)));
  EXPECT_EQ(port_->read(0, kAll), data_);
  EXPECT_EQ(port_->read(0, kAll), noise(3, kAll));
}

TEST_P(DeviceSeam, WearGrows) {
  ASSERT_TRUE(port_->write_all(data_));
  arm(rule("read_disturb", "growth = 1e-6"));
  size_t fewer = 0;
  for (int i = 0; i < 20; ++i) {
    const auto found = port_->read(0, kAll);
    ASSERT_TRUE(found);
    size_t bits = 0;
    for (size_t at = 0; at < kAll; ++at) {
      bits += static_cast<size_t>(std::popcount(static_cast<unsigned>((*found)[at] ^ data_[at])));
    }
    EXPECT_GE(bits, fewer);
    fewer = bits;
  }
  EXPECT_GT(fewer, 0U);
  arm(rule("retention", "base_rate = 1e-3"));
  EXPECT_NE(port_->read(0, kAll), data_);
  injector_->disarm();
  EXPECT_EQ(port_->read(0, kAll), data_);
}

TEST_P(DeviceSeam, WhatLastsGrowsOrWasDrawnIsReplayed) {
  const bool pack = GetParam() == "pack";
  const std::string read = "operation = \"read\"\n";
  const std::vector<std::pair<std::string, bool>> cases = {
      // rules, does it happen in a file that is written once, from front to end
      {rule("stuck_page", "nth = 1\noffset = [5000, 5001]"), true},
      {rule("torn_write", "nth = 2\nrun = 2\npersist = [1]"), true},
      {rule("unserializable_write", "nth = 2\nwindow = 1"), true},
      {rule("misdirected_write", "every = 2"), true},
      {rule("enospc_at", "bytes = 20000"), true},
      {rule("power_cut", "nth = 4\nthen = \"dead\"") + rule("lost_sync", ""), true},
      {rule("power_cut", "nth = 4\nlost = \"random\"\nany_order = true\nthen = \"continue\""), true},
      {rule("latent_sector_error", "nth = 1\noffset = [1000, 1001]"), true},
      {rule("stale_read", "nth = 2"), pack},
      {rule("misdirected_read", read + "probability = 0.5"), true},
      {rule("short_read", read + "probability = 0.5"), true},
      {rule("errno", read + "probability = 0.5"), true},
      {rule("read_disturb", "growth = 1e-5"), true},
      {rule("retention", "base_rate = 1e-3"), true}};
  for (const auto& [rules, happens] : cases) {
    const auto work = [&] {
      std::vector<std::optional<Content>> found;
      found.emplace_back(Content(port_->write_all(data_, true) ? 1 : 0));
      for (size_t i = 0; i < 8; ++i) {
        found.push_back(port_->read(i * 4096, 8192));
      }
      return found;
    };
    port_->reset();
    arm(rules);
    const auto found = work();
    const auto journal = injector_->journal();
    injector_->disarm();
    const Content content = stored();
    EXPECT_EQ(journal->find("\"effect\"") != std::string::npos, happens) << rules;
    if (!happens) {
      continue;
    }
    port_->reset();
    const Status replay = injector_->replay(*journal);
    ASSERT_TRUE(replay.ok()) << rules << replay.error().text;
    EXPECT_EQ(work() == found, true) << rules;
    injector_->disarm();
    EXPECT_EQ(stored() == content, true) << rules;
  }
}

TEST_P(DeviceSeam, CrashKillsTheProcess) {
  EXPECT_EXIT(
      {
        arm(rule("crash", "nth = 3"));
        port_->write_all(data_);
      },
      testing::KilledBySignal(SIGKILL), "");
  Content wanted = port_->old();
  std::copy_n(data_.begin(), kOffset + kLengths[kHit], wanted.begin());
  if (GetParam() == "table") {
    wanted.resize(kOffset + kLengths[kHit]);
  }
  EXPECT_EQ(stored(), wanted);
  std::ifstream journal(store_ + "/faults.jsonl");
  const std::string text{std::istreambuf_iterator<char>(journal), {}};
  EXPECT_NE(text.find("crash_after"), std::string::npos);
}

TEST_P(DeviceSeam, KindsTellFilesApart) {
  const std::string mine = GetParam() == "pack" ? "pack" : "wal";
  arm("[[fault]]\nseam = \"device\"\nmodel = \"dropped_write\"\nkind = [\"manifest\", \"table\", \"staging\"]\n");
  EXPECT_TRUE(port_->write_all(data_));
  EXPECT_EQ(stored(), data_);
  port_->reset();
  arm(fmt::format("[[fault]]\nseam = \"device\"\nmodel = \"dropped_write\"\nkind = \"{}\"\n", mine));
  EXPECT_TRUE(port_->write_all(data_));
  EXPECT_EQ(stored(), port_->old());
}

TEST_P(DeviceSeam, ArmingWhileThreadsWrite) {
  if (GetParam() == "table") {
    return;  // it has one file
  }
  const auto device = faulty_device(index::posix_device(), store_, *injector_);
  std::atomic<int> going{4};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      const std::string path = fmt::format("{}/packs/{}.pack", store_, 10 + number);
      for (int turn = 0; turn < 30; ++turn) {
        const auto file = device->open(path, index::Device::Mode::create);
        ASSERT_TRUE(file.ok());
        EXPECT_TRUE((*file)->write(0, data_).ok());
        EXPECT_TRUE((*file)->sync().ok());
        Content found(kAll);
        EXPECT_TRUE((*file)->read(0, found).ok());
        EXPECT_TRUE(number == 0 || found == data_) << "a file that is no target";
      }
      --going;
    });
  }
  int turns = 0;
  while (going > 0) {
    arm("[[fault]]\nseam = \"device\"\nmodel = \"bit_flip\"\npath = \"packs/10.pack\"\nprobability = 0.5\n"
        "[[fault]]\nseam = \"device\"\nmodel = \"delay\"\npath = \"packs/11.pack\"\nmilliseconds = 2\n"
        "[[fault]]\nseam = \"device\"\nmodel = \"unserializable_write\"\npath = \"packs/10.pack\"\nevery = 3\n"
        "[[fault]]\nseam = \"device\"\nmodel = \"power_cut\"\npath = \"elsewhere\"\n");
    ASSERT_TRUE(injector_->mark("somewhere").ok());
    static_cast<void>(injector_->status());
    injector_->disarm();
    ++turns;
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(turns, 1);
}

INSTANTIATE_TEST_SUITE_P(Seams, DeviceSeam, testing::Values("pack", "table"),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace varve::faults
