// Maps that mrcfile writes, and headers made here.
#include "fs/formats/mrc.h"

#include "written.h"

namespace varve::fs {
namespace {

TEST(Mrc, WhatMrcfileWritesIsFoundElementByElement) {
  constexpr const char* kScript = R"(
import mrcfile, warnings
warnings.simplefilter('ignore')
n = 0
for order in '<>':
    for dtype in ('i1', 'i2', 'f4', 'c8', 'u2', 'f2'):
        for kind, shape in (('image', (4, 5)), ('image stack', (3, 4, 5)), ('volume', (3, 4, 5)), ('volume stack', (2, 3, 4, 5))):
            for extended in (0, 80, 1337):
                data = noise(shape, np.dtype(dtype).newbyteorder(order))
                name = f'{n}.mrc'
                n += 1
                with mrcfile.new(folder + name) as file:
                    file.set_data(data)
                    if kind == 'image stack':
                        file.set_image_stack()
                    if kind == 'volume':
                        file.set_volume()
                    if extended:
                        file.set_extended_header(np.zeros(extended, 'u1'))
                with mrcfile.open(folder + name) as file:
                    assert file.data.shape == shape
                    assert file.data.dtype.newbyteorder(order) == file.data.dtype, file.data.dtype
                    data = file.data.copy()
                note(name, 'mrc', '', data[None] if kind == 'image' else data)
)";
  if (!expect_what_was_written("mrcfile", kScript, 144)) {
    GTEST_SKIP() << "no /usr/bin/python3 with mrcfile: its files are NOT tested";
  }
}

/// f32, little-endian, and 100 bytes behind the header.
std::string file_of(int32_t columns, int32_t rows, int32_t sections, int32_t extended = 0, int32_t mode = 2) {
  std::string text(1124, '\0');
  const auto put = [&](size_t number, int32_t value) { std::memcpy(text.data() + 4 * number, &value, sizeof value); };
  put(0, columns);
  put(1, rows);
  put(2, sections);
  put(3, mode);
  put(9, sections);
  put(22, 1);
  put(23, extended);
  text.replace(208, 6, "MAP \x44\x44");
  return text;
}

Result<std::optional<Recognised>> look(const std::string& text) {
  MemoryView file{std::string_view(text)};
  return recognise("x", file, std::nullopt);
}

TEST(Mrc, HeadersThatLieAreRefused) {
  const auto good = look(file_of(5, 4, 1, 20));
  ASSERT_TRUE(good.ok() && *good && (*good)->arrays.size() == 1);
  EXPECT_EQ((*good)->arrays[0].chunks, (std::vector<ChunkPlace>{{0, 1044}}));
  for (const int32_t mode : {-1, 3, 5, 7, 101}) {
    const auto none = look(file_of(5, 5, 1, 0, mode));
    EXPECT_TRUE(none.ok() && *none && (*none)->arrays.empty()) << mode;
  }
  EXPECT_TRUE((*look(file_of(5, 0, 1)))->arrays.empty());
  EXPECT_FALSE(look(file_of(5, 6, 1)).ok());
  EXPECT_FALSE(look(file_of(5, -5, 1)).ok());
  EXPECT_FALSE(look(file_of(5, 5, 1, -4)).ok());
  EXPECT_FALSE(look(file_of(5, 5, 1, 4)).ok());
  EXPECT_FALSE(look(file_of(INT32_MAX, INT32_MAX, INT32_MAX)).ok());
  EXPECT_FALSE(look(file_of(5, 5, 1).substr(0, 1000)).ok());
  std::string stamp = file_of(5, 5, 1);
  stamp.replace(212, 2, "\x22\x22");
  EXPECT_TRUE(look(stamp).ok() && !*look(stamp));
}

}  // namespace
}  // namespace varve::fs
