#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>

#include "fs/policy.h"

namespace varve::fs {
namespace {

TEST(Glob, Examples) {
  struct Case {
    const char* pattern;
    const char* text;
    bool matches;
  };
  for (const Case& each : {
           Case{"", "", true},
           {"", "a", false},
           {"a", "a", true},
           {"a", "b", false},
           {"a", "ab", false},
           {"*", "", true},
           {"*", "abc", true},
           {"*", "a/b", false},
           {"*.h5", "x.h5", true},
           {"*.h5", "d/x.h5", false},
           {"**", "", true},
           {"**", "a/b/c", true},
           {"**.h5", "a/b.h5", true},
           {"a**", "a/b/c", true},
           {"**/*.h5", "x.h5", true},
           {"**/*.h5", "a/b/x.h5", true},
           {"**/*.h5", "a/b/x.h5x", false},
           {"**/x", "ax", false},
           {"**/x", "a/x", true},
           {"**/x", "/x", true},
           {"run*/**/x", "run1/x", true},
           {"run*/**/x", "run1/a/b/x", true},
           {"run*/**/x", "run1x", false},
           {"run*/**/x", "run1/ax", false},
           {"a/**", "a/", true},
           {"a/**", "a/b", true},
           {"a/**", "a", false},
           {"?", "a", true},
           {"?", "/", false},
           {"?", "", false},
           {"a?c", "abc", true},
           {"[a-c]x", "bx", true},
           {"[a-c]x", "dx", false},
           {"[!a-c]x", "dx", true},
           {"[^a-c]x", "bx", false},
           {"[!a]", "/", false},
           {"[]]", "]", true},
           {"[]a]", "a", true},
           {"[a-]", "-", true},
           {"[\\]]", "]", true},
           {"\\*", "*", true},
           {"\\*", "a", false},
           {"a\\b", "ab", true},
           {"[a-cx-z]", "y", true},
           {"*a*b*c*", "xxaxxbxxcxx", true},
           {"*a*b*c*", "xxaxxcxxbxx", false},
           {"*\xc3\xa9*", "t\xc3\xa9st", true},
       }) {
    EXPECT_EQ(glob_match(each.pattern, each.text), each.matches) << each.pattern << " on " << each.text;
  }
}

TEST(Glob, BadPatternsAreRefusedAndMatchNothing) {
  for (const char* pattern : {"[", "[a", "[]", "[!]", "a\\", "[b-a]", "[\\", "x[a-", "a\nb", "\x7f"}) {
    auto status = check_glob(pattern);
    ASSERT_FALSE(status.ok()) << pattern;
    EXPECT_EQ(status.error().code, EINVAL);
    EXPECT_NE(status.error().text.find("is no glob"), std::string::npos);
    EXPECT_FALSE(glob_match(pattern, pattern)) << pattern;
  }
}

/// What the words say, tried out in every way: exponential, for short patterns.
bool slow_match(std::string_view pattern, std::string_view text, bool component_start = true) {
  if (pattern.empty()) {
    return text.empty();
  }
  if (pattern.starts_with("**/") && component_start) {
    for (size_t skip = 0; skip <= text.size(); ++skip) {
      if ((skip == 0 || text[skip - 1] == '/') && slow_match(pattern.substr(3), text.substr(skip), true)) {
        return true;
      }
    }
    return false;
  }
  if (pattern.starts_with("**")) {
    size_t stars = pattern.find_first_not_of('*');
    std::string_view rest = stars == std::string_view::npos ? "" : pattern.substr(stars);
    for (size_t skip = 0; skip <= text.size(); ++skip) {
      if (slow_match(rest, text.substr(skip), false)) {
        return true;
      }
    }
    return false;
  }
  if (pattern[0] == '*') {
    for (size_t skip = 0; skip <= text.size(); ++skip) {
      if (slow_match(pattern.substr(1), text.substr(skip), false)) {
        return true;
      }
      if (skip < text.size() && text[skip] == '/') {
        break;
      }
    }
    return false;
  }
  if (text.empty() || (pattern[0] == '?' ? text[0] == '/' : pattern[0] != text[0])) {
    return false;
  }
  return slow_match(pattern.substr(1), text.substr(1), pattern[0] == '/');
}

TEST(Glob, AgreesWithTheSlowDefinition) {
  std::mt19937 random(1);
  size_t matches = 0;
  for (int round = 0; round < 60000; ++round) {
    std::string pattern, text;
    for (size_t i = random() % 7; i > 0; --i) {
      pattern += "ab/?*"[random() % 5];
    }
    if (random() % 3 == 0) {
      pattern += "**/a";
    }
    if (pattern.find("***") != std::string::npos) {
      continue;  // three stars are two
    }
    for (size_t i = random() % 8; i > 0; --i) {
      text += "aab/"[random() % 4];
    }
    bool expected = slow_match(pattern, text);
    matches += expected ? 1 : 0;
    ASSERT_EQ(glob_match(pattern, text), expected) << pattern << " on " << text;
  }
  EXPECT_GT(matches, 1000U);
}

TEST(Glob, ManyStarsTakeNoExponentialTime) {
  std::string pattern, text(2000, 'a');
  for (int i = 0; i < 200; ++i) {
    pattern += "*a**a";
  }
  pattern += "b";
  auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(glob_match(pattern, text));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Glob, DatasetNames) {
  EXPECT_TRUE(dataset_match("/g/tas", "/g/tas"));
  EXPECT_TRUE(dataset_match("tas", "/tas"));
  EXPECT_FALSE(dataset_match("tas", "/g/tas"));
  EXPECT_TRUE(dataset_match("**/tas", "/g/tas"));
  EXPECT_TRUE(dataset_match("**/tas", "/tas"));
  EXPECT_TRUE(dataset_match("*", "/tas"));
  EXPECT_TRUE(dataset_match("*", ""));
  EXPECT_FALSE(dataset_match("/tas", "tas"));
}

}  // namespace
}  // namespace varve::fs
