// Archives that Python's zipfile and NumPy write: .npz, and .pt as PyTorch lays it out.
#include "fs/formats/zip.h"

#include "fs/formats/pickle.h"
#include "written.h"

namespace varve::fs {
namespace {

using namespace std::string_literals;

TEST(Npz, WhatNumPyWritesIsFoundElementByElement) {
  constexpr const char* kScript = R"(
import zipfile, io
arrays = {'a': noise((3, 4), '<f4'), 'b/c': noise((2, 3, 4), '>f8'), 'd': noise(5, '<i2'), 'e': noise((), '<f8'),
          'f': np.asfortranarray(noise((3, 5), '<f4')), 'g': noise((4, 2), '<c8'), 'h': noise((4, 2), 'u1'),
          'i': noise((6,), '<M8[s]')}
more = {'words': np.array(['x', 'yz']), 'objects': np.array([1, 'a'], object), 'none': np.zeros((0, 3))}
def told(name):
    for key, array in arrays.items():
        stored = array.view('i8') if array.dtype.kind == 'M' else array.T if key == 'f' else array
        note(name, 'npz', '/' + key, stored, 'checksummed')
np.savez(folder + 'plain.npz', **arrays, **more)
told('plain.npz')
np.savez_compressed(folder + 'compressed.npz', **arrays)
bare('compressed.npz', 'npz')

class OneWay(io.RawIOBase):
    """What cannot be rewound gets data descriptors behind its members."""
    def __init__(self, path): self.file, self.at = open(path, 'wb'), 0
    def writable(self): return True
    def write(self, data): self.at += len(data); return self.file.write(data)
    def seekable(self): return False
    def tell(self): raise OSError
    def flush(self): self.file.flush()
for name, zip64 in (('stream.npz', False), ('stream64.npz', True), ('comment.npz', False)):
    out = open(folder + name, 'wb') if name == 'comment.npz' else OneWay(folder + name)
    with zipfile.ZipFile(out, 'w', allowZip64=True) as archive:
        for key, array in {**arrays, **more}.items():
            with archive.open(f'{key}.npy', 'w', force_zip64=zip64) as member:
                np.lib.format.write_array(member, array)
        archive.writestr('notes.txt', 'text')
        if name == 'comment.npz':
            archive.comment = b'a comment' * 700
    out.flush() if name != 'comment.npz' else out.close()
    assert np.array_equal(np.load(folder + name)['a'], arrays['a'])
    told(name)

# Counts and places in the record of ZIP64, as archives of more than 4 GiB have them.
raw = open(folder + 'plain.npz', 'rb').read()
end = raw.rindex(b'PK\5\6')
count, size, offset = (int.from_bytes(raw[end + a:end + b], 'little') for a, b in ((10, 12), (12, 16), (16, 20)))
record = b'PK\6\6' + (44).to_bytes(8, 'little') + b'\x2d\0\x2d\0' + bytes(8)
record += count.to_bytes(8, 'little') * 2 + size.to_bytes(8, 'little') + offset.to_bytes(8, 'little')
locator = b'PK\6\7' + bytes(4) + end.to_bytes(8, 'little') + (1).to_bytes(4, 'little')
with open(folder + 'long.npz', 'wb') as out:
    out.write(raw[:end] + record + locator + b'PK\5\6' + bytes(4) + b'\xff' * 12 + bytes(2))
assert np.array_equal(np.load(folder + 'long.npz')['a'], arrays['a'])
told('long.npz')
)";
  if (!expect_what_was_written("numpy", kScript, 5 * 8)) {
    GTEST_SKIP() << "no /usr/bin/python3 with NumPy: its files are NOT tested";
  }
}

/// The archive and the pickle as torch.save makes them, by Python's own modules: no PyTorch is needed.
constexpr const char* kTorchScript = R"(
import collections, pickle, types, zipfile, io
def module(name):
    sys.modules[name] = types.ModuleType(name)
    return sys.modules[name]
torch, utils, storage = module('torch'), module('torch._utils'), module('torch.storage')
def stand_in(home, name):
    made = type(name, (), {'__module__': home.__name__, '__qualname__': name})
    setattr(home, name, made)
    return made
codes = {'Float': '<f4', 'Double': '<f8', 'Half': '<f2', 'BFloat16': '<u2', 'Long': '<i8', 'Int': '<i4', 'Short': '<i2',
         'Char': 'i1', 'Byte': 'u1', 'Bool': '?', 'ComplexFloat': '<c8', 'ComplexDouble': '<c16'}
classes = {name: stand_in(torch, name + 'Storage') for name in codes}
odd = stand_in(torch, 'QUInt8Storage')
def _rebuild_tensor_v2(*a): raise AssertionError('called')
_rebuild_tensor_v2.__module__ = 'torch._utils'
utils._rebuild_tensor_v2 = _rebuild_tensor_v2
def _rebuild_parameter(*a): raise AssertionError('called')
_rebuild_parameter.__module__ = 'torch._utils'
utils._rebuild_parameter = _rebuild_parameter
class Storage:
    def __init__(self, kind, key, elements): self.id = ('storage', kind, key, 'cpu', elements)
class Tensor:
    def __init__(self, storage, offset, size, stride): self.of = (storage, offset, size, stride, False, collections.OrderedDict())
    def __reduce__(self): return _rebuild_tensor_v2, self.of
class Parameter:
    def __init__(self, tensor): self.tensor = tensor
    def __reduce__(self): return _rebuild_parameter, (self.tensor, True, collections.OrderedDict())
class Pickler(pickle._Pickler):
    def persistent_id(self, thing): return thing.id if isinstance(thing, Storage) else None
def c_order(shape): return tuple(int(np.prod(shape[i + 1:], dtype=int)) for i in range(len(shape)))
def whole(kind, key, shape): return Tensor(Storage(kind, key, int(np.prod(shape, dtype=int))), 0, shape, c_order(shape))
def save(name, state, storages, prefix='archive', order=None, protocol=2, align=64):
    out = io.BytesIO()
    Pickler(out, protocol=protocol).dump(state)
    with zipfile.ZipFile(folder + name, 'w', zipfile.ZIP_STORED) as archive:
        archive.writestr(f'{prefix}/data.pkl', out.getvalue())
        if order:
            archive.writestr(f'{prefix}/byteorder', order)
        for key, data in storages.items():
            info = zipfile.ZipInfo(f'{prefix}/data/{key}')
            pad = -(archive.fp.tell() + 30 + len(info.filename) + 4) % align
            info.extra = b'FB' + pad.to_bytes(2, 'little') + b'Z' * pad
            archive.writestr(info, data)
        archive.writestr(f'{prefix}/version', '3')
)";

