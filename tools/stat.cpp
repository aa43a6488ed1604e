// varve stat: what files in a mount hold and take.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/description.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

using nlohmann::json;

/// A field of a description, or what stands for it when it is absent or of another type.
template <typename T>
T field(const json& object, const char* name, T otherwise) {
  const auto it = object.find(name);
  if (it == object.end()) {
    return otherwise;
  }
  if constexpr (std::is_same_v<T, std::string>) {
    return it->is_string() ? it->template get<std::string>() : otherwise;
  } else if constexpr (std::is_floating_point_v<T>) {
    return it->is_number() ? it->template get<T>() : otherwise;
  } else {
    return it->is_number_unsigned() ? it->template get<T>() : otherwise;
  }
}

std::string ratio(uint64_t size, uint64_t stored) {
  return stored == 0 ? std::string("-")
                     : fmt::format("{:.2f}x", static_cast<double>(size) / static_cast<double>(stored));
}

std::string shape_of(const json& array, const char* name) {
  std::vector<uint64_t> extents;
  const auto it = array.find(name);
  if (it != array.end() && it->is_array()) {
    for (const json& extent : *it) {
      extents.push_back(extent.is_number_unsigned() ? extent.get<uint64_t>() : 0);
    }
  }
  return extents.empty() ? std::string("scalar") : fmt::format("{}", fmt::join(extents, " x "));
}

void print_array(const json& array) {
  const auto name = field<std::string>(array, "name", "");
  const auto size = field<uint64_t>(array, "size", 0);
  const auto stored = field<uint64_t>(array, "stored", 0);
  std::string shape = shape_of(array, "shape");
  if (array.contains("chunk_shape") && array.contains("shape") && array["chunk_shape"] != array["shape"]) {
    shape += fmt::format(" in chunks of {}", shape_of(array, "chunk_shape"));
  }
  fmt::print("  {}  {} {}{}{}\n", name.empty() ? "(the array)" : name, field<std::string>(array, "dtype", "?"), shape,
             field<std::string>(array, "byte_order", "little") == "big" ? ", big-endian" : "",
             array.value("fortran_order", json(false)) == json(true) ? ", Fortran order" : "");
  const auto bound = field<std::string>(array, "bound", "lossless");
  const auto absolute = field<double>(array, "absolute_bound", 0);
  const bool tells_itself = bound.starts_with("abs:") && bound.find('+') == std::string::npos;
  const bool of_each = bound.starts_with("pwrel:") || bound.starts_with("bits:");
  fmt::print("      bound {}{}", bound,
             absolute > 0 && !tells_itself
                 ? fmt::format(" ({} value within {:g})", of_each ? "the largest" : "each", absolute)
                 : std::string());
  const auto why = field<std::string>(array, "why", "");
  fmt::print("{}\n", why.empty() ? "" : ": " + why);
  const auto method = field<std::string>(array, "method", "");
  fmt::print("      {} stored as {}, {}{}\n", human_size(size), human_size(stored), ratio(size, stored),
             method.empty() ? "" : ", " + method);
  if (const auto filters = array.find("filters"); filters != array.end() && filters->is_array() && !filters->empty()) {
    std::vector<std::string> names;
    for (const json& filter : *filters) {
      names.push_back(filter.is_string() ? filter.get<std::string>() : "?");
    }
    const auto in_file = field<uint64_t>(array, "in_file", 0);
    fmt::print("      filtered in the file by {}: {} there, {}\n", fmt::join(names, ", "), human_size(in_file),
               ratio(in_file, stored));
  }
  if (const auto levels = array.find("levels"); levels != array.end() && levels->is_object() && !levels->empty()) {
    std::vector<std::string> parts;
    for (auto it = levels->rbegin(); it != levels->rend(); ++it) {  // coarse first
      parts.push_back(fmt::format("{}: {}", it.key(),
                                  it->is_number_unsigned() ? human_size(it->get<uint64_t>()) : std::string("?")));
    }
    fmt::print("      levels, coarse first: {}\n", fmt::join(parts, ", "));
  }
  if (const auto warning = field<std::string>(array, "warning", ""); !warning.empty()) {
    fmt::print("      warning: {}\n", warning);
  }
}

