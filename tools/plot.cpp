#include "tools/plot.h"

#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <numbers>

namespace varve::tools {
namespace {

constexpr const char* kFont = "DejaVu Sans";
constexpr double kTickLength = 4;
constexpr double kSmall = 11;

cairo_status_t append(void* closure, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

uint32_t packed(const Colour& colour) {
  const auto part = [](double value) { return static_cast<uint32_t>(std::lround(255 * std::clamp(value, 0.0, 1.0))); };
  return part(colour.red) << 16 | part(colour.green) << 8 | part(colour.blue);
}

/// As short as tells neighbouring ticks apart.
std::string tick_text(double value) { return fmt::format("{:g}", std::fabs(value) < 1e-300 ? 0.0 : value); }

}  // namespace

Colour colour_from(std::string_view hex) {
  std::array<double, 3> parts{};
  for (size_t i = 0; i < 3 && hex.size() == 7; ++i) {
    unsigned value = 0;
    std::from_chars(hex.data() + 1 + 2 * i, hex.data() + 3 + 2 * i, value, 16);
    parts[i] = value / 255.0;
  }
  return {parts[0], parts[1], parts[2]};
}

Colour blend(const Colour& from, const Colour& to, double share) {
  const auto between = [share](double a, double b) { return a + (b - a) * share; };
  return {between(from.red, to.red), between(from.green, to.green), between(from.blue, to.blue)};
}

struct Canvas::Drawing {
  cairo_surface_t* surface;
  cairo_t* context;

  Drawing(int width, int height)
      : surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height)), context(cairo_create(surface)) {}
  ~Drawing() {
    cairo_destroy(context);
    cairo_surface_destroy(surface);
  }
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;
  void use(const Colour& colour) const { cairo_set_source_rgb(context, colour.red, colour.green, colour.blue); }
  void use_font(double size) const {
    cairo_select_font_face(context, kFont, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(context, size);
  }
};

Canvas::Canvas(int width, int height) : drawing_(std::make_unique<Drawing>(width, height)) {
  fill({0, 0, static_cast<double>(width), static_cast<double>(height)}, {1, 1, 1});
}

Canvas::~Canvas() = default;

int Canvas::width() const { return cairo_image_surface_get_width(drawing_->surface); }

int Canvas::height() const { return cairo_image_surface_get_height(drawing_->surface); }

void Canvas::fill(const Box& box, const Colour& colour) {
  drawing_->use(colour);
  cairo_rectangle(drawing_->context, box.left, box.top, box.width, box.height);
  cairo_fill(drawing_->context);
}

void Canvas::outline(const Box& box, const Colour& colour) {
  drawing_->use(colour);
  cairo_set_line_width(drawing_->context, 1);
  cairo_rectangle(drawing_->context, std::floor(box.left) + 0.5, std::floor(box.top) + 0.5, std::round(box.width),
                  std::round(box.height));
  cairo_stroke(drawing_->context);
}

void Canvas::line(double x0, double y0, double x1, double y1, const Colour& colour, double thickness) {
  drawing_->use(colour);
  cairo_set_line_width(drawing_->context, thickness);
  cairo_move_to(drawing_->context, std::floor(x0) + 0.5, std::floor(y0) + 0.5);
  cairo_line_to(drawing_->context, std::floor(x1) + 0.5, std::floor(y1) + 0.5);
  cairo_stroke(drawing_->context);
}

void Canvas::path(std::span<const double> x, std::span<const double> y, const Colour& colour, const Box& clip) {
  cairo_t* context = drawing_->context;
  cairo_save(context);
  cairo_rectangle(context, clip.left, clip.top, clip.width, clip.height);
  cairo_clip(context);
  drawing_->use(colour);
  cairo_set_line_width(context, 1.5);
  bool drawing = false;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool finite = std::isfinite(x[i]) && std::isfinite(y[i]);
    if (finite) {
      (drawing ? cairo_line_to : cairo_move_to)(context, x[i], y[i]);
    }
    drawing = finite;
  }
  cairo_stroke(context);
  cairo_restore(context);
}

