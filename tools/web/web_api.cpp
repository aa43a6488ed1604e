#include "tools/web/web_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "tools/plot.h"

namespace varve::tools {
namespace {

using nlohmann::json;

constexpr size_t kMostEntries = 2000;
constexpr size_t kMostKnown = 32;  ///< files whose descriptions are kept
constexpr uint64_t kLongestDescription = uint64_t{256} << 20;
constexpr int kColours = 256;
constexpr std::string_view kBearer = "Bearer ";

HttpResponse json_response(int status, const json& content) {
  HttpResponse response;
  response.status = status;
  response.type = "application/json";
  response.body = content.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

HttpResponse refusal(int status, const std::string& text) { return json_response(status, {{"error", text}}); }

int status_of(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
    case ENODATA:
      return 404;
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return 400;
    case EACCES:
    case EPERM:
      return 403;
    case EFBIG:
      return 413;
    case ESTALE:
    case EAGAIN:
      return 409;
    default:
      return 500;
  }
}

std::string text_of(const HttpRequest& request, std::string_view name) {
  return std::string(request.parameter(name).value_or(""));
}

Result<std::string> read_whole(fs::FileView& file) {
  std::string text;  // virtual files have no size
  for (;;) {
    constexpr size_t kPiece = size_t{1} << 16;
    const size_t at = text.size();
    if (at > kLongestDescription) {
      return Error{EFBIG, "the description of the file is too long"};
    }
    text.resize(at + kPiece);
    VARVE_ASSIGN(const size_t got, file.read(at, std::as_writable_bytes(std::span(text).subspan(at))));
    text.resize(at + got);
    if (got == 0) {
      return text;
    }
  }
}

/// "0.5 NAME" of the lines of user.varve.max_error after the first.
std::optional<double> stated_error(std::string_view text, std::string_view array) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    text.remove_prefix(end + 1);
    const std::string_view line = text.substr(0, text.find('\n'));
    double error = 0;
    const auto [behind, code] = std::from_chars(line.data(), line.data() + line.size(), error);
    const auto used = static_cast<size_t>(behind - line.data());
    if (code == std::errc() && line.substr(std::min(used + 1, line.size())) == array && used < line.size()) {
      return error;
    }
  }
  return std::nullopt;
}

json colours_of(ColourMap map) {
  std::string all;  // three bytes each, in hexadecimal
  for (int i = 0; i < kColours; ++i) {
    const Colour colour = colour_in(map, i / (kColours - 1.0));
    for (const double part : {colour.red, colour.green, colour.blue}) {
      all += fmt::format("{:02x}", static_cast<int>(std::lround(255 * std::clamp(part, 0.0, 1.0))));
    }
  }
  return all;
}

/// Shapes in NumPy's order.
json without_reversed_shapes(json description) {
  for (json& array : description["arrays"]) {
    if (array.value("fortran_order", json()) == json(true) && array["shape"].is_array()) {
      std::ranges::reverse(array["shape"].get_ref<json::array_t&>());
    }
  }
  return description;
}

}  // namespace

struct WebApi::Place {
  Names file;
  Description description;
  const json* facts = nullptr;  ///< of the array, in the description
  std::string name;
};

WebApi::WebApi(std::unique_ptr<ArrayTree> tree, std::string title, std::string token, uint16_t port)
    : tree_(std::move(tree)), title_(std::move(title)), token_(std::move(token)), port_(port) {}

HttpResponse WebApi::answer(const HttpRequest& request, const StillWanted& wanted) {
  if (!is_own_host(request.host, port_)) {
    return refusal(403, fmt::format("this page is at http://127.0.0.1:{0} or http://localhost:{0} alone", port_));
  }
  if (const auto file = page_file(request.path)) {
    HttpResponse response;
    response.type = file->type;
    response.body = file->content;
    return response;
  }
  if (!request.path.starts_with("/api/")) {
    return refusal(404, fmt::format("there is nothing at {}", request.path));
  }
  const std::string_view given = request.authorization;
  if (!given.starts_with(kBearer) || !equal_in_constant_time(given.substr(kBearer.size()), token_)) {
    return refusal(401, "the token is missing or wrong: open the address that varve web printed");
  }
  auto response = answer_data(request, wanted);
  if (response.ok()) {
    return *std::move(response);
  }
  const Error& error = response.error();
  if (error.code == ECANCELED) {
    return {.body = "", .fields = {}, .dropped = true};
  }
  return refusal(status_of(error.code),
                 error.code == EIO ? fmt::format("{}; {}", error.text, tree_->advice()) : error.text);
}

Result<HttpResponse> WebApi::answer_data(const HttpRequest& request, const StillWanted& wanted) {
  if (request.path == "/api/slice") {
    VARVE_ASSIGN(const SliceQuery query, SliceQuery::parse(request));
    if (!wanted()) {
      return Error{ECANCELED, "nobody waits for it"};
    }
    VARVE_ASSIGN(const Place place, place_of(request));
    VARVE_ASSIGN(const ArrayFace face, face_of(place));
    VARVE_ASSIGN(const Slice slice, read_slice(*tree_, place.file, *place.facts, face, query, wanted));
    return encode(slice, query);
  }
  const auto content = [&]() -> Result<json> {
    if (request.path == "/api/about") {
      return about();
    }
    if (request.path == "/api/list") {
      return list(request);
    }
    if (request.path == "/api/file") {
      VARVE_ASSIGN(const Names file, parse_path(text_of(request, "path")));
      VARVE_ASSIGN(const Description description, describe(file));
      return without_reversed_shapes(*description);
    }
    if (request.path == "/api/array") {
      return array(request);
    }
    if (request.path == "/api/level") {
      return level(request);
    }
    return Error{ENOENT, fmt::format("there is nothing at {}", request.path)};
  }();
  if (!content.ok()) {
    return content.error();
  }
  return json_response(200, *content);
}

