"""The arrays of files of further formats, read by those formats' own programs: what arrays.py needs of each.

READERS: pairs of a test of a file's first 512 bytes, and a function from a path to the file's arrays.
"""

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


READERS = [(lambda start: start.startswith(b"SIMPLE  =") and start[29:30] == b"T", fits_arrays)]