void Canvas::text(double x, double y, const std::string& text, Anchor anchor, double size, bool upwards) {
  cairo_t* context = drawing_->context;
  cairo_save(context);
  drawing_->use_font(size);
  drawing_->use(kBlack);
  cairo_translate(context, x, y);
  if (upwards) {
    cairo_rotate(context, -std::numbers::pi / 2);
  }
  const double width = text_width(text, size);
  const double shift = anchor == Anchor::start ? 0 : anchor == Anchor::middle ? -width / 2 : -width;
  cairo_move_to(context, shift, 0.36 * size);
  cairo_show_text(context, text.c_str());
  cairo_restore(context);
}

double Canvas::text_width(const std::string& text, double size) const {
  cairo_text_extents_t extents;
  drawing_->use_font(size);
  cairo_text_extents(drawing_->context, text.c_str(), &extents);
  return extents.x_advance;
}

void Canvas::picture(const Box& box, std::span<const Colour> pixels, int columns) {
  const int rows = columns > 0 ? static_cast<int>(pixels.size()) / columns : 0;
  if (rows == 0) {
    return;
  }
  cairo_surface_t* source = cairo_image_surface_create(CAIRO_FORMAT_RGB24, columns, rows);
  unsigned char* data = cairo_image_surface_get_data(source);
  const int stride = cairo_image_surface_get_stride(source);
  for (int row = 0; row < rows; ++row) {
    auto* line = reinterpret_cast<uint32_t*>(data + static_cast<ptrdiff_t>(row) * stride);
    for (int column = 0; column < columns; ++column) {
      line[column] = packed(pixels[static_cast<size_t>(row) * static_cast<size_t>(columns) + column]);
    }
  }
  cairo_surface_mark_dirty(source);
  cairo_t* context = drawing_->context;
  cairo_save(context);
  cairo_translate(context, box.left, box.top);
  cairo_scale(context, box.width / columns, box.height / rows);
  cairo_set_source_surface(context, source, 0, 0);
  const bool larger = box.width >= columns && box.height >= rows;
  cairo_pattern_set_filter(cairo_get_source(context), larger ? CAIRO_FILTER_NEAREST : CAIRO_FILTER_GOOD);
  cairo_pattern_set_extend(cairo_get_source(context), CAIRO_EXTEND_PAD);
  cairo_rectangle(context, 0, 0, columns, rows);
  cairo_fill(context);
  cairo_restore(context);
  cairo_surface_destroy(source);
}

Colour Canvas::pixel(int x, int y) const {
  if (x < 0 || y < 0 || x >= width() || y >= height()) {
    return {1, 1, 1};
  }
  cairo_surface_flush(drawing_->surface);
  const unsigned char* row = cairo_image_surface_get_data(drawing_->surface) +
                             static_cast<ptrdiff_t>(y) * cairo_image_surface_get_stride(drawing_->surface);
  const uint32_t bits = reinterpret_cast<const uint32_t*>(row)[x];
  return {(bits >> 16 & 0xff) / 255.0, (bits >> 8 & 0xff) / 255.0, (bits & 0xff) / 255.0};
}

Result<std::string> Canvas::png() const {
  std::string bytes;
  const cairo_status_t code = cairo_surface_write_to_png_stream(drawing_->surface, append, &bytes);
  if (code != CAIRO_STATUS_SUCCESS) {
    return Error{
        code == CAIRO_STATUS_NO_MEMORY ? ENOMEM : EINVAL,
        fmt::format("cannot draw a plot of {} x {} pixels: {}", width(), height(), cairo_status_to_string(code))};
  }
  return bytes;
}

Status Canvas::write(const std::string& path) const {
  VARVE_ASSIGN(const std::string bytes, png());
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file.good() ? Status() : Status(Error{EIO, fmt::format("cannot write {}", path)});
}

