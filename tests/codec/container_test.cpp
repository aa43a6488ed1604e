// Containers, through C++ and through the C API: what goes in comes out, in whole, by box, by level, from a prefix; and
// nothing that was damaged does.
#include "codec/container.h"

#include <thread>

#include "codec/capi.h"
#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

/// An open container of the C API.
class Opened {
 public:
  explicit Opened(std::span<const std::byte> data) { status_ = varve_open(data.data(), data.size(), &container_); }
  ~Opened() { varve_close(container_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  int status() const { return status_; }
  const varve_container* get() const { return container_; }
  varve_info info() const {
    varve_info info;
    EXPECT_EQ(varve_get_info(container_, &info), 0) << varve_last_error();
    return info;
  }

 private:
  varve_container* container_ = nullptr;
  int status_ = 0;
};

Bytes compress(const Array& array, uint32_t threads) {
  const std::string bound = to_string(array.spec.bound);
  varve_spec spec{};
  spec.dtype = static_cast<uint32_t>(array.spec.dtype);
  spec.rank = static_cast<uint32_t>(array.spec.shape.size());
  spec.shape = array.spec.shape.data();
  spec.bound = bound.c_str();
  spec.fills = array.spec.fill_values.data();
  spec.fill_count = array.spec.fill_values.size();
  spec.threads = threads;
  void* data = nullptr;
  uint64_t size = 0;
  EXPECT_EQ(varve_compress(&spec, array.data.data(), &data, &size), 0) << varve_last_error();
  Bytes out(static_cast<std::byte*>(data), static_cast<std::byte*>(data) + size);
  varve_free(data);
  return out;
}

Bytes decompress(const Opened& opened, uint32_t level, uint32_t threads = 1) {
  Bytes out(opened.info().size);
  EXPECT_EQ(varve_decompress(opened.get(), level, threads, out.data(), out.size()), 0) << varve_last_error();
  return out;
}

/// Every third box or so of an array: corners, single elements, all.
std::vector<Box> some_boxes(const Extents& shape, std::mt19937_64& random) {
  std::vector<Box> boxes{{Extents(shape.size(), 0), shape}};
  for (int i = 0; i < 6; ++i) {
    Box box{shape, shape};
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      box.origin[axis] = random() % shape[axis];
      box.shape[axis] = 1 + random() % (shape[axis] - box.origin[axis]);
    }
    boxes.push_back(box);
  }
  return boxes;
}

void check(const Array& array) {
  const Bytes container = compress(array, 1);
  EXPECT_EQ(compress(array, 3), container) << "threads change the bytes";
  const Opened opened(container);
  ASSERT_EQ(opened.status(), 0) << varve_last_error();
  const varve_info info = opened.info();
  EXPECT_EQ(info.stored, container.size());
  EXPECT_EQ(info.prefix[0], container.size());
  EXPECT_EQ(Extents(info.shape, info.shape + info.rank), array.spec.shape);
  EXPECT_EQ(varve_verify(opened.get()), 0) << varve_last_error();
  const Bytes all = decompress(opened, 0);
  EXPECT_EQ(violation(array, all, info.absolute_bound), "");
  std::mt19937_64 random(array.count());
  for (uint32_t level = 0; level < VARVE_LEVELS; ++level) {
    const Bytes view = decompress(opened, level, 2);
    EXPECT_TRUE(level > 0 || view == all) << "threads change what is decoded";
    const Opened front{std::span(container).first(info.prefix[level])};
    ASSERT_EQ(front.status(), 0) << varve_last_error();
    EXPECT_EQ(decompress(front, level), view) << "level " << level << " from a prefix";
    for (const Box& box : some_boxes(array.spec.shape, random)) {
      const size_t size = varve_element_size(info.dtype);
      Bytes wanted(element_count(box.shape) * size);
      copy_box(array.spec.shape, size, box, view.data(), wanted.data());
      Bytes part(wanted.size());
      EXPECT_EQ(
          varve_decompress_box(opened.get(), box.origin.data(), box.shape.data(), level, 1, part.data(), part.size()),
          0)
          << varve_last_error();
      EXPECT_EQ(part, wanted) << "level " << level;
    }
  }
}

TEST(Container, HoldsEveryTypeAndRank) {
  for (const DType type : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32, DType::u64, DType::i64,
                           DType::f16, DType::f32, DType::f64, DType::bf16}) {
    for (const Extents& shape :
         {Extents{}, Extents{70001}, Extents{67, 300}, Extents{70, 9, 66}, Extents{3, 5, 20, 20}}) {
      for (const Content content : {Content::waves, Content::fills}) {
        SCOPED_TRACE(fmt::format("{} of rank {}", name_of(type), shape.size()));
        const Bound bound = is_float(type) ? Bound{BoundMode::relative, 1e-2} : Bound{};
        check(make_array(type, shape, content, bound, 5));
      }
    }
  }
}

TEST(Container, HoldsWhatIsEncodedTileByTile) {
  const Array array = make_array(DType::f32, {130, 200, 170}, Content::waves, {BoundMode::absolute, 1e-3}, 9);
  ASSERT_GT(array.count(), ArrayCodec::kEncodeWhole);
  check(array);
}

