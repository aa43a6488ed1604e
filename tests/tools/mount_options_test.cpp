#include "tools/mount_options.h"

#include <gtest/gtest.h>

namespace varve::tools {
namespace {

TEST(MountOptions, TakesWhatIsOursAndWhatIsTheKernels) {
  MountSettings settings;
  ASSERT_TRUE(
      parse_mount_options("ro,noatime,,nosuid,cache=2G,workers=3,allow_other,log=/tmp/x,log_level=debug,device=cuda:1",
                          settings)
          .ok());
  EXPECT_TRUE(settings.read_only);
  EXPECT_TRUE(settings.allow_other);
  EXPECT_EQ(settings.cache_bytes, uint64_t{2} << 30);
  EXPECT_EQ(settings.workers, 3U);
  EXPECT_EQ(settings.device, "cuda:1");
  EXPECT_EQ(settings.log_file, "/tmp/x");
  EXPECT_EQ(settings.log_level, "debug");
  EXPECT_EQ(settings.kernel_options, (std::vector<std::string>{"noatime", "nosuid"}));
  ASSERT_TRUE(parse_mount_options("rw", settings).ok());
  EXPECT_FALSE(settings.read_only) << "the last word wins";
}

TEST(MountOptions, IgnoresWhatFstabHoldsForOthers) {
  for (const char* word : {"nofail", "_netdev", "noauto", "auto", "user", "users", "defaults", "comment=x,y", "x-gvfs",
                           "x-systemd.automount", "X-mount.mkdir", "user=somebody", "relatime", "async"}) {
    MountSettings settings;
    // "comment=x,y" is two words for everybody; the second is unknown.
    EXPECT_EQ(parse_mount_options(word, settings).ok(), std::string_view(word) != "comment=x,y") << word;
    EXPECT_FALSE(settings.read_only);
  }
}

TEST(MountOptions, NamesUnknownWordsAndTheirNeighbours) {
  MountSettings settings;
  const Status status = parse_mount_options("ro,noatim", settings);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, EINVAL);
  EXPECT_NE(status.error().text.find("\"noatim\""), std::string::npos) << status.error().text;
  EXPECT_NE(status.error().text.find("noatime"), std::string::npos) << status.error().text;
  const Status worker = parse_mount_options("worker=3", settings);
  ASSERT_FALSE(worker.ok());
  EXPECT_NE(worker.error().text.find("workers="), std::string::npos) << worker.error().text;
  const Status strange = parse_mount_options("zzzzzzzzzzzz", settings);
  ASSERT_FALSE(strange.ok());
  EXPECT_NE(strange.error().text.find("cache="), std::string::npos) << "lists what there is";
  for (const char* bad : {"workers=x", "workers=", "workers=-1", "workers=99999", "cache=", "cache=1Q", "cache=-1",
                          "log_level=loud", "log=", "remount", "workers", "cache", "device", "device=", "device=gpu"}) {
    EXPECT_FALSE(parse_mount_options(bad, settings).ok()) << bad;
  }
}

TEST(MountOptions, ReadsSizes) {
  EXPECT_EQ(*parse_size("0"), 0U);
  EXPECT_EQ(*parse_size("1048576"), uint64_t{1} << 20);
  EXPECT_EQ(*parse_size("512K"), uint64_t{512} << 10);
  EXPECT_EQ(*parse_size("64m"), uint64_t{64} << 20);
  EXPECT_EQ(*parse_size("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(*parse_size("1TB"), uint64_t{1} << 40);
  for (const char* bad : {"", "M", "1.5G", "-1", "1 G", "99999999999999999999", "18014398509481984K", "1Mi", "1KK"}) {
    EXPECT_FALSE(parse_size(bad).ok()) << bad;
  }
}

TEST(MountHelper, TakesArgumentsAsMountGivesThem) {
  MountSettings settings;
  ASSERT_TRUE(parse_helper_arguments(
                  {"/a/store", "/mnt", "-sn", "-v", "-o", "rw,noatime", "-t", "varve", "-N", "ns", "-onodev,cache=1M"},
                  settings)
                  .ok());
  EXPECT_EQ(settings.store, "/a/store");
  EXPECT_EQ(settings.directory, "/mnt");
  EXPECT_TRUE(settings.sloppy);
  EXPECT_FALSE(settings.fake);
  EXPECT_EQ(settings.cache_bytes, uint64_t{1} << 20);
  EXPECT_EQ(settings.kernel_options, (std::vector<std::string>{"noatime", "nodev"}));
}

TEST(MountHelper, SloppyForgivesUnknownOptionsWhereverItStands) {
  for (const auto& arguments : {std::vector<std::string>{"s", "d", "-s", "-o", "strange"},
                                std::vector<std::string>{"s", "d", "-o", "strange", "-s"}}) {
    MountSettings settings;
    EXPECT_TRUE(parse_helper_arguments(arguments, settings).ok());
  }
  MountSettings settings;
  EXPECT_FALSE(parse_helper_arguments({"s", "d", "-o", "strange"}, settings).ok());
}

TEST(MountHelper, RefusesWhatItDoesNotKnow) {
  for (const auto& arguments :
       {std::vector<std::string>{}, std::vector<std::string>{"s"}, std::vector<std::string>{"s", "d", "e"},
        std::vector<std::string>{"s", "d", "-q"}, std::vector<std::string>{"s", "d", "-o"}}) {
    MountSettings settings;
    const Status status = parse_helper_arguments(arguments, settings);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().text.find("mount.varve STORE DIR"), std::string::npos);
  }
}

}  // namespace
}  // namespace varve::tools