double Scale::share(double value) const {
  const auto place = [this](double x) { return logarithmic ? std::log10(std::max(x, 1e-300)) : x; };
  const double span = place(high) - place(low);
  const double at = span > 0 ? (place(value) - place(low)) / span : 0.5;
  return std::isfinite(value) ? std::clamp(at, 0.0, 1.0) : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> Scale::ticks(int wanted) const {
  std::vector<double> found;
  if (!std::isfinite(low) || !std::isfinite(high) || !(high > low) || wanted < 1) {
    return found;
  }
  if (logarithmic) {
    const double first = std::ceil(std::log10(low) - 1e-9);
    const double last = std::floor(std::log10(high) + 1e-9);
    const double step = std::max(1.0, std::ceil((last - first) / wanted));
    for (double power = first; power <= last; power += step) {
      found.push_back(std::pow(10.0, power));
    }
    return found;
  }
  const double rough = (high - low) / wanted;
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  const double lead = rough / decade;
  const double step = decade * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
  const double first = std::ceil(low / step - 1e-9);
  for (double i = first; i * step <= high + 1e-9 * step && found.size() < 100; ++i) {
    found.push_back(i * step);
  }
  return found;
}

Scale scale_of(std::span<const double> values, bool logarithmic) {
  Scale scale{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), logarithmic};
  for (const double value : values) {
    if (std::isfinite(value) && (!logarithmic || value > 0)) {
      scale.low = std::min(scale.low, value);
      scale.high = std::max(scale.high, value);
    }
  }
  if (scale.low > scale.high) {
    return {logarithmic ? 0.1 : 0.0, 1, logarithmic};
  }
  if (scale.low == scale.high) {
    const double room = scale.low != 0 ? std::fabs(scale.low) * 0.5 : 0.5;
    scale.low -= room;
    scale.high += room;
  }
  return scale;
}

Plot::Plot(Canvas& canvas, const Box& outer, const Frame& frame) : canvas_(canvas), frame_(frame) {
  constexpr double kTop = 26;
  constexpr double kBelow = 40;
  constexpr double kRight = 14;
  area_ = {outer.left + frame.left, outer.top + kTop, outer.width - frame.left - kRight, outer.height - kTop - kBelow};
  canvas_.text(area_.left + area_.width / 2, outer.top + kTop / 2, frame.title, Anchor::middle, 13);
  const double bottom = area_.top + area_.height;
  if (frame.x_ticks) {
    for (const double tick : frame.x.ticks(std::max(2, static_cast<int>(area_.width / 75)))) {
      canvas_.line(x_at(tick), bottom, x_at(tick), bottom + kTickLength, kBlack);
      canvas_.text(x_at(tick), bottom + 12, tick_text(tick), Anchor::middle, kSmall);
    }
  }
  if (frame.y_ticks) {
    for (const double tick : frame.y.ticks(std::max(2, static_cast<int>(area_.height / 40)))) {
      canvas_.line(area_.left - kTickLength, y_at(tick), area_.left, y_at(tick), kBlack);
      canvas_.text(area_.left - kTickLength - 3, y_at(tick), tick_text(tick), Anchor::end, kSmall);
    }
  }
  canvas_.text(area_.left + area_.width / 2, outer.top + outer.height - 10, frame.x_label, Anchor::middle);
  canvas_.text(outer.left + 10, area_.top + area_.height / 2, frame.y_label, Anchor::middle, 12, true);
  canvas_.outline(area_, kBlack);
}

double Plot::x_at(double x) const { return area_.left + frame_.x.share(x) * area_.width; }

double Plot::y_at(double y) const { return area_.top + area_.height * (1 - frame_.y.share(y)); }

void Plot::bar(double x0, double x1, double y0, double y1, const Colour& colour) {
  const double top = y_at(y1);
  canvas_.fill({x_at(x0), top, x_at(x1) - x_at(x0), y_at(y0) - top}, colour);
}

void Plot::error_bar(double x, double low, double high) {
  constexpr double kCap = 3;
  const double at = x_at(x);
  canvas_.line(at, y_at(low), at, y_at(high), kBlack);
  for (const double end : {y_at(low), y_at(high)}) {
    canvas_.line(at - kCap, end, at + kCap, end, kBlack);
  }
}

