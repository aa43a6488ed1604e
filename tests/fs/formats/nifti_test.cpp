// NIfTI files that nibabel writes, and headers made here.
#include "fs/formats/nifti.h"

#include "written.h"

namespace varve::fs {
namespace {

TEST(Nifti, WhatNibabelWritesIsFoundElementByElement) {
  constexpr const char* kScript = R"(
import nibabel as nib
n = 0
def save(kind, array, order, reason='', slope=None, inter=None, change=None, known=True):
    """The header is set field by field, so that nothing is converted."""
    global n
    header = kind.header_class(endianness=order)
    header.set_data_dtype(array.dtype)
    header.set_data_shape(array.shape)
    if slope is not None:
        header.set_slope_inter(slope, inter)
    if change:
        change(header)
    name = f'{n}.nii'
    n += 1
    with open(folder + name, 'wb') as out:
        header['vox_offset'] = max(header['vox_offset'], len(header.binaryblock) + 4)
        out.write(header.binaryblock)
        out.write(b'\0' * (int(header['vox_offset']) - len(header.binaryblock)))
        out.write(array.astype(array.dtype.newbyteorder(order)).tobytes('F'))
    if known:
        assert nib.load(folder + name).shape == array.shape
        array = array.astype(array.dtype.newbyteorder(order))
        if array.dtype.names:
            array = np.ascontiguousarray(array.T).view('u1').reshape(*array.shape[::-1], len(array.dtype.names))
            note(name, 'nifti', '', array, reason)
        else:
            note(name, 'nifti', '', array.T, reason)
    else:
        bare(name, 'nifti')

rgb = np.dtype([('R', 'u1'), ('G', 'u1'), ('B', 'u1')])
rgba = np.dtype([('R', 'u1'), ('G', 'u1'), ('B', 'u1'), ('A', 'u1')])
for kind in (nib.Nifti1Image, nib.Nifti2Image):
    for order in '<>':
        for dtype in ('u1', 'i1', 'i2', 'u2', 'i4', 'u4', 'i8', 'u8', 'f4', 'f8', 'c8', 'c16', rgb, rgba):
            save(kind, noise((3, 4, 5), dtype), order)
        for shape in ((7,), (2, 3), (4, 3, 2, 5), (2, 1, 3, 1, 2, 1, 3)):
            save(kind, noise(shape, 'f4'), order)
        def long(header): header['datatype'], header['bitpix'] = 1536, 128
        save(kind, noise((3, 4), 'c16'), order, change=long, known=False)
        save(kind, noise((3, 4), 'i2'), order, 'packed', 0.5, 3)
        save(kind, noise((3, 4), 'i2'), order, 'packed', 1, 3)
        save(kind, noise((3, 4), 'f4'), order, 'packed', 2, 0)
        save(kind, noise((3, 4), 'i2'), order, '', 1, 0)
        save(kind, noise((3, 4), 'i2'), order, '', None, None)
        def labels(header): header.set_intent('label')
        save(kind, noise((3, 4), 'f4'), order, 'labels', change=labels)
        def far(header): header['vox_offset'] = 2000
        save(kind, noise((3, 4), 'f4'), order, change=far)
image = nib.Nifti1Image(np.arange(24, dtype='f4').reshape(2, 3, 4), np.eye(4))
image.header.extensions.append(nib.nifti1.Nifti1Extension('comment', b'some words'))
nib.save(image, folder + 'plain.nii')
note('plain.nii', 'nifti', '', np.arange(24, dtype='f4').reshape(2, 3, 4).T)
)";
  if (!expect_what_was_written("nibabel", kScript, 90)) {
    GTEST_SKIP() << "no /usr/bin/python3 with nibabel: its files are NOT tested";
  }
}

/// A NIfTI-1 header of 352 bytes for f32, and 100 bytes.
std::string file_of(std::vector<int16_t> axes, float offset) {
  std::string text(452, '\0');
  const auto put = [&](size_t at, const auto& value) { std::memcpy(text.data() + at, &value, sizeof value); };
  put(0, int32_t{348});
  put(40, static_cast<int16_t>(axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    put(42 + 2 * i, axes[i]);
  }
  put(70, int16_t{16});
  put(108, offset);
  text.replace(344, 4, std::string("n+1\0", 4));
  return text;
}

Result<std::optional<Recognised>> look(const std::string& text) {
  MemoryView file{std::string_view(text)};
  return recognise("x", file, std::nullopt);
}

TEST(Nifti, HeadersThatLieAreRefused) {
  const auto good = look(file_of({5, 5}, 352));
  ASSERT_TRUE(good.ok() && *good && (*good)->arrays.size() == 1);
  EXPECT_EQ((*good)->arrays[0].chunks, (std::vector<ChunkPlace>{{0, 352}}));
  const auto none = look(file_of({5, 0}, 352));
  EXPECT_TRUE(none.ok() && *none && (*none)->arrays.empty());
  for (const float offset : {0.0F, 348.0F, -352.0F, 352.5F, 353.0F, 1e30F, std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(look(file_of({5, 5}, offset)).ok()) << offset;
  }
  for (const std::vector<int16_t>& axes : std::vector<std::vector<int16_t>>{
           {}, {-1}, {26}, {32767, 32767, 32767, 32767, 32767, 32767, 32767}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_FALSE(look(file_of(axes, 352)).ok()) << axes.size();
  }
  std::string pair = file_of({5, 5}, 352);
  pair.replace(344, 3, "ni1");
  EXPECT_TRUE(look(pair).ok() && !*look(pair)) << "the image is in another file";
}

}  // namespace
}  // namespace varve::fs
