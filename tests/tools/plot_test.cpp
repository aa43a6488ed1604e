#include "tools/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace varve::tools {
namespace {

constexpr Colour kRed{1, 0, 0};
constexpr Colour kBlue{0, 0, 1};
constexpr Colour kWhite{1, 1, 1};

int height_of(const Canvas& canvas, int x, const Colour& colour) {
  int count = 0;
  for (int y = 0; y < canvas.height(); ++y) {
    count += canvas.pixel(x, y) == colour ? 1 : 0;
  }
  return count;
}

TEST(Scale, TicksAreRoundAndWithin) {
  for (const auto& [low, high] : {std::pair{0.0, 1.0}, {-3.7, 12.1}, {1e-9, 3e-9}, {0.0, 2e15}, {-5.0, -4.9}}) {
    const Scale scale{low, high};
    const auto ticks = scale.ticks(5);
    ASSERT_GE(ticks.size(), 2U) << low;
    EXPECT_LE(ticks.size(), 11U) << low;
    const double step = ticks[1] - ticks[0];
    const double lead = step / std::pow(10.0, std::floor(std::log10(step) + 1e-9));
    EXPECT_TRUE(std::fabs(lead - 1) < 1e-3 || std::fabs(lead - 2) < 1e-3 || std::fabs(lead - 5) < 1e-3) << step;
    for (const double tick : ticks) {
      EXPECT_GE(tick, low - 1e-6 * step);
      EXPECT_LE(tick, high + 1e-6 * step);
    }
  }
  EXPECT_EQ((Scale{0.02, 2000, true}.ticks(8)), (std::vector<double>{0.1, 1, 10, 100, 1000}));
  EXPECT_TRUE((Scale{1, 1}.ticks(5).empty()));
  EXPECT_TRUE((Scale{0, std::numeric_limits<double>::infinity()}.ticks(5).empty()));
}

TEST(Scale, HasRoomAroundOneValue) {
  const std::vector<double> values = {std::numeric_limits<double>::quiet_NaN(), 4, 4};
  const Scale scale = scale_of(values);
  EXPECT_LT(scale.low, 4);
  EXPECT_GT(scale.high, 4);
  EXPECT_DOUBLE_EQ(scale.share(4), 0.5);
  EXPECT_TRUE(std::isnan(scale.share(values[0])));
}

TEST(Plot, BarsAreAsHighAsTheirNumbers) {
  Canvas canvas(400, 300);
  Plot plot(canvas, {0, 0, 400, 300}, {"bars", "x", "y", {0, 3}, {0, 100}});
  plot.bar(0.25, 0.75, 0, 50, kRed);
  plot.bar(1.25, 1.75, 20, 100, kBlue);
  const double whole = plot.area().height;
  EXPECT_NEAR(height_of(canvas, static_cast<int>(plot.x_at(0.5)), kRed), 0.5 * whole, 2);
  EXPECT_NEAR(height_of(canvas, static_cast<int>(plot.x_at(1.5)), kBlue), 0.8 * whole, 2);
  EXPECT_EQ(height_of(canvas, static_cast<int>(plot.x_at(2.5)), kRed), 0);
}

TEST(Plot, LinesStopAtWhatIsNotFinite) {
  Canvas canvas(400, 300);
  Plot plot(canvas, {0, 0, 400, 300}, {"", "", "", {0, 4}, {0, 2}});
  const std::vector<double> x = {0, 1, 2, 3, 4};
  const std::vector<double> y = {1, 1, std::numeric_limits<double>::quiet_NaN(), 1, 1};
  plot.lines(x, y, kRed);
  const auto drawn = [&](double at) {
    int pixels = 0;
    for (int row = 0; row < canvas.height(); ++row) {
      const Colour pixel = canvas.pixel(static_cast<int>(plot.x_at(at)), row);
      pixels += pixel.red > 0.9 && pixel.green < 0.7 ? 1 : 0;
    }
    return pixels > 0;
  };
  EXPECT_TRUE(drawn(0.5));
  EXPECT_FALSE(drawn(2));
  EXPECT_TRUE(drawn(3.5));
}

TEST(Picture, FirstRowIsAtTheBottomAndMissingIsGrey) {
  Canvas canvas(400, 300);
  Picture picture;
  picture.columns = 2;
  picture.rows = 2;
  picture.range = {0, 1};
  picture.map = ColourMap::diverging;
  picture.values = {0, 0.5, 1, std::numeric_limits<double>::quiet_NaN()};
  draw_picture(canvas, {0, 0, 400, 300}, picture);
  EXPECT_EQ(canvas.pixel(100, 220), canvas.pixel(110, 230));
  EXPECT_GT(canvas.pixel(100, 220).blue, canvas.pixel(100, 220).red) << "the least, bottom left";
  EXPECT_GT(canvas.pixel(100, 60).red, canvas.pixel(100, 60).blue) << "the greatest, top left";
  EXPECT_EQ(canvas.pixel(270, 220), kWhite) << "the middle, bottom right";
  const Colour missing = canvas.pixel(270, 60);
  EXPECT_NEAR(missing.red, kGrey.red, 0.01);
  EXPECT_NEAR(missing.blue, kGrey.blue, 0.01);
}

TEST(ColourMap, LightnessGrowsEvenly) {
  double before = -1;
  for (int i = 0; i <= 100; ++i) {
    const Colour colour = colour_in(ColourMap::cubehelix, i / 100.0);
    const double lightness = 0.30 * colour.red + 0.59 * colour.green + 0.11 * colour.blue;
    EXPECT_GT(lightness, before - 0.002) << i;
    before = lightness;
  }
  EXPECT_EQ(colour_in(ColourMap::cubehelix, 0), kBlack);
  EXPECT_EQ(colour_in(ColourMap::cubehelix, 1), kWhite);
}

TEST(Canvas, GivesPngFilesAndSaysWhyNot) {
  const Canvas canvas(40, 30);
  const auto bytes = canvas.png();
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(bytes->substr(16, 8), std::string("\0\0\0\x28\0\0\0\x1e", 8));
  EXPECT_EQ(canvas.write("/nowhere/at/all.png").error().code, EIO);
  EXPECT_FALSE(Canvas(-5, 100000).png().ok());
  EXPECT_EQ(data_address("a"), "data:image/png;base64,YQ==");
  EXPECT_EQ(data_address("Man"), "data:image/png;base64,TWFu");
}

}  // namespace
}  // namespace varve::tools
