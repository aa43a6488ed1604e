#include "fs/policy.h"

#include <gtest/gtest.h>

namespace varve::fs {
namespace {

using codec::Bound;
using codec::BoundMode;

Bound relative(double value) { return {BoundMode::relative, value}; }
Bound absolute(double value) { return {BoundMode::absolute, value}; }

Policy parsed(std::string_view text) {
  auto policy = Policy::parse(text);
  EXPECT_TRUE(policy.ok()) << (policy.ok() ? "" : policy.error().text);
  return policy.ok() ? *policy : Policy();
}

ArrayRegion field(const std::string& name, codec::DType dtype = codec::DType::f32, codec::Extents shape = {100, 100}) {
  ArrayRegion array;
  array.name = name;
  array.dtype = dtype;
  array.shape = array.chunk_shape = std::move(shape);
  return array;
}

constexpr std::string_view kExample = R"(
# comments are fine
[[rule]]
path = "run1/**"
bound = "rel:1e-3"

[[rule]]
path = "**/*.nc"
dataset = "pr*"
bound = "abs:0.5"

[[rule]]
path = "**/*.bin"
bound = "lossless"
raw = {dtype = "f32", shape = [256, 384, 384], big_endian = true}

[[rule]]
dataset = "**/precise"
bound = "lossless"
)";

TEST(Policy, RulesAreReadAsWritten) {
  Policy policy = parsed(kExample);
  ASSERT_EQ(policy.rules().size(), 4U);
  EXPECT_EQ(policy.rules()[0].path, "run1/**");
  EXPECT_EQ(policy.rules()[0].bound, relative(1e-3));
  EXPECT_EQ(policy.rules()[0].line, 3U);
  EXPECT_EQ(policy.rules()[1].dataset, "pr*");
  EXPECT_EQ(policy.rules()[2].raw, (RawHint{codec::DType::f32, true, {256, 384, 384}}));
  EXPECT_EQ(policy.rules()[3].path, "**");
  EXPECT_TRUE(parsed("").rules().empty());
}

TEST(Policy, OrderIsDatasetRulesThenInheritedThenTheRest) {
  Policy policy = parsed(kExample);
  FilePolicy file = policy.for_file("run1/a.nc", absolute(2));
  ASSERT_EQ(file.choices.size(), 4U);
  EXPECT_EQ(file.choices[0].dataset, "pr*");
  EXPECT_EQ(file.choices[1].dataset, "**/precise");
  EXPECT_EQ(file.choices[2].bound, absolute(2));
  EXPECT_EQ(file.choices[3].bound, relative(1e-3));
  EXPECT_EQ(file.bound_for(field("/pr")), absolute(0.5));
  EXPECT_EQ(file.bound_for(field("/tas")), absolute(2));
  EXPECT_EQ(file.bound_for(field("/g/precise")), Bound{});
  EXPECT_EQ(policy.for_file("run1/a.nc", std::nullopt).bound_for(field("/tas")), relative(1e-3));
  EXPECT_EQ(policy.for_file("other/a.h5", std::nullopt).bound_for(field("/tas")), Bound{});
  EXPECT_EQ(policy.for_file("x/y.bin", std::nullopt).raw, policy.rules()[2].raw);
  EXPECT_FALSE(policy.for_file("x/y.dat", std::nullopt).raw);
}

TEST(Policy, ProtectedArraysStayExactUnlessNamed) {
  FilePolicy general{{{"", relative(1e-3)}}, std::nullopt};
  FilePolicy named{{{"/x", relative(1e-3)}}, std::nullopt};
  FilePolicy wildcard{{{"**", relative(1e-3)}}, std::nullopt};
  auto check = [&](const ArrayRegion& array, bool in_general, bool when_named, const char* part) {
    std::string why;
    EXPECT_EQ(general.bound_for(array, &why).mode == BoundMode::relative, in_general) << why;
    EXPECT_NE(why.find(part), std::string::npos) << why;
    EXPECT_EQ(wildcard.bound_for(array).mode == BoundMode::relative, in_general);
    EXPECT_EQ(named.bound_for(array, &why).mode == BoundMode::relative, when_named) << why;
    EXPECT_FALSE(why.empty());
  };
  auto marked = [](const char* reason) {
    ArrayRegion array = field("/x");
    array.keep_exact = reason;
    return array;
  };
  check(field("/x"), true, true, "rel:0.001");
  check(field("/x", codec::DType::f64), true, true, "the bound of its path");
  for (auto dtype : {codec::DType::u8, codec::DType::i16, codec::DType::i64}) {
    check(field("/x", dtype), false, true, "integers (");
  }
  check(marked("coordinate"), false, true, "coordinate");
  check(marked("packed"), false, true, "packed");
  check(marked("checksummed"), false, false, "checksum");
  check(field("/x", codec::DType::f32, {4095}), false, true, "4096");
  check(field("/x", codec::DType::f32, {4096}), true, true, "rel");
  check(field("/x", codec::DType::f64, {2, 625}), true, true, "rel");
  check(field("/x", codec::DType::f64, {2, 624}), false, true, "10000");
  check(field("/x", codec::DType::f32, {}), false, true, "exact");
  EXPECT_EQ(FilePolicy{}.bound_for(field("/x")), Bound{});
}

TEST(Policy, IntegersAreBoundedOnlyWhereARuleSaysSo) {
  const auto reached = [](const std::string& glob, bool integers, const Bound& bound, const char* name = "/g/x") {
    const FilePolicy policy{{{glob, bound, integers}}, std::nullopt};
    std::string why;
    const Bound given = policy.bound_for(field(name, codec::DType::i32), &why);
    EXPECT_EQ(policy.bound_for(field(name, codec::DType::u16)), given);
    EXPECT_TRUE(given == bound || given == Bound{});
    EXPECT_NE(why.find(codec::to_string(given)), std::string::npos) << why;
    return given == bound;
  };
  EXPECT_TRUE(reached("/g/x", false, absolute(2)));
  EXPECT_TRUE(reached("**/x", false, absolute(2)));
  EXPECT_TRUE(reached("", true, absolute(2)));
  EXPECT_TRUE(reached("", true, absolute(2), ""));
  EXPECT_TRUE(reached("/g/*", true, absolute(2)));
  for (const char* glob : {"", "**", "/g/*", "/g/?", "/g/[x]", "/*/x*"}) {
    EXPECT_FALSE(reached(glob, false, absolute(2))) << glob;
  }
  EXPECT_FALSE(reached("/g/x", true, {BoundMode::bits, 4})) << "they have no mantissa";
  Policy policy =
      parsed("[[rule]]\nbound = \"abs:2\"\nintegers = true\n[[rule]]\ndataset = \"a\"\nbound = \"abs:1\"\n");
  ASSERT_EQ(policy.rules().size(), 2U);
  EXPECT_TRUE(policy.rules()[0].integers);
  const FilePolicy file = policy.for_file("x", std::nullopt);
  ASSERT_EQ(file.choices.size(), 2U);
  EXPECT_FALSE(file.choices[0].integers);
  EXPECT_TRUE(file.choices[1].integers);
}

TEST(Policy, EveryModeReachesEveryFloat) {
  for (const Bound& bound : {Bound{BoundMode::pointwise, 1e-3}, Bound{BoundMode::psnr, 60}, Bound{BoundMode::ratio, 9},
                             Bound{BoundMode::bits, 9}, Bound{BoundMode::absolute_and_relative, 1, 1e-3}}) {
    for (const auto dtype : {codec::DType::f16, codec::DType::bf16, codec::DType::f32, codec::DType::f64}) {
      std::string why;
      EXPECT_EQ((FilePolicy{{{"", bound}}, std::nullopt}.bound_for(field("/x", dtype), &why)), bound);
      EXPECT_NE(why.find(codec::to_string(bound)), std::string::npos) << why;
    }
  }
}

TEST(Policy, FilePolicyComesBackFromItsText) {
  FilePolicy policy = parsed(kExample).for_file("run1/a.nc", relative(1.0 / 3));
  policy.choices.push_back({"with space [a-z] \\*", absolute(1e-300)});
  policy.choices.push_back({"x", {BoundMode::absolute_and_relative, 0.1, 1.0 / 3}, true});
  policy.choices.push_back({"", {BoundMode::bits, 12}, true});
  policy.raw = RawHint{codec::DType::i16, true, {7, 1, 9}};
  auto back = FilePolicy::parse(policy.serialise());
  ASSERT_TRUE(back.ok()) << back.error().text;
  ASSERT_EQ(back->choices.size(), policy.choices.size());
  for (size_t i = 0; i < policy.choices.size(); ++i) {
    EXPECT_EQ(back->choices[i].dataset, policy.choices[i].dataset);
    EXPECT_EQ(back->choices[i].bound, policy.choices[i].bound);
    EXPECT_EQ(back->choices[i].integers, policy.choices[i].integers);
  }
  EXPECT_EQ(back->raw, policy.raw);
  auto empty = FilePolicy::parse(FilePolicy{}.serialise());
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->choices.empty() && !empty->raw);
  for (const char* text : {"bound", "bound rel:x a", "hello", "raw f32 little", "raw f32 little 0x5",
                           "raw f32 middle 5", "raw f32 little 5xx5", "bound rel:1 [", "raw f99 little 5", "\n"}) {
    EXPECT_FALSE(FilePolicy::parse(text).ok()) << text;
  }
}

