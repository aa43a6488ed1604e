// varve preview: a picture of an array, from as coarse a level as shows it well. In a mount, points of level K are read
// through .varve/level/K, which touches the records of that level and coarser ones alone.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "tools/commands.h"
#include "tools/comparison.h"
#include "tools/file_arrays.h"
#include "tools/mount_point.h"
#include "tools/plot.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

constexpr uint64_t kMostPixels = 512;  // along an axis, if no level is asked for
constexpr int kMostLevels = 30;
constexpr int kMostViews = 8;  // levels for which a mount may have a view

struct Arguments {
  std::string path, original, raw, output;
  std::vector<std::string> slices;
  int level = -1;  ///< -1: chosen
};

/// A file as it was given, PATH[:DATASET].
struct Named {
  std::string path, dataset;
};

Named parse_name(const std::string& text) {
  std::error_code ignored;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text, ignored)) {
    return {text, ""};
  }
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// The array of that name, with or without a slash in front; without a name, the largest, one of floats before others.
Result<const fs::ArrayRegion*> choose(const fs::Recognised& recognised, const Named& named) {
  if (recognised.arrays.empty()) {
    return Error{EINVAL,
                 fmt::format("{} holds no arrays that are known: for raw numbers, say which by --raw", named.path)};
  }
  const fs::ArrayRegion* best = &recognised.arrays[0];
  std::vector<std::string> names;
  for (const fs::ArrayRegion& array : recognised.arrays) {
    if (!named.dataset.empty() && (array.name == named.dataset || array.name == "/" + named.dataset)) {
      return &array;
    }
    const auto rank = [](const fs::ArrayRegion& one) {
      return std::pair(codec::is_float(one.dtype), codec::element_count(one.shape));
    };
    best = rank(array) > rank(*best) ? &array : best;
    names.push_back(array.name.empty() ? "(no name)" : array.name);
  }
  if (named.dataset.empty()) {
    return best;
  }
  constexpr size_t kShown = 20;
  const bool more = names.size() > kShown;
  names.resize(std::min(names.size(), kShown));
  return Error{ENOENT, fmt::format("{} has no array {}: it has {}{}", named.path, named.dataset, fmt::join(names, ", "),
                                   more ? ", ..." : "")};
}

/// What of an array is shown, axis by axis: one index, or all points that are `step` apart.
struct Selection {
  PointGrid grid;
  std::vector<size_t> axes;  ///< that are shown, at most three, slowest first
  uint64_t step = 1;
};

Result<std::pair<size_t, uint64_t>> parse_slice(const std::string& text, const fs::ArrayRegion& array) {
  const size_t rank = array.shape.size();
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  uint64_t index = 0;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (number.empty() || code != std::errc() || end != number.data() + number.size()) {
    return Error{EINVAL, fmt::format("--slice \"{}\" makes no sense: give axis and index, such as z=128", text)};
  }
  std::vector<std::string> known;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (name == axis_name(axis, rank) || name == std::to_string(axis)) {
      return index < array.shape[axis] ? Result<std::pair<size_t, uint64_t>>(std::pair(axis, index))
                                       : Error{EINVAL, fmt::format("--slice {}: axis {} has {} points, from 0", text,
                                                                   name, array.shape[axis])};
    }
    known.push_back(axis_name(axis, rank));
  }
  return Error{EINVAL, fmt::format("--slice {}: the array's axes are {}", text, fmt::join(known, ", "))};
}

Result<Selection> select(const fs::ArrayRegion& array, const Arguments& arguments) {
  const size_t rank = array.shape.size();
  Selection selection;
  selection.grid = every(array, 1);
  std::vector<bool> fixed(rank, false);
  for (const std::string& text : arguments.slices) {
    VARVE_ASSIGN(const auto slice, parse_slice(text, array));
    selection.grid.start[slice.first] = slice.second;
    fixed[slice.first] = true;
  }
  for (size_t axis = rank; axis-- > 0;) {
    if (!fixed[axis] && selection.axes.size() < 3) {
      selection.axes.insert(selection.axes.begin(), axis);
    } else {
      selection.grid.count[axis] = 1;  // leading axes: the first index
    }
  }
  uint64_t longest = 1;
  for (const size_t axis : selection.axes) {
    longest = std::max(longest, array.shape[axis]);
  }
  int level = std::max(arguments.level, 0);
  while (arguments.level < 0 && selection.axes.size() > 1 && (longest >> level) > kMostPixels) {
    ++level;
  }
  selection.step = uint64_t{1} << level;
  for (const size_t axis : selection.axes) {
    selection.grid.count[axis] = (array.shape[axis] + selection.step - 1) / selection.step;
    selection.grid.step[axis] = selection.step;
  }
  return selection;
}

