#include "codec/entropy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace varve::codec {
namespace {

TEST(Entropy, TokensHoldEveryCode) {
  std::mt19937_64 random(30);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t code = i < 2000 ? static_cast<uint64_t>(i) : random() >> (random() % 64);
    const unsigned token = token_of(code);
    ASSERT_LT(token, kTokens);
    ASSERT_GE(token, kTokenZero);
    if (token < kFirstWideToken) {
      ASSERT_EQ(code, token - kTokenZero);
    } else {
      ASSERT_EQ(code_of(token, code & ((uint64_t{1} << extra_bits_of(token)) - 1)), code);
    }
  }
  EXPECT_EQ(token_of(~uint64_t{0}), kTokens - 1);
}

Histogram random_histogram(std::mt19937_64& random) {
  Histogram histogram;
  const unsigned contexts = 1 + random() % 60;
  for (unsigned k = 0; k < contexts; ++k) {
    Counts& counts = histogram.counts[random() % kContexts];
    const unsigned spread = 1 + random() % (kTokens - 2);
    const unsigned draws = random() % 3000;
    for (unsigned i = 0; i < draws; ++i) {
      ++counts[2 + random() % spread * (random() % 100) / 100];
    }
  }
  return histogram;
}

TEST(Entropy, TablesSumUpAndComeBackFromTheirDescription) {
  std::mt19937_64 random(31);
  for (int round = 0; round < 60; ++round) {
    const Histogram histogram = round == 0 ? Histogram() : random_histogram(random);
    const TableSet tables = TableSet::build(histogram, round % 2 == 0);
    ByteWriter out;
    tables.write(out);
    const Bytes bytes = out.take();
    ByteReader in(bytes);
    const auto back = TableSet::read(in);
    ASSERT_TRUE(back.ok()) << back.error().text;
    EXPECT_EQ(in.left(), 0U);
    for (unsigned context = 0; context < kContexts; ++context) {
      const FrequencyTable& table = tables.table(context);
      EXPECT_EQ(table.frequency, back->table(context).frequency);
      EXPECT_EQ(std::accumulate(table.frequency.begin(), table.frequency.end(), 0U), kProbabilityScale);
      EXPECT_GT(table.frequency[kTokenEscape], 0);
      for (unsigned token = 0; token < kTokens; ++token) {
        EXPECT_TRUE(histogram.counts[context][token] == 0 || table.frequency[token] > 0);
      }
    }
  }
}

TEST(Entropy, RansComesBackForAnyLanesAndSegments) {
  std::mt19937_64 random(32);
  for (int round = 0; round < 80; ++round) {
    const Histogram histogram = random_histogram(random);
    const TableSet tables = TableSet::build(histogram, round % 2 == 0);
    std::vector<Segment> segments;
    std::vector<uint8_t> tokens;
    std::vector<uint8_t> contexts;
    for (unsigned s = 0; s < 1 + random() % 9; ++s) {
      const unsigned base = s == 0 ? kAnchorContext : context_base(random() % 6, 1 + random() % 3);
      const size_t count = random() % 700;
      segments.push_back({base, count});
      for (size_t i = 0; i < count; ++i) {
        const auto context = static_cast<uint8_t>(base == kAnchorContext ? 0 : random() % kClassContexts);
        uint8_t token = kTokenEscape;
        do {
          token = static_cast<uint8_t>(random() % kTokens);
        } while (tables.table(base + context).frequency[token] == 0);
        tokens.push_back(token);
        contexts.push_back(context);
      }
    }
    const unsigned lanes = 1U << random() % 7;
    ByteWriter out;
    rans_encode(tables, segments, tokens.data(), contexts.data(), lanes, out);
    const Bytes bytes = out.take();
    RansDecoder decoder;
    ASSERT_TRUE(decoder.start(bytes, lanes));
    std::vector<uint8_t> back(tokens.size() + 1);
    size_t at = 0;
    for (const Segment& segment : segments) {
      decoder.decode(tables, segment.context_base, contexts.data() + at, segment.count, back.data() + at);
      at += segment.count;
    }
    back.pop_back();
    EXPECT_EQ(back, tokens);
    EXPECT_TRUE(decoder.finished());
    EXPECT_FALSE(RansDecoder().start(std::span(bytes).first(lanes * 4 - 1), lanes));
  }
}

}  // namespace
}  // namespace varve::codec
