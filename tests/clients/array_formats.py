"""The arrays of files of further formats, read by those formats' own programs: what arrays.py needs of each.

READERS: pairs of a test of a file's first 512 bytes, and a function from a path to the file's arrays. Archives (ZIP)
have none here: nothing in them may change.
"""

import json

import array_grids
import numpy as np
from array_kinds import Array, parts, protected


def contiguous(name, values, offset, fills=(), exact=""):
    """An array whose elements lie in C order from `offset` on."""
    everything = tuple(slice(None) for _ in values.shape)
    reason = exact or protected(values)
    places = [(offset, values.shape, everything)]
    return Array(name, parts(values), places, list(fills), values.dtype.itemsize, reason)


def fits_arrays(path):
    from astropy.io import fits

    arrays = []
    with fits.open(path, do_not_scale_image_data=True, disable_image_compression=True) as file:
        for number, hdu in enumerate(file):
            header = hdu.header
            if not isinstance(hdu, (fits.PrimaryHDU, fits.ImageHDU)) or isinstance(hdu, fits.GroupsHDU) or not hdu.size:
                continue
            scaled = header.get("BSCALE", 1) != 1 or header.get("BZERO", 0) != 0
            summed = "CHECKSUM" in header or "DATASUM" in header
            exact = "checksummed" if summed else "packed" if scaled else ""
            values = np.array(hdu.data)
            arrays.append(contiguous(str(number), values, hdu.fileinfo()["datLoc"], exact=exact))
    return arrays


def nifti_arrays(path):
    import nibabel

    image = nibabel.load(path)
    slope, inter = image.header.get_slope_inter()
    exact = "packed" if slope is not None and (slope, inter) != (1, 0) else ""
    if image.header.get_intent()[0] in ("label", "neuroname"):
        exact = exact or "labels"
    return [contiguous("", np.array(image.dataobj.get_unscaled()).T, image.dataobj.offset, exact=exact)]


def mrc_arrays(path):
    import mrcfile

    with mrcfile.open(path, permissive=True) as file:
        return [contiguous("", file.data.copy(), 1024 + int(file.header.nsymbt))]


TENSORS = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}  # what a bound may touch


def safetensors_arrays(path):
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    arrays = []
    for name, told in json.loads(content[8:begin]).items():
        if name == "__metadata__" or told["dtype"] not in TENSORS:
            continue
        first, last = (begin + offset for offset in told["data_offsets"])
        values = np.frombuffer(content[first:last], TENSORS[told["dtype"]]).reshape(told["shape"])
        array = contiguous(name, values, first)
        if told["dtype"] == "BF16":
            array.values = (values.astype("<u4") << 16).view("<f4")
            array.exact = protected(values.view("<f2"))
        arrays.append(array)
    return arrays


def is_safetensors(start):
    return len(start) > 8 and int.from_bytes(start[:8], "little") < 10**8 and start[8:10] == b'{"'


def is_nifti(start):
    return start[344:348] == b"n+1\0" or start[4:12] == b"n+2\0\r\n\x1a\n"


READERS = [
    (lambda start: start.startswith(b"SIMPLE  =") and start[29:30] == b"T", fits_arrays),
    (is_nifti, nifti_arrays),
    (lambda start: start[208:212] == b"MAP ", mrc_arrays),
    (is_safetensors, safetensors_arrays),
]
READERS += array_grids.READERS
