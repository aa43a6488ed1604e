// Content through the core: sealing, sharing, partial rewrites, durability, virtual files.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/fs/core/core_support.h"

namespace varve::fs {
namespace {

Content field(size_t nz, size_t ny, size_t nx, float scale = 1) {
  Content data(nz * ny * nx * 4);
  size_t i = 0;
  for (size_t z = 0; z < nz; ++z) {
    for (size_t y = 0; y < ny; ++y) {
      for (size_t x = 0; x < nx; ++x, ++i) {
        const float value = scale * (std::sin(0.05F * static_cast<float>(z)) * std::cos(0.03F * static_cast<float>(y)) +
                                     0.2F * std::sin(0.11F * static_cast<float>(x)));
        std::memcpy(&data[i * 4], &value, 4);
      }
    }
  }
  return data;
}

double max_error(const Content& a, const Content& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i + 4 <= std::min(a.size(), b.size()); i += 4) {
    float x = 0;
    float y = 0;
    std::memcpy(&x, &a[i], 4);
    std::memcpy(&y, &b[i], 4);
    worst = std::max(worst, std::fabs(static_cast<double>(x) - y));
  }
  return worst;
}

class Sealing : public CoreTest {
 protected:
  InodeNumber put(const std::string& name, const Content& data, const std::string& bound = "") {
    const InodeNumber inode = make_file(name);
    if (!bound.empty()) {
      set_bound(inode, bound);
    }
    const uint64_t handle = open(inode, O_WRONLY);
    for (size_t at = 0; at < data.size(); at += 1 << 20) {
      write(handle, at,
            Content(data.begin() + static_cast<long>(at),
                    data.begin() + static_cast<long>(std::min<size_t>(at + (1 << 20), data.size()))));
    }
    close(handle);
    return inode;
  }
  nlohmann::json describe(const std::string& name) {
    const auto control = files_->lookup(kCaller, index::kRootInode, ".varve");
    const auto stat = files_->lookup(kCaller, control->attributes.inode, "stat");
    const auto file = files_->lookup(kCaller, stat->attributes.inode, name);
    EXPECT_TRUE(file.ok());
    const auto opened = files_->open(kCaller, file->attributes.inode, O_RDONLY);
    Content text(1 << 20);
    const auto got = files_->read(kCaller, opened->handle, 0, text);
    files_->release(opened->handle);
    return nlohmann::json::parse(std::string(reinterpret_cast<const char*>(text.data()), *got));
  }
};

TEST_F(Sealing, KeepsTheBoundSavesSpaceAndReadsTheSameAfterARestart) {
  const Content data = field(100, 120, 130);
  const InodeNumber inode = put("f_100x120x130.f32", data, "abs:0.001");
  const Content seen = sealed_content(inode);
  EXPECT_LE(max_error(data, seen), 0.001);
  EXPECT_NE(seen, data) << "a lossy bound was set, and nothing was lost: was it applied?";
  const auto attributes = files_->get_attributes(kCaller, inode);
  EXPECT_LT(attributes->blocks * 512, data.size() / 10);
  restart();
  EXPECT_EQ(sealed_content(inode), seen);
  const auto json = describe("f_100x120x130.f32");
  EXPECT_EQ(json["state"], "sealed");
  EXPECT_EQ(json["format"], "raw");
  EXPECT_EQ(json["arrays"][0]["bound"], "abs:0.001");
  EXPECT_EQ(json["arrays"][0]["absolute_bound"], 0.001);
  EXPECT_EQ(json["arrays"][0]["shape"], nlohmann::json({100, 120, 130}));
}

TEST_F(Sealing, WithoutABoundEveryByteComesBack) {
  Content data = field(70, 65, 66);
  EXPECT_EQ(sealed_content(put("f_70x65x66.f32", data)), data);
  data.push_back(std::byte{1});  // no longer a multiple: plain bytes
  EXPECT_EQ(sealed_content(put("g_70x65x66.f32", data)), data);
  EXPECT_EQ(sealed_content(put("empty", {})), Content());
}

TEST_F(Sealing, ChangingAFewElementsMovesNoOther) {
  const Content data = field(128, 96, 96);
  const InodeNumber inode = put("f_128x96x96.f32", data, "rel:1e-3");
  Content expected = sealed_content(inode);
  for (int round = 0; round < 5; ++round) {
    const uint64_t handle = open(inode, O_RDWR);
    const uint64_t offset = 4 * (100000 + 9000 * round);
    const Content patch(40, std::byte{0x3f});
    write(handle, offset, patch);
    std::copy(patch.begin(), patch.end(), expected.begin() + static_cast<long>(offset));
    close(handle);
    ASSERT_EQ(sealed_content(inode), expected) << "round " << round;
  }
  EXPECT_GT(describe("f_128x96x96.f32")["patches"]["size"], 0);
  restart();
  EXPECT_EQ(sealed_content(inode), expected);
}

TEST_F(Sealing, AppendingKeepsWhatWasThere) {
  const Content data = field(64, 50, 50);
  const InodeNumber inode = put("plain.bin", data);
  Content expected = data;
  for (int round = 0; round < 4; ++round) {
    const uint64_t handle = open(inode, O_RDWR);
    const Content more = field(1, 50, 50, static_cast<float>(round));
    write(handle, expected.size(), more);
    expected.insert(expected.end(), more.begin(), more.end());
    close(handle);
    ASSERT_EQ(sealed_content(inode), expected);
  }
}

TEST_F(Sealing, AWholeCopySharesTheRecords) {
  const Content data = field(128, 128, 64);
  const InodeNumber from = put("a_128x128x64.f32", data, "rel:1e-2");
  const Content seen = sealed_content(from);
  const InodeNumber to = make_file("b");
  const uint64_t source = open(from, O_RDONLY);
  const uint64_t target = open(to, O_WRONLY);
  const auto copied = files_->copy_range(kCaller, source, 0, target, 0, 1 << 30);
  ASSERT_TRUE(copied.ok());
  EXPECT_EQ(*copied, data.size());
  close(source);
  close(target);
  EXPECT_EQ(sealed_content(to), seen);
  ASSERT_TRUE(files_->unlink(kCaller, index::kRootInode, "a_128x128x64.f32").ok());
  restart();
  EXPECT_EQ(sealed_content(to), seen) << "the copy outlives the original";
}

TEST_F(Sealing, ACopyByReadingAndWritingSharesTooAndIsNotRoundedAgain) {
  const InodeNumber from = put("a_128x128x64.f32", field(128, 128, 64), "rel:1e-2");
  const Content seen = sealed_content(from);
  const InodeNumber to = put("b_128x128x64.f32", seen, "abs:0.1");
  EXPECT_EQ(sealed_content(to), seen);
  EXPECT_EQ(describe("b_128x128x64.f32")["arrays"][0]["bound"], "rel:0.01") << "it shares the source's records";
  Content other = seen;
  other[77] ^= std::byte{1};
  EXPECT_EQ(sealed_content(put("c_128x128x64.f32", other, "abs:0")), other) << "one bit off is no copy";
}

TEST_F(Sealing, AReaderWithAnOpenFileSurvivesUnlinkAndReplacement) {
  const Content data = field(16, 64, 64);
  const InodeNumber inode = put("x_16x64x64.f32", data);
  const uint64_t handle = open(inode, O_RDONLY);
  ASSERT_TRUE(files_->unlink(kCaller, index::kRootInode, "x_16x64x64.f32").ok());
  EXPECT_FALSE(files_->lookup(kCaller, index::kRootInode, "x_16x64x64.f32").ok());
  EXPECT_EQ(read_all(handle, inode), data);
  close(handle);
  EXPECT_FALSE(files_->open(kCaller, inode, O_RDONLY).ok());
}

TEST_F(Sealing, SyncedDataIsThereAfterTheDaemonIsGone) {
  const Content data = field(64, 64, 64);
  const InodeNumber inode = make_file("synced");
  const uint64_t handle = open(inode, O_RDWR);
  write(handle, 0, data);
  ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
  kill_daemon(handle);
  start();
  EXPECT_EQ(sealed_content(inode), data);
  EXPECT_EQ(attribute(inode, "user.varve.state"), "sealed");
}

TEST_F(Sealing, SyncedChangesOverSealedContentAreThereAfterTheDaemonIsGone) {
  const InodeNumber inode = put("x_64x64x64.f32", field(64, 64, 64), "abs:0.01");
  Content expected = sealed_content(inode);
  const uint64_t handle = open(inode, O_RDWR);
  const Content patch(1000, std::byte{7});
  write(handle, 5000, patch);
  std::copy(patch.begin(), patch.end(), expected.begin() + 5000);
  ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
  kill_daemon(handle);
  start();
  EXPECT_EQ(sealed_content(inode), expected);
}

/// As a power cut leaves it: the note that there is a staging file, and nothing of what is in it, or no file.
TEST_F(Sealing, ChangesThatWereNotSyncedDoNotHarmWhatIsSealed) {
  const InodeNumber inode = put("x_64x64x64.f32", field(64, 64, 64), "abs:0.01");
  const Content expected = sealed_content(inode);
  for (const bool file_is_lost : {false, true}) {
    const uint64_t handle = open(inode, O_RDWR);
    write(handle, 5000, Content(200'000, std::byte{7}));
    write(handle, expected.size(), Content(1000, std::byte{8}));
    kill_daemon(handle);
    const std::filesystem::path staging = directory_ + "/store/staging";
    ASSERT_FALSE(std::filesystem::is_empty(staging));
    for (const auto& entry : std::filesystem::directory_iterator(staging)) {
      file_is_lost ? void(std::filesystem::remove(entry)) : std::filesystem::resize_file(entry, 0);
    }
    start();
    EXPECT_EQ(sealed_content(inode), expected);
    EXPECT_EQ(attribute(inode, "user.varve.state"), "sealed");
    EXPECT_TRUE(std::filesystem::is_empty(staging));
  }
}

/// Small data lies in the note; the file that more data was put in has none.
TEST_F(Sealing, NoStagingFileIsLeftOfWhatWasSmallWhenItWasSynced) {
  const InodeNumber inode = make_file("small");
  const uint64_t handle = open(inode, O_RDWR);
  write(handle, 0, Content(100, std::byte{1}));
  ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
  write(handle, 100, Content(200'000, std::byte{2}));
  kill_daemon(handle);
  start();
  EXPECT_EQ(sealed_content(inode), Content(100, std::byte{1}));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/store/staging"));
}

TEST_F(Sealing, BoundsAreInheritedRefusedAndShown) {
  const auto directory = files_->make_directory(kCaller, index::kRootInode, "d", 0755);
  const InodeNumber number = directory->attributes.inode;
  set_bound(number, "rel:1e-2");
  for (const char* bad : {"rel:", "abs:-1", "abs:nan", "almost", "", "rel:1e-3x"}) {
    const Status refused = files_->set_xattr(kCaller, number, "user.varve.bound", bad, 0);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().code, EINVAL);
  }
  EXPECT_EQ(attribute(number, "user.varve.bound"), "rel:0.01");
  const InodeNumber inode = make_file("f_64x64x64.f32", number);
  EXPECT_EQ(attribute(inode, "user.varve.bound"), "rel:0.01");
  set_bound(number, "lossless");
  EXPECT_EQ(attribute(inode, "user.varve.bound"), "rel:0.01") << "what was in force at creation stays";
  EXPECT_EQ(attribute(make_file("g", number), "user.varve.bound"), "lossless");
  EXPECT_EQ(attribute(make_file("h"), "user.varve.bound"), "lossless");
}

TEST_F(Sealing, RulesAreCheckedAndTakeEffect) {
  const auto control = files_->lookup(kCaller, index::kRootInode, ".varve");
  const auto file = files_->lookup(kCaller, control->attributes.inode, "policy.toml");
  ASSERT_TRUE(file.ok());
  const auto put_policy = [&](const std::string& text) {
    const auto opened = files_->open(kCaller, file->attributes.inode, O_WRONLY | O_TRUNC);
    EXPECT_TRUE(opened.ok());
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    EXPECT_TRUE(files_->write(kCaller, opened->handle, 0, {bytes, text.size()}).ok());
    const Status closed = files_->flush(kCaller, opened->handle);
    files_->release(opened->handle);
    return closed;
  };
  EXPECT_TRUE(put_policy("[[rule]]\npath = \"run/*.f32\"\nbound = \"abs:0.5\"\n").ok());
  const Status refused = put_policy("[[rule]]\npath = \"run/*.f32\"\nbound = \"about a half\"\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EINVAL);
  const auto directory = files_->make_directory(kCaller, index::kRootInode, "run", 0755);
  EXPECT_EQ(attribute(make_file("a.f32", directory->attributes.inode), "user.varve.bound"), "abs:0.5");
  EXPECT_EQ(attribute(make_file("a.dat", directory->attributes.inode), "user.varve.bound"), "lossless");
}

TEST_F(Sealing, TimesAreNotTouchedBySealing) {
  const InodeNumber inode = make_file("x_64x64x64.f32");
  const uint64_t handle = open(inode, O_RDWR);
  write(handle, 0, field(64, 64, 64));
  AttributeChange change;
  change.modified = Time{1000, 5};
  ASSERT_TRUE(files_->set_attributes(kCaller, inode, change, handle).ok());
  close(handle);
  sealed_content(inode);
  EXPECT_EQ(files_->get_attributes(kCaller, inode)->modified, (Time{1000, 5}));
  restart();
  EXPECT_EQ(files_->get_attributes(kCaller, inode)->modified, (Time{1000, 5}));
}

}  // namespace
}  // namespace varve::fs
