// Headers of every kind, made here byte by byte and by NumPy itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "fs/formats/check.h"
#include "fs/formats/npy.h"
#include "views.h"

namespace varve::fs {
namespace {

std::string npy(unsigned version, const std::string& header, size_t data_bytes) {
  std::string file(kNpyMagic);
  file.push_back(static_cast<char>(version));
  file.push_back('\0');
  for (size_t i = 0, digits = version == 1 ? 2 : 4; i < digits; ++i) {
    file.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) {
    file.push_back(static_cast<char>(i * 37));
  }
  return file;
}

Result<std::optional<Recognised>> look(const std::string& file) {
  MemoryView view{std::string_view(file)};
  return recognise("x.npy", view, std::nullopt);
}

TEST(Npy, HeaderVariants) {
  const std::vector<std::string> headers{
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }          \n",
      "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(3,5)}",
      "{ 'shape' : ( 3L , 5L ) , 'fortran_order' :False,'descr':'<f4'}\n",
      "{'descr': '<f4',\n 'fortran_order':   False ,\t'shape': (3, 5,), 'more': [('a', 1), (\"b\", -2.5)], }",
      "{u'descr': u'<f4', u'fortran_order': False, u'shape': (3, 5)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }" + std::string(3000, ' ') + "\n",
      "{'descr': '=f4', 'fortran_order': False, 'shape': (3, 5), }",
  };
  for (unsigned version : {1U, 2U, 3U}) {
    for (const std::string& header : headers) {
      SCOPED_TRACE(header);
      std::string file = npy(version, header, 60);
      auto result = look(file);
      ASSERT_TRUE(result.ok()) << result.error().text;
      ASSERT_TRUE(*result);
      EXPECT_EQ((*result)->format, "npy");
      ASSERT_EQ((*result)->arrays.size(), 1U);
      ArrayRegion expected;
      expected.dtype = codec::DType::f32;
      expected.shape = expected.chunk_shape = {3, 5};
      expected.chunks = {{0, file.size() - 60}};
      EXPECT_EQ((*result)->arrays[0], expected);
    }
  }
}

TEST(Npy, LongerFileKeepsTrailingBytesShorterFileHasNoArray) {
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }";
  auto longer = look(npy(1, header, 32 + 7));
  ASSERT_TRUE(longer.ok());
  ASSERT_EQ((*longer)->arrays.size(), 1U);
  EXPECT_EQ((*longer)->arrays[0].shape, (codec::Extents{4}));
  auto shorter = look(npy(1, header, 31));
  ASSERT_FALSE(shorter.ok());
  EXPECT_EQ(shorter.error().code, EBADMSG);
  EXPECT_NE(shorter.error().text.find("31 bytes"), std::string::npos) << shorter.error().text;
}

TEST(Npy, WhatIsNoNumberHasNoArray) {
  for (const char* type : {"'|O'", "'|O8'", "'<U10'", "'|S5'", "[('a', '<f4'), ('b', '<i4', (2, 3))]", "'<f16'",
                           "'|V8'", "'<c32'", "'<q9'", "'<M8[ns'", "'f'", "''", "'<'"}) {
    auto result = look(npy(1, fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (2,), }}", type), 64));
    ASSERT_TRUE(result.ok()) << type << ": " << result.error().text;
    ASSERT_TRUE(*result) << type;
    EXPECT_TRUE((*result)->arrays.empty()) << type;
  }
}

TEST(Npy, MalformedHeadersAreErrors) {
  const std::vector<std::string> headers{
      "",
      "{",
      "{}",
      "[1]",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2.5,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}",
      "{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
      "{'descr': " + std::string(100000, '[') + "}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': "
      "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
  };
  for (const std::string& header : headers) {
    auto result = look(npy(2, header, 64));
    EXPECT_FALSE(result.ok()) << header.substr(0, 100);
  }
  EXPECT_FALSE(look(npy(4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8)).ok());
  EXPECT_FALSE(look(npy(2, "", 0).substr(0, 10)).ok());
}

TEST(Npy, EmptyAndZeroDimensionalArrays) {
  auto scalar = look(npy(1, "{'descr': '>f8', 'fortran_order': False, 'shape': (), }", 8));
  ASSERT_TRUE(scalar.ok() && *scalar);
  ASSERT_EQ((*scalar)->arrays.size(), 1U);
  EXPECT_TRUE((*scalar)->arrays[0].shape.empty());
  EXPECT_TRUE((*scalar)->arrays[0].big_endian);
  for (const char* shape : {"(0,)", "(3, 0)", "(0, 99999999999999, 99999999999999)"}) {
    auto empty = look(npy(1, fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape), 0));
    ASSERT_TRUE(empty.ok() && *empty) << shape;
    EXPECT_TRUE((*empty)->arrays.empty()) << shape;
  }
}

