// FITS files that astropy writes, and headers made here.
#include "fs/formats/fits.h"

#include "written.h"

namespace varve::fs {
namespace {

TEST(Fits, WhatAstropyWritesIsFoundElementByElement) {
  constexpr const char* kScript = R"(
from astropy.io import fits
types = {8: '>u1', 16: '>i2', 32: '>i4', 64: '>i8', -32: '>f4', -64: '>f8'}
for bits, kind in types.items():
    hdus = [fits.PrimaryHDU(noise((3, 5), kind))]
    noted = [('/PRIMARY', hdus[0].data)]
    for number, shape in enumerate(((7,), (4, 1, 6), (2, 3, 4, 5), (1, 2880)), 1):
        hdus.append(fits.ImageHDU(noise(shape, kind)))
        noted.append((f'/{number}', hdus[-1].data))
    fits.HDUList(hdus).writeto(f'{folder}{bits}.fits')
    for name, data in noted:
        note(f'{bits}.fits', 'fits', name, data)

table = fits.BinTableHDU.from_columns([fits.Column('a', 'E', array=np.arange(500.0))])
lines = fits.TableHDU.from_columns([fits.Column('a', 'A9', array=['x', 'y'])])
squeezed = fits.CompImageHDU(np.arange(10000, dtype='i2').reshape(100, 100))
named = [fits.ImageHDU(noise((6, 8), '>f4'), name='SCI', ver=n) for n in (1, 2)]
twice = fits.ImageHDU(noise((2, 2), '>f4'), name='SCI', ver=2)
quoted = fits.ImageHDU(noise((2, 2), '>f4'), name="IT'S A/B")
fits.HDUList([fits.PrimaryHDU(), table, named[0], lines, named[1], squeezed, twice, quoted]).writeto(folder + 'mixed.fits')
for name, hdu in zip(('/SCI', '/SCI,2', '/6', "/IT'S A/B"), (*named, twice, quoted)):
    note('mixed.fits', 'fits', name, hdu.data)

for bits, fill, pattern in ((8, 255, 255), (16, -32768, 32768), (32, -1, 2**32 - 1), (64, -2**63, 2**63), (16, 40000, None), (-32, 7, None)):
    hdu = fits.PrimaryHDU(noise((4, 4), types[bits]))
    hdu.header['BLANK'] = fill
    name = f'blank{bits}_{fill}.fits'
    hdu.writeto(folder + name, output_verify='ignore')
    note(name, 'fits', '/PRIMARY', hdu.data, fills=() if pattern is None else (pattern,))

scaled = fits.PrimaryHDU(noise((4, 4), '>i2'))
scaled.header['BSCALE'], scaled.header['BZERO'] = 1.0, 0.0
stored = scaled.data.copy()
scaled.writeto(folder + 'unscaled.fits')
note('unscaled.fits', 'fits', '/PRIMARY', stored)
unsigned = fits.PrimaryHDU(np.arange(20, dtype='u2').reshape(4, 5))
unsigned.writeto(folder + 'unsigned.fits')
note('unsigned.fits', 'fits', '/PRIMARY', (np.arange(20).reshape(4, 5) - 32768).astype('>i2'), 'packed')
float_hdu = fits.PrimaryHDU(np.arange(20, dtype='>f4').reshape(4, 5))
checked = fits.ImageHDU(noise((4, 5), '>i4'))
fits.HDUList([float_hdu, checked]).writeto(folder + 'checked.fits', checksum=True)
note('checked.fits', 'fits', '/PRIMARY', np.arange(20, dtype='>f4').reshape(4, 5), 'checksummed')
note('checked.fits', 'fits', '/1', checked.data, 'checksummed')
fits.HDUList([fits.PrimaryHDU(np.arange(20, dtype='>f4').reshape(4, 5))]).writeto(folder + 'sum.fits', checksum='datasum')
note('sum.fits', 'fits', '/PRIMARY', np.arange(20, dtype='>f4').reshape(4, 5), 'checksummed')

groups = fits.GroupsHDU(fits.GroupData(noise((3, 1, 4, 2), '>f4'), parnames=['u'], pardata=[np.arange(3.0)], bitpix=-32))
groups.writeto(folder + 'groups.fits')
bare('groups.fits', 'fits')
with open(folder + 'tail.fits', 'wb') as out:
    out.write(open(folder + '-64.fits', 'rb').read() + b'something else' * 1000)
fits.PrimaryHDU().writeto(folder + 'empty.fits')
bare('empty.fits', 'fits')
)";
  if (!expect_what_was_written("astropy.io.fits", kScript, 40)) {
    GTEST_SKIP() << "no /usr/bin/python3 with astropy: its files are NOT tested";
  }
}

std::string card(std::string_view keyword, std::string_view value) {
  std::string text = fmt::format("{:<8}= {:>20} / a comment", keyword, value);
  text.resize(80, ' ');
  return text;
}

std::string header(const std::vector<std::pair<std::string, std::string>>& more, bool extension = false) {
  std::string text = extension ? card("XTENSION", "'IMAGE   '") : card("SIMPLE", "T");
  for (const auto& [keyword, value] : more) {
    text += card(keyword, value);
  }
  text += "END";
  text.resize((text.size() + 2879) / 2880 * 2880, ' ');
  return text;
}

Result<std::optional<Recognised>> look(const std::string& text) {
  MemoryView file{std::string_view(text)};
  return recognise("x", file, std::nullopt);
}

TEST(Fits, SpellingsOfHeaders) {
  const std::string data(2880, 'x');
  auto found = look(header({{"BITPIX", "-32"}, {"NAXIS", "+2"}, {"NAXIS1", "6"}, {"NAXIS2", "0004"}}) + data);
  ASSERT_TRUE(found.ok() && *found);
  ASSERT_EQ((*found)->arrays.size(), 1U);
  EXPECT_EQ((*found)->arrays[0].shape, (codec::Extents{4, 6}));
  EXPECT_EQ((*found)->arrays[0].chunks, (std::vector<ChunkPlace>{{0, 2880}}));
  for (const auto& [scale, reason] : std::vector<std::pair<std::string, std::string>>{
           {"1", ""}, {"1.D0", ""}, {"+1.0E+00", ""}, {"2.0", "packed"}, {"0.1D1", ""}, {"'text'", "packed"}}) {
    found = look(header({{"BITPIX", "-64"}, {"NAXIS", "1"}, {"NAXIS1", "6"}, {"BSCALE", scale}}) + data);
    ASSERT_TRUE(found.ok() && *found && (*found)->arrays.size() == 1) << scale;
    EXPECT_EQ((*found)->arrays[0].keep_exact, reason) << scale;
  }
  // The data may end without their padding, as some writers leave it.
  found = look(header({{"BITPIX", "8"}, {"NAXIS", "1"}, {"NAXIS1", "10"}}) + data.substr(0, 10));
  EXPECT_TRUE(found.ok() && *found && (*found)->arrays.size() == 1);
}

TEST(Fits, HeadersThatLieAreRefused) {
  const std::string data(2880, 'x');
  const std::vector<std::vector<std::pair<std::string, std::string>>> wrong{
      {},
      {{"BITPIX", "12"}, {"NAXIS", "1"}, {"NAXIS1", "6"}},
      {{"BITPIX", "8"}, {"NAXIS", "-1"}},
      {{"BITPIX", "8"}, {"NAXIS", "1000"}},
      {{"BITPIX", "8"}, {"NAXIS", "2"}, {"NAXIS1", "6"}},
      {{"BITPIX", "8"}, {"NAXIS", "1"}, {"NAXIS1", "-6"}},
      {{"BITPIX", "8"}, {"NAXIS", "1"}, {"NAXIS1", "2881"}},
      {{"BITPIX", "64"}, {"NAXIS", "2"}, {"NAXIS1", "4294967296"}, {"NAXIS2", "4294967296"}},
      {{"BITPIX", "8"}, {"NAXIS", "1"}, {"NAXIS1", "6"}, {"PCOUNT", "9223372036854775807"}},
  };
  for (const auto& cards : wrong) {
    const auto found = look(header(cards) + data);
    EXPECT_FALSE(found.ok()) << header(cards).substr(80, 240);
    EXPECT_TRUE(found.ok() || !found.error().text.empty());
  }
  const std::string first = header({{"BITPIX", "8"}, {"NAXIS", "1"}, {"NAXIS1", "6"}}) + data;
  EXPECT_FALSE(look(first + header({{"BITPIX", "8"}, {"NAXIS", "1"}, {"NAXIS1", "2881"}}, true) + data).ok());
  const std::string no_end = first.substr(0, 240) + std::string(2640, ' ');
  EXPECT_FALSE(look(no_end).ok());
}

TEST(Fits, SimpleThatIsNotTrueIsNone) {
  const std::string text = card("SIMPLE", "F") + std::string(2800, ' ');
  const auto found = look(text);
  EXPECT_TRUE(found.ok() && !*found);
}

}  // namespace
}  // namespace varve::fs
