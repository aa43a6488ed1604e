// VTK's files, legacy and XML, written here as the formats' descriptions have them.
#include "fs/formats/vtk.h"

#include "written.h"

namespace varve::fs {
namespace {

TEST(Vtk, BlocksOfLegacyFilesAreFoundElementByElement) {
  constexpr const char* kScript = R"(
kinds_of = {'unsigned_char': 'u1', 'char': 'i1', 'unsigned_short': '>u2', 'short': '>i2', 'unsigned_int': '>u4',
            'int': '>i4', 'unsigned_long': '>u8', 'long': '>i8', 'float': '>f4', 'double': '>f8', 'vtkIdType': '>i4'}
class File:
    def __init__(self, name, version='3.0'):
        self.name, self.out = name, open(folder + name, 'wb')
        self.line(f'# vtk DataFile Version {version}', 'a title', 'BINARY')
    def line(self, *lines):
        for line in lines:
            self.out.write(line.encode() + b'\n')
    def block(self, text, name, kind, shape, reason='', end=b'\n'):
        data = noise(shape, kinds_of[kind])
        self.line(*text.split('|'))
        self.out.write(data.tobytes() + end)
        note(self.name, 'vtk', '/' + name, data, reason)

f = File('points')
f.line('DATASET STRUCTURED_POINTS', 'DIMENSIONS 4 3 2', 'ORIGIN 0 0 0', 'SPACING 1 1 1', 'POINT_DATA 24')
for kind in kinds_of:
    f.block(f'SCALARS {kind} {kind} 1|LOOKUP_TABLE default', f'PointData/{kind}', kind, (2, 3, 4))
f.block('SCALARS two float 2|LOOKUP_TABLE default', 'PointData/two', 'float', (2, 3, 4, 2))
f.block('SCALARS none double|LOOKUP_TABLE default', 'PointData/none', 'double', (2, 3, 4), end=b'')
f.line('LOOKUP_TABLE colours 3')
f.out.write(b'x' * 12 + b'\n')
note('points', 'vtk', '/lookup_table/colours', np.frombuffer(b'x' * 12, 'u1').reshape(3, 4))
f.block('VECTORS v float', 'PointData/v', 'float', (2, 3, 4, 3))
f.line('METADATA', 'INFORMATION 1', 'NAME L2_NORM_RANGE LOCATION vtkDataArray', 'DATA 2 0 1', '')
f.block('TENSORS t double', 'PointData/t', 'double', (2, 3, 4, 9))
f.block('TEXTURE_COORDINATES c 2 float', 'PointData/c', 'float', (2, 3, 4, 2))
f.block('COLOR_SCALARS rgb 3', 'PointData/rgb', 'unsigned_char', (2, 3, 4, 3))
f.line('FIELD FieldData 3')
f.block('a 1 24 double', 'PointData/a', 'double', (2, 3, 4))
f.line('METADATA', 'INFORMATION 0', '')
f.block('b 5 7 int', 'PointData/b', 'int', (7, 5))
f.line('bits 1 9 bit')
f.out.write(b'zz\n')
f.line('CELL_DATA 6')
f.block('NORMALS n float', 'CellData/n', 'float', (1, 2, 3, 3))
f.block('GLOBAL_IDS ids vtkIdType', 'CellData/ids', 'vtkIdType', (1, 2, 3))

f = File('rectilinear', '4.2')
f.line('FIELD FieldData 1')
f.block('TIME 1 1 double', 'FieldData/TIME', 'double', (1,))
f.line('DATASET RECTILINEAR_GRID', 'DIMENSIONS 3 1 2')
f.block('X_COORDINATES 3 float', 'Coordinates/x', 'float', (3,), 'coordinate')
f.block('Y_COORDINATES 1 float', 'Coordinates/y', 'float', (1,), 'coordinate')
f.block('Z_COORDINATES 2 double', 'Coordinates/z', 'double', (2,), 'coordinate', b'')
f.line('', 'CELL_DATA 2')
f.block('scalars p float|LOOKUP_TABLE default', 'CellData/p', 'float', (1, 1, 2))

f = File('structured')
f.line('DATASET STRUCTURED_GRID', 'DIMENSIONS 3 4 2')
f.block('POINTS 24 double', 'Points', 'double', (2, 4, 3, 3), 'coordinate')
f.line('POINT_DATA 24')
f.block('SCALARS s float|LOOKUP_TABLE default', 'PointData/s', 'float', (2, 4, 3))
f.line('FIELD f 2', 'names 1 2 string')
f.out.write(b'\xc0abc')

f = File('cells')
f.line('DATASET UNSTRUCTURED_GRID')
f.block('POINTS 5 float', 'Points', 'float', (5, 3), 'coordinate')
f.block('CELLS 2 9', 'CELLS', 'int', (9,))
f.block('CELL_TYPES 2', 'Cells/types', 'int', (2,))
f.line('CELL_DATA 2')
f.block('SCALARS s double 1|LOOKUP_TABLE default', 'CellData/s', 'double', (2,))

f = File('cells5', '5.1')
f.line('DATASET POLYDATA')
f.block('POINTS 5 float', 'Points', 'float', (5, 3), 'coordinate')
f.line('METADATA', 'INFORMATION 0', '')
kinds_of['vtktypeint64'] = '>i8'
f.block('POLYGONS 3 6|OFFSETS vtktypeint64', 'POLYGONS/offsets', 'vtktypeint64', (3,))
f.block('CONNECTIVITY vtktypeint64', 'POLYGONS/connectivity', 'vtktypeint64', (6,))
f.line('POINT_DATA 5')
f.block('SCALARS s double 1|LOOKUP_TABLE default', 'PointData/s', 'double', (5,))
f.line('CELL_DATA 2', 'SCALARS cut float', 'LOOKUP_TABLE default')
f.out.write(b'1234567')
)";
  if (!expect_what_was_written("numpy", kScript, 30)) {
    GTEST_SKIP() << "no /usr/bin/python3 with numpy: its files are NOT tested";
  }
}

TEST(Vtk, AppendedBlocksOfXmlAreFoundElementByElement) {
  constexpr const char* kScript = R"(
types = {'Int8': 'i1', 'UInt8': 'u1', 'Int16': 'i2', 'UInt16': 'u2', 'Int32': 'i4', 'UInt32': 'u4', 'Int64': 'i8', 'UInt64': 'u8', 'Float32': 'f4', 'Float64': 'f8'}
class File:
    def __init__(self, name, order='<', header='UInt64', file='ImageData', more=''):
        self.name, self.order, self.header, self.data, self.noted = name, order, header, b'', []
        told = f' header_type="{header}"' if header else ''
        endian = 'LittleEndian' if order == '<' else 'BigEndian'
        self.text = f'<?xml version="1.0"?>\n<VTKFile type="{file}" version="1.0" byte_order="{endian}"{told}{more}>\n<{file}>'
    def array(self, section, name, kind, shape, components=None, reason=''):
        dtype = np.dtype(types[kind]).newbyteorder(self.order)
        values = noise(shape, dtype)
        extra = f" NumberOfComponents='{components}'" if components else ''
        self.text += f'<DataArray type="{kind}" Name="{name}"{extra}\n format="appended" RangeMin="0" offset="{len(self.data)}"/>'
        self.data += np.array([values.nbytes], f'{self.order}u{8 if self.header == "UInt64" else 4}').tobytes() + values.tobytes()
        self.noted.append((section, values, reason))
    def write(self, noted=True, encoding='raw', before=''):
        text = f'{self.text}</x>\n<!-- > <Piece> -->\n{before}<AppendedData encoding="{encoding}">\n   _'
        with open(folder + self.name, 'wb') as out:
            out.write(text.encode() + self.data + b'\n</AppendedData>\n</VTKFile>\n')
        for section, values, reason in self.noted if noted else ():
            note(self.name, 'vtk-xml', '/' + section, values, reason)

for order in '<>':
    for header in ('UInt64', 'UInt32', None):
        f = File(f'image{order == "<"}{header}', order, header)
        f.text += '<Piece Extent="0 3 -1 1 5 6"><PointData Scalars="a">'
        for kind in types:
            f.array(f'PointData/{kind}', kind, kind, (2, 3, 4))
        f.array('PointData/vector', 'vector', 'Float32', (2, 3, 4, 3), 3)
        f.text += '</PointData><CellData>'
        f.array('CellData/c', 'c', 'Float64', (1, 2, 3))
        f.array('CellData/d', 'd', 'Float64', (1, 2, 3, 2), 2)
        f.text += '</CellData></Piece>'
        f.write()

f = File('pieces', file='StructuredGrid')
f.text += '<FieldData>'
f.array('FieldData/TimeValue', 'TimeValue', 'Float64', (1,))
f.text += '</FieldData><Piece Extent="0 1 0 2 0 0"><Points>'
f.array('Points', 'Points', 'Float32', (1, 3, 2, 3), 3, 'coordinate')
f.text += '</Points><PointData>'
f.array('PointData/p', 'p', 'Float32', (1, 3, 2))
f.text += '<DataArray type="Float32" Name="same" format="appended" offset="12"/>'.replace('12', str(len(f.data) - 32))
f.text += '<DataArray type="Float32" Name="text" format="ascii">1 2 3</DataArray></PointData></Piece>'
f.text += '<Piece Extent="1 2 0 2 0 0"><PointData>'
f.array('Piece1/PointData/p', 'p', 'Float32', (1, 3, 2))
f.text += '</PointData></Piece>'
f.write()

f = File('cells', file='UnstructuredGrid')
f.text += '<Piece NumberOfPoints="7" NumberOfCells="2"><Points>'
f.array('Points', 'Points', 'Float64', (7, 3), 3, 'coordinate')
f.text += '</Points><Cells>'
f.array('Cells/connectivity', 'connectivity', 'Int64', (8,))
f.text += '</Cells><Coordinates>'
f.array('Coordinates/x', 'x', 'Float32', (9,), None, 'coordinate')
f.text += '</Coordinates></Piece>'
f.write(before='<!--' + 'long ' * 40000 + '-->')
f.name = 'base64'
f.write(False, 'base64')
g = File('squeezed', more=' compressor="vtkZLibDataCompressor"')
g.array('PointData/p', 'p', 'Float32', (5,))
g.write(False)
)";
  if (!expect_what_was_written("numpy", kScript, 80)) {
    GTEST_SKIP() << "no /usr/bin/python3 with numpy: its files are NOT tested";
  }
}

