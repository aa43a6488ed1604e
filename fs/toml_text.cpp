#include "fs/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>

namespace varve::fs {
namespace {

constexpr std::string_view kSpace = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string_view line_of(std::string_view text, size_t number) {
  for (size_t line = 1; line < number && !text.empty(); ++line) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return text.substr(0, text.find('\n'));
}

bool not_utf8(std::string_view text) {
  size_t more = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0U) == 0x80U) {
      if (more == 0) {
        return true;
      }
      --more;
    } else if (more > 0 || byte >= 0xF8U) {
      return true;
    } else {
      more = byte >= 0xF0U ? 3 : byte >= 0xE0U ? 2 : byte >= 0xC0U ? 1 : 0;
    }
  }
  return more > 0;
}

/// What is wrong with a value, by how it begins.
std::string about_value(std::string_view key, std::string_view value) {
  if (value.empty() || value[0] == '#') {
    return fmt::format("'{}' has no value: write {} = and then a number, true, false, or text in \"...\"", key, key);
  }
  if (value.starts_with("\xE2\x80\x9C") || value.starts_with("\xE2\x80\x98")) {
    return fmt::format("the quotation marks of '{}' are typographic: use the straight ones, \"...\"", key);
  }
  if (value[0] == '"' || value[0] == '\'') {
    return value.find(value[0], 1) == std::string_view::npos
               ? fmt::format("the text of '{}' has no second quotation mark", key)
               : fmt::format(
                     "the text of '{}' cannot be read: nothing may follow its second quotation mark, and a "
                     "backslash in \"...\" is written \\\\",
                     key);
  }
  const bool number = std::string_view("0123456789+-.").find(value[0]) != std::string_view::npos;
  if (number) {
    return fmt::format(
        "the value of '{}' is no number that can be read: whole numbers below 2^63, or such as 0.5 or "
        "1e-3; one setting a line",
        key);
  }
  return value[0] == '[' || value[0] == '{'
             ? fmt::format("the list of '{}' cannot be read: values stand between [ and ], with commas between them",
                           key)
             : fmt::format(
                   "the value of '{}' is neither a number nor true or false: text stands in quotation marks, "
                   "{} = \"{}\"",
                   key, key, shown(value));
}

/// What is wrong with a line that cannot be read, and what to write.
std::string about_line(std::string_view line, bool again, const TomlKind& kind) {
  line = trimmed(line);
  if (line.starts_with("[")) {
    return again ? fmt::format("{} cannot stand beside what has the same name above", shown(line))
                 : fmt::format("{} is no head of a table: write {} on a line of its own", shown(line), kind.table);
  }
  const size_t equals = line.find('=');
  const std::string key = shown(trimmed(line.substr(0, equals)));
  if (equals == std::string_view::npos || key.empty()) {
    return fmt::format("\"{}\" is no setting: a line is KEY = VALUE, such as {}, or {}", shown(line), kind.setting,
                       kind.table);
  }
  return again ? fmt::format("'{}' is set a second time: take one out, or begin another {}", key, kind.table)
               : about_value(key, trimmed(line.substr(equals + 1)));
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    out.push_back(static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c);
  }
  return out + (text.size() > kMost ? "..." : "");
}

Result<toml::table> parse_toml(std::string_view text, std::string_view file, const TomlKind& kind) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& problem) {
    const size_t line = problem.source().begin.line;
    const auto wrong = [&](std::string_view what, int code = EINVAL) {
      return Error{code, fmt::format("{}, line {}: {}{}", file, line, kind.lead, what)};
    };
    const std::string_view said = problem.description();
    if (said.find("end-of-file") != std::string_view::npos) {
      return wrong("the text ends in the middle of this: a bracket or a quotation mark is not closed", ENODATA);
    }
    const std::string_view where = line_of(text, line);
    if (not_utf8(where) || said.find("utf-8") != std::string_view::npos) {
      return wrong("this is no text in UTF-8: is it the right file?");
    }
    return wrong(about_line(where, said.find("redefine") != std::string_view::npos, kind));
  } catch (const std::exception&) {  // whatever else the library may throw: it has no line
    return Error{EINVAL, fmt::format("{} cannot be read as TOML: is it the right file?", file)};
  }
}

}  // namespace varve::fs
