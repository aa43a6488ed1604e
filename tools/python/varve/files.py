"""Arrays in files on a Varve mount: what the mount says of them, and lazy reads of them, coarse or whole.

Bytes always come from a file: the file itself, or the same file in a view of the mount (`DIR/.varve/level/K/PATH`,
`DIR/.varve/bound/V/PATH`), read by h5py or as plain numbers.
"""

import collections.abc
import errno
import json
import math
import os
import pathlib

import numpy as np

from ._library import LEVELS, Error
from .codec import read_slices

_RAW_TYPES = {"bf16": "u2"} | {f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "uif" for bits in (8, 16, 32, 64)}
_SPANNED = 1 << 16  # bytes: rows up to this long are read with what lies between them


def find_mount(path):
    """The root of the mount that a path is in, and the path from there."""
    path = pathlib.Path(os.path.realpath(path))
    for root in path.parents:
        if (root / ".varve" / "pid").exists():
            return root, path.relative_to(root)
    raise Error(errno.ENODEV, f"{path} is not in a mount of Varve")


class File(collections.abc.Mapping):
    """A file on a mount: its arrays by name ("/group/dataset"; "" where the file is one array), and facts.

    A snapshot: open it again to see what was written since. Holds nothing open.
    """

    def __init__(self, path):
        self.root, self.place = find_mount(path)
        self.path = self.root / self.place
        if self.path.is_dir():
            raise Error(errno.EISDIR, f"{self.path} is a directory: name a file")
        facts = json.loads((self.root / ".varve" / "stat" / self.place).read_text())
        self.facts = facts
        self.format, self.state = facts["format"], facts["state"]
        self.size, self.stored, self.ratio = facts["size"], facts["stored"], facts["ratio"]  # size, stored: bytes
        self._arrays = {array["name"]: array for array in facts["arrays"]}

    def __getitem__(self, name):
        for known in (name, f"/{name}"):
            if known in self._arrays:
                return Array(self, self._arrays[known])
        raise KeyError(f"{self.path} has no array {name!r}; it has {list(self._arrays)}")

    def __iter__(self):
        return iter(self._arrays)

    def __len__(self):
        return len(self._arrays)

    @property
    def array(self):
        """The only array."""
        if len(self) != 1:
            raise KeyError(f"{self.path} has {len(self)} arrays; name one of {list(self._arrays)}")
        return self[next(iter(self))]

    def __repr__(self):
        return f"<varve.File {self.path}, {self.format}, {len(self)} arrays, ratio {self.ratio:.2f}>"

    def view(self, kind, value):
        """Where this file is in a view of the mount; Error (ENOTSUP) if the mount has no such view."""
        folder = self.root / ".varve" / kind
        if not folder.is_dir():
            raise Error(errno.ENOTSUP, f"the mount at {self.root} has no views by {kind} ({folder} is not there)")
        path = folder / str(value) / self.place
        if not path.exists():
            raise Error(errno.ENOENT, f"the mount at {self.root} does not show {self.place} by {kind} {value}")
        return path