TEST(Policy, RefusalsHaveTheLineTheReasonAndARemedy) {
  struct Case {
    const char* text;
    const char* line;
    const char* part;
  };
  for (const Case& each : {
           Case{"[[rule]]\npaht = \"a\"\nbound = \"rel:1\"", "line 2", "did you mean 'path'"},
           {"[[rule]]\nbound = \"rel:1\"\ndatasets = \"a\"", "line 3", "'dataset'"},
           {"\n\n[[rules]]\nbound = \"rel:1\"", "line 3", "'rule'"},
           {"[[rule]]\npath = \"a[\"\nbound = \"rel:1\"", "line 2", "no matching ']'"},
           {"[[rule]]\nbound = \"rel:1e-3\"\ndataset = \"x\\\\\"", "line 3", "lone"},
           {"[[rule]]\nbound = \"relative\"", "line 2", "relative"},
           {"[[rule]]\nbound = \"rel:-1\"", "line 2", "-1"},
           {"[[rule]]\nbound = 0.5", "line 2", "string"},
           {"[[rule]]\npath = \"a\"", "line 1", "does nothing"},
           {"[[rule]]\npath = \"/a\"\nbound = \"rel:1\"", "line 2", "leading"},
           {"[rule]\nbound = \"rel:1\"", "line 1", "[[rule]]"},
           {"rule = 5", "line 1", "[[rule]]"},
           {"[[rule]]\nbound = ", "line 2", "TOML"},
           {"[[rule]]\nraw = {dtype = \"f32\"}", "line 2", "both"},
           {"[[rule]]\nraw = {dtype = \"f33\", shape = [1]}", "line 2", "f33"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = []}", "line 2", "shape"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = [0]}", "line 2", "shape"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = [-4]}", "line 2", "shape"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = [2.0]}", "line 2", "shape"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = \"4x4\"}", "line 2", "shape"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = [9223372036854775807, 9]}", "line 2", "shape"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = [4], big_endian = 1}", "line 2", "true or false"},
           {"[[rule]]\nraw = {dtype = \"f32\", shape = [4], bigendian = true}", "line 2", "'big_endian'"},
           {"[[rule]]\nraw = 4", "line 2", "table"},
           {"[[rule]]\nbound = \"abs:1\"\nintegers = 1", "line 3", "true or false"},
           {"[[rule]]\nbound = \"bits:1.5\"", "line 2", "whole number"},
           {"[[rule]]\nintegers = true\npath = \"a\"", "line 2", "give the rule a 'bound'"},
       }) {
    auto result = Policy::parse(each.text);
    ASSERT_FALSE(result.ok()) << each.text;
    EXPECT_EQ(result.error().code, EINVAL);
    EXPECT_NE(result.error().text.find(each.line), std::string::npos) << each.text << ": " << result.error().text;
    EXPECT_NE(result.error().text.find(each.part), std::string::npos) << each.text << ": " << result.error().text;
  }
}

