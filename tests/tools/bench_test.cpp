// `varve bench`: what it says is complete, and true of what it measured.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace varve {
namespace {

using nlohmann::json;

constexpr size_t kEdge = 24;

class BenchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "varve-bench-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Waves, with a block of the fill value that a MANIFEST.tsv declares.
  void write_field(const std::string& name, float fill) const {
    std::vector<float> values;
    for (size_t i = 0; i < kEdge * kEdge * kEdge; ++i) {
      const auto z = static_cast<float>(i / (kEdge * kEdge));
      const auto y = static_cast<float>(i / kEdge % kEdge);
      const auto x = static_cast<float>(i % kEdge);
      values.push_back(z < 4 ? fill : 300 + std::sin(x / 3) * std::cos(y / 4 + z / 5));
    }
    std::ofstream(folder_ + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    std::ofstream(folder_ + "/MANIFEST.tsv") << "file\tdims\tdtype\tsource\tlicence\tNaN\tinf\tfill\tfill_count\n"
                                             << name << "\t-\tf32\t-\t-\t0\t0\t" << fill << "\t1\n";
  }

  int bench(const std::string& arguments) const {
    const std::string command =
        fmt::format("'{}' bench {} > '{}/out' 2>&1", VARVE_PROGRAM, arguments, folder_);  // NOLINT
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string output() const {
    std::ifstream in(folder_ + "/out");
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  json report() const { return json::parse(std::ifstream(folder_ + "/bench.json")); }

  std::string folder_;
};

void expect_row_is_sound(const json& row) {
  EXPECT_GT(row["ratio"].get<double>(), 0) << row.dump();
  EXPECT_GT(row["compress_warm"].get<double>(), 0) << row.dump();
  EXPECT_GT(row["decompress_warm"].get<double>(), 0) << row.dump();
  if (row["compressor"] != "varve") {
    return;
  }
  EXPECT_GT(row["compress_cold"].get<double>(), 0) << row.dump();
  EXPECT_GT(row["decompress_cold"].get<double>(), 0) << row.dump();
  EXPECT_LE(row["error_over_bound"].get<double>(), 1) << row.dump();
  EXPECT_EQ(row["exact_changed"], 0) << row.dump();
  EXPECT_FALSE(row["method"].get<std::string>().empty());
  if (row["mode"] == "lossless") {
    EXPECT_TRUE(row["psnr_db"].is_null()) << "nothing may move: " << row.dump();
  } else {
    // An error spread evenly over the bound gives -20 log10(bound / sqrt(3)), and all of it 4.8 dB less.
    const double relative = std::stod(row["mode"].get<std::string>().substr(4));
    EXPECT_GE(row["psnr_db"].get<double>(), -20 * std::log10(relative)) << row.dump();
    EXPECT_GT(row["error_over_bound"].get<double>(), 0) << row.dump();
  }
}

TEST_F(BenchTest, RowsAreCompleteAndBoundsKept) {
  const std::string name = fmt::format("waves_{0}x{0}x{0}.f32", kEdge);
  write_field(name, -1e10F);
  ASSERT_EQ(bench(fmt::format("--quick --edge 16 --json '{0}/bench.json' '{0}'", folder_)), 0) << output();
  const json all = report();
  std::set<std::string> fields;
  std::set<std::string> modes;
  for (const json& row : all["rows"]) {
    expect_row_is_sound(row);
    fields.insert(row["field"]);
    if (row["compressor"] == "varve") {
      modes.insert(row["mode"]);
    }
  }
  EXPECT_EQ(fields,
            (std::set<std::string>{"waves_24x24x24", "turbulence_16x16x16", "lognormal_16x16x16", "wave_16x16x16"}));
  EXPECT_EQ(modes, (std::set<std::string>{"rel:1e-2", "rel:1e-3", "rel:1e-4", "lossless"}));
  EXPECT_FALSE(all["means"].empty());
  EXPECT_GT(all["bars"].size(), 10);
  for (const json& bar : all["bars"]) {
    EXPECT_EQ(bar["measured"].is_null(), bar["holds"].is_null()) << bar.dump();
    EXPECT_NE(output().find(bar["what"].get<std::string>()), std::string::npos) << bar.dump();
  }
}

TEST_F(BenchTest, TheFillValueCountsNeitherInTheBoundNorInTheError) {
  const std::string name = fmt::format("waves_{0}x{0}x{0}.f32", kEdge);
  write_field(name, -1e10F);
  ASSERT_EQ(bench(fmt::format("--quick --no-generated --no-cold --mode rel:1e-2 --json '{0}/bench.json' '{0}/{1}'",
                              folder_, name)),
            0)
      << output();
  const json row = report()["rows"][0];
  EXPECT_EQ(row["compressor"], "varve");
  EXPECT_TRUE(row["compress_cold"].is_null());
  EXPECT_NEAR(row["absolute_bound"].get<double>(), 0.02, 0.001);  // of waves from -1 to 1
}

TEST_F(BenchTest, WrongUseIsTwo) {
  EXPECT_EQ(bench("--quick --no-generated /no/such/folder"), 2);
  EXPECT_NE(output().find("/no/such/folder"), std::string::npos) << output();
  EXPECT_EQ(bench("--edge 48"), 2);
  EXPECT_NE(output().find("power of two"), std::string::npos) << output();
  EXPECT_EQ(bench("--mode rel:-1"), 2);
  std::ofstream(folder_ + "/short_8x8.f32") << "abc";
  EXPECT_EQ(bench("--no-generated " + folder_), 2);
  EXPECT_NE(output().find("short_8x8.f32"), std::string::npos) << output();
}

}  // namespace
}  // namespace varve