/// Writes arrays of all types, orders and ranks, and beside each what must be found: dtype, byte order, Fortran order,
/// reason, shape, and the elements' bytes.
constexpr const char* kScript = R"(
import sys, numpy as np
from numpy.lib import format
folder = sys.argv[1]
rng = np.random.default_rng(3)
names = {'b1': 'u8', 'u1': 'u8', 'i1': 'i8', 'u2': 'u16', 'i2': 'i16', 'u4': 'u32', 'i4': 'i32', 'u8': 'u64', 'i8': 'i64',
         'f2': 'f16', 'f4': 'f32', 'f8': 'f64', 'c8': 'f32', 'c16': 'f64', 'M8[ns]': 'i64', 'm8[s]': 'i64'}
n = 0
with open(folder + '/list', 'w') as listing:
    for code, dtype in names.items():
        for order in '<>':
            for fortran in (False, True):
                for shape in ((), (7,), (4, 6), (2, 3, 5), (1, 4, 1, 3)):
                    kind = np.dtype(code if code == 'b1' else order + code)
                    count = int(np.prod(shape, dtype=int))
                    raw = rng.integers(0, 2 if code == 'b1' else 256, count * kind.itemsize, dtype='u1').tobytes()
                    a = np.frombuffer(raw, kind).reshape(shape)
                    if fortran:
                        a = np.asfortranarray(a)
                    version = (1 + n % 3, 0)
                    with open(f'{folder}/{n}.npy', 'wb') as out:
                        format.write_array(out, a, version=version)
                    stored_fortran = a.flags.f_contiguous and not a.flags.c_contiguous
                    a.ravel(order='K').tofile(f'{folder}/{n}.bin')
                    found = tuple(reversed(a.shape)) if stored_fortran else a.shape
                    if code[0] == 'c':
                        found += (2,)
                    big = order == '>' and kind.itemsize > 1
                    print(n, dtype, int(big), int(stored_fortran), 'time' if code[0] in 'Mm' else '-', len(found), *found,
                          file=listing)
                    n += 1
)";

TEST(Npy, WhatNumPyWritesIsFoundElementByElement) {
  ScratchFolder folder;
  std::ofstream(folder.file("make.py")) << kScript;
  if (std::system(
          fmt::format("/usr/bin/python3 {} {} 2>{}", folder.file("make.py"), folder.file(""), folder.file("errors"))
              .c_str()) != 0) {
    GTEST_SKIP() << "no /usr/bin/python3 with NumPy: its files are NOT tested";
  }
  std::ifstream listing(folder.file("list"));
  std::string line;
  size_t files = 0;
  for (; std::getline(listing, line); ++files) {
    SCOPED_TRACE(line);
    std::istringstream in(line);
    std::string number, dtype, reason;
    int big = 0, fortran = 0;
    size_t rank = 0;
    in >> number >> dtype >> big >> fortran >> reason >> rank;
    codec::Extents shape(rank);
    for (uint64_t& extent : shape) {
      in >> extent;
    }
    MemoryView file(read_whole(folder.file(number + ".npy")));
    auto result = recognise(number + ".npy", file, std::nullopt);
    ASSERT_TRUE(result.ok() && *result);
    ASSERT_EQ((*result)->arrays.size(), 1U);
    const ArrayRegion& array = (*result)->arrays[0];
    EXPECT_EQ(codec::name_of(array.dtype), dtype);
    EXPECT_EQ(array.big_endian, big == 1);
    EXPECT_EQ(array.fortran_order, fortran == 1);
    EXPECT_EQ(array.keep_exact, reason == "-" ? "" : reason);
    EXPECT_EQ(array.shape, shape);
    auto expected = read_whole(folder.file(number + ".bin"));
    ASSERT_EQ(chunk_bytes(array), expected.size());
    ASSERT_EQ(array.chunks.size(), 1U);
    ASSERT_EQ(array.chunks[0].offset + expected.size(), file.size());
    EXPECT_EQ(std::memcmp(file.bytes().data() + array.chunks[0].offset, expected.data(), expected.size()), 0);
  }
  EXPECT_EQ(files, 16U * 2 * 2 * 5);
}

TEST(Npy, RealFiles) {
  auto files = real_files({"npy", "made/npy"});
  if (files.empty()) {
    GTEST_SKIP() << "VARVE_TEST_DATA does not name a folder with npy/: real files are NOT tested";
  }
  size_t arrays = 0;
  for (const std::string& path : files) {
    MemoryView file(read_whole(path));
    auto result = recognise("x.npy", file, std::nullopt);
    ASSERT_TRUE(result.ok() && *result) << path;
    for (const ArrayRegion& array : (*result)->arrays) {
      ++arrays;
      EXPECT_EQ(array.chunks[0].offset + *chunk_bytes(array), file.size()) << path;
    }
  }
  EXPECT_GE(arrays, 6U);
}

}  // namespace
}  // namespace varve::fs
