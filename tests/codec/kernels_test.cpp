// Every kernel set gives the same bytes: records of the widest set are those of all others, and decode alike.
#include "codec/kernels.h"

#include <gtest/gtest.h>

#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

/// Restores the widest set, whatever a test does.
class KernelSets : public ::testing::Test {
 protected:
  void TearDown() override { use_kernels(nullptr); }
};

struct Made {
  Bytes header;
  std::vector<Record> records;
  Bytes decoded;
};

Made make(const Array& array) {
  Made made;
  auto encoded = ArrayCodec::encode_array(array.spec, reader_of(array));
  EXPECT_TRUE(encoded.ok());
  made.header = encoded->codec.header();
  Store store;
  for (auto& tile : encoded->tiles) {
    for (Record& record : tile) {
      store[{record.id.level, record.id.brick}] = record.data;
      made.records.push_back(std::move(record));
    }
  }
  auto decoded = decode_all(encoded->codec, store);
  EXPECT_TRUE(decoded.ok());
  made.decoded = *std::move(decoded);
  return made;
}

TEST_F(KernelSets, GiveTheSameBytes) {
  std::mt19937_64 random(77);
  size_t sets = 0;
  for (const Extents& shape : {Extents{33, 50, 71}, Extents{130, 259}, Extents{70001}, Extents{3, 5, 40, 41}}) {
    for (const DType type : {DType::f32, DType::f64, DType::i16, DType::u8, DType::i64, DType::f16, DType::bf16}) {
      for (const Content content :
           {Content::waves, Content::noise, Content::mask, Content::specials, Content::layers}) {
        for (const Bound& bound : {Bound{}, Bound{BoundMode::relative, 1e-4}, Bound{BoundMode::relative, 1e-2}}) {
          const Array array = make_array(type, shape, content, bound, random());
          use_kernels(kernel_set(0));
          const Made expected = make(array);
          for (size_t index = 1; kernel_set(index) != nullptr; ++index) {
            SCOPED_TRACE(kernel_set(index)->name);
            use_kernels(kernel_set(index));
            const Made made = make(array);
            ASSERT_TRUE(made.header == expected.header);
            ASSERT_EQ(made.records.size(), expected.records.size());
            for (size_t i = 0; i < made.records.size(); ++i) {
              ASSERT_EQ(made.records[i].id, expected.records[i].id);
              ASSERT_TRUE(made.records[i].data == expected.records[i].data) << "record " << i;
            }
            ASSERT_TRUE(made.decoded == expected.decoded);
            sets = std::max(sets, index + 1);
          }
        }
      }
    }
  }
  RecordProperty("sets", static_cast<int>(sets));
  std::printf("%zu kernel sets compared\n", sets);
}

}  // namespace
}  // namespace varve::codec::testing