/// The file, or its view of the coarsest level up to `level` that a mount offers.
Result<std::unique_ptr<PlainFile>> open_view(const std::string& path, int level, PlainFile::Access access) {
  const auto mounted = find_mount(path);
  for (; mounted.ok() && level > 0; --level) {
    auto view = PlainFile::open(mounted->control(fmt::format("level/{}/{}", level, mounted->relative)), access);
    if (view.ok()) {
      return view;
    }
  }
  return PlainFile::open(path, access);
}

/// The coarsest level whose view holds all points of the selection as the file does.
int level_with(const Selection& selection) {
  int level = std::countr_zero(selection.step);
  for (const uint64_t start : selection.grid.start) {
    level = start != 0 ? std::min(level, std::countr_zero(start)) : level;  // others would be interpolated
  }
  return level;
}

/// A picture's worth of values: rows along its first axis.
struct Plane {
  std::string title, x_name, y_name;
  std::vector<double> values;
  size_t rows = 0, columns = 0;
  double x_high = 0, y_high = 0;
};

/// Three axes of values to planes: through the middle, and the greatest along the slowest axis.
std::vector<Plane> planes_of(const std::vector<double>& values, const fs::ArrayRegion& array,
                             const Selection& selection) {
  const auto& axes = selection.axes;
  const size_t rank = array.shape.size();
  const auto extent = [&](size_t i) { return static_cast<size_t>(selection.grid.count[axes[i]]); };
  const auto name = [&](size_t i) { return axis_name(axes[i], rank); };
  const auto high = [&](size_t i) { return static_cast<double>(array.shape[axes[i]]); };
  if (axes.size() == 2) {
    return {{"", name(1), name(0), values, extent(0), extent(1), high(1), high(0)}};
  }
  const std::array<size_t, 3> count = {extent(0), extent(1), extent(2)};
  std::vector<Plane> planes;
  for (size_t across = 0; across < 3; ++across) {
    const size_t down = across == 0 ? 1 : 0;
    const size_t right = across == 2 ? 1 : 2;
    const size_t middle = count[across] / 2;
    Plane plane{fmt::format("{} = {}", name(across), middle * selection.step),
                name(right),
                name(down),
                {},
                count[down],
                count[right],
                high(right),
                high(down)};
    for (size_t row = 0; row < plane.rows; ++row) {
      for (size_t column = 0; column < plane.columns; ++column) {
        std::array<size_t, 3> at{};
        at[across] = middle;
        at[down] = row;
        at[right] = column;
        plane.values.push_back(values[(at[0] * count[1] + at[1]) * count[2] + at[2]]);
      }
    }
    planes.push_back(std::move(plane));
  }
  Plane most{fmt::format("greatest along {}", name(0)),
             name(2),
             name(1),
             std::vector<double>(count[1] * count[2], std::numeric_limits<double>::quiet_NaN()),
             count[1],
             count[2],
             high(2),
             high(1)};
  for (size_t i = 0; i < values.size(); ++i) {
    double& greatest = most.values[i % most.values.size()];
    greatest = std::isnan(greatest) || values[i] > greatest ? values[i] : greatest;
  }
  planes.push_back(std::move(most));
  return planes;
}

Picture picture_of(const Plane& plane, const Scale& range, ColourMap map, const std::string& what) {
  return {fmt::format("{}{}{}", what, what.empty() || plane.title.empty() ? "" : ", ", plane.title),
          plane.x_name,
          plane.y_name,
          plane.values,
          plane.columns,
          plane.rows,
          plane.x_high,
          plane.y_high,
          range,
          map};
}

/// Even around 0.
Scale even_scale(std::span<const double> values) {
  double most = 0;
  for (const double value : values) {
    most = std::isfinite(value) ? std::max(most, std::fabs(value)) : most;
  }
  most = most > 0 ? most : 1;
  return {-most, most};
}

struct Shown {
  const fs::ArrayRegion* array = nullptr;
  Selection selection;
  std::vector<double> values;
  std::vector<double> errors;  ///< values - original's; empty: there is no original
  std::string heading;
};

Status draw_line(const Shown& shown, const std::string& path) {
  constexpr double kWidth = 820;
  constexpr double kHeight = 320;
  constexpr double kTop = 30;
  std::vector<double> places;
  for (size_t i = 0; i < shown.values.size(); ++i) {
    places.push_back(static_cast<double>(i * shown.selection.step));
  }
  const bool with_errors = !shown.errors.empty();
  Canvas canvas(static_cast<int>(kWidth), static_cast<int>(kTop + kHeight * (with_errors ? 2 : 1)));
  canvas.text(kWidth / 2, kTop / 2, shown.heading, Anchor::middle, 13);
  const Frame frame{"", "x", "", scale_of(places), scale_of(shown.values)};
  Plot(canvas, {0, kTop, kWidth, kHeight}, frame).lines(places, shown.values, colour_from("#3b6ea5"));
  if (with_errors) {
    const Frame errors{"error", "x", "", scale_of(places), even_scale(shown.errors)};
    Plot(canvas, {0, kTop + kHeight, kWidth, kHeight}, errors).lines(places, shown.errors, colour_from("#c94f4f"));
  }
  return canvas.write(path);
}

