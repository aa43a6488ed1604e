// Fill values, and which arrays an inherited bound must leave alone: by attributes made here and by netCDF4 for Python.
#include "hdf5_maker.h"

namespace varve::fs {
namespace {

class Marks : public testing::Test {
 protected:
  std::string reason(const Recognised& found, const std::string& name) {
    const ArrayRegion* array = find_array(found, name);
    return array == nullptr ? "not found" : array->keep_exact;
  }
  uint64_t pattern(float value) { return std::bit_cast<uint32_t>(value); }
  uint64_t pattern(double value) { return std::bit_cast<uint64_t>(value); }

  ScratchFolder folder_;
  std::string path_ = folder_.file("x.h5");
};

TEST_F(Marks, FillValuesOfPropertyAndAttributes) {
  Hdf5Maker maker(path_);
  ASSERT_GE(maker.dataset("property", {.shape = {50, 50}, .fill = 1e20}), 0);
  ASSERT_GE(maker.dataset("big_endian", {.type = H5T_IEEE_F32BE, .shape = {50, 50}, .fill = 1e20}), 0);
  ASSERT_GE(maker.dataset("all", {.type = H5T_IEEE_F64LE, .shape = {50, 50}, .fill = -1}), 0);
  ASSERT_GE(maker.dataset("integer", {.type = H5T_STD_I16BE, .shape = {50, 50}}), 0);
  ASSERT_GE(maker.dataset("none", {.shape = {50, 50}}), 0);
  ASSERT_GE(maker.dataset("nan", {.shape = {50, 50}}), 0);
  double values[2] = {-9999, 1e30};
  maker.attribute("all", "_FillValue", H5T_NATIVE_DOUBLE, 1, values);
  maker.attribute("all", "missing_value", H5T_NATIVE_DOUBLE, 2, values);
  int16_t missing = -32767;
  maker.attribute("integer", "missing_value", H5T_NATIVE_INT16, 0, &missing);
  double wide = 9.96921e36;
  maker.attribute("none", "missing_value", H5T_NATIVE_DOUBLE, 0, &wide);  // another type: what it is as an element
  maker.text("none", "_FillValue", "not a number");
  uint32_t payload = 0x7fc12345;
  float nan = std::bit_cast<float>(payload);
  maker.attribute("nan", "_FillValue", H5T_NATIVE_FLOAT, 1, &nan);
  maker.close();
  Recognised found = recognise_file(path_);
  using Values = std::vector<uint64_t>;
  EXPECT_EQ(find_array(found, "/property")->fill_values, (Values{pattern(1e20F)}));
  EXPECT_EQ(find_array(found, "/big_endian")->fill_values, (Values{pattern(1e20F)}));
  EXPECT_EQ(find_array(found, "/all")->fill_values, (Values{pattern(-1.0), pattern(-9999.0), pattern(1e30)}));
  EXPECT_EQ(find_array(found, "/integer")->fill_values, (Values{0x8001}));
  EXPECT_EQ(find_array(found, "/none")->fill_values, (Values{pattern(9.96921e36F)}));
  EXPECT_EQ(find_array(found, "/nan")->fill_values, (Values{payload}));
}

TEST_F(Marks, AttributesThatMakeAnArrayStayExact) {
  Hdf5Maker maker(path_);
  H5Gclose(H5Gcreate2(maker.file(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  const std::vector<std::string> names{"data",  "scale", "north",   "since",   "axis",     "depth",  "flux",
                                       "lat2d", "lon2d", "g/inner", "g/data",  "lat_bnds", "packed", "area",
                                       "crs",   "plain", "named",   "g/lat2d", "positive"};
  for (const std::string& name : names) {
    ASSERT_GE(maker.dataset(name, {.shape = {20, 30}}), 0) << name;
  }
  ASSERT_GE(maker.dataset("height", {.shape = {6000}}), 0);
  double factor = 0.5;
  maker.text("scale", "CLASS", "DIMENSION_SCALE");
  maker.text("north", "units", "degrees_north");
  maker.text("since", "units", "days since 1850-01-01", true);
  maker.text("axis", "axis", "Z");
  maker.text("height", "positive", "up");
  maker.text("flux", "positive", "down");  // a field, and the direction it counts in
  maker.text("named", "standard_name", "latitude", true);
  maker.text("data", "coordinates", "lat2d  lon2d no_such", true);
  maker.text("g/data", "coordinates", "inner /depth plain2 lat2d");
  maker.text("scale", "bounds", "lat_bnds");
  maker.text("data", "cell_measures", "area: area");
  maker.text("data", "grid_mapping", "crs");
  maker.attribute("packed", "scale_factor", H5T_NATIVE_DOUBLE, 0, &factor);
  maker.close();
  Recognised found = recognise_file(path_);
  for (const char* name : {"/scale", "/north", "/since", "/axis", "/height", "/lat2d", "/lon2d", "/g/inner", "/depth",
                           "/named", "/g/lat2d"}) {
    EXPECT_EQ(reason(found, name), "coordinate") << name;
  }
  EXPECT_EQ(reason(found, "/lat_bnds"), "bounds variable");
  EXPECT_EQ(reason(found, "/packed"), "packed");
  EXPECT_EQ(reason(found, "/area"), "cell measure");
  EXPECT_EQ(reason(found, "/crs"), "grid mapping");
  for (const char* name : {"/data", "/g/data", "/flux", "/plain", "/positive"}) {
    EXPECT_EQ(reason(found, name), "") << name;
  }
}

constexpr const char* kScript = R"(
import sys, numpy as np, netCDF4
d = netCDF4.Dataset(sys.argv[1], 'w')
for name, size in (('time', None), ('lat', 40), ('lon', 60), ('nv', 2)):
    d.createDimension(name, size)
for name, units in (('time', 'hours since 2000-01-01'), ('lat', 'degrees_north'), ('lon', 'degrees_east')):
    v = d.createVariable(name, 'f8', (name,))
    v.units = units
    v[:] = np.arange(5 if name == 'time' else len(v))
d['lat'].bounds = 'lat_bnds'
d.createVariable('lat_bnds', 'f8', ('lat', 'nv'))[:] = 1
t = d.createVariable('tas', 'f4', ('time', 'lat', 'lon'), fill_value=1e20)
t.coordinates = 'lat2d'
t[:] = np.random.default_rng(1).normal(size=(5, 40, 60))
d.createVariable('lat2d', 'f4', ('lat', 'lon'), contiguous=True)[:] = 2
p = d.createVariable('packed', 'i2', ('time', 'lat', 'lon'))
p.scale_factor = 0.01
p.add_offset = 273.15
p[:] = 300
d.createVariable('zipped', 'f4', ('time', 'lat', 'lon'), zlib=True)[:] = 1
d.createVariable('summed', 'f4', ('time', 'lat', 'lon'), fletcher32=True)[:] = 1
g = d.createGroup('forecast')
h = g.createVariable('tas', 'f4', ('time', 'lat', 'lon'), endian='big')
h[:] = 4
d.close()
)";

TEST_F(Marks, NetCdf4) {
  std::ofstream(folder_.file("make.py")) << kScript;
  std::string command = "/usr/bin/python3 " + folder_.file("make.py") + " " + path_ + " 2>" + folder_.file("errors");
  if (std::system(command.c_str()) != 0) {
    GTEST_SKIP() << "no /usr/bin/python3 with netCDF4: its files are NOT tested";
  }
  Recognised found = recognise_file(path_);
  EXPECT_EQ(reason(found, "/tas"), "");
  EXPECT_EQ(reason(found, "/forecast/tas"), "");
  EXPECT_TRUE(find_array(found, "/forecast/tas")->big_endian);
  EXPECT_EQ(find_array(found, "/tas")->fill_values, (std::vector<uint64_t>{pattern(1e20F)}));
  for (const char* name : {"/time", "/lat", "/lon", "/lat2d"}) {
    EXPECT_EQ(reason(found, name), "coordinate") << name;
  }
  EXPECT_EQ(reason(found, "/lat_bnds"), "bounds variable");
  EXPECT_EQ(reason(found, "/packed"), "packed");
  EXPECT_EQ(reason(found, "/summed"), "");
  EXPECT_EQ(reason(found, "/zipped"), "deflated");
  EXPECT_GT(compare_with_hdf5(path_, found), 5U * 40 * 60 * 4);
}

}  // namespace
}  // namespace varve::fs
