// Globs as a small machine: the pattern becomes a list of steps, and the set of steps that the text may have reached
// moves along it. So a pattern full of stars costs pattern times text, never more.
#include <fmt/format.h>

#include <vector>

#include "fs/policy.h"

namespace varve::fs {

namespace {

struct Step {
  enum class Kind { one, any_character, set, star, double_star, directories };
  Kind kind = Kind::one;
  unsigned char character = 0;
  bool negated = false;
  std::vector<std::pair<unsigned char, unsigned char>> ranges;

  bool takes(unsigned char c) const {
    switch (kind) {
      case Kind::one:
        return c == character;
      case Kind::any_character:
        return c != '/';
      case Kind::set: {
        bool inside = false;
        for (auto [low, high] : ranges) {
          inside = inside || (low <= c && c <= high);
        }
        return c != '/' && inside != negated;
      }
      default:
        return false;
    }
  }
};

Error bad_glob(std::string_view pattern, std::string_view why) {
  return Error{EINVAL, fmt::format("\"{}\" is no glob: {}", pattern, why)};
}

/// Reads a set from just behind its '['; `at` ends behind its ']'.
Result<Step> parse_set(std::string_view pattern, size_t& at) {
  Step step;
  step.kind = Step::Kind::set;
  if (at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^')) {
    step.negated = true;
    ++at;
  }
  auto next = [&]() -> std::optional<unsigned char> {
    if (at < pattern.size() && pattern[at] == '\\') {
      ++at;
    }
    return at < pattern.size() ? std::optional(static_cast<unsigned char>(pattern[at++])) : std::nullopt;
  };
  while (true) {
    if (at < pattern.size() && pattern[at] == ']' && !step.ranges.empty()) {
      ++at;
      return step;
    }
    auto low = next();
    auto high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      high = next();
    }
    if (!low || !high) {
      return bad_glob(pattern, "a '[' has no matching ']'; write \\[ for the character itself");
    }
    if (*high < *low) {
      return bad_glob(pattern,
                      fmt::format("the range {}-{} is upside down", static_cast<char>(*low), static_cast<char>(*high)));
    }
    step.ranges.emplace_back(*low, *high);
  }
}

Result<std::vector<Step>> parse_glob(std::string_view pattern) {
  std::vector<Step> steps;
  for (size_t at = 0; at < pattern.size();) {
    auto c = static_cast<unsigned char>(pattern[at++]);
    Step step;
    if (c < 0x20 || c == 0x7f) {
      return bad_glob(pattern, "it holds a control character");
    }
    if (c == '*') {
      bool starts_component = at == 1 || pattern[at - 2] == '/';
      step.kind = Step::Kind::star;
      while (at < pattern.size() && pattern[at] == '*') {
        step.kind = Step::Kind::double_star;
        ++at;
      }
      if (step.kind == Step::Kind::double_star && starts_component && at < pattern.size() && pattern[at] == '/') {
        step.kind = Step::Kind::directories;
        ++at;
      }
    } else if (c == '?') {
      step.kind = Step::Kind::any_character;
    } else if (c == '[') {
      VARVE_ASSIGN(step, parse_set(pattern, at));
    } else {
      if (c == '\\' && at == pattern.size()) {
        return bad_glob(pattern, "it ends in a lone \\");
      }
      step.character = c == '\\' ? static_cast<unsigned char>(pattern[at++]) : c;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

/// A state is the number of steps that are done. Steps that may stand for nothing are passed at once.
void reach(const std::vector<Step>& steps, std::vector<char>& states, size_t state) {
  while (true) {
    states[state] = 1;
    if (state == steps.size()) {
      return;
    }
    Step::Kind kind = steps[state].kind;
    if (kind != Step::Kind::star && kind != Step::Kind::double_star && kind != Step::Kind::directories) {
      return;
    }
    ++state;
  }
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  auto parsed = parse_glob(pattern);
  if (!parsed.ok()) {
    return false;
  }
  const std::vector<Step>& steps = *parsed;
  // `directories` ("**/") holds its own state apart while it is inside a component: it may be left behind a '/' only.
  std::vector<char> states(steps.size() + 1, 0);
  std::vector<char> inside(steps.size() + 1, 0);
  reach(steps, states, 0);
  for (char character : text) {
    auto c = static_cast<unsigned char>(character);
    std::vector<char> next(steps.size() + 1, 0);
    std::vector<char> next_inside(steps.size() + 1, 0);
    for (size_t state = 0; state < steps.size(); ++state) {
      const Step& step = steps[state];
      if (step.kind == Step::Kind::directories) {
        if (states[state] != 0 || inside[state] != 0) {
          if (c == '/') {
            reach(steps, next, state);  // another component, or on to what follows
          } else {
            next_inside[state] = 1;
          }
        }
      } else if (states[state] != 0) {
        bool stays = step.kind == Step::Kind::double_star || (step.kind == Step::Kind::star && c != '/');
        if (stays) {
          reach(steps, next, state);
        } else if (step.takes(c)) {
          reach(steps, next, state + 1);
        }
      }
    }
    states.swap(next);
    inside.swap(next_inside);
  }
  return states[steps.size()] != 0;
}

Status check_glob(std::string_view pattern) {
  auto parsed = parse_glob(pattern);
  return parsed.ok() ? Status() : Status(parsed.error());
}

bool dataset_match(std::string_view pattern, std::string_view name) {
  return glob_match(pattern, name) ||
         (!pattern.starts_with('/') && name.starts_with('/') && glob_match(pattern, name.substr(1)));
}

}  // namespace varve::fs
