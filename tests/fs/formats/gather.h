// Takes the elements of a recognised array out of its file, row by row, and compares them with what a library reads.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>

#include "fs/formats/check.h"
#include "fs/formats/chunk_filters.h"
#include "fs/formats/hdf5_driver.h"
#include "views.h"

namespace varve::fs {

/// Visits each contiguous run of elements of one stored chunk that lies inside the shape: file offset, number of its
/// first element in the array (C order), elements.
inline void for_each_run(const ArrayRegion& array, const ChunkPlace& place,
                         const std::function<void(uint64_t, uint64_t, uint64_t)>& visit) {
  size_t rank = array.shape.size();
  uint64_t size = codec::element_size(array.dtype);
  if (rank == 0) {
    visit(place.offset, 0, 1);
    return;
  }
  codec::Extents origin(rank), count(rank), at(rank, 0);
  uint64_t cell = place.chunk;
  for (size_t axis = rank; axis-- > 0;) {
    uint64_t cells = (array.shape[axis] + array.chunk_shape[axis] - 1) / array.chunk_shape[axis];
    origin[axis] = cell % cells * array.chunk_shape[axis];
    cell /= cells;
    count[axis] = std::min(array.chunk_shape[axis], array.shape[axis] - origin[axis]);
  }
  while (true) {
    uint64_t in_chunk = 0, in_array = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      in_chunk = in_chunk * array.chunk_shape[axis] + at[axis];
      in_array = in_array * array.shape[axis] + origin[axis] + at[axis];
    }
    visit(place.offset + in_chunk * size, in_array, count[rank - 1]);
    size_t axis = rank - 1;
    while (axis-- > 0) {
      if (++at[axis] < count[axis]) {
        break;
      }
      at[axis] = 0;
    }
    if (axis > rank) {
      return;
    }
  }
}

/// Compares every stored element with `expected` (the whole array, in file order). The number compared.
inline uint64_t compare_elements(const ArrayRegion& array, const std::vector<std::byte>& file,
                                 const std::vector<std::byte>& expected) {
  uint64_t size = codec::element_size(array.dtype);
  uint64_t compared = 0, wrong = 0;
  const auto read = [&](uint64_t offset, std::span<std::byte> out) -> Status {
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  };
  for (const ChunkPlace& place : array.chunks) {
    std::vector<std::byte> elements;
    if (!array.filters.empty()) {
      auto found = unfiltered_chunk(array, place, read);
      EXPECT_TRUE(found.ok()) << array.name << ": " << (found.ok() ? "" : found.error().text);
      if (!found.ok()) {
        continue;
      }
      elements = *std::move(found);
      const StoredChunk& stored = stored_chunk(array, place);
      const auto again = redo_filters(array, stored.skipped, elements);
      EXPECT_TRUE(again.ok() && again->size() == stored.length &&
                  std::memcmp(again->data(), file.data() + place.offset, stored.length) == 0)
          << array.name << ": chunk " << place.chunk << " is not what its filters, redone, give";
    }
    const std::vector<std::byte>& from = array.filters.empty() ? file : elements;
    const ChunkPlace start{place.chunk, array.filters.empty() ? place.offset : 0};
    for_each_run(array, start, [&](uint64_t offset, uint64_t element, uint64_t count) {
      ASSERT_LE(offset + count * size, from.size());
      ASSERT_LE((element + count) * size, expected.size());
      wrong += std::memcmp(from.data() + offset, expected.data() + element * size, count * size) != 0 ? 1 : 0;
      compared += count;
    });
  }
  EXPECT_EQ(wrong, 0U) << array.name << ": runs that differ";
  return compared;
}

/// Reads each claimed dataset with the HDF5 library and its ordinary driver, and compares. Also: every chunk that the
/// library counts is claimed. The number of elements compared.
inline uint64_t compare_with_hdf5(const std::string& path, const Recognised& recognised) {
  std::vector<std::byte> bytes = read_whole(path);
  EXPECT_TRUE(check_arrays(recognised, bytes.size()).ok());
  Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  EXPECT_TRUE(file) << path;
  uint64_t compared = 0;
  for (const ArrayRegion& array : recognised.arrays) {
    SCOPED_TRACE(path + " " + array.name);
    Hdf5Id dataset(H5Dopen2(file.get(), array.name.c_str(), H5P_DEFAULT), H5Dclose);
    Hdf5Id type(H5Dget_type(dataset.get()), H5Tclose);
    Hdf5Id space(H5Dget_space(dataset.get()), H5Sclose);
    Hdf5Id creation(H5Dget_create_plist(dataset.get()), H5Pclose);
    auto points = static_cast<uint64_t>(H5Sget_simple_extent_npoints(space.get()));
    EXPECT_EQ(points * H5Tget_size(type.get()), *checked_product(array.shape) * codec::element_size(array.dtype));
    std::vector<std::byte> expected(points * H5Tget_size(type.get()));
    EXPECT_GE(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, expected.data()), 0);
    if (H5Pget_layout(creation.get()) == H5D_CHUNKED) {
      hsize_t stored = 0;
      H5Dget_num_chunks(dataset.get(), space.get(), &stored);
      EXPECT_EQ(stored, array.chunks.size());
    }
    compared += compare_elements(array, bytes, expected);
  }
  return compared;
}

}  // namespace varve::fs
