"""An array of a file, and when its type or size alone keep a bound away from it."""

import dataclasses

import numpy as np

SMALLEST_1D = 4096
SMALLEST_BYTES = 10_000


@dataclasses.dataclass
class Array:
    name: str
    values: np.ndarray  # None in an HDF5 file if `exact`
    places: list  # of (offset, shape of what lies there, slices of the elements that count)
    fills: list  # declared missing values
    itemsize: int  # bytes of one element
    exact: str = ""  # why a bound must not touch it


def protected(array):
    """Why a bound must not touch a numpy array or an HDF5 dataset, as far as type and shape tell."""
    if (array.dtype.kind, array.dtype.itemsize) not in (("f", 2), ("f", 4), ("f", 8), ("c", 8), ("c", 16)):
        return "no float16, float32 or float64"
    if len(array.shape) == 1 and array.shape[0] < SMALLEST_1D:
        return "short"
    if array.size * array.dtype.itemsize < SMALLEST_BYTES:
        return "small"
    return ""


def parts(values):
    """Complex numbers as pairs of floats along one more axis: a bound holds for the two parts."""
    if values.dtype.kind == "c":
        part = np.dtype(f"{values.dtype.byteorder}f{values.dtype.itemsize // 2}")
        values = np.ascontiguousarray(values)
        return values.view(part).reshape(*values.shape, 2)
    return values
