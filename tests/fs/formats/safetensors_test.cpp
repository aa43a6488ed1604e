// Files made as the format says, and headers that lie.
#include "fs/formats/safetensors.h"

#include "written.h"

namespace varve::fs {
namespace {

std::string file_of(const std::string& header, size_t data) {
  std::string text;
  for (size_t i = 0; i < 8; ++i) {
    text.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  text += header;
  text.append(data, 'x');
  return text;
}

Result<std::optional<Recognised>> look(const std::string& text) {
  MemoryView file{std::string_view(text)};
  return recognise("x", file, std::nullopt);
}

TEST(Safetensors, TensorsAreFoundInTheOrderOfTheFile) {
  constexpr const char* kScript = R"(
types = {'BOOL': '?', 'U8': 'u1', 'I8': 'i1', 'U16': 'u2', 'I16': 'i2', 'F16': 'f2', 'BF16': 'u2', 'U32': 'u4', 'I32': 'i4',
         'F32': 'f4', 'U64': 'u8', 'I64': 'i8', 'F64': 'f8', 'C64': 'c8'}
for n, padding in enumerate((0, 1, 7)):
    header, data, tensors = {'__metadata__': {'format': 'pt'}}, b'', []
    for name, dtype in types.items():
        for shape in ((), (7,), (3, 4), (2, 1, 5), (0, 3)):
            array = noise(shape, dtype)
            tensors.append((f'z{99 - len(tensors)}.{name}.weight', name, array))
    tensors.append(('eight', 'F8_E4M3', noise((3, 4), 'u1')))
    for name, dtype, array in tensors:
        header[name] = {'dtype': dtype, 'shape': list(array.shape), 'data_offsets': [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode() + b' ' * padding
    with open(f'{folder}{n}.safetensors', 'wb') as out:
        out.write(len(text).to_bytes(8, 'little') + text + data)
    for name, dtype, array in tensors:
        if array.size and dtype != 'F8_E4M3':
            note(f'{n}.safetensors', 'safetensors', '/' + name, array, dtype='bf16' if dtype == 'BF16' else None)
with open(folder + 'none', 'wb') as out:
    out.write((2).to_bytes(8, 'little') + b'{}')
bare('none', 'safetensors')
)";
  if (!expect_what_was_written("json", kScript, 3 * 14 * 4)) {
    GTEST_SKIP() << "no /usr/bin/python3 with NumPy: its files are NOT tested";
  }
}

std::string entry(const std::string& type, const std::string& shape, const std::string& place) {
  return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", type, shape, place);
}

TEST(Safetensors, HeadersThatLieAreRefused) {
  ASSERT_TRUE(look(file_of(entry("F32", "[2,3]", "[0,24]"), 24)).ok());
  EXPECT_EQ((*look(file_of(entry("F32", "[2,3]", "[0,24]"), 24)))->arrays.size(), 1U);
  const std::string big = "18446744073709551615";
  for (const auto& [shape, place] : std::vector<std::pair<std::string, std::string>>{
           {"[2,3]", "[0,23]"},
           {"[2,3]", "[0,25]"},
           {"[2,3]", "[24,0]"},
           {"[2,3]", "[1,25]"},
           {"[2,3]", "[" + big + ",23]"},
           {"[2,3]", "[0," + big + "]"},
           {"[" + big + "," + big + "]", "[0,24]"},
           {"[4611686018427387904,4]", "[0,0]"},
           {"[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"}}) {
    EXPECT_FALSE(look(file_of(entry("F32", shape, place), 24)).ok()) << shape << " " << place;
  }
  const auto twice = look(file_of(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
      8));
  EXPECT_FALSE(twice.ok()) << "two tensors share a byte";
}

TEST(Safetensors, OtherTextBehindANumberIsNone) {
  for (const std::string& header : std::vector<std::string>{
           "{ }", "{not json", "{\"a\":1}", "{\"a\":{\"dtype\":\"F32\"}}", entry("F32", "6", "[0,24]"),
           entry("F32", "[2,3]", "[0]"), entry("F32", "[2,-3]", "[0,24]"), entry("F32", "[2.0,3]", "[0,24]")}) {
    const auto found = look(file_of(header, 24));
    EXPECT_TRUE(found.ok()) << header;
    EXPECT_EQ(found.ok() && found->has_value(), header == "{ }") << header;
  }
  const std::string deep = "{\"a\":" + std::string(1'000'000, '[');
  EXPECT_TRUE(look(file_of(deep, 0)).ok() && !*look(file_of(deep, 0)));
  std::string late = file_of(entry("F32", "[2,3]", "[0,24]"), 24);
  late[5] = 1;  // a header longer than the file
  EXPECT_TRUE(look(late).ok() && !*look(late));
}

}  // namespace
}  // namespace varve::fs
