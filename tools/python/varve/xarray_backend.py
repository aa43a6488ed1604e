"""xarray.open_dataset(path, engine="varve"): files on a Varve mount, whole or as a view of the mount gives them.

level: 1 to 3 read coarser levels alone. at_bound: a looser bound, such as "rel:1e-2". With chunks={} dask reads about
a brick at a time.
"""

import pathlib

import numpy as np
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from .files import File


class _LazyArray(BackendArray):
    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, np.dtype(array.dtype)

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, lambda basic: self.array[basic]
        )


def _of_one_array(file, path, level):
    """Files without names for axes: dim_0, dim_1, ..."""
    array = file.array
    view = type(array)(file, array.facts, path, level)
    dims = [f"dim_{axis}" for axis in range(view.ndim)]
    name = pathlib.Path(file.place).name.split(".")[0]
    encoding = {"preferred_chunks": dict(zip(dims, view.block))}
    variable = xarray.Variable(dims, indexing.LazilyIndexedArray(_LazyArray(view)), encoding=encoding)
    return xarray.Dataset({name: variable})


def _of_netcdf(file, path, group, options):
    """What xarray makes of an HDF5 file, with blocks of the mount's bricks."""
    try:
        import netCDF4  # noqa: F401

        entry = xarray.backends.NetCDF4BackendEntrypoint()
    except ImportError:
        entry = xarray.backends.H5netcdfBackendEntrypoint()
    dataset = entry.open_dataset(str(path), group=group, **options)
    prefix = f"/{group.strip('/')}/" if group and group.strip("/") else "/"
    for name, variable in dataset.variables.items():
        if prefix + str(name) in file:
            array = file[prefix + str(name)]
            if len(array.shape) == variable.ndim:
                variable.encoding["preferred_chunks"] = dict(zip(variable.dims, array.block))
    return dataset


class VarveBackend(BackendEntrypoint):
    description = "Files on a Varve mount, whole or coarse"

    def open_dataset(
        self,
        filename_or_obj,
        *,
        drop_variables=None,
        level=0,
        at_bound=None,
        group=None,
        mask_and_scale=True,
        decode_times=True,
        concat_characters=True,
        decode_coords=True,
        use_cftime=None,
        decode_timedelta=None,
    ):
        file = File(filename_or_obj)
        if level and at_bound:
            raise ValueError("give a level or a bound, not both")
        path = file.view("level", level) if level else file.view("bound", at_bound) if at_bound else file.path
        if file.format in ("npy", "raw"):
            return _of_one_array(file, path, level)
        options = {
            "drop_variables": drop_variables,
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        return _of_netcdf(file, path, group, options)

    def guess_can_open(self, filename_or_obj):
        return False  # any engine reads what a mount shows; this one is asked for by name
