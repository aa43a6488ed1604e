// Files that other programs write, and what must be found in them, said by those programs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <map>
#include <sstream>

#include "fs/formats/check.h"
#include "views.h"

namespace varve::fs {

/// Put before each script. `folder` is where files go. `note` says of an array in a file what must be found and, by a
/// NumPy array in its byte order, which elements; `bare`, that a file is of a format but has no arrays.
inline constexpr const char* kScriptStart = R"(
import sys
try:
    import numpy as np
    import MODULE
except ImportError:
    sys.exit(77)
folder = sys.argv[1] + '/'
listing = open(folder + 'list', 'w')
rng = np.random.default_rng(3)
kinds = {'u': 'u', 'i': 'i', 'f': 'f', 'b': 'u'}
notes = 0
def noise(shape, dtype):
    dtype = np.dtype(dtype)
    raw = rng.integers(0, 256, int(np.prod(shape, dtype=int)) * dtype.itemsize, dtype='u1')
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)
def note(file, format, name, array, reason='', fills=(), dtype=None):
    global notes
    array = np.asarray(array)
    if array.dtype.kind == 'c':
        part = np.dtype(f'{array.dtype.byteorder}f{array.dtype.itemsize // 2}')
        array = np.ascontiguousarray(array).view(part).reshape(*array.shape, 2)
    dtype = dtype or kinds[array.dtype.kind] + str(8 * array.dtype.itemsize)
    order = '>' if array.dtype.newbyteorder('>') == array.dtype and array.dtype.itemsize > 1 else '<'
    fills = ','.join(str(fill) for fill in fills)
    shape = ','.join(str(extent) for extent in array.shape)
    with open(f'{folder}{notes}.elements', 'wb') as out:
        out.write(array.tobytes())
    print(file, format, name, dtype, order, reason, fills, shape, f'{notes}.elements', sep='\t', file=listing)
    notes += 1
def bare(file, format):
    print(file, format, sep='\t', file=listing)
)";

struct WrittenArray {
  std::string name, dtype, order, reason, fills, shape, elements;
};

struct WrittenFile {
  std::string format;
  std::vector<WrittenArray> arrays;
};

/// By file name.
inline std::map<std::string, WrittenFile> read_listing(const std::string& path) {
  std::map<std::string, WrittenFile> files;
  std::ifstream listing(path);
  for (std::string line; std::getline(listing, line);) {
    std::istringstream in(line);
    std::array<std::string, 9> fields;
    for (std::string& field : fields) {
      std::getline(in, field, '\t');
    }
    WrittenFile& file = files[fields[0]];
    file.format = fields[1];
    if (!fields[8].empty()) {
      file.arrays.push_back({fields[2], fields[3], fields[4], fields[5], fields[6], fields[7], fields[8]});
    }
  }
  return files;
}

inline void expect_array(const ArrayRegion& found, const WrittenArray& wanted, const MemoryView& file,
                         const std::string& elements_path) {
  SCOPED_TRACE(wanted.name);
  EXPECT_EQ(found.name, wanted.name);
  EXPECT_EQ(codec::name_of(found.dtype), wanted.dtype);
  EXPECT_EQ(found.big_endian ? ">" : "<", wanted.order);
  EXPECT_EQ(found.keep_exact, wanted.reason);
  EXPECT_EQ(fmt::format("{}", fmt::join(found.fill_values, ",")), wanted.fills);
  EXPECT_EQ(fmt::format("{}", fmt::join(found.shape, ",")), wanted.shape);
  const auto elements = read_whole(elements_path);
  const uint64_t bytes = chunk_bytes(found).value_or(0);
  // Chunks, where there are several, follow on each other along the first axis.
  EXPECT_TRUE(found.chunks.size() == 1 ||
              std::equal(found.shape.begin() + 1, found.shape.end(), found.chunk_shape.begin() + 1));
  ASSERT_EQ(found.chunks.size() * bytes, elements.size());
  for (size_t chunk = 0; chunk < found.chunks.size(); ++chunk) {
    const auto first = elements.begin() + static_cast<std::ptrdiff_t>(chunk * bytes);
    ASSERT_EQ(found.chunks[chunk].chunk, chunk);
    ASSERT_LE(found.chunks[chunk].offset + bytes, file.size());
    EXPECT_TRUE(std::equal(first, first + static_cast<std::ptrdiff_t>(bytes),
                           file.bytes().begin() + static_cast<std::ptrdiff_t>(found.chunks[chunk].offset)))
        << "chunk " << chunk;
  }
}

/// Has a script of Python write files with `module`, and expects of recognise() what its notes say: all of these
/// arrays, no others, in this order. False: Python or the module is not there. Files get no name that tells anything.
inline bool expect_what_was_written(const std::string& module, const std::string& script, size_t least_arrays) {
  ScratchFolder folder;
  std::string start(kScriptStart);
  start.replace(start.find("MODULE"), 6, module);
  std::ofstream(folder.file("make.py")) << start << script;
  const int status = std::system(
      fmt::format("/usr/bin/python3 {} {} >{} 2>&1", folder.file("make.py"), folder.file(""), folder.file("output"))
          .c_str());
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) {
    return false;
  }
  const auto output = read_whole(folder.file("output"));
  EXPECT_EQ(status, 0) << std::string_view(reinterpret_cast<const char*>(output.data()), output.size());
  size_t arrays = 0;
  for (const auto& [name, wanted] : read_listing(folder.file("list"))) {
    SCOPED_TRACE(name);
    MemoryView file(read_whole(folder.file(name)));
    EXPECT_TRUE(worth_recognising("file", file, std::nullopt));
    const auto found = recognise("file", file, std::nullopt);
    if (!found.ok() || !*found) {
      ADD_FAILURE() << (found.ok() ? "not recognised" : found.error().text);
      continue;
    }
    EXPECT_EQ((*found)->format, wanted.format);
    EXPECT_EQ((*found)->arrays.size(), wanted.arrays.size());
    for (size_t i = 0; i < std::min((*found)->arrays.size(), wanted.arrays.size()); ++i) {
      expect_array((*found)->arrays[i], wanted.arrays[i], file, folder.file(wanted.arrays[i].elements));
    }
    arrays += wanted.arrays.size();
  }
  EXPECT_GE(arrays, least_arrays);
  return true;
}

}  // namespace varve::fs