TEST(Pytorch, StoragesAreFoundWithTheirTensorsShapes) {
  const std::string script = std::string(kTorchScript) + R"(
for protocol in (2, 4, 5):
    state, data, noted = collections.OrderedDict(), {}, []
    for n, (kind, code) in enumerate(codes.items()):
        array = noise((3, 4, 2), code)
        tensor = whole(classes[kind], str(n), array.shape)
        state[f'layer{n}.weight'] = Parameter(tensor) if n % 2 else tensor
        data[str(n)] = array.tobytes()
        noted.append((n, array, 'bf16' if kind == 'BFloat16' else None))
    save(f'{protocol}.pt', {'model': state, 'epoch': 3, 'rate': 0.1, 'more': [None, True, -5, 2**40, 'x' * 300, {1, 2}]},
         data, protocol=protocol)
    for n, array, dtype in noted:
        note(f'{protocol}.pt', 'pytorch', f'/data/{n}', array, 'checksummed', dtype=dtype)

array = noise((5, 6), '>f4')
save('big.pt', {'w': whole(classes['Float'], '0', (5, 6))}, {'0': array.tobytes()}, prefix='deep/inside', order='big')
note('big.pt', 'pytorch', '/data/0', array, 'checksummed')

values = noise(60, '<f4')
cases = {'view': [Tensor(Storage(classes['Float'], '0', 60), 30, (5, 6), (6, 1))],
         'transposed': [Tensor(Storage(classes['Float'], '0', 60), 0, (10, 6), (1, 10))],
         'twice': [whole(classes['Float'], '0', (60,)), whole(classes['Float'], '0', (60,))],
         'scalar': [Tensor(Storage(classes['Float'], '0', 60), 0, (), ())]}
for name, state in cases.items():
    save(name, state, {'0': values.tobytes()})
    note(name, 'pytorch', '/data/0', values, 'checksummed')
shared = Storage(classes['Float'], '0', 60)
save('shared', [Tensor(shared, 0, (60,), (1,)), Tensor(shared, 0, (6, 10), (10, 1)), Tensor(shared, 0, (2, 30), (30, 1))],
     {'0': values.tobytes()})
note('shared', 'pytorch', '/data/0', values.reshape(6, 10), 'checksummed')
save('one', [Tensor(Storage(classes['Float'], '0', 60), 0, (1, 60, 1), (7, 1, 9))], {'0': values.tobytes()})
note('one', 'pytorch', '/data/0', values.reshape(1, 60, 1), 'checksummed')

for name, state in {'short': whole(classes['Float'], '0', (59,)), 'long': whole(classes['Float'], '0', (61,)),
                    'odd': whole(odd, '0', (240,)), 'other': whole(classes['Float'], '1', (60,)),
                    'none': [1, 2, 3]}.items():
    save(name, state, {'0': values.tobytes()})
    bare(name, 'pytorch')
)";
  if (!expect_what_was_written("numpy", script, 3 * 12 + 7)) {
    GTEST_SKIP() << "no /usr/bin/python3 with NumPy: its files are NOT tested";
  }
}

