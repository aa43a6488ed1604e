// Files of NetCDF's classic formats that the netCDF library writes, whole, cut short and as if still being streamed.
#include "fs/formats/netcdf3.h"

#include "written.h"

namespace varve::fs {
namespace {

TEST(Netcdf3, WhatTheLibraryWritesIsFoundElementByElement) {
  constexpr const char* kScript = R"(
def big(array):
    return np.asarray(array).astype(array.dtype.newbyteorder('>'))
defaults = {'i1': 0x81, 'i2': 0x8001, 'i4': 0x80000001, 'f4': 0x7cf00000, 'f8': 0x479e000000000000, 'u1': 0xff,
            'u2': 0xffff, 'u4': 0xffffffff, 'i8': 2**63 + 2, 'u8': 2**64 - 2}
for form, types in (('CLASSIC', 'i1 i2 i4 f4 f8'), ('64BIT_OFFSET', 'f8 i1 i2'), ('64BIT_DATA', 'u1 u2 u4 i8 u8 i2 f4')):
    types = types.split()
    with netCDF4.Dataset(folder + form, 'w', format='NETCDF3_' + form) as out:
        out.title = 'a title of some length'
        for name, length in (('r', None), ('y', 5), ('x', 3), ('text', 7)):
            out.createDimension(name, length)
        out.createVariable('words', 'S1', ('y', 'text'))[:] = b'w'
        out.createVariable('lines', 'S1', ('r', 'text'))
        noted = []
        for kind in types:
            for name, axes in (('one', ()), ('fixed', ('y', 'x')), ('record', ('r', 'x')), ('long', ('r', 'y', 'x'))):
                variable = out.createVariable(f'{name}_{kind}', kind, axes)
                variable.set_auto_mask(False)
                shape = [6 if axis == 'r' else len(out.dimensions[axis]) for axis in axes]
                variable[...] = noise(shape, kind).copy()
                noted.append((variable.name, big(variable[...]), defaults[kind]))
    for name, data, fill in noted:
        note(form, 'netcdf3', '/' + name, data, fills=(fill,))

# One record variable alone is not padded, and so it is one run.
for name, kind, shape in (('alone', 'i2', (7, 3)), ('alone8', 'i1', (9, 1)), ('line', 'f8', (11,))):
    with netCDF4.Dataset(folder + name, 'w', format='NETCDF3_CLASSIC') as out:
        out.createDimension('r', None)
        out.createDimension('x', shape[-1])
        variable = out.createVariable('v', kind, ('r', 'x')[:len(shape)])
        variable.set_auto_mask(False)
        variable[:] = noise(shape, kind).copy()
        note(name, 'netcdf3', '/v', big(variable[:]), fills=(defaults[kind],))

with netCDF4.Dataset(folder + 'marks', 'w', format='NETCDF3_64BIT_OFFSET') as out:
    for name, length in (('time', None), ('lat', 4), ('two', 2)):
        out.createDimension(name, length)
    nan = np.array([0x7fc12345], 'u4').view('f4')[0]
    f4, f8, i2 = defaults['f4'], defaults['f8'], defaults['i2']
    plan = [('time', 'f8', 'time', {'bounds': 'tb'}, 'coordinate', (f8,)), ('lat', 'f4', 'lat', {}, 'coordinate', (f4,)),
            ('tb', 'f8', 'time two', {}, 'bounds variable', (f8,)),
            ('t', 'f4', 'time lat', {'coordinates': 'aux', '_FillValue': np.float32(1e20), 'missing_value': np.float32(-9)}, '', (0x60ad78ec, 0xc1100000)),
            ('aux', 'f4', 'time lat', {}, 'coordinate', (f4,)),
            ('packed', 'i2', 'time lat', {'scale_factor': 0.1, '_FillValue': np.int16(-1)}, 'packed', (0xffff,)),
            ('wide', 'f4', 'lat two', {'missing_value': np.array([1e20, -9999.0])}, '', (f4, 0x60ad78ec, 0xc61c3c00)),
            ('whole', 'i2', 'lat two', {'missing_value': np.array([-5.0, 0.5, 1e9])}, '', (i2, 0xfffb)),
            ('axis', 'f4', 'lat two', {'axis': 'X'}, 'coordinate', (f4,)),
            ('nan', 'f4', 'lat two', {'_FillValue': nan}, '', (0x7fc12345,))]
    for name, kind, axes, attributes, reason, fills in plan:
        fill = attributes.pop('_FillValue', None)
        variable = out.createVariable(name, kind, axes.split(), fill_value=fill)
        variable.set_auto_maskandscale(False)
        variable.setncatts(attributes)
        variable[:] = noise([3 if axis == 'time' else len(out.dimensions[axis]) for axis in axes.split()], kind).copy()
        note('marks', 'netcdf3', '/' + name, big(variable[:]), reason, fills)

# As a writer leaves it that cannot go back to the number of records; and cut off within the last record.
whole = open(folder + '64BIT_OFFSET', 'rb').read()
alone = open(folder + 'alone', 'rb').read()
with open(folder + 'streamed', 'wb') as out:
    out.write(alone[:4] + b'\xff' * 4 + alone[8:])
with netCDF4.Dataset(folder + 'alone') as file:
    file.set_auto_mask(False)
    data = big(file['v'][:])
note('streamed', 'netcdf3', '/v', data, fills=(defaults['i2'],))
with open(folder + 'cut', 'wb') as out:
    out.write(alone[:-len(alone) % 4 - 5])
note('cut', 'netcdf3', '/v', data[:6], fills=(defaults['i2'],))
with open(folder + 'marks_cut', 'wb') as out:
    marks = open(folder + 'marks', 'rb').read()
    out.write(marks[:-3])
with netCDF4.Dataset(folder + 'marks') as file:
    file.set_auto_maskandscale(False)
    for name, kind, axes, attributes, reason, fills in plan:
        data = big(file[name][:])
        note('marks_cut', 'netcdf3', '/' + name, data[:2] if name == 'packed' else data, reason, fills)
with netCDF4.Dataset(folder + 'empty', 'w', format='NETCDF3_CLASSIC') as out:
    out.createDimension('r', None)
    out.createVariable('v', 'f4', ('r',))
bare('empty', 'netcdf3')
)";
  if (!expect_what_was_written("netCDF4", kScript, 80)) {
    GTEST_SKIP() << "no /usr/bin/python3 with netCDF4: its files are NOT tested";
  }
}

/// A header with one record variable of f4 for each of `lengths`, its elements a record, and the records behind it.
std::string made(const std::vector<uint32_t>& lengths, uint32_t records, size_t data) {
  std::string text("CDF\1", 4);
  const auto number = [&](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      text.push_back(static_cast<char>(value >> shift & 0xff));
    }
  };
  const auto name = [&](char c) {
    number(1);
    text += {c, 0, 0, 0};
  };
  number(records);
  number(10);
  number(static_cast<uint32_t>(lengths.size() + 1));
  name('r');
  number(0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    name(static_cast<char>('a' + i));
    number(lengths[i]);
  }
  number(0);
  number(0);
  number(11);
  number(static_cast<uint32_t>(lengths.size()));
  auto begin = static_cast<uint32_t>(text.size() + 40 * lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    name(static_cast<char>('A' + i));
    number(2);
    number(0);
    number(static_cast<uint32_t>(i + 1));
    number(0);
    number(0);
    number(5);
    number(4 * lengths[i]);
    number(begin);
    begin += 4 * lengths[i];
  }
  return text.append(data, 'd');
}

