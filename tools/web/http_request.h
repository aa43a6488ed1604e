// The head of an HTTP/1.1 request, parsed from what a stranger sent. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varve::tools {

/// Bytes of a head at most, and header fields.
inline constexpr size_t kLongestHead = 16384;
inline constexpr size_t kMostFields = 100;

struct HttpRequest {
  std::string path;                                        ///< as sent, "/..." without the query
  std::vector<std::pair<std::string, std::string>> query;  ///< decoded; no name comes twice
  std::string host;                                        ///< "" in HTTP/1.0 without one
  std::string authorization;                               ///< "" without one
  bool keep_alive = true;

  /// Nothing: no such parameter.
  std::optional<std::string_view> parameter(std::string_view name) const;
};

struct ParsedHead {
  int status = 200;     ///< else the HTTP status to refuse the request with
  std::string problem;  ///< a sentence, if refused
  HttpRequest request;
};

/// Bytes of the head at the start of `text`, its empty line included; 0: it is not whole yet.
size_t head_length(std::string_view text);

/// A whole head. Refused: methods other than GET, bodies, versions other than 1.0 and 1.1, whatever is malformed.
ParsedHead parse_head(std::string_view head);

/// "%41+b" -> "Ab": of a query. Nothing: '%' without two hexadecimal digits.
std::optional<std::string> decode_query(std::string_view text);
/// All but letters, digits and "-._~" as %XX.
std::string encode_query(std::string_view text);

/// Takes as long whatever the two differ in; their lengths are no secret.
bool equal_in_constant_time(std::string_view left, std::string_view right);

/// Whether a Host field names the server itself: 127.0.0.1:PORT or localhost:PORT. A page of another name that
/// resolves to 127.0.0.1 sends its own.
bool is_own_host(std::string_view host, uint16_t port);

}  // namespace varve::tools
