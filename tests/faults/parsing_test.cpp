// What the fault layer parses: random numbers of the reference, schedules, journals and HDF5 metadata, broken ones too.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <random>

#include "faults/armed.h"
#include "faults/journal.h"
#include "faults/random.h"
#include "faults/structure.h"

namespace varve::faults {
namespace {

class MemoryView final : public fs::FileView {
 public:
  explicit MemoryView(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    const size_t length = offset < bytes_.size() ? std::min<size_t>(out.size(), bytes_.size() - offset) : 0;
    std::memcpy(out.data(), bytes_.data() + (length > 0 ? offset : 0), length);
    return length;
  }

 private:
  std::vector<std::byte> bytes_;
};

/// A file with groups, a contiguous and a chunked dataset, and an attribute, in the library's oldest or newest format.
std::vector<std::byte> hdf5_file(bool newest) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_core(access, 1 << 16, 0);
  H5Pset_libver_bounds(access, newest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  const hid_t file = H5Fcreate("in memory", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const std::array<hsize_t, 2> shape = {40, 30};
  const std::array<hsize_t, 2> chunk = {10, 10};
  const hid_t space = H5Screate_simple(2, shape.data(), nullptr);
  const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(chunked, 2, chunk.data());
  const std::vector<float> data(1200, 1.5F);
  for (const auto& [place, list] : {std::pair{file, static_cast<hid_t>(H5P_DEFAULT)}, std::pair{group, chunked}}) {
    const hid_t set = H5Dcreate2(place, "data", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data());
    const hid_t attribute = H5Acreate2(set, "unit", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, H5T_NATIVE_FLOAT, data.data());
    H5Aclose(attribute);
    H5Dclose(set);
  }
  H5Pclose(chunked);
  H5Sclose(space);
  H5Gclose(group);
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  std::vector<std::byte> image(static_cast<size_t>(H5Fget_file_image(file, nullptr, 0)));
  H5Fget_file_image(file, image.data(), image.size());
  H5Fclose(file);
  H5Pclose(access);
  return image;
}

TEST(Random, PhiloxGivesTheReferencesNumbers) {
  // The known answers that its authors' library, Random123, is tested with.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Structures, EveryPartOfBothFormatsIsNamed) {
  for (const bool newest : {false, true}) {
    MemoryView file(hdf5_file(newest));
    std::map<std::string, uint64_t> found;
    for (const Segment& segment : hdf5_structures(file)) {
      found[segment.structure] += segment.length;
      EXPECT_LE(segment.end(), file.size());
    }
    for (const char* name :
         {"superblock", "object_header.datatype", "object_header.dataspace", "object_header.layout"}) {
      EXPECT_GT(found[name], 0U) << name << ", newest format: " << newest;
    }
    EXPECT_GE(found["raw_data"], newest ? 4800U : 9600U) << newest;
    EXPECT_EQ(found.contains("local_heap"), !newest);
  }
}

TEST(Structures, BrokenFilesEnd) {
  std::mt19937 random(1);
  for (const bool newest : {false, true}) {
    const std::vector<std::byte> good = hdf5_file(newest);
    for (int turn = 0; turn < 400; ++turn) {
      std::vector<std::byte> bad = good;
      for (int change = 0; change < 1 + turn % 8; ++change) {
        bad[random() % std::min<size_t>(bad.size(), 4096)] = static_cast<std::byte>(random());
      }
      bad.resize(turn % 5 == 0 ? random() % bad.size() : bad.size());
      MemoryView file(bad);
      for (const Segment& segment : hdf5_structures(file)) {
        ASSERT_LE(segment.end(), file.size()) << "turn " << turn;
      }
    }
  }
}

TEST(Schedules, SayWhereTheyAreWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no fault"},
      {"seed = -1\n[[fault]]\nmodel = \"bit_flip\"", "line 1"},
      {"[[fault]]\nmodel = \"bit_flip\"\ncount = 0", "line 3"},
      {"[[fault]]\nmodel = \"shorn_write\"\nkept = 1.0", "line 3"},
      {"[[fault]]\nmodel = \"bit_flip\"\nbits = \"sign\"", "element"},
      {"[[fault]]\nmodel = \"dropped_write\"\noperation = \"read\"", "read"},
      {"[[fault]]\nmodel = \"bit_flip\"\nkind = \"wal\"", "device"},
      {"[[fault]]\nmodel = \"bit_flip\"\nseam = \"device\"\ndataset = \"x\"", "app"},
      {"[[fault]]\nmodel = \"errno\"\nerrno = [\"EIO\", \"EAGAIN\"]\nweights = [1]", "weights"},
      {"[[fault]]\nmodel = \"enospc_at\"", "bytes"},
      // What could never come, or change nothing.
      {"[[fault]]\nmodel = \"bit_flip\"\nelement = \"i32\"\nbits = \"exponent\"", "no element of type i32"},
      {"[[fault]]\nmodel = \"bit_flip\"\nelement = \"f32\"\nbyte = 4", "no element of type f32"},
      {"[[fault]]\nmodel = \"bit_flip\"\nelement = \"f32\"\nbits = \"sign\"\nbyte = 0", "no element of type f32"},
      {"[[fault]]\nmodel = \"misdirected_write\"\ndistance = 0", "line 3"},
      {"[[fault]]\nmodel = \"count\"\nprobability = 0", "never come"},
      {"[[fault]]\nmodel = \"delay\"\nmilliseconds = 50\nmost_milliseconds = 10", "most_milliseconds"},
      {"[[fault]]\nmodel = \"count\"\nseam = \"device\"\nkind = \"wal\"\nlevel = 2", "pack"},
      {"[[fault]]\nmodel = \"count\"\npath = \"[\"", "line 3"},
      {"[[fault]]\nmodel = \"count\"\nname = \"a\"\n[[fault]]\nmodel = \"count\"\nname = \"a\"", "two faults"},
      // Misspelt words are named with the nearest that is known.
      {"[[fault]]\nmodle = \"bit_flip\"", "'modle' means nothing in a fault (did you mean \"model\"?)"},
      {"[[fault]]\nmodel = \"bit_flip\"\nconut = 2", "'conut' means nothing for bit_flip (did you mean \"count\"?)"},
      {"sed = 1\n[[fault]]\nmodel = \"count\"", "(did you mean \"seed\"?)"},
      {"[[fault]]\nmodel = \"count\"\nseed = 1", "line 3: 'seed' stands at the top"},
      {"[[fault]]\nmodel = \"bitflip\"", "(did you mean \"bit_flip\"?): give one of count, "},
      {"[[fault]]\nmodel = \"bit_flip\"\nseam = \"devise\"", "(did you mean \"device\"?): give one of app, device"},
      {"[[fault]]\nmodel = \"count\"\nstructure = \"superbloc\"", "(did you mean \"superblock\"?): give one of b_tree"},
      {"[[fault]]\nmodel = \"count\"\nstructure = \"object_header.data_type\"", "\"object_header.datatype\"?"},
      {"[[fault]]\nmodel = \"count\"\nregion = \"arrays\"", "(did you mean \"array\"?): give one of bytes, array"},
      {"[[fault]]\nmodel = \"count\"\noperation = [\"write\", \"raed\"]", "(did you mean \"read\"?)"},
      {"[[fault]]\nmodel = \"count\"\nseam = \"device\"\nkind = \"wall\"", "(did you mean \"wal\"?)"},
      {"[[fault]]\nmodel = \"bit_flip\"\nelement = \"f32\"\nbits = \"exponant\"", "(did you mean \"exponent\"?)"},
      {"[[fault]]\nmodel = \"torn_write\"\nrest = \"fil\"", "(did you mean \"fill\"?): give one of old, zeros, fill"},
      {"[[fault]]\nmodel = \"power_cut\"\nlost = \"al\"", "(did you mean \"all\"?)"},
      {"[[fault]]\nmodel = \"count\"\nper = \"flie\"", "(did you mean \"file\"?)"},
      {"page_cache = \"bypas\"\n[[fault]]\nmodel = \"count\"", "(did you mean \"bypass\"?)"},
      {"[[fault]]\nmodel = \"errno\"\nerrno = \"ENOSPACE\"", "(did you mean \"ENOSPC\"?)"},
      // What could never match.
      {"[[fault]]\nmodel = \"torn_write\"\nparts = 3\npersist = [0, 3]",
       "cannot be 3: of 3 parts the numbers are 0 to 2"},
      {"[[fault]]\nmodel = \"kill_caller\"\nseam = \"device\"", "no program calls"},
      {"[[fault]]\nmodel = \"count\"\nseam = \"device\"\nkind = \"none\"", "cannot be \"none\""},
      {"[[fault]]\nmodel = \"count\"\nseam = \"device\"\noperation = \"lookup\"", "where it never comes"},
      {"[[fault]]\nmodel = \"count\"\npath = \"/x.h5\"", "which matches nothing"},
      {"[[fault]]\nmodel = \"count\"\npath = \"a/../x.h5\"", "which matches nothing"},
      {"[[fault]]\nmodel = \"count\"\npath = \"\"", "which matches nothing"},
      {"[[fault]]\nmodel = \"count\"\ndataset = \"/u\"\nregion = \"bytes\"", "beside 'dataset'"},
      {"[[fault]]\nmodel = \"count\"\ndataset = \"/u\"\nstructure = \"b_tree\"", "\"raw_data\""},
      {"[[fault]]\nmodel = \"count\"\nfrom_mark = \"a b\"", "no mark"},
      {"[[fault]]\nmodel = \"count\"\nto_mark = \"\"", "no mark"},
      // What is no TOML: where, what, and what to write.
      {"garbage\n", "line 1: \"garbage\" is no setting: a line is KEY = VALUE"},
      {"seed = 1\n[[fault]]\nmodel =\n", "line 3: 'model' has no value"},
      {"[[fault]]\nmodel = count\n", "line 2: the value of 'model' is neither a number nor true or false: text stands"},
      {"[[fault]]\nmodel = \"count\n", "line 2: the text of 'model' has no second quotation mark"},
      {"[[fault]]\nmodel = \"count\"\nmodel = \"delay\"\n", "line 3: 'model' is set a second time"},
      {"[fault]\nmodel = \"count\"\n", "[[fault]]"},
      {"[[fault]\nmodel = \"count\"\n", "line 1: [[fault] is no head of a table"},
      {"[[fault]]\nmodel = \"count\"\nnth = [1, 2\n", "is not closed"},
      {"seed = 99999999999999999999\n", "'seed' is no number"},
      {"[[fault]]\nmodel = \"count\" limit = 1\n", "line 2: the text of 'model' cannot be read"},
      {"\xff\xfe\n", "UTF-8"}};
  for (const auto& [text, word] : cases) {
    const auto parsed = Schedule::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, EINVAL);
    EXPECT_NE(parsed.error().text.find(word), std::string::npos) << text << "\n" << parsed.error().text;
    EXPECT_EQ(parsed.error().text.find("rror while parsing"), std::string::npos) << "the library's own words";
  }
  const auto named = Schedule::parse("x\n", "flip.toml");
  EXPECT_EQ(named.error().text.rfind("flip.toml, line 1: ", 0), 0U) << named.error().text;
}

TEST(Schedules, AreRefusedEarlyOnlyIfNothingCouldMakeThemRight) {
  const std::string good =
      "seed = 1\n# a comment\n[[fault]]\nkind = [\n  \"pack\",\n  \"wal\"]\nmodel = \"bit_flip\"\nbits = \"sign\"\n"
      "seam = \"device\"\nelement = \"f32\"\n[[fault]]\nname = \"x\"\nweights = [1, 2]\nmodel = \"errno\"\n"
      "errno = [\"EIO\", \"EROFS\"]\npath = \"\"\"\\\n  **\"\"\"\n[[fault]]\nmodel = \"enospc_at\"\nbytes = 5\n";
  ASSERT_TRUE(Schedule::parse(good).ok()) << Schedule::parse(good).error().text;
  for (size_t end = good.find('\n'); end != std::string::npos; end = good.find('\n', end + 1)) {
    const Status so_far = Schedule::check_start(good.substr(0, end + 1));
    EXPECT_TRUE(so_far.ok()) << good.substr(0, end + 1) << "\n" << so_far.error().text;
  }
  EXPECT_TRUE(Schedule::check_start("").ok());
  for (const char* bad :
       {"garbage\n", "[[fault]]\nmodel = \"bitflip\"\n", "[[fault]]\nmodel = \"count\"\npath = \"/x\"\n",
        "[[fault]]\nmodel = \"delay\"\nkept = 0.5\n", "seed = 1\nseed = 2\n"}) {
    EXPECT_FALSE(Schedule::check_start(bad).ok()) << bad;
  }
}

TEST(Schedules, MayBeLongAndHaveALimit) {
  std::string text;
  for (size_t i = 0; i < Schedule::kMostRules; ++i) {
    text += fmt::format("[[fault]]\nmodel = \"count\"\npath = \"{}\"\n", i);
  }
  EXPECT_TRUE(Schedule::parse(text).ok());
  const auto more = Schedule::parse(text + "[[fault]]\nmodel = \"count\"\n");
  ASSERT_FALSE(more.ok());
  EXPECT_NE(more.error().text.find("line 300001: a schedule has at most 100000 faults, this one has 100001"),
            std::string::npos)
      << more.error().text;
}

TEST(Schedules, RulesMeetAPathInTheirOrder) {
  const auto schedule = Schedule::parse(
      "[[fault]]\nmodel = \"count\"\npath = \"b\"\n[[fault]]\nmodel = \"count\"\npath = \"*\"\n"
      "[[fault]]\nmodel = \"count\"\npath = \"a\"\n[[fault]]\nmodel = \"count\"\n[[fault]]\nmodel = \"count\"\n"
      "path = \"\\\\a\"\n[[fault]]\nmodel = \"count\"\nseam = \"device\"\n");
  ASSERT_TRUE(schedule.ok());
  fs::RecogniserPool recognisers({});
  Armed armed(*schedule, recognisers);
  EXPECT_EQ(armed.file(Seam::app, "a")->counts->rules, (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(armed.file(Seam::app, "b")->counts->rules, (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(armed.file(Seam::app, "d/a")->counts->rules, (std::vector<uint32_t>{3}));
  EXPECT_EQ(armed.file(Seam::device, "a")->counts->rules, (std::vector<uint32_t>{5}));
}

TEST(Schedules, ArbitraryTextIsAnError) {
  const std::string good = "seed = 1\n[[fault]]\nmodel = \"bit_flip\"\nnth = [1, 2]\npath = '*.h5'\nbits = \"any\"\n";
  std::mt19937 random(3);
  for (int turn = 0; turn < 3000; ++turn) {
    std::string bad = good;
    for (int change = 0; change < 1 + turn % 4; ++change) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    const auto parsed = Schedule::parse(bad);
    EXPECT_TRUE(parsed.ok() || parsed.error().code == EINVAL);
    static_cast<void>(Schedule::check_start(bad));
  }
}

TEST(Marks, AreWords) {
  for (const char* good : {"a", "step_2", "a/b:c", "\xc3\xa4"}) {
    EXPECT_TRUE(check_mark(good).ok()) << good;
  }
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a\n"), std::string(256, 'a')}) {
    EXPECT_FALSE(check_mark(bad).ok()) << bad;
  }
}

TEST(Schedules, EveryModelHasDefaults) {
  for (const std::string_view model : kModelNames) {
    const std::string text = std::string("[[fault]]\nmodel = \"").append(model).append("\"\n");
    const auto parsed = Schedule::parse(text + (model == "enospc_at" ? "bytes = 1\n" : ""));
    ASSERT_TRUE(parsed.ok()) << parsed.error().text;
    EXPECT_NE(parsed->seed, Schedule::parse(text + (model == "enospc_at" ? "bytes = 1\n" : ""))->seed);
  }
}

TEST(Journals, BrokenOnesAreErrors) {
  const std::string good =
      R"({"seq":0,"rule":"r","model":"bit_flip","seam":"app","op":"write","index":2,"path":"x","offset":1,"length":2,)"
      R"("effect":{"edits":[{"offset":1,"length":1,"from":"bytes","old":"6d","new":"6f"}],"errno":"EIO"}})";
  ASSERT_TRUE(parse_journal(good).ok());
  EXPECT_EQ(parse_journal(good)->size(), 1U);
  std::mt19937 random(2);
  for (int turn = 0; turn < 3000; ++turn) {
    std::string bad = good;
    for (int change = 0; change < 1 + turn % 3; ++change) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    const auto parsed = parse_journal(bad.substr(0, turn % 4 == 0 ? random() % bad.size() : bad.size()));
    EXPECT_TRUE(parsed.ok() || parsed.error().code == EBADMSG);
    EXPECT_TRUE(parsed.ok() || parsed.error().text.find("json.exception") == std::string::npos) << parsed.error().text;
  }
}

TEST(Journals, ErrorsSayWhatIsWrongAndWhatToGive) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"garbage", "line 1: this is no JSON"},
      {"\n{\"a\": 1}", "line 2: this is JSON, but no line of a journal"},
      {R"({"effect":{}})", "'rule' is missing"},
      {R"({"rule":1,"effect":{}})", "'rule' is of the wrong kind"},
      {R"({"rule":"r","model":"bitflip","effect":{}})", "'model' cannot be \"bitflip\""},
      {R"({"rule":"r","model":"errno","seam":"app","op":"read","index":0,"path":"x","effect":{"errno":"EWHAT"}})",
       "EWHAT"},
      {R"({"rule":"r","model":"errno","seam":"app","op":"read","index":0,"path":"x","effect":{"edits":[{"offset":0,)"
       R"("length":1,"from":"bytes","new":"zz"}]}})",
       "hexadecimal"}};
  for (const auto& [text, word] : cases) {
    const auto parsed = parse_journal(text, "done.jsonl");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().text.rfind("done.jsonl, line ", 0), 0U) << parsed.error().text;
    EXPECT_NE(parsed.error().text.find(word), std::string::npos) << parsed.error().text;
    EXPECT_NE(parsed.error().text.find("varve faults journal"), std::string::npos) << parsed.error().text;
  }
}

}  // namespace
}  // namespace varve::faults
