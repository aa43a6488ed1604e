"""Varve's codec for NumPy arrays, and coarse, looser and lazy reads of arrays in files on a Varve mount.

    data = varve.compress(array, "rel:1e-3")        # bytes; varve.decompress(data) is the array again
    f = varve.open("mnt/run.h5"); u = f["/u"]       # a file in a mount
    u[100:200, :, 5]; u.level(3)[...]               # what is asked for; from the coarse levels alone
    for view in u.refinements(): draw(view[...])    # coarse first

varve.hdf5 has the filter for h5py; xarray.open_dataset(path, engine="varve") opens files in a mount.
"""

from ._library import Error
from .codec import Compressed, compress, decompress, open_compressed
from .files import Array, File
from .files import open_file as open  # noqa: A004

__version__ = "0.1.0"
__all__ = ["Array", "Compressed", "Error", "File", "compress", "decompress", "open", "open_compressed"]
