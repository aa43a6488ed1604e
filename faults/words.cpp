#include "faults/words.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace varve::faults {

namespace {

/// Letters to change, add, leave out or swap with the next; upper and lower case are the same.
size_t distance(std::string_view a, std::string_view b) {
  const auto same = [&](size_t i, size_t j) {
    return std::tolower(static_cast<unsigned char>(a[i])) == std::tolower(static_cast<unsigned char>(b[j]));
  };
  std::vector<size_t> before;
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    now[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      now[j + 1] = std::min({last[j + 1] + 1, now[j] + 1, last[j] + (same(i, j) ? 0 : 1)});
      if (i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j)) {
        now[j + 1] = std::min(now[j + 1], before[j - 1] + 1);
      }
    }
    before = std::exchange(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  constexpr size_t kLongest = 64;
  std::string_view best;
  size_t least = std::max<size_t>(1, std::min(word.size(), kLongest) / 3) + 1;
  for (const std::string_view name : known) {
    const size_t apart = word.size() <= kLongest ? distance(word, name) : least;
    if (apart < least) {
      least = apart;
      best = name;
    }
  }
  return best;
}

FileKind file_kind(std::string_view path) {
  if (path.starts_with("packs/")) {
    return FileKind::pack;
  }
  if (path.starts_with("staging/")) {
    return FileKind::staging;
  }
  if (!path.starts_with("db/")) {
    return FileKind::other;
  }
  if (path.ends_with(".log")) {
    return FileKind::wal;
  }
  if (path.ends_with(".sst")) {
    return FileKind::table;
  }
  return path.starts_with("db/MANIFEST") || path == "db/CURRENT" || path.ends_with(".dbtmp") ? FileKind::manifest
                                                                                             : FileKind::other;
}

std::optional<int> errno_of(std::string_view name) {
  for (int code = 1; code < 134; ++code) {
    const char* known = ::strerrorname_np(code);
    if (known != nullptr && name == known) {
      return code;
    }
  }
  return std::nullopt;
}

std::string errno_name(int code) {
  const char* name = ::strerrorname_np(code);
  return name != nullptr ? name : std::to_string(code);
}

}  // namespace varve::faults