std::optional<Recognised> look(const std::string& text) {
  MemoryView file{std::string_view(text)};
  const auto found = recognise("x.vtk", file, std::nullopt);
  EXPECT_TRUE(found.ok());
  return found.ok() ? *found : std::nullopt;
}

TEST(Vtk, XmlThatLiesOrIsNotRaw) {
  const auto file = [](const std::string& more, const std::string& array, const std::string& encoding,
                       const std::string& data) {
    return "<VTKFile byte_order=\"LittleEndian\" " + more + "><DataArray type=\"Float32\" " + array + "/>" +
           "<AppendedData encoding=\"" + encoding + "\">" + data;
  };
  const auto arrays = [&](const std::string& text) {
    const auto found = look(text);
    return found ? found->arrays.size() : 0;
  };
  const std::string appended = "format=\"appended\" offset=\"0\"";
  const std::string data = std::string("_\x08\0\0\0", 5) + std::string(8, 'd');
  EXPECT_EQ(arrays(file("", appended, "raw", data)), 1U);
  EXPECT_EQ(arrays(file("header_type='UInt32'", appended, "raw", data)), 1U);
  EXPECT_EQ(arrays(file("header_type=\"UInt16\"", appended, "raw", data)), 0U);
  EXPECT_EQ(arrays(file("compressor=\"vtkZLibDataCompressor\"", appended, "raw", data)), 0U);
  EXPECT_EQ(arrays(file("", appended, "base64", data)), 0U);
  EXPECT_EQ(arrays(file("", appended, "raw", data.substr(1))), 0U);
  EXPECT_EQ(arrays(file("", appended, "raw", data.substr(0, 12))), 0U);
  EXPECT_EQ(arrays(file("", appended, "raw", "_")), 0U);
  EXPECT_EQ(arrays(file("", appended + " NumberOfComponents=\"3\"", "raw", data)), 0U);
  EXPECT_EQ(arrays(file("", appended + " NumberOfComponents=\"0\"", "raw", data)), 0U);
  EXPECT_EQ(arrays(file("", "format=\"appended\" offset=\"18446744073709551615\"", "raw", data)), 0U);
  EXPECT_EQ(arrays(file("", "format=\"appended\" offset=\"9999\"", "raw", data)), 0U);
  EXPECT_EQ(arrays(file("", "format=\"binary\" offset=\"0\"", "raw", data)), 0U);
  EXPECT_EQ(arrays("<VTKFile type"), 0U);
  EXPECT_EQ(arrays("<VTKFile <!-- "), 0U);
}

