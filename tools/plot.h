// Plots as PNG files, drawn with cairo: a canvas, axes with ticks, bars with error bars, lines, pictures of arrays.
//
// Lengths are pixels from the canvas's upper left corner. Not thread-safe. Without fonts on the system texts are left
// out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"

namespace varve::tools {

struct Colour {
  double red = 0, green = 0, blue = 0;  ///< 0 to 1
  bool operator==(const Colour&) const = default;
};
inline constexpr Colour kBlack{0, 0, 0};
inline constexpr Colour kGrey{0.6, 0.6, 0.6};

/// "#rrggbb"; black for anything else.
Colour colour_from(std::string_view hex);
/// A colour between two.
Colour blend(const Colour& from, const Colour& to, double share);

struct Box {
  double left = 0, top = 0, width = 0, height = 0;
};

enum class Anchor : uint8_t { start, middle, end };

class Canvas {
 public:
  /// White.
  Canvas(int width, int height);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  int width() const;
  int height() const;
  void fill(const Box& box, const Colour& colour);
  void outline(const Box& box, const Colour& colour);
  void line(double x0, double y0, double x1, double y1, const Colour& colour, double thickness = 1);
  /// `x` and `y` have one length; nothing is drawn from and to points that are not finite, nor outside of `clip`.
  void path(std::span<const double> x, std::span<const double> y, const Colour& colour, const Box& clip);
  /// `y` is the middle of the text's height. `upwards`: read from below, `x` and `anchor` are along the text then.
  void text(double x, double y, const std::string& text, Anchor anchor, double size = 12, bool upwards = false);
  double text_width(const std::string& text, double size = 12) const;
  /// `pixels`: rows of `columns`, the first row on top; without smoothing when enlarged.
  void picture(const Box& box, std::span<const Colour> pixels, int columns);

  Colour pixel(int x, int y) const;
  /// The PNG file's bytes.
  Result<std::string> png() const;
  Status write(const std::string& path) const;

 private:
  struct Drawing;
  std::unique_ptr<Drawing> drawing_;
};

/// The numbers along an axis.
struct Scale {
  double low = 0, high = 1;
  bool logarithmic = false;  ///< then `low` is above 0
  /// 0 at `low`, 1 at `high`, clamped; NaN for what is not finite.
  double share(double value) const;
  /// Round numbers within, about `wanted` of them (decades, if logarithmic).
  std::vector<double> ticks(int wanted) const;
};

/// From the least to the greatest finite value (above 0 if logarithmic), made wider where there is but one.
Scale scale_of(std::span<const double> values, bool logarithmic = false);

struct Frame {
  std::string title, x_label, y_label;
  Scale x, y;
  bool x_ticks = true, y_ticks = true;
  double left = 62;  ///< room for ticks and label
};

/// A plot's area with axes; points are given in the frame's numbers. y grows upwards.
class Plot {
 public:
  /// Draws frame, ticks, labels and title within `outer`.
  Plot(Canvas& canvas, const Box& outer, const Frame& frame);

  const Box& area() const { return area_; }
  double x_at(double x) const;
  double y_at(double y) const;
  void bar(double x0, double x1, double y0, double y1, const Colour& colour);
  void error_bar(double x, double low, double high);
  void lines(std::span<const double> x, std::span<const double> y, const Colour& colour);

 private:
  Canvas& canvas_;
  Frame frame_;
  Box area_;
};

struct LegendEntry {
  std::string name;
  Colour colour;
};
/// In one line from (x, y) to the right.
void draw_legend(Canvas& canvas, double x, double y, std::span<const LegendEntry> entries);

enum class ColourMap : uint8_t {
  cubehelix,  ///< lightness grows evenly (Green, Bull. Astr. Soc. India 39, 289, 2011)
  diverging,  ///< blue, white in the middle, red
};
Colour colour_in(ColourMap map, double share);

/// A slice of an array: `rows` of `columns` values; the first is drawn at the bottom left. Not finite: grey.
struct Picture {
  std::string title, x_label, y_label;
  std::vector<double> values;
  size_t columns = 0, rows = 0;
  double x_high = 0, y_high = 0;  ///< what the axes end at, from 0; 0: columns and rows
  Scale range;
  ColourMap map = ColourMap::cubehelix;
};
/// With axes and a colour bar on the right.
void draw_picture(Canvas& canvas, const Box& outer, const Picture& picture);

/// For an <img src> in a page that needs no other file.
std::string data_address(const std::string& png);

}  // namespace varve::tools