TEST(Policy, BrokenTomlIsExplainedInOurWordsNotTheParsers) {
  struct Case {
    const char* text;
    const char* line;
    const char* part;
  };
  for (const Case& each : {
           Case{"[[rule]]\nbound = \n", "line 2", "'bound' has no value"},
           {"[[rule]]\nbound = rel:1\n", "line 2", "bound = \"rel:1\""},
           {"[[rule]]\nbound\n", "line 2", "KEY = VALUE, such as bound = \"rel:1e-3\", or [[rule]]"},
           {"\n[[rule\nbound = \"rel:1\"\n", "line 2", "write [[rule]] on a line of its own"},
           {"[[rule]]\nbound = \"rel:1\nintegers = true\n", "line 2", "no second quotation mark"},
           {"[[rule]]\nbound = \"rel:1\"\nbound = \"rel:2\"\n", "line 3", "set a second time"},
           {"[[rule]]\nbound = \"rel:1\" \"x\"\n", "line 2", "nothing may follow"},
           {"[[rule]]\nraw = {dtype = \"f32\" shape = [1]}\n", "line 2", "commas"},
           {"[[rule]]\npath = [\"a\"\n", "line", "not closed"},
       }) {
    const auto result = Policy::parse(each.text);
    ASSERT_FALSE(result.ok()) << each.text;
    EXPECT_EQ(result.error().code, EINVAL) << each.text;
    for (const char* part : {"policy.toml, ", each.line, each.part}) {
      EXPECT_NE(result.error().text.find(part), std::string::npos) << each.text << ": " << result.error().text;
    }
    EXPECT_EQ(result.error().text.find("while parsing"), std::string::npos) << result.error().text;
  }
}

