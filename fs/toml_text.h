// Reading TOML with errors for people: the line, what is wrong there and what to write instead.
#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>

#include "codec/result.h"

namespace varve::fs {

/// What a file is made of, for errors that say what to write.
struct TomlKind {
  std::string_view table;    ///< the head of its tables: "[[rule]]"
  std::string_view setting;  ///< a line of one: "bound = \"rel:1e-3\""
  std::string_view lead;     ///< what each error begins with after the line: "this is no TOML: "
};

/// `file` is what errors name. Errors: EINVAL; ENODATA where more text at the end could make it right.
Result<toml::table> parse_toml(std::string_view text, std::string_view file, const TomlKind& kind);

/// For a message: at most 60 bytes, and nothing that a terminal obeys.
std::string shown(std::string_view text);

}  // namespace varve::fs
