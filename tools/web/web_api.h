// What the page of `varve web` asks for, as answers to HTTP requests.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/web/array_slice.h"

namespace varve::tools {

/// Thread-safe.
class WebApi {
 public:
  /// `title`: what is shown, for people. `token`: what requests for data must bring along.
  WebApi(std::unique_ptr<ArrayTree> tree, std::string title, std::string token, uint16_t port);

  /// The files of the page to anybody who asks under the server's own name; to those who have the token,
  ///   /api/about                          what is shown; colours of the maps
  ///   /api/list?path=&part=               entries of a directory
  ///   /api/file?path=                     a file's description, see .varve/stat/
  ///   /api/array?path=&array=             shape and type
  ///   /api/level?path=&array=&bound=      the coarsest level that keeps a bound, or that none does
  ///   /api/slice?path=&array=&...         see SliceQuery::parse
  HttpResponse answer(const HttpRequest& request, const StillWanted& wanted);

 private:
  using Description = std::shared_ptr<const nlohmann::json>;
  struct Known {
    std::string version;
    Description description;
    std::map<std::string, ArrayFace> faces;  ///< by array
  };
  struct Place;  ///< the file and the array that a request names

  Result<HttpResponse> answer_data(const HttpRequest& request, const StillWanted& wanted);
  Result<Description> describe(const Names& file);
  Result<Place> place_of(const HttpRequest& request);
  Result<ArrayFace> face_of(const Place& place);
  Result<nlohmann::json> about() const;
  Result<nlohmann::json> list(const HttpRequest& request);
  Result<nlohmann::json> array(const HttpRequest& request);
  Result<nlohmann::json> level(const HttpRequest& request);

  const std::unique_ptr<ArrayTree> tree_;
  const std::string title_, token_;
  const uint16_t port_;
  std::mutex mutex_;
  std::map<Names, Known> known_;  ///< what was asked for lately
};

/// A file of the page by its path; nothing: there is no such one.
struct PageFile {
  std::string_view type, content;
};
std::optional<PageFile> page_file(std::string_view path);

}  // namespace varve::tools