TEST(Vtk, LegacyFilesThatLie) {
  const std::string start = "# vtk DataFile Version 3.0\nt\nBINARY\nDATASET STRUCTURED_POINTS\n";
  const std::string data(64, 'd');
  EXPECT_TRUE(look(start + "DIMENSIONS 2 2 2\nPOINT_DATA 8\nSCALARS s double\nLOOKUP_TABLE d\n" + data));
  for (const char* lie :
       {"DIMENSIONS 2 2\nPOINT_DATA 8\nSCALARS s double\nLOOKUP_TABLE d\n",
        "DIMENSIONS 0 2 2\nPOINT_DATA 8\nSCALARS s double\nLOOKUP_TABLE d\n",
        "DIMENSIONS 2 2 2\nPOINT_DATA 9\nSCALARS s double\nLOOKUP_TABLE d\n",
        "DIMENSIONS 2 2 2\nPOINT_DATA -8\nSCALARS s double\nLOOKUP_TABLE d\n",
        "POINT_DATA 1152921504606846976\nSCALARS s double 1152921504606846976\nLOOKUP_TABLE d\n",
        "DIMENSIONS 2 2 2\nPOINT_DATA 8\nSCALARS s long_double\nLOOKUP_TABLE d\n",
        "DIMENSIONS 2 2 2\nPOINT_DATA 8\nSCALARS s double\n", "POINT_DATA\n", "FIELD f\n", "POINTS\n"}) {
    EXPECT_FALSE(look(start + lie + data)) << lie;
  }
  EXPECT_FALSE(look("# vtk DataFile Version 3.0\nt\nASCII\nDATASET STRUCTURED_POINTS\n" + data));
  EXPECT_FALSE(look("# vtk DataFile Version 3.0\n" + std::string(5000, 't')));
}

}  // namespace
}  // namespace varve::fs
