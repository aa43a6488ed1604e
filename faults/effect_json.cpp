// Effects in the journal's words.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "faults/effect.h"
#include "faults/json_fields.h"

namespace varve::faults {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kFromNames = {"bytes", "old", "fill"};

constexpr uint64_t kLongestEdit = uint64_t{1} << 30;

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text.push_back(kDigits[static_cast<size_t>(byte) >> 4]);
    text.push_back(kDigits[static_cast<size_t>(byte) & 15]);
  }
  return text;
}

std::vector<std::byte> unhex(const std::string& text) {
  const auto digit = [](char c) -> unsigned {
    if (c >= '0' && c <= '9') {
      return static_cast<unsigned>(c - '0');
    }
    if (c >= 'a' && c <= 'f') {
      return static_cast<unsigned>(c - 'a') + 10;
    }
    throw std::invalid_argument("bytes are not in hexadecimal digits (0 to 9, a to f)");
  };
  if (text.size() % 2 != 0) {
    throw std::invalid_argument("bytes are an odd number of hexadecimal digits");
  }
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
  }
  return bytes;
}

Json json_of(const Edit& edit) {
  Json out = {{"offset", edit.offset}, {"length", edit.length}, {"from", name_in(kFromNames, edit.from)}};
  if (edit.from == Edit::From::fill) {
    out["fill"] = edit.fill;
  }
  out["old"] = hex(edit.was);
  if (edit.from != Edit::From::fill) {
    out["new"] = hex(edit.bytes);
  }
  return out;
}

Edit edit_of(const Json& in) {
  Edit edit;
  edit.offset = field<uint64_t>(in, "offset");
  edit.length = field<uint64_t>(in, "length");
  edit.from = field<Edit::From>(in, "from", kFromNames);
  edit.fill = field(in, "fill", uint8_t{0});
  edit.bytes = unhex(field(in, "new", std::string()));
  edit.expected = unhex(field(in, "old", std::string()));
  if ((edit.from == Edit::From::bytes && edit.bytes.size() != edit.length) || edit.length > kLongestEdit) {
    throw std::invalid_argument("an edit's 'length' is not that of its bytes, or above 1 GiB");
  }
  return edit;
}

Json json_of(const Rest& rest) {
  Json out = {{"path", rest.path}, {"offset", rest.offset}, {"old", hex(rest.was)}, {"new", hex(rest.bytes)}};
  if (rest.size_then) {
    out["size"] = *rest.size_then;
  }
  return out;
}

Rest rest_of(const Json& in) {
  Rest rest;
  rest.path = field<std::string>(in, "path");
  rest.offset = field<uint64_t>(in, "offset");
  rest.bytes = unhex(field<std::string>(in, "new"));
  if (in.contains("size")) {
    rest.size_then = field<uint64_t>(in, "size");
  }
  return rest;
}

}  // namespace

std::string to_json(const Effect& effect) {
  Json out = Json::object();
  const auto add_if = [&](bool present, const char* key, auto value) {
    if (present) {
      out[key] = value;
    }
  };
  for (const Edit& edit : effect.edits) {
    out["edits"].push_back(json_of(edit));
  }
  add_if(effect.grows, "grows", true);
  add_if(effect.skipped, "skipped", true);
  add_if(effect.moved != 0, "moved", effect.moved);
  add_if(effect.count.has_value(), "count", effect.count.value_or(0));
  add_if(effect.error != 0, "errno", errno_name(effect.error));
  add_if(effect.delay != 0, "delay_us", effect.delay);
  add_if(effect.ending != Ending::normal, "ending", std::string(name_in(kEndingNames, effect.ending)));
  for (const Rest& rest : effect.rest) {
    out["rest"].push_back(json_of(rest));
  }
  add_if(!effect.note.empty(), "note", effect.note);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Effect> effect_from_json(std::string_view text) {
  const Json in = Json::parse(text, nullptr, false);
  if (!in.is_object()) {
    return Error{EBADMSG, "the effect is no JSON object"};
  }
  try {
    Effect effect;
    for (const Json& edit : field(in, "edits", Json::array())) {
      effect.edits.push_back(edit_of(edit));
    }
    for (const Json& rest : field(in, "rest", Json::array())) {
      effect.rest.push_back(rest_of(rest));
    }
    effect.grows = field(in, "grows", false);
    effect.skipped = field(in, "skipped", false);
    effect.moved = field(in, "moved", int64_t{0});
    if (in.contains("count")) {
      effect.count = field<uint64_t>(in, "count");
    }
    if (in.contains("errno")) {
      const auto name = field<std::string>(in, "errno");
      const auto code = errno_of(name);
      if (!code) {
        throw std::invalid_argument(fmt::format("'errno' cannot be \"{}\"", name));
      }
      effect.error = *code;
    }
    effect.delay = field(in, "delay_us", uint64_t{0});
    effect.ending = in.contains("ending") ? field<Ending>(in, "ending", kEndingNames) : Ending::normal;
    effect.note = field(in, "note", std::string());
    return effect;
  } catch (const std::invalid_argument& problem) {
    return Error{EBADMSG, fmt::format("in the effect {}", problem.what())};
  }
}

}  // namespace varve::faults
