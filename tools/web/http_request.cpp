#include "tools/web/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace varve::tools {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

ParsedHead refuse(int status, std::string problem) { return {status, std::move(problem), {}}; }

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/// A token of RFC 9110: methods and names of fields.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_visible(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

bool is_field_text(std::string_view text) {
  return std::ranges::all_of(text,
                             [](char c) { return static_cast<unsigned char>(c) >= ' ' ? c != '\x7f' : c == '\t'; });
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

/// "a=1&b=2". False: malformed, or a name comes twice.
bool parse_query(std::string_view text, HttpRequest& request) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (item.empty()) {
      continue;
    }
    const size_t equals = std::min(item.find('='), item.size());
    auto name = decode_query(item.substr(0, equals));
    auto value = decode_query(item.substr(std::min(equals + 1, item.size())));
    if (!name || !value || request.parameter(*name)) {
      return false;
    }
    request.query.emplace_back(*std::move(name), *std::move(value));
  }
  return true;
}

/// "GET /path?query HTTP/1.1".
ParsedHead parse_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || line.find(' ', second + 1) != std::string_view::npos) {
    return refuse(400, "the first line is not METHOD TARGET VERSION");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (!is_token(method)) {
    return refuse(400, "the method is malformed");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return version.starts_with("HTTP/") ? refuse(505, "only HTTP/1.1 and 1.0 are spoken here")
                                        : refuse(400, "the first line does not end in HTTP/1.1");
  }
  if (method != "GET") {
    return refuse(405, "only GET is answered: nothing can be changed through this page");
  }
  if (!target.starts_with('/') || !is_visible(target)) {
    return refuse(400, "the target is not a path from '/' on");
  }
  ParsedHead parsed;
  const size_t mark = std::min(target.find('?'), target.size());
  parsed.request.path = target.substr(0, mark);
  parsed.request.keep_alive = version == "HTTP/1.1";
  if (!parse_query(target.substr(std::min(mark + 1, target.size())), parsed.request)) {
    return refuse(400, "the query is malformed, or gives a parameter twice");
  }
  return parsed;
}

/// What the fields said so far.
struct Fields {
  bool host = false, authorization = false;
};

/// One header field into the request. An empty problem: it is all right.
ParsedHead take_field(std::string_view line, Fields& seen, HttpRequest& request) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return refuse(400, "a header field is not NAME: VALUE");
  }
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_field_text(value)) {
    return refuse(400, "a header field has control characters");
  }
  if (name == "host") {
    if (std::exchange(seen.host, true)) {
      return refuse(400, "Host comes twice");
    }
    request.host = value;
  } else if (name == "authorization") {
    if (std::exchange(seen.authorization, true)) {
      return refuse(400, "Authorization comes twice");
    }
    request.authorization = value;
  } else if (name == "transfer-encoding" || (name == "content-length" && value != "0")) {
    return refuse(400, "requests here have no body");
  } else if (name == "connection") {
    const std::string wish = lower(value);
    request.keep_alive =
        wish.find("close") == std::string::npos && (request.keep_alive || wish.find("keep-alive") != std::string::npos);
  }
  return {};
}

}  // namespace

std::optional<std::string_view> HttpRequest::parameter(std::string_view name) const {
  const auto found = std::ranges::find(query, name, [](const auto& item) { return std::string_view(item.first); });
  return found == query.end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

size_t head_length(std::string_view text) {
  const size_t proper = text.find("\r\n\r\n");
  const size_t bare = text.find("\n\n");  // malformed, and whole: nothing more will come
  if (proper == std::string_view::npos && bare == std::string_view::npos) {
    return 0;
  }
  return proper < bare ? proper + 4 : bare + 2;
}

ParsedHead parse_head(std::string_view head) {
  if (head.size() > kLongestHead) {
    return refuse(431, fmt::format("the request's head takes more than {} bytes", kLongestHead));
  }
  size_t end = head.find(kLineEnd);
  if (!head.ends_with("\r\n\r\n") || end == std::string_view::npos) {
    return refuse(400, "lines do not end in CR LF");
  }
  ParsedHead parsed = parse_request_line(head.substr(0, end));
  if (parsed.status != 200) {
    return parsed;
  }
  Fields seen;
  size_t count = 0;
  for (std::string_view rest = head.substr(end + 2); rest != kLineEnd; rest.remove_prefix(end + 2)) {
    end = rest.find(kLineEnd);
    if (end == std::string_view::npos || ++count > kMostFields) {
      return end == std::string_view::npos ? refuse(400, "the head is malformed")
                                           : refuse(431, fmt::format("more than {} header fields", kMostFields));
    }
    ParsedHead field = take_field(rest.substr(0, end), seen, parsed.request);
    if (field.status != 200) {
      return field;
    }
  }
  return parsed;
}

std::optional<std::string> decode_query(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
      continue;
    }
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text.size() - i < 3 || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(byte));
    i += 2;
  }
  return out;
}

std::string encode_query(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

bool equal_in_constant_time(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) {
    return false;
  }
  volatile unsigned char different = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    different = static_cast<unsigned char>(different | (left[i] ^ right[i]));
  }
  return different == 0;
}

bool is_own_host(std::string_view host, uint16_t port) {
  return host == fmt::format("127.0.0.1:{}", port) || lower(host) == fmt::format("localhost:{}", port);
}

}  // namespace varve::tools
