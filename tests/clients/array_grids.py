"""The arrays of files of simulations' own formats: NetCDF's classic ones, AMReX's boxes, VTK. Parsed here, as the
formats' descriptions have it; what a library reads is compared where there is one."""

import dataclasses
import json
import mmap
import re
import struct
from xml.etree import ElementTree

import netCDF4
import numpy as np
from array_kinds import Array, protected

CDF_TYPES = dict(enumerate(("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8"), 1))


@dataclasses.dataclass
class Variable:
    name: str
    dimensions: list
    attributes: dict
    dtype: np.dtype
    begin: int


class CdfHeader:
    """The header of a NetCDF file of a classic format."""

    def __init__(self, data):
        self.data, self.at, self.version = data, 4, data[3]
        records = self.count()
        self.dimensions = [(self.name(), self.count()) for _ in range(self.list())]
        self.attributes()
        self.variables = [self.variable() for _ in range(self.list())]
        self.record_variables = [v for v in self.variables if v.dimensions and not self.dimensions[v.dimensions[0]][1]]
        alone = len(self.record_variables) == 1
        self.step = sum(self.bytes(v) if alone else (self.bytes(v) + 3) // 4 * 4 for v in self.record_variables)
        self.records = records

    def number(self, form):
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def count(self):
        return self.number(">Q" if self.version == 5 else ">I")

    def list(self):
        self.number(">I")
        return self.count()

    def name(self):
        length = self.count()
        name = bytes(self.data[self.at : self.at + length]).decode()
        self.at += (length + 3) // 4 * 4
        return name

    def attributes(self):
        found = {}
        for _ in range(self.list()):
            name, kind, count = self.name(), CDF_TYPES[self.number(">I")], self.count()
            found[name] = np.frombuffer(self.data, kind, count, self.at)
            self.at += (found[name].nbytes + 3) // 4 * 4
        return found

    def variable(self):
        name = self.name()
        dimensions = [self.count() for _ in range(self.count())]
        attributes = self.attributes()
        dtype = np.dtype(CDF_TYPES[self.number(">I")])
        self.count()
        return Variable(name, dimensions, attributes, dtype, self.number(">I" if self.version == 1 else ">Q"))

    def bytes(self, variable):
        """Of a record, or of all."""
        return int(np.prod([n for n in self.shape(variable) if n], dtype=np.int64)) * variable.dtype.itemsize

    def shape(self, variable):
        return [self.dimensions[d][1] for d in variable.dimensions]


def text(variable, name):
    value = variable.attributes.get(name)
    return value.tobytes().decode(errors="replace") if value is not None and value.dtype.kind == "S" else ""


def netcdf3_arrays(path):
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    header = CdfHeader(data)
    lists = [text(v, name) for v in header.variables for name in ("coordinates", "bounds", "climatology")]
    mentioned = {word for words in lists for word in words.split()}
    arrays = []
    with netCDF4.Dataset(path) as library:
        library.set_auto_maskandscale(False)
        for variable in header.variables:
            if variable.dtype.kind == "S":
                continue
            shape = header.shape(variable)
            each = header.bytes(variable)
            runs = [(variable.begin, shape)]
            if variable in header.record_variables:
                shape[0] = header.records
                runs = [(variable.begin + i * header.step, shape[1:]) for i in range(header.records)]
            values = b"".join(data[offset : offset + each] for offset, _ in runs)
            values = np.frombuffer(values, variable.dtype).reshape(shape)
            if np.asarray(library.variables[variable.name][...]).astype(variable.dtype).tobytes() != values.tobytes():
                raise AssertionError(f"{path}: {variable.name} is parsed wrongly by the test itself")
            own = bool(shape) and header.dimensions[variable.dimensions[0]][0] == variable.name
            packed = {"scale_factor", "add_offset"} & set(variable.attributes)
            exact = "coordinate" if own or variable.name in mentioned else "packed" if packed else protected(values)
            fills = [value for name in ("_FillValue", "missing_value") for value in variable.attributes.get(name, ())]
            fills = [value for value in fills if np.asarray(value).dtype.kind in "iuf"]
            fills += [netCDF4.default_fillvals[variable.dtype.str[1:]]]
            places = [(offset, run, tuple(slice(None) for _ in run)) for offset, run in runs]
            arrays.append(Array(variable.name, values, places, fills, values.itemsize, exact))
    return arrays


FAB = re.compile(
    rb"FAB \(\(8, \((32|64) [\d ]+\)\),\(\d, \((\d)[\d ]+\)\)\)\(\(([-\d,]+)\) \(([-\d,]+)\) \([\d,]+\)\) (\d+)\n"
)


def fabs(path):
    """The boxes of a file: offset of the numbers, and these in the shape (components, z, y, x)."""
    data = path.read_bytes()
    at = 0
    while match := FAB.match(data, at):
        bits, first, low, high, components = match.groups()
        extents = [int(h) - int(l) + 1 for l, h in zip(low.split(b","), high.split(b","))]
        shape = [int(components), *extents[::-1]]
        dtype = np.dtype(f"{'>' if first == b'1' else '<'}f{int(bits) // 8}")
        values = np.frombuffer(data, dtype, int(np.prod(shape)), match.end()).reshape(shape)
        at = match.end() + values.nbytes
        yield match.end(), values


def amrex_arrays(path):
    """A component of all boxes of one shape is an array."""
    found = {}
    for offset, values in fabs(path):
        for number, part in enumerate(values):
            name = f"/{'x'.join(map(str, part.shape))}/{number}"
            found.setdefault(name, []).append((offset + number * part.nbytes, part))
    arrays = []
    for name, boxes in found.items():
        values = np.stack([part for _, part in boxes])
        places = [(offset, part.shape, tuple(slice(None) for _ in part.shape)) for offset, part in boxes]
        arrays.append(Array(name, values, places, [], values.itemsize, protected(values)))
    return arrays


VTK_TYPES = {"unsigned_char": "u1", "short": ">i2", "int": ">i4", "float": ">f4", "double": ">f8"}


def vtk_arrays(path):
    """Of the legacy format: points, and SCALARS and VECTORS."""
    data = path.read_bytes()
    if data.split(b"\n", 3)[2] != b"BINARY":
        return []
    numbers = re.search(rb"\nDIMENSIONS (\d+) (\d+) (\d+)\n", data)
    grid = [int(n) for n in numbers.groups()[::-1]] if numbers else []
    arrays, at, tuples = [], numbers.end() if numbers else 0, 0
    line = re.compile(
        rb"(?:POINTS (\d+)|(?:POINT|CELL)_DATA (\d+)\n(?:SCALARS|VECTORS) \S+|(?:SCALARS|VECTORS) \S+) "
        rb"(unsigned_char|short|int|float|double)(?: 1)?\n(LOOKUP_TABLE \S+\n)?"
    )
    while match := line.search(data, at):
        points, new_tuples, kind, table = match.groups()
        tuples = int(new_tuples or tuples)
        shape = grid if int(points or tuples) == np.prod(grid) else [int(points or tuples)]
        shape = shape if table else [*shape, 3]
        values = np.frombuffer(data, VTK_TYPES[kind.decode()], int(np.prod(shape)), match.end()).reshape(shape)
        at = match.end() + values.nbytes
        exact = "coordinate" if points else protected(values)
        everything = tuple(slice(None) for _ in shape)
        arrays.append(Array(match[0].decode(), values, [(match.end(), shape, everything)], [], values.itemsize, exact))
    return arrays


def vtk_xml_arrays(path):
    data = path.read_bytes()
    text, appended, raw = data.partition(b'<AppendedData encoding="raw">')
    if not appended:
        return []
    root = ElementTree.fromstring(text + b"</VTKFile>")
    if "compressor" in root.attrib:
        return []
    order = "<" if root.get("byte_order") == "LittleEndian" else ">"
    start = len(text) + len(appended) + raw.index(b"_") + 1
    length = np.dtype(f"{order}u{8 if root.get('header_type') == 'UInt64' else 4}")
    arrays = []
    for section in ("PointData", "CellData", "Points", "Coordinates"):
        for element in root.iterfind(f".//{section}/DataArray"):
            at = start + int(element.get("offset"))
            kind = element.get("type")
            bits = int(re.sub(r"\D", "", kind))
            values = data[at + length.itemsize :][: int(np.frombuffer(data, length, 1, at)[0])]
            values = np.frombuffer(values, f"{order}{kind[0].lower()}{bits // 8}")
            low, high = (np.array(root.find(".//Piece").get("Extent").split()[i::2], int)[::-1] for i in (0, 1))
            components = int(element.get("NumberOfComponents", 1))
            for grid in (high - low + 1, np.maximum(high - low, 1)):
                if values.size == grid.prod() * components:
                    values = values.reshape(*grid, -1)
                    break
            exact = "coordinate" if section in ("Points", "Coordinates") else protected(values)
            place = (at + length.itemsize, values.shape, tuple(slice(None) for _ in values.shape))
            arrays.append(Array(element.get("Name"), values, [place], [], values.itemsize, exact))
    return arrays


def is_zarr_chunk(path):
    return (path.parent / ".zarray").exists() and path.name[0].isdigit()


def zarr_arrays(path):
    """A chunk of an array of version 2."""
    array = json.loads((path.parent / ".zarray").read_text())
    if array["compressor"] or array["filters"]:
        return []
    shape = array["chunks"] if array["order"] == "C" else array["chunks"][::-1]
    values = np.fromfile(path, array["dtype"]).reshape(shape)
    place = (0, shape, tuple(slice(None) for _ in shape))
    return [Array("", values, [place], [array["fill_value"]], values.itemsize, protected(values))]


READERS = [
    (lambda start: start.startswith(b"# vtk DataFile"), vtk_arrays),
    (lambda start: start.startswith(b"<") and b"<VTKFile" in start, vtk_xml_arrays),
    (lambda start: start[:3] == b"CDF" and start[3:4] in (b"\1", b"\2", b"\5"), netcdf3_arrays),
    (lambda start: start.startswith(b"FAB (("), amrex_arrays),
]
