"""The arrays of files of further formats, read by those formats' own programs: what arrays.py needs of each.

READERS: pairs of a test of a file's first 512 bytes, and a function from a path to the file's arrays.
"""

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


def is_nifti(start):
    return start[344:348] == b"n+1\0" or start[4:12] == b"n+2\0\r\n\x1a\n"


READERS = [
    (lambda start: start.startswith(b"SIMPLE  =") and start[29:30] == b"T", fits_arrays),
    (is_nifti, nifti_arrays),
    (lambda start: start[208:212] == b"MAP ", mrc_arrays),
]
READERS += array_grids.READERS
