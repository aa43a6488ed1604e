#include "fs/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>
#include <vector>

namespace varve::fs {
namespace {

class Log : public testing::Test {
 protected:
  Log() { set_log_file(path_); }
  ~Log() override {
    set_log_level(LogLevel::info);
    std::filesystem::remove(path_);
  }
  std::vector<std::string> lines() {
    std::ifstream in(path_);
    std::vector<std::string> result;
    for (std::string line; std::getline(in, line);) {
      result.push_back(line);
    }
    return result;
  }
  std::string path_ =
      (std::filesystem::temp_directory_path() / ("varve-log-test-" + std::to_string(::getpid()))).string();
};

TEST_F(Log, OneLineWithTimeLevelAndText) {
  log_line(LogLevel::warning, "the disk is nearly full");
  auto written = lines();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_TRUE(std::regex_match(written[0],
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning the disk is nearly full)")))
      << written[0];
}

TEST_F(Log, ControlCharactersCannotForgeLines) {
  log_line(LogLevel::error, "file a\n2026-01-01T00:00:00.000Z info all is well\x1b[2J\t\x7f ends");
  auto written = lines();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_NE(written[0].find(R"(file a\x0a2026)"), std::string::npos) << written[0];
  EXPECT_NE(written[0].find(R"(well\x1b[2J\x09\x7f ends)"), std::string::npos) << written[0];
}

TEST_F(Log, LevelsAboveTheOneSetAreDropped) {
  log_line(LogLevel::debug, "no");
  set_log_level(LogLevel::debug);
  log_line(LogLevel::debug, "yes");
  set_log_level(LogLevel::error);
  log_line(LogLevel::warning, "no");
  log_line(LogLevel::error, "yes");
  auto written = lines();
  ASSERT_EQ(written.size(), 2U);
  EXPECT_TRUE(written[0].ends_with("debug yes"));
  EXPECT_TRUE(written[1].ends_with("error yes"));
}

TEST_F(Log, ARelativePathIsAnErrorAndChangesNothing) {
  set_log_file("relative.log");
  EXPECT_FALSE(std::filesystem::exists("relative.log"));
  auto written = lines();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_NE(written[0].find("relative.log"), std::string::npos);
  set_log_file("/no/such/folder/x.log");
  EXPECT_EQ(lines().size(), 2U);
}

TEST_F(Log, LinesOfThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int j = 0; j < 500; ++j) {
        log_line(LogLevel::info, std::string(100 + i, static_cast<char>('a' + i)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  auto written = lines();
  EXPECT_EQ(written.size(), 2000U);
  for (const std::string& line : written) {
    EXPECT_TRUE(std::regex_match(line, std::regex(R"(\S+ info (a{100}|b{101}|c{102}|d{103}))"))) << line;
  }
}

}  // namespace
}  // namespace varve::fs
