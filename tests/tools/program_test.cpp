// The program `varve` as users run it: output, exit statuses, a real mount.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fs/fuse_mount_table.h"

namespace varve {
namespace {

using nlohmann::json;

struct Outcome {
  int status = -1;
  std::string output;  ///< standard output and standard error
};

std::string quote(const std::string& word) {
  std::string result = "'";
  for (const char c : word) {
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result + "'";
}

Outcome run_program(const std::string& program, const std::vector<std::string>& arguments) {
  std::string command = quote(program);
  for (const std::string& argument : arguments) {
    command.append(" ").append(quote(argument));
  }
  command += " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  for (size_t count = 0; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

Outcome varve(const std::vector<std::string>& arguments) { return run_program(VARVE_PROGRAM, arguments); }

void write_file(const std::string& path, std::string_view data) {
  std::ofstream(path, std::ios::binary).write(data.data(), static_cast<std::streamsize>(data.size()));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// An npy file of little-endian floats.
std::string npy(const std::vector<float>& values) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", values.size());
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += std::string("\x01\x00", 2);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return file;
}

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "varve-tools-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = std::filesystem::canonical(pattern).string();
  }
  void TearDown() override {
    for (const auto& entry : fs::mount_table()) {
      if (entry.mountpoint.starts_with(directory_ + "/")) {
        (void)fs::unmount(entry.mountpoint, true);
      }
    }
    std::filesystem::remove_all(directory_);
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_;
};

#define EXPECT_SAYS(outcome, words) EXPECT_NE((outcome).output.find(words), std::string::npos) << (outcome).output

// --- the command line -----------------------------------------------------------------------------------------------

TEST_F(ProgramTest, HelpOfEverySubcommandHasExamples) {
  EXPECT_EQ(varve({"--help"}).status, 0);
  for (const char* command : {"mount", "umount", "mkfs", "stat", "policy", "verify", "sync", "bench"}) {
    const Outcome outcome = varve({command, "--help"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_SAYS(outcome, "Example");
    EXPECT_SAYS(outcome, fmt::format("varve {}", command));
  }
  EXPECT_EQ(varve({"--help"}).output.find("recognise-worker"), std::string::npos);
}

TEST_F(ProgramTest, WrongUseIsTwo) {
  EXPECT_EQ(varve({}).status, 2);
  EXPECT_EQ(varve({"nonsense"}).status, 2);
  EXPECT_EQ(varve({"mount"}).status, 2);
  EXPECT_EQ(varve({"stat", "--nonsense", "x"}).status, 2);
  EXPECT_EQ(varve({"policy"}).status, 2);
  EXPECT_EQ(varve({"--version"}).status, 0);
}

TEST_F(ProgramTest, MkfsMakesOneStoreAndNoSecond) {
  EXPECT_EQ(varve({"mkfs", path("store")}).status, 0);
  const Outcome again = varve({"mkfs", path("store")});
  EXPECT_EQ(again.status, 2);
  EXPECT_SAYS(again, "already holds a store");
  std::filesystem::create_directory(path("other"));
  write_file(path("other/thing"), "x");
  const Outcome other = varve({"mkfs", path("other")});
  EXPECT_EQ(other.status, 2);
  EXPECT_SAYS(other, path("other"));
  EXPECT_EQ(read_file(path("other/thing")), "x");
}

// --- policy ---------------------------------------------------------------------------------------------------------

TEST_F(ProgramTest, PolicyOfAStoreIsCheckedSetShownAndTried) {
  ASSERT_EQ(varve({"mkfs", path("store")}).status, 0);
  EXPECT_SAYS(varve({"policy", "show", path("store")}), "No rules");
  const std::string good =
      "[[rule]]\npath = \"runs/**\"\nbound = \"rel:1e-3\"\n\n[[rule]]\npath = \"**\"\ndataset = \"/t*\"\nbound = "
      "\"abs:0.5\"\n";
  write_file(path("good.toml"), good);
  ASSERT_EQ(varve({"policy", "set", path("store"), path("good.toml")}).status, 0);
  EXPECT_EQ(varve({"policy", "show", path("store")}).output, good);

  write_file(path("bad.toml"), "[[rule]]\npath = \"a\"\nbound = \"rel:much\"\n");
  const Outcome refused = varve({"policy", "set", path("store"), path("bad.toml")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_SAYS(refused, "line 3");
  EXPECT_SAYS(refused, "rel:much");
  EXPECT_EQ(varve({"policy", "show", path("store")}).output, good) << "a refused file changes nothing";

  const Outcome general = varve({"policy", "test", path("store"), "runs/1/a.h5"});
  EXPECT_EQ(general.status, 0);
  EXPECT_SAYS(general, "rel:0.001");
  EXPECT_SAYS(general, "line 1");
  const Outcome named = varve({"policy", "test", path("store"), "runs/1/a.h5", "/temperature"});
  EXPECT_SAYS(named, "abs:0.5");
  EXPECT_SAYS(varve({"policy", "test", path("store"), "elsewhere/a.h5"}), "lossless");
}

TEST_F(ProgramTest, PolicyOfNothingIsRefused) {
  const Outcome outcome = varve({"policy", "show", directory_});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_SAYS(outcome, "neither in a Varve mount nor a store");
}

// --- verify ---------------------------------------------------------------------------------------------------------

TEST_F(ProgramTest, VerifyJudgesPlainFiles) {
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 0.01F);
  }
  values[7] = std::numeric_limits<float>::quiet_NaN();
  write_file(path("a.npy"), npy(values));
  const auto verdict = [&](const std::string& data, const std::vector<std::string>& options) {
    write_file(path("b.npy"), data);
    std::vector<std::string> arguments = {"verify", "--json", path("a.npy"), path("b.npy")};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = varve(arguments);
    const json report = json::parse(outcome.output, nullptr, false);
    EXPECT_EQ(report.value("kept", false), outcome.status == 0) << outcome.output;
    return std::pair(outcome.status, report);
  };
  EXPECT_EQ(verdict(npy(values), {}).first, 0);
  auto moved = values;
  moved[100] += 0.01F;
  const double error = std::abs(static_cast<double>(moved[100]) - static_cast<double>(values[100]));
  EXPECT_EQ(verdict(npy(moved), {}).first, 1) << "no bound means equal";
  const auto [kept, report] = verdict(npy(moved), {"--bound", "abs:0.02"});
  EXPECT_EQ(kept, 0);
  ASSERT_EQ(report["arrays"].size(), 1U);
  EXPECT_EQ(report["arrays"][0]["max_error"], error);
  EXPECT_EQ(report["arrays"][0]["elements"], 5000);
  EXPECT_EQ(report["arrays"][0]["exact"], 1) << "the NaN; sin(0) is +0";
  EXPECT_EQ(verdict(npy(moved), {"--bound", "abs:0.005"}).first, 1);
  EXPECT_EQ(verdict(npy(moved), {"--bound", "rel:0.01"}).first, 0);
  EXPECT_EQ(verdict(npy(moved), {"--bound", "rel:0.001"}).first, 1);
  moved = values;
  moved[7] = 0;
  EXPECT_EQ(verdict(npy(moved), {"--bound", "abs:100"}).first, 1) << "a NaN vanished";
  std::string header = npy(values);
  header[100] ^= 1;  // a space in the padding of the header
  const auto [changed, bytes] = verdict(header, {"--bound", "abs:1"});
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(bytes["bytes"]["different"], 1);
  EXPECT_EQ(bytes["bytes"]["first_difference"], 100);
  EXPECT_EQ(verdict(npy(values) + "x", {"--bound", "abs:1"}).first, 1) << "sizes differ";
}

// What no one declared to be missing does not widen the range that a relative bound is a part of.
TEST_F(ProgramTest, VerifyLeavesUndeclaredMissingValuesOutOfTheRange) {
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 3 == 0 ? -1e30F : std::sin(static_cast<float>(i) * 0.01F);
  }
  auto moved = values;
  moved[100] += 0.001F;
  auto destroyed = values;
  destroyed[100] = 1e20F;
  write_file(path("a.npy"), npy(values));
  write_file(path("moved.npy"), npy(moved));
  write_file(path("destroyed.npy"), npy(destroyed));
  EXPECT_EQ(varve({"verify", path("a.npy"), path("moved.npy"), "--bound", "rel:1e-3"}).status, 0);
  EXPECT_EQ(varve({"verify", path("a.npy"), path("moved.npy"), "--bound", "rel:1e-4"}).status, 1);
  EXPECT_EQ(varve({"verify", path("a.npy"), path("destroyed.npy"), "--bound", "rel:1e-3"}).status, 1);
}

TEST_F(ProgramTest, VerifyReadsRawFilesAndText) {
  std::string data(4000, '\0');
  write_file(path("a.bin"), data);
  const float small = 0.25F;
  data.replace(400, 4, reinterpret_cast<const char*>(&small), 4);
  write_file(path("b.bin"), data);
  const Outcome bytes = varve({"verify", path("a.bin"), path("b.bin"), "--bound", "abs:1"});
  EXPECT_EQ(bytes.status, 1);
  EXPECT_SAYS(bytes, "no arrays recognised");
  EXPECT_EQ(varve({"verify", path("a.bin"), path("b.bin"), "--bound", "abs:1", "--raw", "f32:10x100"}).status, 0);
  EXPECT_EQ(varve({"verify", path("a.bin"), path("b.bin"), "--bound", "abs:0.1", "--raw", "f32:10x100"}).status, 1);
  EXPECT_EQ(varve({"verify", path("a.bin"), path("b.bin"), "--raw", "f32:10x101"}).status, 2);
  for (const char* bad : {"f32", "f32:", "f32:x", "f32:10x", "nosuch:10", "f32:0x10"}) {
    EXPECT_EQ(varve({"verify", path("a.bin"), path("b.bin"), "--raw", bad}).status, 2) << bad;
  }
}

TEST_F(ProgramTest, VerifyErrorsAreTwo) {
  write_file(path("a"), "x");
  EXPECT_EQ(varve({"verify", path("a"), path("none")}).status, 2);
  EXPECT_EQ(varve({"verify", path("none"), path("a")}).status, 2);
  EXPECT_EQ(varve({"verify", path("a"), directory_}).status, 2);
  const Outcome outcome = varve({"verify", path("a"), path("a"), "--bound", "rel:-1"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_SAYS(outcome, "rel:-1");
}

// --- mounting -------------------------------------------------------------------------------------------------------

TEST_F(ProgramTest, RefusesStoresAndMountPointsInsideEachOther) {
  std::filesystem::create_directories(path("m/inner"));
  std::filesystem::create_directory_symlink(path("m"), path("alias"));
  for (const auto& [store, mountpoint] :
       {std::pair("m/store", "m"), std::pair("m", "m"), std::pair("m", "m/inner"), std::pair("alias/store", "m"),
        std::pair("m/store", "alias"), std::pair("m/../m/store/", "m/")}) {
    const Outcome outcome = varve({"mount", path(store), path(mountpoint)});
    EXPECT_EQ(outcome.status, 2) << store << " on " << mountpoint;
    EXPECT_SAYS(outcome, "inside");
  }
  EXPECT_FALSE(std::filesystem::exists(path("m/store"))) << "nothing was made";
}

TEST_F(ProgramTest, MountSaysWhatIsWrong) {
  std::filesystem::create_directory(path("m"));
  const Outcome missing = varve({"mount", path("store"), path("none")});
  EXPECT_EQ(missing.status, 2);
  const Outcome option = varve({"mount", "-o", "noatme", path("store"), path("m")});
  EXPECT_EQ(option.status, 2);
  EXPECT_SAYS(option, "noatime");
  EXPECT_EQ(varve({"mount", "--cache", "lots", path("store"), path("m")}).status, 2);
  EXPECT_EQ(varve({"mount", "--log-level", "loud", path("store"), path("m")}).status, 2);
  const Outcome unmounted = varve({"umount", path("m")});
  EXPECT_EQ(unmounted.status, 2);
  EXPECT_SAYS(unmounted, "not the directory of a Varve mount");
  EXPECT_SAYS(varve({"stat", path("m")}), "not in a Varve mount");
  EXPECT_EQ(varve({"sync", path("m")}).status, 2);
}

TEST_F(ProgramTest, MountHelperKeepsTheConventionsOfMount) {
  const std::string helper = path("mount.varve");
  std::filesystem::create_symlink(VARVE_PROGRAM, helper);
  std::filesystem::create_directory(path("m"));
  EXPECT_EQ(run_program(helper, {path("store")}).status, 1);
  EXPECT_EQ(run_program(helper, {path("store"), path("m"), "-o", "strange"}).status, 1);
  EXPECT_EQ(run_program(helper, {path("store"), path("m"), "-f", "-o", "rw,nofail,x-systemd.automount"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(path("store"))) << "-f only pretends";
  EXPECT_EQ(run_program(helper, {path("m/store"), path("m")}).status, 32);
}

class MountedProgramTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (::access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "SKIPPED: /dev/fuse cannot be used here";
    }
    std::filesystem::create_directory(path("m"));
    const Outcome outcome = varve({"mount", path("store"), path("m")});
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    ASSERT_TRUE(fs::mount_at(path("m")).has_value());
  }
};

TEST_F(MountedProgramTest, AWholeSession) {
  std::vector<float> values(100000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 0.001F);
  }
  ASSERT_EQ(setxattr(path("m").c_str(), "user.varve.bound", "rel:1e-3", 8, 0), 0);
  write_file(path("a.npy"), npy(values));
  std::filesystem::copy_file(path("a.npy"), path("m/a.npy"));
  EXPECT_EQ(varve({"sync", path("m")}).status, 0);

  const Outcome stat = varve({"stat", "--json", path("m/a.npy")});
  ASSERT_EQ(stat.status, 0) << stat.output;
  const json description = json::parse(stat.output, nullptr, false);
  EXPECT_EQ(description["state"], "sealed");
  EXPECT_EQ(description["size"], std::filesystem::file_size(path("a.npy")));
  ASSERT_EQ(description["arrays"].size(), 1U);
  EXPECT_EQ(description["arrays"][0]["bound"], "rel:0.001");
  EXPECT_LT(description["stored"], description["size"]);
  EXPECT_SAYS(varve({"stat", path("m")}), "rel:0.001");

  const Outcome verified = varve({"verify", "--json", path("a.npy"), path("m/a.npy")});
  EXPECT_EQ(verified.status, 0) << verified.output;
  const json report = json::parse(verified.output, nullptr, false);
  EXPECT_GT(report["arrays"][0]["max_error"], 0);
  EXPECT_EQ(varve({"verify", "--bound", "lossless", path("a.npy"), path("m/a.npy")}).status, 1);
  EXPECT_EQ(varve({"verify", "--bound", "rel:1e-6", path("a.npy"), path("m/a.npy")}).status, 1);

  const Outcome busy_store = varve({"mount", path("store"), path("a.npy")});
  EXPECT_EQ(busy_store.status, 2);
  EXPECT_SAYS(busy_store, "in use by process");
  EXPECT_SAYS(varve({"policy", "test", path("m"), "a.npy"}), "user.varve.bound");

  const std::string before = read_file(path("m/a.npy"));
  ASSERT_EQ(varve({"umount", path("m")}).status, 0);
  EXPECT_FALSE(fs::mount_at(path("m")).has_value());
  EXPECT_SAYS(varve({"policy", "test", path("store"), "a.npy"}), "user.varve.bound");
  ASSERT_EQ(varve({"mount", "-o", "noatime", path("store"), path("m")}).status, 0);
  EXPECT_EQ(read_file(path("m/a.npy")), before);
  EXPECT_EQ(varve({"umount", path("m")}).status, 0);
}

TEST_F(MountedProgramTest, PolicyThroughTheMount) {
  write_file(path("good.toml"), "[[rule]]\npath = \"**\"\nbound = \"abs:0.5\"\n");
  ASSERT_EQ(varve({"policy", "set", path("m"), path("good.toml")}).status, 0);
  EXPECT_EQ(varve({"policy", "show", path("m")}).output, read_file(path("good.toml")));
  EXPECT_SAYS(varve({"policy", "test", path("m"), "x/y.npy"}), "abs:0.5");
  write_file(path("bad.toml"), "[[rule]]\npath = \"a\"\nbund = \"rel:1e-3\"\n");
  EXPECT_SAYS(varve({"policy", "set", path("m"), path("bad.toml")}), "line 3");
  // Without the tool's own check the mount refuses too.
  const int file = ::open(path("m/.varve/policy.toml").c_str(), O_WRONLY | O_TRUNC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(write(file, "nonsense", 8), 8);
  EXPECT_EQ(close(file), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(varve({"policy", "show", path("m")}).output, read_file(path("good.toml")));
}

TEST_F(MountedProgramTest, UmountNamesWhoKeepsItBusy) {
  write_file(path("m/f"), "x");
  const int file = ::open(path("m/f").c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  const Outcome busy = varve({"umount", path("m")});
  EXPECT_EQ(busy.status, 2);
  EXPECT_SAYS(busy, fmt::format("({})", getpid()));
  EXPECT_EQ(read_file(path("m/f")), "x") << "still mounted";
  close(file);
  EXPECT_EQ(varve({"umount", path("m")}).status, 0);
}

}  // namespace
}  // namespace varve
