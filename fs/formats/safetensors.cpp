#include "fs/formats/safetensors.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fs/formats/binary.h"
#include "fs/formats/check.h"
#include "fs/formats/contiguous.h"

namespace varve::fs {

namespace {

using nlohmann::json;

constexpr uint64_t kLongestHeader = 100'000'000;  // bytes: the format's own limit
constexpr size_t kPrefix = 8;

Error contradiction(const std::string& name, std::string_view why) {
  return Error{EBADMSG, fmt::format("tensor {} of the safetensors header {}; the file is kept as bytes", name, why)};
}

std::optional<ElementType> element_type(std::string_view name) {
  using codec::DType;
  constexpr std::array<std::pair<std::string_view, ElementType>, 14> kTypes{{{"BOOL", {DType::u8, 1}},
                                                                             {"U8", {DType::u8, 1}},
                                                                             {"I8", {DType::i8, 1}},
                                                                             {"U16", {DType::u16, 1}},
                                                                             {"I16", {DType::i16, 1}},
                                                                             {"F16", {DType::f16, 1}},
                                                                             {"BF16", {DType::bf16, 1}},
                                                                             {"U32", {DType::u32, 1}},
                                                                             {"I32", {DType::i32, 1}},
                                                                             {"F32", {DType::f32, 1}},
                                                                             {"U64", {DType::u64, 1}},
                                                                             {"I64", {DType::i64, 1}},
                                                                             {"F64", {DType::f64, 1}},
                                                                             {"C64", {DType::f32, 2}}}};
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.first == name; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::vector<uint64_t>> numbers(const json& list) {
  std::vector<uint64_t> out;
  for (const json& number : list) {
    if (!number.is_number_unsigned()) {
      return std::nullopt;
    }
    out.push_back(number.get<uint64_t>());
  }
  return list.is_array() ? std::optional(std::move(out)) : std::nullopt;
}

/// What a header says of one tensor.
struct Tensor {
  std::string type;
  codec::Extents shape;
  std::vector<uint64_t> place;  ///< begin and end, from the end of the header on
};

std::optional<Tensor> tensor_of(const json& entry) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return std::nullopt;
  }
  auto shape = numbers(entry["shape"]);
  auto place = numbers(entry["data_offsets"]);
  if (!shape || !place || place->size() != 2) {
    return std::nullopt;
  }
  return Tensor{entry["dtype"].get<std::string>(), std::move(*shape), std::move(*place)};
}

/// Nothing: a type that the codec does not know, or no elements. `begin`: where tensors begin, at most `file_size`.
Result<std::optional<ArrayRegion>> array_of(const std::string& name, const Tensor& tensor, uint64_t begin,
                                            uint64_t file_size) {
  const auto type = element_type(tensor.type);
  if (!type || checked_product(tensor.shape) == 0) {
    return std::optional<ArrayRegion>();
  }
  const auto [from, to] = std::pair(tensor.place[0], tensor.place[1]);
  if (to < from || to > file_size - begin) {
    return contradiction(name, fmt::format("would have the bytes from {} to {}, which the file does not", from, to));
  }
  ArrayRegion array = contiguous_array(*type, tensor.shape, false, begin + from);
  array.name = "/" + name;
  if (chunk_bytes(array) != to - from || !fits(array, file_size)) {
    return contradiction(
        name, fmt::format("has {} of shape ({}), but {} bytes", tensor.type, fmt::join(tensor.shape, ", "), to - from));
  }
  return std::optional(std::move(array));
}

}  // namespace

bool may_be_safetensors(const Candidate& candidate) {
  if (candidate.start.size() <= kPrefix || !candidate.has(kPrefix, "{")) {
    return false;
  }
  const auto length = load<uint64_t>(candidate.start, 0, false);
  return length >= 2 && length <= kLongestHeader && length <= candidate.file.size() - kPrefix;
}

Result<std::optional<Recognised>> recognise_safetensors(FileView& file) {
  VARVE_ASSIGN(const auto prefix, read_exactly(file, 0, kPrefix));
  const auto length = load<uint64_t>(prefix, 0, false);
  VARVE_ASSIGN(const auto text, read_exactly(file, kPrefix, length));
  const auto* const first = reinterpret_cast<const char*>(text.data());
  const json header = json::parse(first, first + text.size(), nullptr, false);
  if (!header.is_object()) {
    return std::optional<Recognised>();
  }
  Recognised result;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    const auto tensor = tensor_of(entry);
    if (!tensor) {
      return std::optional<Recognised>();
    }
    VARVE_ASSIGN(auto array, array_of(name, *tensor, kPrefix + length, file.size()));
    if (array) {
      result.arrays.push_back(std::move(*array));
    }
  }
  std::sort(result.arrays.begin(), result.arrays.end(),
            [](const ArrayRegion& a, const ArrayRegion& b) { return a.chunks[0].offset < b.chunks[0].offset; });
  return std::optional(std::move(result));
}

}  // namespace varve::fs