class Array:
    """An array in a file on a mount. `a[...]` reads what is asked for, by NumPy's rules."""

    def __init__(self, file, facts, path=None, finest=0):
        self.file, self.facts, self.name = file, facts, facts["name"]
        self.path = path or file.path  # what is read
        self.finest = finest  # level
        self.bound, self.absolute_bound = facts["bound"], facts["absolute_bound"]
        self.nbytes, self.stored, self.ratio = facts["size"], facts["stored"], facts["ratio"]
        self._source = _source_of(file, facts, self.path)
        self.shape, self.dtype = self._source.shape, self._source.dtype

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def brick(self):
        """Extents of a brick, the least that the mount decodes."""
        told = self.facts.get("brick_shape")
        if not told:  # the usual ones
            edge = {1: 65536, 2: 256}.get(len(self.facts["shape"]), 64)
            told = [1] * (len(self.facts["shape"]) - 3) + [edge] * min(3, len(self.facts["shape"]))
        return self._as_here([min(size, extent) for size, extent in zip(told, self.facts["shape"])])

    @property
    def block(self):
        """Extents that are good to read at once: whole chunks of the file, about a brick of them."""
        chunk = self._as_here(self.facts["chunk_shape"])
        if chunk == self.shape:
            return self.brick
        blocks = (-(-brick // step) * step for brick, step in zip(self.brick, chunk))
        return tuple(min(size, extent) for size, extent in zip(blocks, self.shape))

    def _as_here(self, shape):
        """The mount's axes are in the order of memory, and pairs (of complex numbers) are an axis."""
        shape = shape[: len(self.shape)]
        return tuple(reversed(shape) if self.facts["fortran_order"] else shape)

    def level(self, k):
        """This array as its levels k (0: all of it, to 3) and up give it, the points between them interpolated."""
        if k not in range(LEVELS):
            raise ValueError(f"there is no level {k}: levels are 0 (all points) to {LEVELS - 1}")
        path = self.file.view("level", k) if k > 0 else None
        return Array(self.file, self.facts, path, k)

    def at_bound(self, bound):
        """This array at a looser bound, such as "rel:1e-2", for as few stored bytes as give it."""
        return Array(self.file, self.facts, self.file.view("bound", bound))

    def refinements(self):
        """This array from its coarsest level on, finer and finer; the last one is all of it."""
        for k in reversed(range(LEVELS)):
            yield self.level(k)

    @property
    def max_error(self):
        """What no element of this view differs by from the one that was written, as the mount says; None: it does not."""
        try:
            most, *lines = os.getxattr(self.path, "user.varve.max_error").decode().splitlines()
        except OSError:
            return None
        of_arrays = (line.split(" ", 1) for line in lines)
        return next((float(error) for error, name in of_arrays if name == self.facts["name"]), float(most))

    def to_dask(self):
        """A dask array of blocks."""
        import dask.array

        return dask.array.from_array(self, chunks=self.block, name=False, fancy=False)

    def read_box(self, origin, shape):
        return self._source.read_box(origin, shape)

    def __getitem__(self, key):
        return read_slices(self, key)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[...], dtype)

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"<varve.Array {self.name} {self.dtype} {self.shape}, {self.bound}, level {self.finest}, {self.path}>"


def _source_of(file, facts, path):
    if file.format == "hdf5":
        return _Hdf5Source(path, facts["name"])
    if file.format == "npy":
        return _npy_source(path)
    if file.format == "raw":
        dtype = np.dtype(_RAW_TYPES[facts["dtype"]]).newbyteorder(">" if facts["byte_order"] == "big" else "<")
        return _FlatSource(path, 0, dtype, tuple(facts["shape"]), False)
    raise Error(errno.ENOTSUP, f"arrays in {file.format} files are not read here; open {path} with a library for them")


class _Hdf5Source:
    def __init__(self, path, name):
        import h5py

        self._open = lambda: h5py.File(path, "r")
        self._name = name
        with self._open() as file:
            self.shape, self.dtype = file[name].shape, file[name].dtype

    def read_box(self, origin, shape):
        with self._open() as file:
            return np.asarray(file[self._name][tuple(slice(at, at + size) for at, size in zip(origin, shape))])


def _npy_source(path):
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read.get(version, np.lib.format.read_array_header_2_0)(file)
        return _FlatSource(path, file.tell(), dtype, shape, fortran)


class _FlatSource:
    """Numbers one behind the other. Read, not mapped: damage is then an exception and no signal."""

    def __init__(self, path, offset, dtype, shape, fortran):
        self._path, self._offset, self._fortran = path, offset, fortran
        self.dtype, self.shape = dtype, tuple(shape)

    def read_box(self, origin, shape):
        if not self._fortran:
            return self._read(self.shape, tuple(origin), tuple(shape))
        return self._read(self.shape[::-1], tuple(origin)[::-1], tuple(shape)[::-1]).T

    def _read(self, whole, origin, shape):
        out = np.empty(shape, self.dtype)
        if out.size == 0:
            return out
        run = len(shape)  # axes from here on lie together
        while run > 0 and shape[run:] == whole[run:]:
            run -= 1
        row = math.prod(whole[run + 1 :])  # elements of one step along axis `run`
        if 0 < run and math.prod(whole[run:]) * self.dtype.itemsize <= _SPANNED:
            run, span = run - 1, whole[run]
        else:
            span = None
        with open(self._path, "rb", buffering=0) as file:
            for index in np.ndindex(shape[:run]):
                at = [o + i for o, i in zip(origin, index)] + list(origin[run:])
                first = 0
                for extent, i in zip(whole, at):
                    first = first * extent + i
                part = out[index].reshape(shape[run:])
                if span is None:
                    part[...] = self._numbers(file, first, shape[run] * row if shape else 1).reshape(part.shape)
                    continue
                step = span * row  # of axis `run`; wanted are some of the axis behind it
                count = (shape[run] - 1) * step + shape[run + 1] * row
                found = self._numbers(file, first, count)
                padded = np.lib.stride_tricks.as_strided(
                    found, (shape[run], shape[run + 1] * row), (step * found.itemsize, found.itemsize)
                )
                part[...] = padded.reshape(part.shape)
        return out

    def _numbers(self, file, first, count):
        found = np.empty(count, self.dtype)
        view, at = memoryview(found).cast("B") if count else b"", self._offset + first * self.dtype.itemsize
        while len(view):
            got = os.preadv(file.fileno(), [view], at)
            if got == 0:
                raise Error(errno.EIO, f"{self._path} ends before its array does")
            view, at = view[got:], at + got
        return found


def open_file(path):
    """A file on a mount. Error: ENODEV if the path is in none."""
    return File(path)
