// Data files of AMReX, written here as its sources and its plotfiles have them.
#include "fs/formats/amrex.h"

#include "written.h"

namespace varve::fs {
namespace {

TEST(Amrex, ComponentsOfBoxesAreFoundElementByElement) {
  constexpr const char* kScript = R"(
formats = {'<f8': '((8, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 2 1)))', '>f8': '((8, (64 11 52 0 1 12 0 1023)),(8, (1 2 3 4 5 6 7 8)))',
           '<f4': '((8, (32 8 23 0 1 9 0 127)),(4, (4 3 2 1)))', '>f4': '((8, (32 8 23 0 1 9 0 127)),(4, (1 2 3 4)))'}
def fab(kind, low, shape, components):
    """A box of `shape` (z, y, x), from its lowest cell (x, y, z)."""
    data = noise((components, *shape), kind)
    high = [l + n - 1 for l, n in zip(low, shape[::-1])]
    point = lambda numbers: '(' + ','.join(map(str, numbers)) + ')'
    box = f'({point(low)} {point(high)} {point([0] * len(low))})'
    return data, f'FAB {formats[kind]}{box} {components}\n'.encode() + data.tobytes()

for name, kind in enumerate(formats):
    for shape in ((5,), (4, 3), (2, 4, 3), (1, 4, 1)):
        boxes = [fab(kind, [2 - 7 * n] * len(shape), shape, 3) for n in range(4)]
        other = fab(kind, [90] * len(shape), [n + 1 for n in shape], 2)
        file = f'{name}.{len(shape)}.{shape[0]}'
        with open(folder + file, 'wb') as out:
            out.write(b''.join(text for _, text in boxes[:2] + [other] + boxes[2:]))
        for component in range(3):
            note(file, 'amrex', f'/{"x".join(map(str, shape))}/{component}', np.stack([data[component] for data, _ in boxes]).astype(kind))
        for component in range(2):
            note(file, 'amrex', f'/{"x".join(str(n + 1) for n in shape)}/{component}', other[0][component][None])

whole, text = fab('<f8', [0, 0, 0], (4, 5, 6), 2)
second = fab('<f8', [6, 0, 0], (4, 5, 6), 2)[1]
for name, tail in (('cut', second[:-1]), ('head', second[:60]), ('other', b'something else\n'), ('ascii', b'FAB: 2 x\n')):
    with open(folder + name, 'wb') as out:
        out.write(text + tail)
    for component in range(2):
        note(name, 'amrex', f'/4x5x6/{component}', whole[component][None])
)";
  if (!expect_what_was_written("numpy", kScript, 80)) {
    GTEST_SKIP() << "no /usr/bin/python3 with numpy: its files are NOT tested";
  }
}

size_t arrays_of(const std::string& line) {
  MemoryView file{std::string_view(line + '\n' + std::string(2000, 'x'))};
  const auto found = recognise("Cell_D_00000", file, std::nullopt);
  EXPECT_TRUE(found.ok());
  return found.ok() && *found ? (*found)->arrays.size() : 0;
}

TEST(Amrex, LinesOfAllKinds) {
  const std::string type = "FAB ((8, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 2 1)))";
  EXPECT_EQ(arrays_of(type + "((0,0,0) (1,1,1) (0,0,0)) 5"), 5U);
  EXPECT_EQ(arrays_of(type + "((-3,-3) (-1,-2) (1,1)) 2"), 2U);
  EXPECT_EQ(arrays_of(type + " ( (0) (9) (0) )  1 "), 1U);
  for (const char* box :
       {"", "((0,0,0) (1,1,1) (0,0,0)) 0", "((0,0,0) (1,1,1) (0,0,0)) -1", "((0,0,0) (1,1,1) (0,0,0))",
        "((0,0,0) (1,-1,1) (0,0,0)) 5", "((0,0) (1,1,1) (0,0,0)) 5", "((0,0,0,0) (1,1,1,1) (0,0,0,0)) 5",
        "((0,0,0) (1,1,1) (0,0,0)) 5 x", "((0,0,0) (999999,999999,999999) (0,0,0)) 5",
        "((-9000000000000000000,0) (9000000000000000000,1) (0,0)) 1",
        "((0,0,0) (1,1,1) (0,0,0)) 99999999999999999999"}) {
    EXPECT_EQ(arrays_of(type + box), 0U) << box;
  }
  EXPECT_EQ(arrays_of("FAB ((8, (64 11 52 0 1 12 0 1024)),(8, (8 7 6 5 4 3 2 1)))((0) (9) (0)) 1"), 0U);
  EXPECT_EQ(arrays_of("FAB ((8, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 1 2)))((0) (9) (0)) 1"), 0U);
  EXPECT_EQ(arrays_of("FAB ((8, (64 11 52 0 1 12 0 1023)),(4, (4 3 2 1)))((0) (9) (0)) 1"), 0U);
  EXPECT_EQ(arrays_of("FAB ((7, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 2 1)))((0) (9) (0)) 1"), 0U);
}

}  // namespace
}  // namespace varve::fs