/// What the file system says of a file; kept as long as the file does not change.
Result<WebApi::Description> WebApi::describe(const Names& file) {
  VARVE_ASSIGN(const std::string version, tree_->version(file));
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(file);
    if (known != known_.end() && known->second.version == version) {
      return known->second.description;
    }
  }
  VARVE_ASSIGN(const auto view, tree_->open(in_view({".varve", "stat"}, file)));
  VARVE_ASSIGN(const std::string text, read_whole(*view));
  auto description = std::make_shared<json>(json::parse(text, nullptr, false));
  if (!description->is_object() || !description->value("arrays", json()).is_array()) {
    return Error{EPROTO, "the file's description makes no sense: are this program and the mount of the same version?"};
  }
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKnown) {
    known_.clear();
  }
  if (description->value("state", json()) == json("sealed")) {  // else it can change and look the same
    known_[file] = {version, description, {}};
  }
  return Description(std::move(description));
}

Result<WebApi::Place> WebApi::place_of(const HttpRequest& request) {
  Place place;
  VARVE_ASSIGN(place.file, parse_path(text_of(request, "path")));
  VARVE_ASSIGN(place.description, describe(place.file));
  place.name = text_of(request, "array");
  place.facts = array_named(*place.description, place.name);
  if (place.facts == nullptr) {
    const json state = place.description->value("state", json());
    return Error{ENOENT, fmt::format("the file has no array \"{}\"{}", place.name,
                                     state == json("staged") ? ": it is being written" : "")};
  }
  return place;
}

Result<ArrayFace> WebApi::face_of(const Place& place) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(place.file);
    if (known != known_.end() && known->second.description == place.description) {
      if (const auto face = known->second.faces.find(place.name); face != known->second.faces.end()) {
        return face->second;
      }
    }
  }
  VARVE_ASSIGN(ArrayFace face, tools::face_of(*tree_, place.file, *place.facts));
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(place.file);
  if (known != known_.end() && known->second.description == place.description) {
    known->second.faces[place.name] = face;
  }
  return face;
}

Result<json> WebApi::about() const {
  return json{
      {"title", title_},
      {"most_points", kMostPoints},
      {"colours", {{"cubehelix", colours_of(ColourMap::cubehelix)}, {"diverging", colours_of(ColourMap::diverging)}}}};
}

Result<json> WebApi::list(const HttpRequest& request) {
  VARVE_ASSIGN(const Names directory, parse_path(text_of(request, "path")));
  VARVE_ASSIGN(const TreeListing listing, tree_->list(directory, text_of(request, "part"), kMostEntries));
  json entries = json::array();
  for (const TreeEntry& entry : listing.entries) {
    // A name need not be UTF-8: `key` stands for it in addresses.
    entries.push_back({{"name", entry.name},
                       {"key", encode_query(entry.name)},
                       {"directory", entry.directory},
                       {"size", entry.size},
                       {"stored", entry.stored}});
  }
  return json{{"entries", std::move(entries)}, {"more", listing.more}};
}

Result<json> WebApi::array(const HttpRequest& request) {
  VARVE_ASSIGN(const Place place, place_of(request));
  VARVE_ASSIGN(const ArrayFace face, face_of(place));
  json axes = json::array();
  for (size_t axis = 0; axis < face.shape.size(); ++axis) {
    axes.push_back(axis_name(axis, face.shape.size()));
  }
  return json{{"shape", face.shape},
              {"axes", std::move(axes)},
              {"complex", face.complex},
              {"dtype", codec::name_of(face.elements.dtype)}};
}

Result<json> WebApi::level(const HttpRequest& request) {
  VARVE_ASSIGN(const Place place, place_of(request));
  const std::string bound = text_of(request, "bound");
  VARVE_ASSIGN(const Names words, parse_path(bound));
  if (words.size() != 1) {
    return Error{EINVAL, "bound: give one, such as rel:1e-2"};
  }
  const json most = place.facts->value("max_error", json());
  auto text = tree_->attribute(in_view({".varve", "bound", bound}, place.file), "user.varve.max_error");
  if (!text.ok() && text.error().code == EIO) {
    return json{{"kept", false}, {"says", fmt::format("{}: stored with larger errors, in this file", bound)}};
  }
  if (!text.ok()) {
    return text.error().code == ENOENT
               ? Error{EINVAL, fmt::format("\"{}\" is no bound: give abs:X, rel:X or a number", bound)}
               : text.error();
  }
  const auto error = stated_error(*text, place.name);
  if (!error || !most.is_array() || most.empty()) {
    return Error{ENODATA, "no errors are stated for the levels of this array"};
  }
  size_t level = 0;
  while (level + 1 < most.size() && most[level + 1].is_number() && most[level + 1].get<double>() <= *error) {
    ++level;
  }
  return json{{"kept", true}, {"level", level}, {"max_error", *error}};
}

}  // namespace varve::tools
