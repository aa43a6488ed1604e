#include "fs/formats/region_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace varve::fs {

namespace {

Error malformed(std::string_view text, std::string_view why) {
  return Error{EINVAL,
               fmt::format("region \"{}\": {}; write NAME[START:STOP:STEP,...] as NumPy's indices, ':' for '/' in "
                           "NAME, %3A for ':'",
                           text, why)};
}

std::optional<unsigned> hex_digit(char digit) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(&digit, &digit + 1, value, 16);
  return error == std::errc{} && end == &digit + 1 ? std::optional(value) : std::nullopt;
}

Result<std::string> parse_name(std::string_view text, std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      out.push_back(name[i] == ':' ? '/' : name[i]);
      continue;
    }
    const auto high = i + 2 < name.size() ? hex_digit(name[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(name[i + 2]) : std::nullopt;
    if (!low || (*high == 0 && *low == 0)) {
      return malformed(text, "'%' is not followed by two hexadecimal digits of a byte other than 0");
    }
    out.push_back(static_cast<char>(*high * 16 + *low));
    i += 2;
  }
  return out.starts_with('/') ? out.substr(1) : out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  return text;
}

/// Empty: nothing.
Result<std::optional<int64_t>> parse_number(std::string_view text, std::string_view digits) {
  digits = trimmed(digits);
  if (digits.empty()) {
    return std::optional<int64_t>();
  }
  int64_t value = 0;
  const std::string_view unsigned_digits = digits.starts_with('+') ? digits.substr(1) : digits;
  const auto [end, error] = std::from_chars(unsigned_digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value == INT64_MIN) {
    return malformed(text, fmt::format("\"{}\" is no whole number", digits));
  }
  return std::optional(value);
}

Result<RegionIndex> parse_index(std::string_view text, std::string_view item) {
  RegionIndex index;
  if (trimmed(item) == "...") {
    index.kind = RegionIndex::Kind::ellipsis;
    return index;
  }
  const size_t first = item.find(':');
  VARVE_ASSIGN(index.start, parse_number(text, item.substr(0, first)));
  if (first == std::string_view::npos) {
    if (!index.start) {
      return malformed(text, "an index is missing");
    }
    index.kind = RegionIndex::Kind::point;
    return index;
  }
  const size_t second = item.find(':', first + 1);
  VARVE_ASSIGN(index.stop, parse_number(text, item.substr(first + 1, second - first - 1)));
  if (second != std::string_view::npos) {
    VARVE_ASSIGN(const auto step, parse_number(text, item.substr(second + 1)));
    index.step = step.value_or(1);
  }
  if (index.step == 0) {
    return malformed(text, "a step is 0");
  }
  return index;
}

/// What comes after ']': nothing, or '@' and a level.
Result<uint8_t> parse_level(std::string_view text, std::string_view suffix) {
  if (suffix.empty()) {
    return uint8_t{0};
  }
  if (suffix.size() != 2 || suffix[0] != '@' || suffix[1] < '0' || suffix[1] > '0' + codec::kCoarseLevel) {
    return malformed(text,
                     fmt::format("\"{}\" after ']' is not '@' and a level from 0 to {}", suffix, codec::kCoarseLevel));
  }
  return static_cast<uint8_t>(suffix[1] - '0');
}

/// One axis of `extent` elements, by the rules of Python's slice.indices().
SliceAxis slice_of(const RegionIndex& index, uint64_t extent) {
  const auto length = static_cast<int64_t>(extent);
  const bool back = index.step < 0;
  const int64_t lowest = back ? -1 : 0;
  const int64_t highest = back ? length - 1 : length;
  const auto place = [&](const std::optional<int64_t>& at, int64_t otherwise) {
    return at ? std::clamp(*at < 0 ? *at + length : *at, lowest, highest) : otherwise;
  };
  const int64_t start = place(index.start, back ? highest : 0);
  const int64_t stop = place(index.stop, back ? -1 : length);
  const int64_t span = back ? start - stop : stop - start;
  const int64_t stride = back ? -index.step : index.step;
  const int64_t count = span > 0 ? (span - 1) / stride + 1 : 0;
  return {count > 0 ? static_cast<uint64_t>(start) : 0, count > 1 ? index.step : 1, static_cast<uint64_t>(count)};
}

}  // namespace

Result<RegionSpec> RegionSpec::parse(std::string_view text) {
  RegionSpec spec;
  const size_t open = text.find('[');
  VARVE_ASSIGN(spec.dataset, parse_name(text, text.substr(0, open)));
  if (open == std::string_view::npos) {
    return spec;
  }
  const size_t close = text.rfind(']');
  if (close == std::string_view::npos || close < open) {
    return malformed(text, "']' is not the end");
  }
  VARVE_ASSIGN(spec.level, parse_level(text, text.substr(close + 1)));
  std::string_view rest = text.substr(open + 1, close - open - 1);
  if (trimmed(rest).empty()) {
    return malformed(text, "nothing is between '[' and ']'");
  }
  bool ellipsis = false;
  while (true) {
    const size_t comma = rest.find(',');
    VARVE_ASSIGN(const RegionIndex index, parse_index(text, rest.substr(0, comma)));
    if (index.kind == RegionIndex::Kind::ellipsis && std::exchange(ellipsis, true)) {
      return malformed(text, "\"...\" comes twice");
    }
    spec.indices.push_back(index);
    if (comma == std::string_view::npos) {
      return spec;
    }
    rest.remove_prefix(comma + 1);
    if (trimmed(rest).empty()) {  // a[1,]
      return spec;
    }
  }
}

Result<RegionSpec::Part> RegionSpec::apply(const codec::Extents& shape) const {
  const auto is_ellipsis = [](const RegionIndex& index) { return index.kind == RegionIndex::Kind::ellipsis; };
  const size_t named = indices.size() - static_cast<size_t>(std::count_if(indices.begin(), indices.end(), is_ellipsis));
  if (named > shape.size()) {
    return Error{ENOENT, fmt::format("{} indices, and the array has {} axes", named, shape.size())};
  }
  Part part;
  const auto whole = [&](size_t axes) {
    for (size_t i = 0; i < axes; ++i) {
      part.axes.push_back({0, 1, shape[part.axes.size()]});
      part.kept.push_back(true);
    }
  };
  for (const RegionIndex& index : indices) {
    if (is_ellipsis(index)) {
      whole(shape.size() - named);
      continue;
    }
    const uint64_t extent = shape[part.axes.size()];
    if (index.kind == RegionIndex::Kind::slice) {
      part.axes.push_back(slice_of(index, extent));
      part.kept.push_back(true);
      continue;
    }
    const int64_t at = *index.start < 0 ? *index.start + static_cast<int64_t>(extent) : *index.start;
    if (at < 0 || static_cast<uint64_t>(at) >= extent) {
      return Error{ENOENT, fmt::format("index {} is out of bounds for axis {} of {} elements", *index.start,
                                       part.axes.size(), extent)};
    }
    part.axes.push_back({static_cast<uint64_t>(at), 1, 1});
    part.kept.push_back(false);
  }
  whole(shape.size() - part.axes.size());
  return part;
}

}  // namespace varve::fs
