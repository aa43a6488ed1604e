"""What must hold between a file and its copy under a bound, found without Varve's own code.

`problems(original, copy, bound)` reads both files as their users do (h5py, numpy, astropy, ...) and compares every byte:
those outside of arrays that a bound may touch must be equal, and the elements of those must keep the bound.
"""

import fractions
import pathlib
import re

import array_formats
import array_grids
import h5py
import numpy as np
from array_kinds import Array, parts, protected

RAW_NAME = re.compile(r"_(\d+(?:x\d+)*)\.(f32|f64|float32|float64)$")
KEEP_LENGTH = {h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
RAW_TYPES = {"f32": "<f4", "float32": "<f4", "f64": "<f8", "float64": "<f8"}


def npy_arrays(path):
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0", None)
        if read_header is None:
            shape, fortran, dtype = np.lib.format._read_array_header(file, version)
        else:
            shape, fortran, dtype = read_header(file)
        offset = file.tell()
    if dtype.hasobject or dtype.names:
        return []
    stored = shape[::-1] if fortran else shape
    values = np.load(path)
    everything = tuple(slice(None) for _ in stored)
    return [Array("", parts(values), [(offset, stored, everything)], [], dtype.itemsize, protected(values))]


def raw_arrays(path):
    match = RAW_NAME.search(pathlib.Path(path).name)
    shape = tuple(int(extent) for extent in match[1].split("x"))
    values = np.fromfile(path, RAW_TYPES[match[2]])
    if values.size != np.prod(shape):
        return []
    everything = tuple(slice(None) for _ in shape)
    values = values.reshape(shape)
    return [Array("", values, [(0, shape, everything)], [], values.itemsize, protected(values))]


def words(attribute):
    if isinstance(attribute, bytes):
        attribute = attribute.decode(errors="replace")
    return attribute.split() if isinstance(attribute, str) else []


def read_attribute(dataset, name):
    try:
        return dataset.attrs.get(name)
    except (OSError, TypeError, ValueError, RuntimeError):
        return None


def hdf5_places(dataset, user_block):
    """Where the elements of a contiguous or chunked dataset lie; None: it has another layout. A filtered chunk, whose
    bytes are no elements, is (offset, (bytes,), None)."""
    plist = dataset.id.get_create_plist()
    if plist.get_external_count():
        return None
    layout = plist.get_layout()
    if layout == h5py.h5d.CONTIGUOUS:
        offset = dataset.id.get_offset()
        return [] if offset is None else [(offset, dataset.shape, tuple(slice(None) for _ in dataset.shape))]
    if layout != h5py.h5d.CHUNKED:
        return None
    places = []
    for index in range(dataset.id.get_num_chunks()):
        chunk = dataset.id.get_chunk_info(index)
        if plist.get_nfilters():
            places.append((chunk.byte_offset + user_block, (chunk.size,), None))
            continue
        inside = tuple(
            slice(0, min(c, n - o)) for c, n, o in zip(dataset.chunks, dataset.shape, chunk.chunk_offset)
        )
        places.append((chunk.byte_offset + user_block, dataset.chunks, inside))
    return places


def hdf5_fills(dataset):
    fills = []
    if dataset.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        fill = np.asarray(dataset.fillvalue)
        fills.extend([fill.real.item(), fill.imag.item()] if fill.dtype.kind == "c" else [fill.item()])
    for name in ("_FillValue", "missing_value"):
        value = read_attribute(dataset, name)
        if value is not None and np.asarray(value).dtype.kind in "fiu":
            fills.extend(np.atleast_1d(value).tolist())
    return fills


def hdf5_arrays(path):
    arrays, coordinates = [], set()
    with h5py.File(path, "r") as file:
        user_block = file.userblock_size

        def visit(name, item):
            if not isinstance(item, h5py.Dataset):
                return
            folder = name.rpartition("/")[0]
            for attribute in ("coordinates", "bounds"):
                for word in words(read_attribute(item, attribute)):
                    coordinates.add(word.lstrip("/") if word.startswith("/") else f"{folder}/{word}".lstrip("/"))
            try:
                dtype = item.dtype
            except TypeError:
                return
            if dtype.kind not in "fc" or item.shape is None:
                return
            plist = item.id.get_create_plist()
            if {plist.get_filter(i)[0] for i in range(plist.get_nfilters())} - KEEP_LENGTH:
                return
            reason = protected(item)
            if read_attribute(item, "CLASS") in (b"DIMENSION_SCALE", "DIMENSION_SCALE"):
                reason = "coordinate"
            if read_attribute(item, "scale_factor") is not None or read_attribute(item, "add_offset") is not None:
                reason = "packed"
            arrays.append(Array(name, None, [], hdf5_fills(item), dtype.itemsize, reason))

        file.visititems(visit)
        for array in arrays:
            if array.name in coordinates:
                array.exact = "coordinate"
            if not array.exact:
                places = hdf5_places(file[array.name], user_block)
                array.places, array.exact = places or [], "" if places is not None else "another layout"
                array.values = parts(file[array.name][()])
    return arrays


def arrays_of(path):
    """The arrays of a file; none if it is of a format that stays bytes or cannot be read."""
    path = pathlib.Path(path)
    if RAW_NAME.search(path.name):
        return raw_arrays(path)
    if array_grids.is_zarr_chunk(path):
        return array_grids.zarr_arrays(path)
    with open(path, "rb") as file:
        start = file.read(512)
    try:
        if start[:6] == b"\x93NUMPY":
            return npy_arrays(path)
        if h5py.is_hdf5(path):
            return hdf5_arrays(path)
        for is_it, read in array_formats.READERS:
            if is_it(start):
                return read(path)
    except (OSError, RuntimeError, ValueError, KeyError):
        return []
    return []


def special_mask(array):
    values = array.values
    special = ~np.isfinite(values) | ((values == 0) & np.signbit(values))
    for fill in array.fills:
        special |= values == np.asarray(fill).astype(values.dtype)
    return special


def allowed_error(array, bound):
    """The absolute bound of an array."""
    mode, _, value = bound.partition(":")
    if mode != "rel":
        return float(value) if mode == "abs" else 0.0
    real = array.values[~special_mask(array) | (array.values == 0)].astype("f8")
    return float(value) * float(real.max() - real.min()) if real.size else 0.0


def exceeds(was, now, limit):
    """Exactly: is |was - now| > limit?"""
    fraction = fractions.Fraction
    return abs(fraction(float(was)) - fraction(float(now))) > fraction(limit)


def array_problems(array, found, bound):
    values = array.values
    if found.shape != values.shape or found.dtype != values.dtype:
        return [f"{array.name}: type or shape changed"]
    special = special_mask(array)
    if values[special].tobytes() != found[special].tobytes():
        return [f"{array.name}: NaN, infinity, -0.0 or a missing value did not come back bit for bit"]
    limit = allowed_error(array, bound)
    was, now = values[~special], found[~special]
    if not np.isfinite(now).all():
        return [f"{array.name}: a finite element came back infinite or NaN"]
    error = np.abs(was.astype(np.longdouble) - now.astype(np.longdouble))
    suspects = np.flatnonzero(error > np.longdouble(limit) * (1 - np.longdouble(1e-15)))
    worst = next((i for i in suspects if exceeds(was[i], now[i], limit)), None)
    if worst is not None:
        return [f"{array.name}: bound {bound} is {limit!r} and broken: {was[worst]!r} came back as {now[worst]!r}"]
    return []


def file_bytes(path):
    return np.fromfile(path, np.uint8)


def free_bytes(arrays, size):
    """Marks the bytes of a file that a bound may change."""
    free = np.zeros(size, bool)
    for array in arrays:
        if array.exact:
            continue
        for offset, shape, inside in array.places:
            if inside is None:
                free[offset : offset + shape[0]] = True
                continue
            length = int(np.prod(shape, dtype=np.int64)) * array.itemsize
            free[offset : offset + length].reshape(*shape, array.itemsize)[inside] = True
    return free


def problems(original, copy, bound):
    """Sentences, one for each thing that does not hold between a file and its copy under `bound`; empty: all holds."""
    was, now = file_bytes(original), file_bytes(copy)
    if was.size != now.size:
        return [f"size changed from {was.size} to {now.size}"]
    if bound == "lossless":
        return [] if np.array_equal(was, now) else [f"byte {np.flatnonzero(was != now)[0]} differs"]
    arrays = arrays_of(original)
    wrong = np.flatnonzero((was != now) & ~free_bytes(arrays, was.size))
    if wrong.size:
        names = ", ".join(f"{a.name or 'array'} ({a.exact})" for a in arrays if a.exact) or "none"
        return [f"{wrong.size} bytes that must stay exact differ, the first at {wrong[0]}; protected arrays: {names}"]
    if np.array_equal(was, now):
        return []
    found = {array.name: array.values for array in arrays_of(copy)}
    lossy = [array for array in arrays if not array.exact]
    missing = [f"{array.name}: not found in the copy" for array in lossy if found.get(array.name) is None]
    return missing or [text for array in lossy for text in array_problems(array, found[array.name], bound)]
