// A random tester in the manner of fsx: files of raw numbers and plain files, written, truncated, punched, copied,
// closed (and so sealed), reopened and remounted, against a model in memory.
#include <linux/falloc.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/fs/core/core_support.h"

namespace varve::fs {
namespace {

/// What a file must read as: `value` where `exact`, else within the bound of it until it has been read once sealed.
struct Model {
  Content value;
  std::vector<bool> settled;  ///< this byte reads as `value`, for ever, unless written again
};

class RandomOperations : public CoreTest, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr uint64_t kElements = 40 * 50 * 30;
  static constexpr uint64_t kLimit = kElements * 4;
  static constexpr double kBound = 0.01;

  Content smooth(uint64_t offset, uint64_t length, uint32_t seed) {
    Content data(length);
    for (uint64_t i = 0; i < length; ++i) {
      const uint64_t element = (offset + i) / 4;
      const float value = std::sin(static_cast<float>(element % 1500) * 0.01F) + static_cast<float>(seed % 7);
      std::memcpy(&data[i], reinterpret_cast<const std::byte*>(&value) + (offset + i) % 4, 1);
    }
    return data;
  }

  void model_write(uint64_t offset, const Content& data) {
    if (model_.value.size() < offset + data.size()) {
      model_resize(offset + data.size());
    }
    std::copy(data.begin(), data.end(), model_.value.begin() + static_cast<long>(offset));
    std::fill_n(model_.settled.begin() + static_cast<long>(offset), data.size(), false);
  }
  void model_resize(uint64_t size) {
    const uint64_t old = model_.value.size();
    model_.value.resize(size);
    model_.settled.resize(size);
    std::fill(model_.settled.begin() + static_cast<long>(std::min(old, size)), model_.settled.end(), false);
  }

  /// `sealed`: elements not settled may have moved by the bound, and are settled from now on.
  void check(const Content& seen, bool sealed, const std::string& when) {
    ASSERT_EQ(seen.size(), model_.value.size()) << when;
    for (uint64_t i = 0; i < seen.size(); i += 4) {
      const uint64_t end = std::min<uint64_t>(i + 4, seen.size());
      bool equal = true;
      bool settled = false;
      for (uint64_t j = i; j < end; ++j) {
        equal = equal && seen[j] == model_.value[j];
        settled = settled || model_.settled[j];
      }
      if (!equal) {
        ASSERT_TRUE(sealed && !settled && end == i + 4) << when << ": byte " << i << " changed";
        float was = 0;
        float now = 0;
        std::memcpy(&was, &model_.value[i], 4);
        std::memcpy(&now, &seen[i], 4);
        ASSERT_LE(std::fabs(static_cast<double>(was) - now), kBound) << when << ": element " << i / 4;
      }
    }
    if (sealed) {
      model_.value = seen;
      model_.settled.assign(seen.size(), true);
    }
  }

  void step(uint64_t handle, InodeNumber inode, std::mt19937& random) {
    const uint64_t offset = random() % kLimit;
    const uint64_t length = 1 + random() % std::min<uint64_t>(kLimit - offset, 1 + random() % 40000);
    const uint64_t size = model_.value.size();
    switch (random() % 10) {
      case 0: {
        const uint64_t target = random() % 4 == 0 ? kLimit : offset;
        AttributeChange change;
        change.size = target;
        ASSERT_TRUE(files_->set_attributes(kCaller, inode, change, handle).ok());
        model_resize(target);
        break;
      }
      case 1: {
        ASSERT_TRUE(files_->allocate(kCaller, handle, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length).ok());
        if (offset < size) {
          model_write(offset, Content(std::min(length, size - offset)));
        }
        break;
      }
      case 2:
        ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
        break;
      case 3: {
        Content out(length);
        const auto got = files_->read(kCaller, handle, offset, out);
        ASSERT_TRUE(got.ok());
        ASSERT_EQ(*got, offset < size ? std::min(length, size - offset) : 0);
        break;
      }
      default: {
        const Content data = smooth(offset, length, random());
        write(handle, offset, data);
        model_write(offset, data);
      }
    }
  }

  Model model_;
};

TEST_P(RandomOperations, ReadWhatWasWrittenWithinTheBoundAndNeverDrift) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    model_ = {};
    const InodeNumber inode = make_file(std::to_string(seed) + GetParam());
    set_bound(inode, "abs:0.01");
    for (int session = 0; session < 14; ++session) {
      const std::string when = "seed " + std::to_string(seed) + " session " + std::to_string(session);
      const uint64_t handle = open(inode, O_RDWR);
      if (session == 0 || random() % 5 == 0) {
        const Content whole = smooth(0, kLimit, random());
        write(handle, 0, whole);
        model_write(0, whole);
      }
      check(read_all(handle, inode), false, when + " before");
      for (int i = static_cast<int>(random() % 12); i > 0; --i) {
        step(handle, inode, random);
        if (HasFatalFailure()) {
          return;
        }
      }
      check(read_all(handle, inode), false, when + " written");
      if (random() % 2 == 0) {
        AttributeChange change;
        change.size = kLimit;  // whole, so that a raw file is recognised again
        ASSERT_TRUE(files_->set_attributes(kCaller, inode, change, handle).ok());
        model_resize(kLimit);
      }
      close(handle);
      if (random() % 3 == 0) {
        restart();
      }
      check(sealed_content(inode), true, when + " sealed");
      check(sealed_content(inode), false, when + " read again");
      if (HasFatalFailure()) {
        return;
      }
      ASSERT_EQ(attribute(inode, "user.varve.state"), model_.value.empty() ? "empty" : "sealed");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Names, RandomOperations,
                         testing::Values("_40x50x30.f32", "_60000.f32", "_300x200.f32", ".txt"));

}  // namespace
}  // namespace varve::fs