Result<std::optional<Recognised>> look(const std::string& text) {
  MemoryView file{std::string_view(text)};
  return recognise("x", file, std::nullopt);
}

TEST(Netcdf3, SmallRecordsStayBytesWhereTheyAreMany) {
  const auto many = look(made({1000, 1, 1}, 100, 100 * 1002 * 4));
  ASSERT_TRUE(many.ok() && *many);
  EXPECT_EQ((*many)->arrays.size(), 3U) << "few beside large ones cost nothing";
  for (const uint32_t records : {1000U, 2000U}) {
    const auto small = look(made({1, 20, 1}, records, size_t{records} * 22 * 4));
    ASSERT_TRUE(small.ok() && *small);
    ASSERT_EQ((*small)->arrays.size(), records == 1000 ? 1U : 0U);
    EXPECT_TRUE(records != 1000 || (*small)->arrays[0].name == "/B");
  }
  const auto one = look(made({1}, 1000, 4000));
  ASSERT_TRUE(one.ok() && *one);
  ASSERT_EQ((*one)->arrays.size(), 1U);
  EXPECT_EQ((*one)->arrays[0].chunks.size(), 1U);
  EXPECT_EQ((*one)->arrays[0].shape, (codec::Extents{1000, 1}));
}

TEST(Netcdf3, HeadersThatLie) {
  const std::string good = made({1000, 4}, 10, 10 * 1004 * 4);
  const auto few = look(good.substr(0, good.size() - 6 * 1004 * 4));
  ASSERT_TRUE(few.ok() && *few);
  EXPECT_EQ((*few)->arrays.at(0).shape, (codec::Extents{4, 1000})) << "as many records as there are";
  for (const size_t at : {8U, 15U, 52U}) {  // a list's tag, its length, that of the variables
    std::string bad = good;
    bad[at] = '\x7f';
    const auto found = look(bad);
    EXPECT_FALSE(found.ok() && *found && !(*found)->arrays.empty()) << at;
  }
  const auto huge = look(made({UINT32_MAX, UINT32_MAX}, UINT32_MAX - 1, 5000));
  EXPECT_TRUE(!huge.ok() || !*huge || (*huge)->arrays.empty());
}

}  // namespace
}  // namespace varve::fs
