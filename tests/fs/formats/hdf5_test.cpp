// Files made here with every storage layout: what is claimed holds the elements that the library reads, and what cannot
// be claimed is not.
#include "hdf5_maker.h"

#include <chrono>

namespace varve::fs {
namespace {

using Shape = std::vector<hsize_t>;

struct FileKind {
  hsize_t user_block;
  bool latest, paged;
};

class Hdf5Files : public testing::TestWithParam<FileKind> {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_.file("test.h5");
};

INSTANTIATE_TEST_SUITE_P(Kinds, Hdf5Files,
                         testing::Values(FileKind{0, false, false}, FileKind{0, true, false},
                                         FileKind{512, false, false}, FileKind{1024, true, false},
                                         FileKind{2048, false, false}, FileKind{0, true, true},
                                         FileKind{0, false, true}, FileKind{65536, true, false}),
                         [](const auto& info) {
                           return fmt::format("block{}{}{}", info.param.user_block,
                                              info.param.latest ? "_latest" : "_earliest",
                                              info.param.paged ? "_paged" : "");
                         });

TEST_P(Hdf5Files, ElementsOfEveryLayoutAreWhatTheLibraryReads) {
  Hdf5Maker maker(path_, GetParam().user_block, GetParam().latest, GetParam().paged);
  std::vector<std::pair<std::string, DatasetOptions>> made{
      {"contiguous", {.shape = {7, 11, 13}}},
      {"big_endian", {.type = H5T_IEEE_F64BE, .shape = {50, 3}}},
      {"edges", {.type = H5T_STD_I16BE, .shape = {10, 17, 5}, .chunk = {4, 5, 3}}},
      {"chunk_of_ones", {.type = H5T_STD_U8LE, .shape = {3, 4, 5}, .chunk = {1, 1, 1}}},
      {"one_step_a_chunk", {.shape = {6, 9, 10}, .chunk = {1, 9, 10}}},
      {"columns", {.shape = {6, 9, 10}, .chunk = {6, 1, 10}}},
      {"smaller_than_chunk", {.shape = {5, 6}, .chunk = {100, 200}, .unlimited = {H5S_UNLIMITED, 300}}},
      {"one_unlimited", {.shape = {33, 8}, .chunk = {4, 8}, .unlimited = {H5S_UNLIMITED, 8}}},
      {"two_unlimited", {.shape = {33, 21}, .chunk = {4, 8}, .unlimited = {H5S_UNLIMITED, H5S_UNLIMITED}}},
      {"early", {.type = H5T_STD_I64LE, .shape = {30, 30}, .chunk = {8, 8}, .early = true}},
      {"single_chunk", {.type = H5T_STD_U32LE, .shape = {8, 8}, .chunk = {8, 8}}},
      {"five_axes", {.shape = {3, 4, 2, 5, 6}, .chunk = {2, 3, 2, 2, 5}}},
      {"checksummed", {.shape = {20, 20}, .chunk = {7, 7}, .fletcher = true}},
      {"shuffled", {.type = H5T_IEEE_F64BE, .shape = {20, 21}, .chunk = {7, 5}, .shuffle = true}},
      {"odd", {.type = H5T_STD_I8LE, .shape = {20, 21}, .chunk = {7, 5}, .fletcher = true, .shuffle = true}},
      {"gzip", {.shape = {40, 40}, .chunk = {8, 8}, .gzip = true}},
      {"all", {.shape = {41, 41}, .chunk = {8, 8}, .fletcher = true, .shuffle = true, .gzip = true}},
      {"plain_edges", {.shape = {41, 41}, .chunk = {8, 8}, .gzip = true, .skip_edges = GetParam().latest}},
      {"scalar", {.type = H5T_IEEE_F64LE, .scalar = true}},
      {"line", {.type = H5T_STD_U64BE, .shape = {10000}, .chunk = {1000}}},
  };
  for (const auto& [name, options] : made) {
    ASSERT_GE(maker.dataset(name, options), 0) << name;
  }
  maker.close();
  Recognised found = recognise_file(path_);
  EXPECT_EQ(found.format, "hdf5");
  for (const auto& [name, options] : made) {
    EXPECT_NE(find_array(found, fmt::format("/{}", name)), nullptr) << name;
  }
  EXPECT_EQ(found.arrays.size(), made.size());
  uint64_t elements = 0;
  for (const ArrayRegion& array : found.arrays) {
    elements += *checked_product(array.shape);
  }
  EXPECT_EQ(compare_with_hdf5(path_, found), elements);  // everything was written, so everything is stored
  EXPECT_EQ(find_array(found, "/checksummed")->keep_exact, "");
  EXPECT_EQ(find_array(found, "/all")->keep_exact, "deflated");
  EXPECT_EQ(find_array(found, "/all")->filters,
            (std::vector<ChunkFilter>{
                {ChunkFilter::Kind::shuffle, 4}, {ChunkFilter::Kind::deflate, 6}, {ChunkFilter::Kind::fletcher32, 0}}));
  EXPECT_EQ(find_array(found, "/contiguous")->keep_exact, "");
  EXPECT_TRUE(find_array(found, "/big_endian")->big_endian);
}

TEST_P(Hdf5Files, RandomShapesAndChunks) {
  std::mt19937 random(7);
  Hdf5Maker maker(path_, GetParam().user_block, GetParam().latest, GetParam().paged);
  const std::vector<hid_t> types{H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_STD_I8LE,
                                 H5T_STD_U16BE,  H5T_STD_I32BE,  H5T_STD_U64LE};
  uint64_t elements = 0;
  for (int i = 0; i < 40; ++i) {
    DatasetOptions options;
    options.type = types[random() % types.size()];
    uint64_t count = 1;
    for (size_t axis = 0, rank = 1 + random() % 5; axis < rank; ++axis) {
      options.shape.push_back(1 + random() % 12);
      options.chunk.push_back(1 + random() % 6);
      options.unlimited.push_back(random() % 3 == 0 ? H5S_UNLIMITED : options.shape.back() + 6);
      count *= options.shape.back();
    }
    if (random() % 4 == 0) {
      options.chunk.clear();
      options.unlimited.clear();
    } else {
      options.fletcher = random() % 5 == 0;
    }
    elements += count;
    ASSERT_GE(maker.dataset(fmt::format("d{}", i), options), 0);
  }
  maker.close();
  Recognised found = recognise_file(path_);
  EXPECT_EQ(found.arrays.size(), 40U);
  EXPECT_EQ(compare_with_hdf5(path_, found), elements);
}

TEST_P(Hdf5Files, WhatCannotBeClaimedIsLeftAlone) {
  Hdf5Maker maker(path_, GetParam().user_block, GetParam().latest, GetParam().paged);
  Hdf5Id variable(H5Tvlen_create(H5T_NATIVE_INT), H5Tclose);
  Hdf5Id text(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(text.get(), 8);
  Hdf5Id pair(H5Tcreate(H5T_COMPOUND, 8), H5Tclose);
  H5Tinsert(pair.get(), "x", 0, H5T_IEEE_F32LE);
  H5Tinsert(pair.get(), "y", 4, H5T_STD_I32LE);
  Hdf5Id narrow(H5Tcopy(H5T_STD_I32LE), H5Tclose);
  H5Tset_precision(narrow.get(), 20);
  Hdf5Id opaque(H5Tcreate(H5T_OPAQUE, 16), H5Tclose);
  ASSERT_GE(maker.dataset("nbit", {.type = narrow.get(), .shape = {40, 40}, .chunk = {8, 8}, .nbit = true}), 0);
  ASSERT_GE(maker.dataset("scaled", {.type = H5T_STD_I32LE, .shape = {40, 40}, .chunk = {8, 8}, .scaled = true}), 0);
  ASSERT_GE(maker.dataset("compact", {.shape = {8}, .compact = true}), 0);
  ASSERT_GE(maker.dataset("variable", {.type = variable.get(), .shape = {4}, .write = false}), 0);
  ASSERT_GE(maker.dataset("text", {.type = text.get(), .shape = {100}}), 0);
  ASSERT_GE(maker.dataset("compound", {.type = pair.get(), .shape = {100}}), 0);
  ASSERT_GE(maker.dataset("narrow", {.type = narrow.get(), .shape = {100}}), 0);
  ASSERT_GE(maker.dataset("opaque", {.type = opaque.get(), .shape = {100}}), 0);
  ASSERT_GE(maker.dataset("empty", {.shape = {0, 5}, .chunk = {4, 5}, .unlimited = {H5S_UNLIMITED, 5}}), 0);
  ASSERT_GE(maker.dataset("never_written", {.shape = {100, 100}, .write = false}), 0);
  ASSERT_GE(maker.dataset("never_written_chunks", {.shape = {100, 100}, .chunk = {9, 9}, .write = false}), 0);
  maker.close();
  Recognised found = recognise_file(path_);
  EXPECT_EQ(found.format, "hdf5");
  EXPECT_EQ(found.arrays.size(), 0U) << (found.arrays.empty() ? "" : found.arrays[0].name);
}

TEST_P(Hdf5Files, FewChunksOfAHugeArray) {
  Hdf5Maker maker(path_, GetParam().user_block, GetParam().latest, GetParam().paged);
  hsize_t huge = hsize_t{1} << 20;
  ASSERT_GE(
      maker.dataset(
          "huge",
          {.shape = {huge, huge}, .chunk = {16, 16}, .unlimited = {H5S_UNLIMITED, H5S_UNLIMITED}, .write = false}),
      0);
  ASSERT_GE(maker.dataset("sparse", {.shape = {64, 64}, .chunk = {8, 8}, .write = false}), 0);
  for (const char* name : {"huge", "sparse"}) {
    Hdf5Id dataset(H5Dopen2(maker.file(), name, H5P_DEFAULT), H5Dclose);
    Hdf5Id space(H5Dget_space(dataset.get()), H5Sclose);
    for (hsize_t at : {hsize_t{0}, hsize_t{20}, hsize_t{63}}) {
      Shape start{at, at};
      Shape one{1, 1};
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, one.data(), nullptr);
      Hdf5Id memory(H5Screate_simple(2, one.data(), nullptr), H5Sclose);
      float value = 1.5F + static_cast<float>(at);
      ASSERT_GE(H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, memory.get(), space.get(), H5P_DEFAULT, &value), 0);
    }
  }
  maker.close();
  auto start = std::chrono::steady_clock::now();
  Recognised found = recognise_file(path_);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(find_array(found, "/huge"), nullptr);  // its grid has more cells than anyone wants to look at
  const ArrayRegion* sparse = find_array(found, "/sparse");
  ASSERT_NE(sparse, nullptr);
  ASSERT_EQ(sparse->chunks.size(), 3U);
  EXPECT_EQ(sparse->chunks[0].chunk, 0U);
  EXPECT_EQ(sparse->chunks[1].chunk, 18U);
  EXPECT_EQ(sparse->chunks[2].chunk, 63U);
  EXPECT_GT(compare_with_hdf5(path_, found), 0U);
}

TEST_P(Hdf5Files, HardLinksCountOnceOtherLinksNotAtAll) {
  Hdf5Maker maker(path_, GetParam().user_block, GetParam().latest, GetParam().paged);
  H5Gclose(H5Gcreate2(maker.file(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  ASSERT_GE(maker.dataset("g/a", {.shape = {30, 30}}), 0);
  H5Lcreate_hard(maker.file(), "g/a", maker.file(), "again", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(maker.file(), "/", maker.file(), "g/loop", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/g/a", maker.file(), "soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("/etc/passwd", "/x", maker.file(), "external", H5P_DEFAULT, H5P_DEFAULT);
  maker.close();
  Recognised found = recognise_file(path_);
  EXPECT_EQ(found.arrays.size(), 1U);
  EXPECT_EQ(compare_with_hdf5(path_, found), 900U);
}

TEST_P(Hdf5Files, ArraysEnumerationsAndComplexNumbers) {
  Hdf5Maker maker(path_, GetParam().user_block, GetParam().latest, GetParam().paged);
  hsize_t inner[2] = {3, 4};
  Hdf5Id array(H5Tarray_create2(H5T_IEEE_F64BE, 2, inner), H5Tclose);
  Hdf5Id complex(H5Tcreate(H5T_COMPOUND, 8), H5Tclose);
  H5Tinsert(complex.get(), "r", 0, H5T_IEEE_F32LE);
  H5Tinsert(complex.get(), "i", 4, H5T_IEEE_F32LE);
  Hdf5Id enumeration(H5Tenum_create(H5T_STD_I16LE), H5Tclose);
  int16_t value = 5;
  H5Tenum_insert(enumeration.get(), "FIVE", &value);
  ASSERT_GE(maker.dataset("array", {.type = array.get(), .shape = {9, 5}, .chunk = {4, 4}}), 0);
  ASSERT_GE(maker.dataset("complex", {.type = complex.get(), .shape = {21}, .chunk = {5}}), 0);
  ASSERT_GE(maker.dataset("enumeration", {.type = enumeration.get(), .shape = {21, 2}}), 0);
  maker.close();
  Recognised found = recognise_file(path_);
  ASSERT_EQ(found.arrays.size(), 3U);
  EXPECT_EQ(find_array(found, "/array")->shape, (codec::Extents{9, 5, 3, 4}));
  EXPECT_EQ(find_array(found, "/array")->chunk_shape, (codec::Extents{4, 4, 3, 4}));
  EXPECT_TRUE(find_array(found, "/array")->big_endian);
  EXPECT_EQ(find_array(found, "/complex")->shape, (codec::Extents{21, 2}));
  EXPECT_EQ(find_array(found, "/enumeration")->dtype, codec::DType::i16);
  EXPECT_EQ(compare_with_hdf5(path_, found), 9U * 5 * 12 + 42 + 42);
}

TEST(Hdf5, EdgeChunksThatSkipTheChecksum) {
  ScratchFolder folder;
  Hdf5Maker maker(folder.file("x.h5"), 0, true);
  ASSERT_GE(maker.dataset("x", {.shape = {10, 10}, .chunk = {4, 4}, .fletcher = true, .skip_edges = true}), 0);
  maker.close();
  Recognised found = recognise_file(folder.file("x.h5"));
  ASSERT_EQ(found.arrays.size(), 1U);
  EXPECT_EQ(found.arrays[0].chunks.size(), 9U);
  EXPECT_EQ(compare_with_hdf5(folder.file("x.h5"), found), 100U);
}

TEST(Hdf5, ChunkWrittenPastTheChecksum) {  // the filter mask of one chunk says: not applied
  ScratchFolder folder;
  Hdf5Maker maker(folder.file("x.h5"));
  ASSERT_GE(maker.dataset("x", {.shape = {8, 4}, .chunk = {4, 4}, .fletcher = true}), 0);
  Hdf5Id dataset(H5Dopen2(maker.file(), "x", H5P_DEFAULT), H5Dclose);
  std::vector<float> chunk(16, 2.5F);
  Shape at{4, 0};
  ASSERT_GE(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 1, at.data(), 64, chunk.data()), 0);
  H5Dclose(H5Dopen2(maker.file(), "x", H5P_DEFAULT));
  H5Fflush(maker.file(), H5F_SCOPE_GLOBAL);
  Recognised found = recognise_file(folder.file("x.h5"));
  ASSERT_EQ(found.arrays.size(), 1U);
  EXPECT_EQ(found.arrays[0].chunks.size(), 2U);
}

TEST(Hdf5, ExternalAndVirtualDataStayBytes) {
  ScratchFolder folder;
  Hdf5Maker maker(folder.file("x.h5"), 0, true);
  ASSERT_GE(maker.dataset("source", {.shape = {16}}), 0);
  Hdf5Id space(H5Screate_simple(1, Shape{16}.data(), nullptr), H5Sclose);
  Hdf5Id external(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_external(external.get(), folder.file("raw").c_str(), 0, 64);
  Hdf5Id virtually(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_virtual(virtually.get(), space.get(), ".", "source", space.get());
  for (auto [name, creation] : {std::pair{"external", external.get()}, std::pair{"virtual", virtually.get()}}) {
    Hdf5Id made(H5Dcreate2(maker.file(), name, H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, creation, H5P_DEFAULT),
                H5Dclose);
    ASSERT_TRUE(made) << name;
  }
  maker.close();
  Recognised found = recognise_file(folder.file("x.h5"));
  ASSERT_EQ(found.arrays.size(), 1U);
  EXPECT_EQ(found.arrays[0].name, "/source");
}

TEST(Hdf5, AHundredThousandChunksTakeLinearTime) {
  ScratchFolder folder;
  for (bool latest : {false, true}) {
    std::string path = folder.file("many.h5");
    Hdf5Maker maker(path, 0, latest);
    ASSERT_GE(maker.dataset("x", {.shape = {250, 400}, .chunk = {1, 1}}), 0);
    maker.close();
    auto start = std::chrono::steady_clock::now();
    Recognised found = recognise_file(path);
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    ASSERT_EQ(found.arrays.size(), 1U);
    EXPECT_EQ(found.arrays[0].chunks.size(), 100000U);
    EXPECT_LT(ms, 5000);  // walking the index anew for each chunk takes minutes
    RecordProperty(latest ? "ms_latest" : "ms_earliest", std::to_string(ms));
    EXPECT_EQ(compare_with_hdf5(path, found), 100000U);
  }
}

TEST(Hdf5, FileThatItsWriterHasNotClosedStaysBytes) {
  ScratchFolder folder;
  std::string path = folder.file("x.h5");
  Hdf5Maker maker(path, 0, true);
  ASSERT_GE(maker.dataset("x", {.shape = {100, 100}}), 0);
  H5Fflush(maker.file(), H5F_SCOPE_GLOBAL);
  MemoryView open(read_whole(path));
  auto result = recognise("x.h5", open, std::nullopt);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().text.find("not closed"), std::string::npos) << result.error().text;
  maker.close();
  EXPECT_EQ(recognise_file(path).arrays.size(), 1U);
}

TEST(Hdf5, TruncatedAndDamagedFilesAreErrorsWithAReason) {
  ScratchFolder folder;
  std::string path = folder.file("x.h5");
  Hdf5Maker maker(path);
  ASSERT_GE(maker.dataset("x", {.shape = {100, 100}}), 0);
  maker.close();
  std::vector<std::byte> bytes = read_whole(path);
  bytes.resize(bytes.size() / 2);
  MemoryView half(bytes);
  auto result = recognise("x.h5", half, std::nullopt);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, EBADMSG);
  EXPECT_NE(result.error().text.find("truncated"), std::string::npos) << result.error().text;
  MemoryView signature(std::string_view("\x89HDF\r\n\x1a\n and nothing else", 24));
  EXPECT_FALSE(recognise("x.h5", signature, std::nullopt).ok());
  EXPECT_TRUE(worth_recognising("x.h5", signature, std::nullopt));
}

}  // namespace
}  // namespace varve::fs