Status draw_planes(const Shown& shown, const std::string& path) {
  constexpr double kLongest = 360;
  constexpr double kAround = 62 + 14 + 78;  // room beside the picture, and above and below it
  constexpr double kAbove = 26 + 40;
  constexpr double kTop = 34;
  const std::vector<Plane> planes = planes_of(shown.values, *shown.array, shown.selection);
  const bool with_errors = !shown.errors.empty();
  const std::vector<Plane> errors =
      with_errors ? planes_of(shown.errors, *shown.array, shown.selection) : std::vector<Plane>();
  std::vector<Box> boxes;
  double left = 0;
  double height = 0;
  for (const Plane& plane : planes) {
    const double scale = kLongest / std::max({plane.x_high, plane.y_high, 1.0});
    const Box box{left, kTop, std::max(120.0, plane.x_high * scale) + kAround,
                  std::max(120.0, plane.y_high * scale) + kAbove};
    left += box.width;
    height = std::max(height, box.height);
    boxes.push_back(box);
  }
  // One picture has its error beside it, several have theirs below.
  const bool beside = with_errors && planes.size() == 1;
  const bool below = with_errors && !beside;
  Canvas canvas(static_cast<int>(left * (beside ? 2 : 1)), static_cast<int>(kTop + height * (below ? 2 : 1)));
  canvas.text(canvas.width() / 2.0, kTop / 2, shown.heading, Anchor::middle, 13);
  const Scale spread = scale_of(shown.values);
  constexpr double kTwoSided = 0.25;  // of the longer side, and colours are even around 0
  const bool two_sided = std::min(-spread.low, spread.high) > kTwoSided * std::max(-spread.low, spread.high);
  const Scale range = two_sided ? even_scale(shown.values) : spread;
  const ColourMap map = two_sided ? ColourMap::diverging : ColourMap::cubehelix;
  const Scale error_range = even_scale(shown.errors);
  for (size_t i = 0; i < planes.size(); ++i) {
    draw_picture(canvas, boxes[i], picture_of(planes[i], range, map, ""));
    if (with_errors && i < 3) {  // the greatest error of a column is no picture of it
      const Box box{boxes[i].left + (beside ? left : 0), kTop + (below ? height : 0), boxes[i].width, boxes[i].height};
      draw_picture(canvas, box, picture_of(errors[i], error_range, ColourMap::diverging, "error"));
    }
  }
  return canvas.write(path);
}

/// Version 1.0, double, C order: the shown axes alone.
Status write_npy(const Shown& shown, const std::string& path) {
  std::string shape;
  for (const size_t axis : shown.selection.axes) {
    shape += fmt::format("{}, ", shown.selection.grid.count[axis]);
  }
  std::string header = fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}), }}", shape);
  constexpr size_t kBefore = 10;
  header.append(63 - (kBefore + header.size()) % 64, ' ').append("\n");
  std::ofstream file(path, std::ios::binary);
  const auto length = static_cast<uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8);
  file.put(static_cast<char>(length & 0xff)).put(static_cast<char>(length >> 8));
  file << header;
  for (const double value : shown.values) {
    auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) {
      file.put(static_cast<char>(bits & 0xff));
    }
  }
  file.close();
  return file.good() ? Status() : Status(Error{EIO, fmt::format("cannot write {}", path)});
}

Status check(const Arguments& arguments, const fs::ArrayRegion& array) {
  if (!arguments.output.ends_with(".png") && !arguments.output.ends_with(".npy")) {
    return Error{EINVAL, fmt::format("-o {}: its name must end in .png or .npy", arguments.output)};
  }
  if (array.shape.empty() || codec::element_count(array.shape) == 0) {
    return Error{EINVAL, fmt::format("{} has no points to show", array.name.empty() ? "the array" : array.name)};
  }
  return arguments.level > kMostLevels
             ? Status(Error{EINVAL, fmt::format("--level {}: at most {}", arguments.level, kMostLevels)})
             : Status();
}

/// The same points of the original, taken off. Its array must have the same shape; its bytes may lie elsewhere.
Status take_off_original(const Arguments& arguments, Shown& shown) {
  VARVE_ASSIGN(const auto file, PlainFile::open(arguments.original));
  const std::string dataset = shown.array->name;
  VARVE_ASSIGN(const fs::Recognised recognised,
               arrays_of(*file, {arguments.original, parse_name(arguments.path).path}, arguments.raw, std::nullopt));
  VARVE_ASSIGN(const fs::ArrayRegion* array, choose(recognised, {arguments.original, dataset}));
  if (array->shape != shown.array->shape) {
    return Error{EINVAL, fmt::format("{}: {} has shape {} there, {} here", arguments.original, dataset,
                                     fmt::join(array->shape, " x "), fmt::join(shown.array->shape, " x "))};
  }
  VARVE_ASSIGN(const std::vector<double> original, read_points(*file, *array, shown.selection.grid));
  for (size_t i = 0; i < original.size(); ++i) {
    shown.errors.push_back(shown.values[i] - original[i]);
  }
  return {};
}

