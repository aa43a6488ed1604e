#include "fs/formats/pytorch.h"

#include <map>

#include "fs/formats/binary.h"
#include "fs/formats/check.h"
#include "fs/formats/contiguous.h"
#include "fs/formats/pickle.h"
#include "fs/formats/zip.h"

namespace varve::fs {

namespace {

constexpr std::string_view kPickle = "/data.pkl", kStorages = "/data/", kOrder = "/byteorder";
constexpr uint64_t kLongestPickle = uint64_t{64} << 20;

std::optional<ElementType> element_type(std::string_view storage) {
  using codec::DType;
  constexpr std::array<std::pair<std::string_view, ElementType>, 12> kTypes{
      {{"FloatStorage", {DType::f32, 1}},
       {"DoubleStorage", {DType::f64, 1}},
       {"HalfStorage", {DType::f16, 1}},
       {"BFloat16Storage", {DType::bf16, 1}},
       {"LongStorage", {DType::i64, 1}},
       {"IntStorage", {DType::i32, 1}},
       {"ShortStorage", {DType::i16, 1}},
       {"CharStorage", {DType::i8, 1}},
       {"ByteStorage", {DType::u8, 1}},
       {"BoolStorage", {DType::u8, 1}},
       {"ComplexFloatStorage", {DType::f32, 2}},
       {"ComplexDoubleStorage", {DType::f64, 2}}}};
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.first == storage; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

/// Nothing: a type that the codec does not know, no elements, or another number of them than the member has room for.
Result<std::optional<ArrayRegion>> array_of(FileView& file, const PickledStorage& storage, const ZipMember& member,
                                            bool big_endian) {
  const auto type = element_type(storage.type);
  if (!type || !member.stored || member.size == 0) {
    return std::optional<ArrayRegion>();
  }
  VARVE_ASSIGN(const uint64_t offset, zip_data_offset(file, member));
  ArrayRegion array = contiguous_array(*type, storage.shape, big_endian, offset);
  array.name = std::string(kStorages) + storage.key;
  array.keep_exact = "checksummed";
  if (chunk_bytes(array) != member.size || !fits(array, file.size())) {
    return std::optional<ArrayRegion>();
  }
  return std::optional(std::move(array));
}

Result<std::vector<std::byte>> content(FileView& file, const ZipMember& member) {
  if (!member.stored || member.size > kLongestPickle) {
    return std::vector<std::byte>();
  }
  VARVE_ASSIGN(const uint64_t offset, zip_data_offset(file, member));
  return read_exactly(file, offset, member.size);
}

}  // namespace

bool may_be_pytorch(const Candidate& candidate) {
  const std::string_view name = first_zip_member(candidate);
  return name.ends_with(kPickle) || name.find(kStorages) != std::string_view::npos;
}

Result<std::optional<Recognised>> recognise_pytorch(FileView& file) {
  VARVE_ASSIGN(const auto members, read_zip_directory(file));
  std::map<std::string_view, const ZipMember*> by_name;
  const ZipMember* pickle = nullptr;
  for (const ZipMember& member : members) {
    by_name.emplace(member.name, &member);
    if (pickle == nullptr && member.name.ends_with(kPickle)) {
      pickle = &member;
    }
  }
  if (pickle == nullptr) {
    return std::optional<Recognised>();
  }
  const std::string folder = pickle->name.substr(0, pickle->name.size() - kPickle.size());
  bool big_endian = false;
  if (const auto order = by_name.find(folder + std::string(kOrder)); order != by_name.end()) {
    VARVE_ASSIGN(const auto word, content(file, *order->second));
    big_endian = !word.empty() && word[0] == std::byte{'b'};
  }
  VARVE_ASSIGN(const auto bytes, content(file, *pickle));
  Recognised result;
  for (const PickledStorage& storage : pickled_storages(bytes)) {
    const auto member = by_name.find(folder + std::string(kStorages) + storage.key);
    if (member == by_name.end()) {
      continue;
    }
    VARVE_ASSIGN(auto array, array_of(file, storage, *member->second, big_endian));
    if (array) {
      result.arrays.push_back(std::move(*array));
    }
  }
  return std::optional(std::move(result));
}

}  // namespace varve::fs
