// The head of an HTTP request, as strangers send it.
#include "tools/web/http_request.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace varve::tools {
namespace {

/// An input that breaks a promise ends the program.
void must(bool holds, const char* promise) {
  if (!holds) {
    std::fprintf(stderr, "broken: %s\n", promise);
    std::abort();
  }
}

void check_request(const HttpRequest& request, std::string_view head) {
  must(head.starts_with("GET /"), "what is taken is a GET of a path");
  must(request.path.starts_with('/') && request.path.find('?') == std::string::npos, "a path has no query");
  must(std::ranges::all_of(request.path, [](char c) { return c > ' ' && c < '\x7f'; }), "a path is visible text");
  std::set<std::string> names;
  for (const auto& [name, value] : request.query) {
    must(names.insert(name).second, "no parameter comes twice");
    must(request.parameter(name) == value, "a parameter is found by its name");
  }
  for (const std::string& field : {request.host, request.authorization}) {
    must(field.find_first_of("\r\n") == std::string::npos, "a field is one line");
  }
}

}  // namespace
}  // namespace varve::tools

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve::tools;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  must(decode_query(encode_query(text)) == text, "encoded text decodes to itself");
  const size_t length = head_length(text);
  must(length <= size, "a head is not longer than what was sent");
  const ParsedHead parsed = parse_head(text.substr(0, length));
  must((parsed.status == 200) == parsed.problem.empty(), "a refusal has a sentence, and nothing else has");
  must(parsed.status == 200 || (parsed.status >= 400 && parsed.status < 600), "a refusal has a status");
  if (parsed.status == 200) {
    must(length > 0 && text.substr(0, length).ends_with("\r\n\r\n"), "a head that is taken is whole");
    check_request(parsed.request, text.substr(0, length));
  }
  return 0;
}