std::vector<float> load_floats(const MemoryView& file, uint64_t offset, size_t count) {
  std::vector<float> out(count);
  std::memcpy(out.data(), file.bytes().data() + offset, count * sizeof(float));
  return out;
}

/// Written by torch.save of PyTorch 1.13; it is also an input of the fuzz target, whose first byte is no part of it.
TEST(Pytorch, AFileOfItsOwnIsFound) {
  auto bytes = read_whole(VARVE_RECOGNISER_SEEDS "/file_pytorch");
  ASSERT_FALSE(bytes.empty());
  bytes.erase(bytes.begin());
  MemoryView file(std::move(bytes));
  const auto found = recognise("model.pt", file, std::nullopt);
  ASSERT_TRUE(found.ok() && *found) << found.error().text;
  std::vector<std::string> told;
  for (const ArrayRegion& array : (*found)->arrays) {
    told.push_back(fmt::format("{} {} {} {}", array.name, codec::name_of(array.dtype), fmt::join(array.shape, "x"),
                               array.keep_exact));
  }
  EXPECT_EQ(told, (std::vector<std::string>{"/data/0 f32 3x5 checksummed", "/data/1 f32 7 checksummed",
                                            "/data/2 bf16 4x2 checksummed", "/data/3 i64 1 checksummed",
                                            "/data/4 f32 20 checksummed"}));
  const auto first = load_floats(file, (*found)->arrays[1].chunks[0].offset, 7);
  EXPECT_EQ(first, (std::vector<float>{0, 1, 2, 3, 4, 5, 6}));
}

std::vector<PickledStorage> storages_of(std::string_view pickle) {
  return pickled_storages(std::as_bytes(std::span(pickle)));
}

TEST(Pytorch, PicklesThatMakeNoSenseAreReadUpToThere) {
  const std::string text = "\x80\x02(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"s + "7X\3\0\0\0cpuK\5tQ."s;
  const auto found = storages_of(text);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].key, "7");
  EXPECT_EQ(found[0].type, "FloatStorage");
  EXPECT_EQ(found[0].shape, (std::vector<uint64_t>{5}));
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_LE(storages_of(std::string_view(text).substr(0, length)).size(), 1U);
  }
  for (const std::string& wrong : std::vector<std::string>{
           "t", "R", "Q", "b", "0", "u", "\x87", "hx", "qx", "(0", "(Q", "\x93", "X\xff\xff\xff\xff",
           "\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "cno line", std::string(1000, '\x85'), "\x8a\x09"}) {
    EXPECT_TRUE(storages_of(wrong).empty());
    EXPECT_EQ(storages_of(text.substr(0, text.size() - 1) + wrong).size(), 1U);
  }
  // Tuples in tuples, more than a stack has room for.
  EXPECT_TRUE(storages_of(")" + std::string(1'000'000, '\x85') + ".").empty());
  EXPECT_TRUE(storages_of(std::string(3'000'000, '(')).empty());
}

Result<std::optional<Recognised>> look(const std::string& text) {
  MemoryView file{std::string_view(text)};
  return recognise("x", file, std::nullopt);
}

TEST(Zip, ArchivesWithoutADirectoryAreRefused) {
  const std::string local = "PK\3\4\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\4\0\0\0\5\0\0\0"s + "a.npydata";
  EXPECT_FALSE(look(local).ok());
  const std::string numbers = "\x14\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\4\0\0\0\5\0"s;
  const std::string entry = "PK\1\2" + numbers + std::string(16, '\0') + "a.npy";
  const auto end = [&](uint32_t size, uint32_t offset) {
    std::string text = "PK\5\6\0\0\0\0\1\0\1\0"s;
    for (const uint32_t number : {size, offset}) {
      text.append(reinterpret_cast<const char*>(&number), 4);
    }
    return text + std::string(2, '\0');
  };
  const auto size = static_cast<uint32_t>(entry.size()), at = static_cast<uint32_t>(local.size());
  const auto good = look(local + entry + end(size, at));
  ASSERT_TRUE(good.ok() && *good) << good.error().text;
  EXPECT_EQ((*good)->format, "npz");
  EXPECT_FALSE(look(local + entry + end(size - 1, at)).ok());
  EXPECT_FALSE(look(local + entry + end(size, at + 1)).ok());
  EXPECT_FALSE(look(local + entry + end(size, ~0U)).ok());
  EXPECT_FALSE(look(local + entry + end(~0U, 0)).ok());
  std::string elsewhere = entry;
  elsewhere[42] = 1;
  EXPECT_FALSE(look(local + elsewhere + end(size, at)).ok());
  std::string long_member = entry;
  long_member[22] = long_member[26] = 1;
  EXPECT_FALSE(look(local + long_member + end(size, at)).ok());
  const auto other = look("PK\3\4" + local.substr(4, 26) + "a.txt" + "data");
  EXPECT_TRUE(other.ok() && !*other) << "an archive of something else";
}

}  // namespace
}  // namespace varve::fs