void print_file(const std::string& path, const json& file) {
  const auto size = field<uint64_t>(file, "size", 0);
  const auto stored = field<uint64_t>(file, "stored", 0);
  const auto format = field<std::string>(file, "format", "");
  fmt::print("{}: {} stored as {}, {}, {}{}\n", path, human_size(size), human_size(stored), ratio(size, stored),
             field<std::string>(file, "state", "?"), format.empty() ? "" : ", " + format);
  if (const auto policy = field<std::string>(file, "policy", ""); !policy.empty()) {
    fmt::print("  policy: {}\n", policy);
  }
  if (const auto note = field<std::string>(file, "note", ""); !note.empty()) {
    fmt::print("  note: {}\n", note);
  }
  for (const json& array : file.value("arrays", json::array())) {
    print_array(array);
  }
  for (const auto& [key, text] : {std::pair("bytes", "outside arrays"), std::pair("patches", "rewritten parts")}) {
    const json part = file.value(key, json::object());
    if (part.is_object() && field<uint64_t>(part, "size", 0) > 0) {
      fmt::print("  {}: {} stored as {}\n", text, human_size(field<uint64_t>(part, "size", 0)),
                 human_size(field<uint64_t>(part, "stored", 0)));
    }
  }
}

/// The regular files that a path stands for: itself, or those below a directory.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code problem;
  if (!std::filesystem::is_directory(path, problem)) {
    return std::vector<std::string>{path};
  }
  VARVE_TRY(find_mount(path));
  std::vector<std::string> files;
  for (std::filesystem::recursive_directory_iterator it(path, problem), end; !problem && it != end;
       it.increment(problem)) {
    std::error_code unreadable;
    if (it.depth() == 0 && it->path().filename() == ".varve") {
      it.disable_recursion_pending();
    } else if (it->symlink_status(unreadable).type() == std::filesystem::file_type::regular) {
      files.push_back(it->path().string());
    }
  }
  if (problem) {
    return Error{problem.value(), fmt::format("cannot list {}: {}", path, problem.message())};
  }
  std::ranges::sort(files);
  return files;
}

int run(const std::vector<std::string>& paths, bool as_json) {
  int status = kDone;
  json all = json::array();
  uint64_t size = 0;
  uint64_t stored = 0;
  size_t count = 0;
  for (const std::string& path : paths) {
    const auto files = files_of(path);
    if (!files.ok()) {
      status = fail(files.error());
      continue;
    }
    for (const std::string& file : *files) {
      auto description = describe(file);
      if (!description.ok()) {
        status = fail(description.error());
        continue;
      }
      ++count;
      size += field<uint64_t>(*description, "size", 0);
      stored += field<uint64_t>(*description, "stored", 0);
      if (as_json) {
        all.push_back(*std::move(description));
      } else {
        print_file(file, *description);
      }
    }
  }
  if (as_json) {
    fmt::print("{}\n", paths.size() == 1 && all.size() == 1 ? all[0].dump(2) : all.dump(2));
  } else if (count > 1) {
    fmt::print("{} files: {} stored as {}, {}\n", count, human_size(size), human_size(stored), ratio(size, stored));
  }
  return status;
}

}  // namespace

void add_stat(CLI::App& app, int& status) {
  struct Arguments {
    std::vector<std::string> paths;
    bool as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("stat", "Show what files in a mount hold and take: arrays, bounds, ratios");
  command->footer(
      "Examples:\n"
      "  varve stat ~/data/run7.h5\n"
      "  varve stat ~/data                     all files below, and their sum\n"
      "  varve stat --json ~/data/run7.h5      one object; of several files, an array of them");
  command->add_option("PATH", arguments->paths, "Files or directories inside a mount")->required();
  command->add_flag("--json", arguments->as_json, "For programs");
  command->callback([arguments, &status] { status = run(arguments->paths, arguments->as_json); });
}

}  // namespace varve::tools