TEST(Container, OfManyAnchors) {  // a sanitizer saw the encoder count past its histogram
  check(make_array(DType::f32, {64, 64, 64, 2}, Content::waves, {BoundMode::absolute, 1e-3}, 9));
  check(make_array(DType::f32, {8192, 8}, Content::noise, {BoundMode::absolute, 1e-3}, 9));
}

TEST(Container, OfNoElements) {
  Array array;
  array.spec = {DType::f32, {4, 0, 3}, {}, {}};
  const Bytes container = compress(array, 1);
  const Opened opened(container);
  ASSERT_EQ(opened.status(), 0) << varve_last_error();
  EXPECT_EQ(varve_decompress(opened.get(), 0, 1, nullptr, 0), 0) << varve_last_error();
}

TEST(Container, AnyChangedByteIsFound) {
  const Array array = make_array(DType::f32, {20, 21, 22}, Content::waves, {BoundMode::relative, 1e-3}, 3);
  const Bytes container = compress(array, 1);
  std::mt19937_64 random(1);
  for (size_t at = 0; at < container.size(); ++at) {
    Bytes damaged = container;
    damaged[at] ^= static_cast<std::byte>(1U << random() % 8);
    const Opened opened(damaged);
    if (opened.status() == 0) {
      Bytes out(opened.info().size);
      EXPECT_EQ(varve_decompress(opened.get(), 0, 1, out.data(), out.size()), EBADMSG) << "byte " << at;
      EXPECT_EQ(varve_verify(opened.get()), EBADMSG) << "byte " << at;
    } else {
      EXPECT_EQ(opened.status(), EBADMSG);
      EXPECT_STRNE(varve_last_error(), "");
    }
  }
}

TEST(Container, CutOrLongerIsFound) {
  const Array array = make_array(DType::f64, {20, 21, 22}, Content::waves, {BoundMode::relative, 1e-3}, 3);
  Bytes container = compress(array, 1);
  const uint64_t coarse = Opened(container).info().prefix[3];
  for (size_t size = 0; size < container.size(); size += 7) {
    const Opened opened{std::span(container).first(size)};
    if (opened.status() == 0) {
      Bytes out(opened.info().size);
      EXPECT_EQ(varve_decompress(opened.get(), 0, 1, out.data(), out.size()), EBADMSG) << size;
      EXPECT_EQ(varve_decompress(opened.get(), 3, 1, out.data(), out.size()), size < coarse ? EBADMSG : 0) << size;
    } else {
      EXPECT_EQ(opened.status(), EBADMSG);
    }
  }
  container.push_back({});
  EXPECT_EQ(Opened(container).status(), EBADMSG);
}

TEST(CApi, RefusesWhatMakesNoSense) {
  const Array array = make_array(DType::f32, {30, 40}, Content::waves, {}, 3);
  const Extents& shape = array.spec.shape;
  void* out = nullptr;
  uint64_t size = 0;
  const varve_spec good{VARVE_F32, 2, shape.data(), "rel:1e-3", nullptr, 0, 1};
  const auto refuses = [&](auto change) {
    varve_spec spec = good;
    change(spec);
    EXPECT_EQ(varve_compress(&spec, array.data.data(), &out, &size), EINVAL);
    EXPECT_STRNE(varve_last_error(), "");
    EXPECT_EQ(out, nullptr);
  };
  refuses([](varve_spec& spec) { spec.dtype = 99; });
  refuses([](varve_spec& spec) { spec.dtype = 256 + VARVE_F32; });
  refuses([](varve_spec& spec) { spec.rank = 33; });
  refuses([](varve_spec& spec) { spec.bound = "rel:often"; });
  refuses([](varve_spec& spec) { spec.shape = nullptr; });
  refuses([](varve_spec& spec) { spec.fill_count = 1; });
  const Extents huge{uint64_t{1} << 61, 5};
  refuses([&](varve_spec& spec) { spec.shape = huge.data(); });
  EXPECT_EQ(varve_compress(nullptr, array.data.data(), &out, &size), EINVAL);
  EXPECT_EQ(varve_compress(&good, nullptr, &out, &size), EINVAL);

  const Bytes container = compress(array, 1);
  const Opened opened(container);
  Bytes room(array.data.size());
  EXPECT_EQ(varve_decompress(opened.get(), 4, 1, room.data(), room.size()), EINVAL);
  EXPECT_EQ(varve_decompress(opened.get(), 256, 1, room.data(), room.size()), EINVAL);
  EXPECT_EQ(varve_decompress(opened.get(), 0, 1, room.data(), room.size() - 1), EINVAL);
  EXPECT_EQ(varve_decompress(nullptr, 0, 1, room.data(), room.size()), EINVAL);
  const Extents outside{29, 39};
  const Extents part{2, 2};
  EXPECT_EQ(varve_decompress_box(opened.get(), outside.data(), part.data(), 0, 1, room.data(), 16), EINVAL);
  EXPECT_NE(std::string(varve_last_error()).find("box"), std::string::npos);
}

TEST(CApi, ErrorsAreOfTheirThread) {
  EXPECT_NE(varve_open("nonsense", 8, nullptr), 0);
  const std::string mine = varve_last_error();
  std::string other = "not run";
  std::thread([&] { other = varve_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_EQ(varve_last_error(), mine);
}

}  // namespace
}  // namespace varve::codec::testing
