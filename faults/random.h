// Where random choices come from: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11),
// a function of a key and a counter. What is drawn for one operation depends on nothing that happened before it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace varve::faults {

/// A mixing step (splitmix64's finaliser): distinct inputs, distinct outputs.
constexpr uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// FNV-1a, mixed: the same on every machine.
constexpr uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return mix(hash);
}

using PhiloxBlock = std::array<uint32_t, 4>;

/// One block of Philox4x32 with ten rounds.
constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t low = uint64_t{0xD2511F53} * counter[0];
    const uint64_t high = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(high >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(high),
               static_cast<uint32_t>(low >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(low)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The numbers that belong to one operation, in order. `stream` tells rules and files apart.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t stream, uint64_t operation)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{static_cast<uint32_t>(operation), static_cast<uint32_t>(operation >> 32),
                 static_cast<uint32_t>(mix(stream)), 0} {}

  uint64_t next() {
    if (used_ == 2) {
      block_ = philox(counter_, key_);
      ++counter_[3];
      used_ = 0;
    }
    const size_t at = 2 * used_++;
    return block_[at] | (uint64_t{block_[at + 1]} << 32);
  }
  /// Uniform in [0, bound); 0 if bound is 0. By multiplication: the bias is below 2^-64 * bound.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::array<uint32_t, 2> key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  size_t used_ = 2;
};

}  // namespace varve::faults
