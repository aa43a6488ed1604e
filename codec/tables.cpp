// Building, storing and restoring the frequency tables of an array. Everything here is integer arithmetic: the same
// counts give the same tables on every machine.
#include <fmt/format.h>

#include <numeric>

#include "codec/entropy.h"

namespace varve::codec {

namespace {

constexpr unsigned kLogBits = 16;

/// The fractions of the logarithms of 4,096 mantissas, made by the compiler: a short run should not have to.
constexpr std::array<uint16_t, 4096> kLogFractions = [] {
  std::array<uint16_t, 4096> made{};
  for (uint64_t i = 0; i < made.size(); ++i) {
    uint64_t mantissa = (4096 + i) << 19;  // [1, 2) with 31 bits after the point
    for (unsigned bit = 0; bit < kLogBits; ++bit) {
      mantissa = mantissa * mantissa >> 31;
      const bool over = mantissa >> 32 != 0;
      made[i] = static_cast<uint16_t>(made[i] << 1 | (over ? 1 : 0));
      mantissa >>= over ? 1 : 0;
    }
  }
  return made;
}();

/// log2(v) in 1/65536, v >= 1.
uint32_t log2_fixed(uint32_t v) {
  const unsigned exponent = static_cast<unsigned>(std::bit_width(v)) - 1;
  const uint32_t index = exponent >= 12 ? (v >> (exponent - 12)) - 4096 : (v << (12 - exponent)) - 4096;
  return (exponent << kLogBits) + kLogFractions[index];
}

uint64_t weighted_log(uint32_t n) { return n == 0 ? 0 : uint64_t{n} * log2_fixed(n); }

/// What describing a table costs, in 1/65536 bits, for each token it can code and in all.
constexpr uint64_t kTokenCost = uint64_t{4} << kLogBits;
constexpr uint64_t kGapCost = uint64_t{1} << kLogBits;
constexpr uint64_t kTableCost = uint64_t{80} << kLogBits;

struct Group {
  Counts counts{};
  uint32_t total = 0;
  unsigned limit = 0;  ///< tokens from here on were not seen
  uint64_t cost = 0;
  std::vector<uint16_t> members;
};

void sum_up(Group& group) {
  group.total = 0;
  group.limit = 0;
  uint64_t cost = kTableCost;
  for (unsigned token = 0; token < kTokens; ++token) {
    const uint32_t n = group.counts[token];
    if (n != 0) {
      group.total += n;
      group.limit = token + 1;
      cost += kTokenCost;
      cost -= weighted_log(n);  // wraps; the sum below brings it back
    }
  }
  group.cost = cost + group.limit * kGapCost + weighted_log(group.total);
}

/// What merging changes, in 1/65536 bits; negative: it pays.
int64_t merge_gain(const Group& p, const Group& q) {
  const unsigned limit = std::max(p.limit, q.limit);
  uint64_t cost = kTableCost + limit * kGapCost + weighted_log(p.total + q.total);
  for (unsigned token = 0; token < limit; ++token) {
    const uint32_t n = p.counts[token] + q.counts[token];
    if (n != 0) {
      cost += kTokenCost - weighted_log(n);
    }
  }
  return static_cast<int64_t>(cost - p.cost - q.cost);
}

void merge_into(Group& p, const Group& q) {
  for (unsigned token = 0; token < kTokens; ++token) {
    p.counts[token] += q.counts[token];
  }
  p.members.insert(p.members.end(), q.members.begin(), q.members.end());
  sum_up(p);
}

/// Contexts in an order that puts alike ones next to each other: by context within the class, level, axes.
std::vector<Group> gather(const Histogram& histogram) {
  std::vector<Group> groups;
  const auto add = [&](unsigned context) {
    const Counts& counts = histogram.counts[context];
    if (std::all_of(counts.begin(), counts.end(), [](uint32_t n) { return n == 0; })) {
      return;
    }
    Group& one = groups.emplace_back();
    one.counts = counts;
    sum_up(one);
    one.members.push_back(static_cast<uint16_t>(context));
  };
  for (unsigned k = 0; k < kClassContexts; ++k) {
    for (unsigned level = 0; level < kLevelGroups; ++level) {
      for (unsigned axes = 1; axes <= 3; ++axes) {
        add(context_base(level, axes) + k);
      }
    }
  }
  add(kAnchorContext);
  return groups;
}

/// Merges neighbours while that pays.
void merge_neighbours(std::vector<Group>& groups) {
  bool more = true;
  while (more) {
    more = false;
    std::vector<Group> merged;
    for (Group& group : groups) {
      if (!merged.empty() && (merge_gain(merged.back(), group) <= 0)) {
        merge_into(merged.back(), group);
        more = true;
      } else {
        merged.push_back(std::move(group));
      }
    }
    groups = std::move(merged);
  }
}

/// Puts groups with like tokens next to each other.
void sort_by_mean(std::vector<Group>& groups) {
  const auto mean = [](const Group& group) {
    uint64_t sum = 0;
    for (unsigned token = 0; token < group.limit; ++token) {
      sum += uint64_t{group.counts[token]} * token;
    }
    return (sum << 16) / std::max(group.total, 1U);
  };
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < groups.size(); ++i) {
    order.emplace_back(mean(groups[i]), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Group> sorted;
  sorted.reserve(groups.size());
  for (const auto& [value, i] : order) {
    sorted.push_back(std::move(groups[i]));
  }
  groups = std::move(sorted);
}

/// Merges neighbours until there are no more groups than tables.
void merge_surplus(std::vector<Group>& groups) {
  while (groups.size() > kMaxTables) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < groups.size(); ++i) {
      best = groups[i].total + groups[i + 1].total < groups[best].total + groups[best + 1].total ? i : best;
    }
    merge_into(groups[best], groups[best + 1]);
    groups.erase(groups.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

/// Three significant bits are enough; they make the description short.
unsigned shorten(unsigned frequency) {
  const int drop = static_cast<int>(std::bit_width(frequency)) - 3;
  return drop > 0 ? frequency >> drop << drop : frequency;
}

/// Whether tokens that a sample missed should get the least frequency, or escape when they come. The share of tokens
/// not seen before is about that of those seen once (Good and Turing); an escape costs some 32 bits, a frequency of
/// 1/4096 some 1.44/4096 bits on every token.
bool worth_filling(const Group& group, unsigned limit) {
  uint64_t once = 0;
  uint64_t never = 0;
  for (unsigned token = kTokenZero; token < limit; ++token) {
    once += group.counts[token] == 1 ? 1 : 0;
    never += group.counts[token] == 0 ? 1 : 0;
  }
  return once * 32 * kProbabilityScale > never * group.total * 3 / 2;
}

FrequencyTable normalize(const Group& group, bool complete) {
  Counts counts = group.counts;
  const auto most = static_cast<unsigned>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  counts[kTokenEscape] = std::max(counts[kTokenEscape], 1U);
  const unsigned limit = std::min(kTokens, group.limit + 4);
  const bool spread = !complete && worth_filling(group, limit);
  FrequencyTable table;
  table.implied = most;
  for (uint64_t target = kProbabilityScale;; target -= kProbabilityScale / 16) {
    unsigned others = 0;
    for (unsigned token = 0; token < kTokens; ++token) {
      if (token == most) {
        continue;
      }
      unsigned frequency = 0;
      if (counts[token] != 0) {
        frequency = shorten(std::max(1U, static_cast<unsigned>(counts[token] * target / (uint64_t{group.total} + 1))));
      } else if (spread && token < limit) {
        frequency = 1;
      }
      table.frequency[token] = static_cast<uint16_t>(frequency);
      others += frequency;
    }
    if (others < kProbabilityScale) {
      table.frequency[most] = static_cast<uint16_t>(kProbabilityScale - others);
      break;
    }
  }
  table.finish();
  return table;
}

void write_table(const FrequencyTable& table, BitWriter& bits) {
  const auto& f = table.frequency;
  const unsigned most = table.implied;
  unsigned limit = kTokens;
  while (f[limit - 1] == 0) {
    --limit;
  }
  bits.put(limit, 8);
  bits.put(most, 8);
  unsigned before = 1;
  for (unsigned token = 0; token < limit; ++token) {
    if (token == most) {
      continue;
    }
    const auto width = static_cast<unsigned>(std::bit_width(f[token]));
    const uint32_t step = zigzag(static_cast<int32_t>(width) - static_cast<int32_t>(before));
    bits.put((uint64_t{1} << step) - 1, step + 1);  // unary, closed by a zero
    if (width > 1) {
      const unsigned kept = std::min(width - 1, 2U);
      bits.put(f[token] >> (width - 1 - kept) & ((1U << kept) - 1), kept);
    }
    before = width;
  }
}

bool read_table(BitReader& bits, FrequencyTable& table) {
  const auto limit = static_cast<unsigned>(bits.get(8));
  const auto most = static_cast<unsigned>(bits.get(8));
  if (limit > kTokens || most >= limit || limit <= kTokenEscape) {
    return false;
  }
  unsigned before = 1;
  unsigned others = 0;
  for (unsigned token = 0; token < limit; ++token) {
    if (token == most) {
      continue;
    }
    uint32_t step = 0;
    while (bits.get(1) != 0) {
      if (++step > 2 * kProbabilityBits) {
        return false;
      }
    }
    const int32_t width = static_cast<int32_t>(before) + unzigzag(step);
    if (width < 0 || width > static_cast<int32_t>(kProbabilityBits) || bits.failed()) {
      return false;
    }
    unsigned frequency = width > 0 ? 1 : 0;
    if (width > 1) {
      const unsigned kept = std::min(static_cast<unsigned>(width) - 1, 2U);
      frequency = static_cast<unsigned>((uint64_t{1} << kept | bits.get(kept)) << (width - 1 - kept));
    }
    table.frequency[token] = static_cast<uint16_t>(frequency);
    others += frequency;
    before = static_cast<unsigned>(width);
  }
  if (others >= kProbabilityScale || bits.failed()) {
    return false;
  }
  table.frequency[most] = static_cast<uint16_t>(kProbabilityScale - others);
  table.implied = most;
  if (table.frequency[kTokenEscape] == 0) {
    return false;
  }
  table.finish();
  return true;
}

}  // namespace

double Histogram::bits() const {
  uint64_t cost = 0;
  for (const Counts& one : counts) {
    uint64_t total = 0;
    uint64_t used = 0;
    for (const uint32_t n : one) {
      total += n;
      if (n != 0) {
        cost -= weighted_log(n);  // wraps; the total below brings it back
        ++used;
      }
    }
    // Describing a table, or sharing one, costs something for each token.
    cost += weighted_log(static_cast<uint32_t>(total)) + used * (uint64_t{2} << kLogBits);
  }
  return static_cast<double>(cost) / 65536.0;
}

TableSet TableSet::build(const Histogram& histogram, bool complete) {
  std::vector<Group> groups = gather(histogram);
  merge_neighbours(groups);  // contexts of one class
  sort_by_mean(groups);
  merge_neighbours(groups);  // and of others
  merge_surplus(groups);
  if (groups.empty()) {
    groups.emplace_back();
    groups[0].counts[kTokenZero] = 1;
    sum_up(groups[0]);
  }
  TableSet set;
  std::array<bool, kContexts> used{};
  for (const Group& group : groups) {
    for (const uint16_t member : group.members) {
      set.table_of_.at(member) = static_cast<uint8_t>(set.tables_.size());
      used.at(member) = true;
    }
    set.tables_.push_back(normalize(group, complete));
  }
  // Contexts that the sample missed share the table of the used one before them.
  const auto first = static_cast<size_t>(std::find(used.begin(), used.end(), true) - used.begin());
  uint8_t before = first < kContexts ? set.table_of_.at(first) : uint8_t{0};
  for (unsigned context = 0; context < kContexts; ++context) {
    before = used.at(context) ? set.table_of_.at(context) : before;
    set.table_of_.at(context) = before;
  }
  set.finish();
  return set;
}

double TableSet::bits(const Histogram& histogram) const {
  uint64_t cost = 0;
  for (unsigned context = 0; context < kContexts; ++context) {
    const FrequencyTable& one = table(context);
    for (unsigned token = 0; token < kTokens; ++token) {
      if (const uint32_t n = histogram.counts[context][token]; n != 0) {
        const unsigned frequency = one.frequency[token] != 0 ? one.frequency[token] : one.frequency[kTokenEscape];
        cost += uint64_t{n} * ((uint64_t{kProbabilityBits} << kLogBits) - log2_fixed(frequency));
      }
    }
  }
  return static_cast<double>(cost) / 65536.0;
}

void TableSet::write(ByteWriter& out) const {
  out.put_u8(static_cast<uint8_t>(tables_.size()));
  for (unsigned context = 0; context < kContexts && tables_.size() > 1;) {
    unsigned run = 1;
    while (context + run < kContexts && table_of_.at(context + run) == table_of_.at(context)) {
      ++run;
    }
    out.put_u8(table_of_.at(context));
    out.put_varint(run);
    context += run;
  }
  BitWriter bits;
  for (const FrequencyTable& one : tables_) {
    write_table(one, bits);
  }
  const auto packed = bits.finish();
  out.put_varint(packed.size());
  out.put_bytes(packed);
}

Result<TableSet> TableSet::read(ByteReader& in) {
  const auto bad = [](std::string_view what) {
    return Error{EBADMSG, fmt::format("header of an array: {}; restore it from a copy", what)};
  };
  TableSet set;
  const unsigned count = in.get_u8();
  if (count == 0 || count > kMaxTables) {
    return bad("its number of frequency tables is out of range");
  }
  for (unsigned context = 0; context < kContexts && count > 1;) {
    const uint8_t table = in.get_u8();
    const uint64_t run = in.get_varint();
    if (in.failed() || table >= count || run == 0 || run > kContexts - context) {
      return bad("its map from contexts to tables is damaged");
    }
    for (uint64_t k = 0; k < run; ++k) {
      set.table_of_.at(context++) = table;
    }
  }
  const auto packed = in.get_bytes(in.get_varint());
  if (in.failed()) {
    return bad("its frequency tables are cut short");
  }
  BitReader bits(packed);
  for (unsigned k = 0; k < count; ++k) {
    FrequencyTable table;
    if (!read_table(bits, table)) {
      return bad(fmt::format("frequency table {} is damaged", k));
    }
    set.tables_.push_back(table);
  }
  if (!bits.at_end()) {
    return bad("its frequency tables have bytes left over");
  }
  set.finish();
  return set;
}

}  // namespace varve::codec