TEST(Policy, WhatTheTomlLibraryTripsOverIsRefusedBefore) {
  for (std::string_view text :
       {std::string_view("\n[\0\0[rule]]", 10), std::string_view("\n\x1b"), std::string_view("\n#\x7f"),
        std::string_view("\n[~x]"), std::string_view("\n  [[ .x]]"), std::string_view("\n["),
        std::string_view("\npath\xef\xb9\xbf = 1"), std::string_view("# \xc3\xa9\n\"\xc3\xa9\\\"\xc3\" = \xc3\xa9")}) {
    auto result = Policy::parse(text);
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.error().text.find("line 2"), std::string::npos) << result.error().text;
  }
}

TEST(Policy, PathsMayHoldAnyCharacters) {
  Policy policy = parsed(
      "# \xc3\xbc\n[[rule]]\npath = \"donn\xc3\xa9"
      "es/**\" # \xe2\x82\xac\nbound = 'rel:1e-3'\n");
  ASSERT_EQ(policy.rules().size(), 1U);
  EXPECT_EQ(policy
                .for_file("donn\xc3\xa9"
                          "es/x.h5",
                          std::nullopt)
                .choices.size(),
            1U);
}

TEST(Policy, SaysWhatBecomesOfDamagedElements) {
  const Policy policy = parsed(
      "on_damage = \"degrade\"\n[[rule]]\npath = \"exact/**\"\non_damage = \"eio\"\n"
      "[[rule]]\ndataset = \"u\"\non_damage = \"degrade\"\n[[rule]]\npath = \"**\"\nbound = \"abs:1\"\n");
  EXPECT_TRUE(policy.may_degrade());
  EXPECT_EQ(policy.on_damage("a.h5", "/v"), OnDamage::degrade);
  EXPECT_EQ(policy.on_damage("exact/a.h5", "/v"), OnDamage::eio);
  EXPECT_EQ(policy.on_damage("exact/a.h5", "/u"), OnDamage::degrade) << "rules with a dataset come first";
  EXPECT_FALSE(parsed("on_damage = \"eio\"\n").may_degrade());
  EXPECT_EQ(parsed("").on_damage("a", ""), OnDamage::eio);
  EXPECT_TRUE(policy.for_file("exact/a.h5", std::nullopt).choices.size() == 1) << "such rules give no bound";
}

}  // namespace
}  // namespace varve::fs