void Plot::lines(std::span<const double> x, std::span<const double> y, const Colour& colour) {
  std::vector<double> across;
  std::vector<double> up;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const bool shown = !frame_.y.logarithmic || y[i] > 0;
    across.push_back(x_at(x[i]));
    up.push_back(shown ? y_at(y[i]) : std::numeric_limits<double>::quiet_NaN());
  }
  canvas_.path(across, up, colour, area_);
}

void draw_legend(Canvas& canvas, double x, double y, std::span<const LegendEntry> entries) {
  constexpr double kSide = 11;
  for (const LegendEntry& entry : entries) {
    canvas.fill({x, y - kSide / 2, kSide, kSide}, entry.colour);
    canvas.text(x + kSide + 5, y, entry.name, Anchor::start, kSmall);
    x += kSide + 5 + canvas.text_width(entry.name, kSmall) + 18;
  }
}

Colour colour_in(ColourMap map, double share) {
  share = std::clamp(share, 0.0, 1.0);
  if (map == ColourMap::diverging) {
    const Colour end = share < 0.5 ? colour_from("#2b5fa8") : colour_from("#b3352f");
    return blend({1, 1, 1}, end, std::fabs(2 * share - 1));
  }
  // A helix around the grey diagonal of the RGB cube, in a plane of equal perceived lightness.
  constexpr double kStart = 0.3;
  constexpr double kRotations = -0.6;
  constexpr double kHue = 1.2;
  const double angle = 2 * std::numbers::pi * (kStart / 3 + 1 + kRotations * share);
  const double radius = kHue * share * (1 - share) / 2;
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  return {std::clamp(share + radius * (-0.14861 * c + 1.78277 * s), 0.0, 1.0),
          std::clamp(share + radius * (-0.29227 * c - 0.90649 * s), 0.0, 1.0),
          std::clamp(share + radius * (1.97294 * c), 0.0, 1.0)};
}

void draw_picture(Canvas& canvas, const Box& outer, const Picture& picture) {
  constexpr double kBar = 78;
  Frame frame{picture.title, picture.x_label, picture.y_label, {}, {}};
  frame.x.high = picture.x_high > 0 ? picture.x_high : static_cast<double>(picture.columns);
  frame.y.high = picture.y_high > 0 ? picture.y_high : static_cast<double>(picture.rows);
  const Plot plot(canvas, {outer.left, outer.top, outer.width - kBar, outer.height}, frame);
  std::vector<Colour> pixels;
  pixels.reserve(picture.values.size());
  for (size_t row = picture.rows; row-- > 0;) {
    for (size_t column = 0; column < picture.columns; ++column) {
      const double share = picture.range.share(picture.values[row * picture.columns + column]);
      pixels.push_back(std::isnan(share) ? kGrey : colour_in(picture.map, share));
    }
  }
  const Box& area = plot.area();
  canvas.picture(area, pixels, static_cast<int>(picture.columns));
  canvas.outline(area, kBlack);
  const Box bar{area.left + area.width + 14, area.top, 14, area.height};
  constexpr int kSteps = 128;
  std::vector<Colour> steps;
  for (int i = kSteps; i-- > 0;) {
    steps.push_back(colour_in(picture.map, (i + 0.5) / kSteps));
  }
  canvas.picture(bar, steps, 1);
  canvas.outline(bar, kBlack);
  for (const double tick : picture.range.ticks(std::max(3, static_cast<int>(area.height / 45)))) {
    const double y = bar.top + bar.height * (1 - picture.range.share(tick));
    canvas.line(bar.left + bar.width, y, bar.left + bar.width + kTickLength, y, kBlack);
    canvas.text(bar.left + bar.width + kTickLength + 3, y, tick_text(tick), Anchor::start, kSmall);
  }
}

std::string data_address(const std::string& png) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out = "data:image/png;base64,";
  for (size_t i = 0; i < png.size(); i += 3) {
    const size_t have = std::min<size_t>(3, png.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < have ? static_cast<unsigned char>(png[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= have ? kLetters[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

}  // namespace varve::tools