std::string heading_of(const Named& named, const Shown& shown) {
  const fs::ArrayRegion& array = *shown.array;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const double value : shown.values) {
    least = std::isfinite(value) ? std::min(least, value) : least;
    most = std::isfinite(value) ? std::max(most, value) : most;
  }
  std::string text = fmt::format(
      "{}{} {}, {}{}", std::filesystem::path(named.path).filename().string(),
      array.name.empty() ? "" : ":" + array.name, codec::name_of(array.dtype), fmt::join(array.shape, " x "),
      shown.selection.step == 1 ? "" : fmt::format(" at level {}", std::countr_zero(shown.selection.step)));
  for (size_t axis = 0; axis < array.shape.size(); ++axis) {
    const bool is_shown = std::ranges::find(shown.selection.axes, axis) != shown.selection.axes.end();
    text +=
        is_shown ? "" : fmt::format(", {} = {}", axis_name(axis, array.shape.size()), shown.selection.grid.start[axis]);
  }
  return text + (least <= most ? fmt::format(", {:g} to {:g}", least, most) : ", no finite values");
}

Status preview(Arguments arguments) {
  const Named named = parse_name(arguments.path);
  if (arguments.output.empty()) {
    arguments.output = std::filesystem::path(named.path).filename().string() + ".png";
  }
  VARVE_ASSIGN(const auto description, describe_if_mounted(named.path));
  // Outside of arrays all views are alike: where the arrays are can be learned from the coarsest.
  VARVE_ASSIGN(const auto outline, open_view(named.path, kMostViews, PlainFile::Access::scattered));
  VARVE_ASSIGN(const fs::Recognised recognised, arrays_of(*outline, {named.path}, arguments.raw, description));
  Shown shown;
  VARVE_ASSIGN(shown.array, choose(recognised, named));
  VARVE_TRY(check(arguments, *shown.array));
  VARVE_ASSIGN(shown.selection, select(*shown.array, arguments));
  if (shown.selection.axes.empty()) {
    return Error{EINVAL, "--slice leaves no axis to show: fix fewer"};
  }
  const auto access = shown.selection.step > 1 ? PlainFile::Access::scattered : PlainFile::Access::sequential;
  VARVE_ASSIGN(const auto view, open_view(named.path, level_with(shown.selection), access));
  VARVE_ASSIGN(shown.values, read_points(*view, *shown.array, shown.selection.grid));
  if (!arguments.original.empty()) {
    VARVE_TRY(take_off_original(arguments, shown));
  }
  shown.heading = heading_of(named, shown);
  if (arguments.output.ends_with(".npy")) {
    VARVE_TRY(write_npy(shown, arguments.output));
  } else {
    VARVE_TRY(shown.selection.axes.size() == 1 ? draw_line(shown, arguments.output)
                                               : draw_planes(shown, arguments.output));
  }
  fmt::print("{}\n{}\n", shown.heading, arguments.output);
  return {};
}

}  // namespace

void add_preview(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("preview", "A picture of an array, from coarse levels");
  command->footer(
      "Examples:\n"
      "  varve preview ~/data/run.h5:/density -o density.png\n"
      "  varve preview ~/data/run.h5:/density --slice z=128 --level 0 --original run.h5 -o slice.png\n"
      "  varve preview ~/data/run.h5 --level 3 -o coarse.npy     each 8th point, for programs\n"
      "Axes: x is the last, before it y, z, t; or numbers from 0. Of three axes, three slices through the middle and "
      "the\n"
      "greatest values along z are shown; of more, the first index of the leading ones. What is missing is grey.");
  command->add_option("PATH", arguments->path, "FILE or FILE:DATASET; without, the largest array")->required();
  command->add_option("--level", arguments->level, "Each 2^K-th point an axis; default: so that 512 or fewer are left")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--slice", arguments->slices, "AXIS=INDEX, as often as there are axes to fix");
  command->add_option("--original", arguments->original, "The file as it was: shows the error, too");
  command->add_option("--raw", arguments->raw, "Read as raw numbers: TYPE:SHAPE[:be]");
  command->add_option("-o,--output", arguments->output, "A .png or .npy file; default: FILE.png, here");
  command->callback([arguments, &status] { status = finish(preview(*arguments)); });
}

}  // namespace varve::tools
