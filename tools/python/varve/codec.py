"""NumPy arrays <-> containers: bytes that hold one encoded array."""

import ctypes
import sys

import numpy as np

from . import _library
from ._library import Error, check, extents, library

_TYPES = {"u1": 1, "i1": 2, "u2": 3, "i2": 4, "u4": 5, "i4": 6, "u8": 7, "i8": 8, "f2": 9, "f4": 10, "f8": 11}
_NAMES = {number: np.dtype(name) for name, number in _TYPES.items()}
_BF16 = 12  # NumPy has no such type: its bits, as uint16


def _number_of(dtype):
    number = _TYPES.get(np.dtype(dtype).newbyteorder("=").str[1:])
    if number is None:
        raise TypeError(
            f"arrays of {np.dtype(dtype)} cannot be compressed: integers and floats of up to 8 bytes can; view others as "
            "such, for example complex64 with .view('f4')"
        )
    return number


def compress(array, bound="lossless", *, missing=(), bfloat16=False, threads=0):
    """Bytes that `decompress` takes.

    bound: "lossless" (or None), "abs:0.5", "rel:1e-3", "pwrel:1e-3", "psnr:60", "abs:0.1+rel:1e-3", "ratio:20" or "bits:12".
    missing: values that stand for missing ones; they come back bit for bit and do not widen a relative bound's range.
    bfloat16: the array is of uint16 with the bits of bfloat16.
    Arrays of either byte order are taken; what comes back is in the machine's.
    """
    if np.ma.isMaskedArray(array):
        raise TypeError(
            "a mask cannot be kept: give array.filled(value) and missing=[value], and mask the value again after decompress"
        )
    array = np.asarray(array)
    number = _number_of(array.dtype)
    if bfloat16:
        if number != _TYPES["u2"]:
            raise TypeError("bfloat16 takes an array of uint16")
        number = _BF16
    native = np.require(array, array.dtype.newbyteorder("="), "C").reshape(array.shape)
    fills = [int.from_bytes(np.asarray(value, native.dtype).tobytes(), sys.byteorder) for value in missing]
    spec = _library.Spec(
        number, native.ndim, extents(native.shape), (bound or "lossless").encode(), extents(fills), len(fills), threads
    )  # fmt: skip
    data, size = ctypes.c_void_p(), ctypes.c_uint64()
    check(library.varve_compress(spec, native.ctypes.data, data, size))
    try:
        return ctypes.string_at(data, size.value)
    finally:
        library.varve_free(data)


class Compressed:
    """An opened container (or the first bytes of one: see `prefix`), which decodes what is asked for.

    `c[10:20, :, 5]` decodes only the bricks that it touches; `c.level(k)` is the same array from levels k and up, the
    points between them interpolated.
    """

    def __init__(self, data, level=0, threads=0):
        # Borrowed by the library: the view keeps the bytes alive and where they are.
        self._view = np.frombuffer(data, np.uint8)
        self._handle = ctypes.c_void_p()
        check(library.varve_open(self._view.ctypes.data, self._view.size, self._handle))
        self._threads = threads
        self.finest = _checked_level(level)
        info = _library.Info()
        check(library.varve_get_info(self._handle, info))
        self.dtype = np.dtype("u2") if info.dtype == _BF16 else _NAMES[info.dtype]
        self.bfloat16 = info.dtype == _BF16
        self.shape = tuple(info.shape[: info.rank])
        self.brick = tuple(info.brick[: info.rank])  # boxes of whole bricks are read at least cost
        self.size, self.stored = info.size, info.stored  # in bytes
        self.bound = info.bound.decode()
        self.absolute_bound, self.min, self.max = info.absolute_bound, info.min, info.max
        self.method = info.method.decode()
        self.prefix = tuple(info.prefix)  # how many first bytes suffice for each level

    def __del__(self):
        if getattr(self, "_handle", None):
            library.varve_close(self._handle)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def ratio(self):
        return self.size / self.stored

    def level(self, k):
        """This array as levels k (0 to 3) and up give it."""
        return Compressed(self._view, k, self._threads)

    def verify(self):
        """Raises Error if any record is damaged."""
        check(library.varve_verify(self._handle))

    def read_box(self, origin, shape):
        """The elements with origin[i] <= index[i] < origin[i] + shape[i]."""
        out = np.empty(shape, self.dtype)
        check(
            library.varve_decompress_box(
                self._handle, extents(origin), extents(shape), self.finest, self._threads, out.ctypes.data, out.nbytes
            )
        )
        return out

    def __getitem__(self, key):
        return read_slices(self, key)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[...], dtype)

    def __repr__(self):
        return f"<varve.Compressed {self.dtype} {self.shape}, {self.bound}, ratio {self.ratio:.2f}>"


def _checked_level(level):
    if level not in range(_library.LEVELS):
        raise ValueError(f"there is no level {level}: levels are 0 (all points) to {_library.LEVELS - 1}")
    return level


def read_slices(array, key):
    """array[key] by NumPy's rules for slices, integers and `...`, through array.read_box; other keys index a copy."""
    keys = key if isinstance(key, tuple) else (key,)
    if not all(part is Ellipsis or isinstance(part, (slice, int, np.integer)) for part in keys):
        return array.read_box([0] * array.ndim, array.shape)[key]
    if sum(part is Ellipsis for part in keys) > 1 or len(keys) - (Ellipsis in keys) > array.ndim:
        raise IndexError(f"too many indices for an array of {array.ndim} axes")
    at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
    missing = array.ndim - (len(keys) - (Ellipsis in keys))
    keys = keys[:at] + (slice(None),) * missing + keys[at + 1 :]
    origin, shape, rest = [], [], []
    for part, extent in zip(keys, array.shape):
        if not isinstance(part, slice):
            if not -extent <= part < extent:
                raise IndexError(f"index {part} is out of bounds for an axis of {extent} elements")
            origin.append(int(part) % extent)
            shape.append(1)
            rest.append(0)
            continue
        indices = range(extent)[part]
        low, high = (min(indices[0], indices[-1]), max(indices[0], indices[-1]) + 1) if indices else (0, 0)
        origin.append(low)
        shape.append(high - low)
        step = indices.step
        rest.append(slice(None, None, step) if indices else slice(0, 0))
    return array.read_box(origin, shape)[tuple(rest)]


def open_compressed(data, threads=0):
    """`Compressed` over bytes that `compress` made, or over their first ones."""
    return Compressed(data, 0, threads)


def decompress(data, *, level=0, box=None, threads=0):
    """The array that `compress` was given, within its bound.

    level: 1 to 3 decode from coarser levels alone, points between are interpolated.
    box: a tuple of slices; only what it touches is decoded.
    """
    return Compressed(data, level, threads)[... if box is None else tuple(box)]


__all__ = ["Compressed", "Error", "compress", "decompress", "open_compressed"]
