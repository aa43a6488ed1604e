#include "fs/bound_views.h"

#include <fmt/format.h>

#include <charconv>

#include "fs/policy.h"

namespace varve::fs {

Result<codec::Bound> parse_view_bound(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool plain = error == std::errc() && end == text.data() + text.size();
  VARVE_ASSIGN(const codec::Bound bound, codec::parse_bound(plain ? fmt::format("abs:{}", text) : std::string(text)));
  if (!codec::limit_of(bound, 0)) {
    return Error{EINVAL,
                 fmt::format("bound/{}: a view keeps a bound of the kind abs:X, rel:X or both; give one", text)};
  }
  return bound;
}

Result<std::vector<uint8_t>> levels_within(const Sealed& sealed, const codec::Bound& bound) {
  std::vector<uint8_t> levels;
  FilePolicy policy;
  policy.choices.push_back({.dataset = "", .bound = bound});
  for (size_t i = 0; i < sealed.codecs.size(); ++i) {
    const ArrayEntry& entry = sealed.layout.arrays[i];
    const codec::CodecInfo info = sealed.codecs[i].info();
    // The range is that of the values when the array was last encoded as a whole.
    const double limit =
        codec::limit_of(bound, entry.errors ? entry.greatest - entry.least : info.max - info.min).value_or(0);
    const double stored = entry.errors ? entry.errors->most[0] : info.absolute_bound;
    if (stored > limit) {
      return Error{EIO,
                   fmt::format("array \"{}\" is stored with errors of up to {}, and {} allows {}; ask for a looser "
                               "bound",
                               entry.region.name, stored, codec::to_string(bound), limit)};
    }
    uint8_t level = 0;
    if (entry.errors && policy.bound_for(entry.region).mode != codec::BoundMode::lossless) {
      while (level + 1U < entry.errors->most.size() && entry.errors->most.at(level + 1U) <= limit) {
        ++level;
      }
    }
    levels.push_back(level);
  }
  return levels;
}

}  // namespace varve::fs
