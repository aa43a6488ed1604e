"""varve.open, the xarray engine and dask on a real mount."""

import errno
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
import mounted
import numpy as np
import varve
from mounted import check, equal, refused
from support import field

KEYS = [..., np.s_[3], np.s_[..., 5], np.s_[2:20, 7:90:9, -30:-3], np.s_[::-5, 4, 1:], np.s_[5:5], np.s_[-1, -1, -1]]


def need(*modules):
    for module in modules:
        try:
            __import__(module)
        except ImportError as problem:
            raise mounted.Skip(f"python3-{module} is not installed") from problem


def has_levels(m):
    return (m.root / ".varve" / "level").is_dir()


def write_all(m):
    """The same field as npy (both orders), raw and, where there is h5py, HDF5. Returns the paths."""
    array = field((40, 110, 90))
    m.bound("rel:1e-3")
    paths = {name: m.root / name for name in ("c.npy", "f.npy", "u_40x110x90.f32", "big.npy")}
    np.save(paths["c.npy"], array)
    np.save(paths["f.npy"], np.asfortranarray(array))
    np.save(paths["big.npy"], array.astype(">f8"))
    array.tofile(paths["u_40x110x90.f32"])
    try:
        import h5py
    except ImportError:
        print("  SKIPPED: HDF5 files, as python3-h5py is not installed")
        return array, paths
    paths["a.h5"] = m.root / "a.h5"
    with h5py.File(paths["a.h5"], "w") as file:
        file["g/whole"] = array
        file.create_dataset("g/chunked", data=array, chunks=(20, 40, 90))
    return array, paths


def plain(path, name):
    """The array by other means than the package."""
    if path.suffix == ".h5":
        import h5py

        with h5py.File(path, "r") as file:
            return file[name][...]
    return np.load(path) if path.suffix == ".npy" else np.fromfile(path, "<f4").reshape(40, 110, 90)


def arrays_of(paths):
    for path in paths.values():
        file = varve.open(path)
        for name in file:
            yield file[name], plain(path, name)


def scenario_arrays(m):
    """Arrays are listed and read by NumPy's rules."""
    array, paths = write_all(m)
    equal(list(varve.open(paths["c.npy"])), [""], "an npy file has one array")
    if "a.h5" in paths:
        equal(sorted(varve.open(paths["a.h5"])), ["/g/chunked", "/g/whole"], "the arrays of an HDF5 file")
        equal(varve.open(paths["a.h5"])["g/whole"].name, "/g/whole", "a name without a slash")
    for found, wanted in arrays_of(paths):
        equal((found.shape, found.dtype), (wanted.shape, wanted.dtype), f"shape and type of {found.path.name}{found.name}")
        for key in KEYS:
            if not np.array_equal(found[key], wanted[key]):
                raise mounted.Failure(f"{found}[{key}] is not what others read")
        bound = 1e-3 * float(array.max() - array.min())
        error = np.abs(np.asarray(found).astype("f8") - array).max()
        check(0 < error <= bound * 1.000001, "the bound holds and is used")
        equal(float(found.bound.removeprefix("rel:")), 1e-3, "the bound is told")
        check(found.ratio > 2 and found.stored < found.nbytes, "the ratio is told")
        check(all(0 < b <= n for b, n in zip(found.block, found.shape)), f"blocks are {found.block}")
    refused(errno.ENODEV, lambda: varve.open(m.plain), "a path outside of mounts")
    refused(errno.ENOENT, lambda: varve.open(m.root / "no.npy"), "a file that is not there")


def scenario_levels(m):
    """Views by level get better step by step; a mount without them says so."""
    array, paths = write_all(m)
    found = varve.open(paths["c.npy"]).array
    refused(errno.ENOTSUP if not (m.root / ".varve" / "bound").is_dir() else errno.ENOENT,
            lambda: found.at_bound("rel:nonsense"), "a view by bound that is not there")  # fmt: skip
    np.testing.assert_array_equal(found.level(0)[...], found[...])
    if not has_levels(m):
        refused(errno.ENOTSUP, lambda: found.level(2), "a view by level that is not there")
        raise mounted.Skip("this mount has no views by level")
    for found, wanted in arrays_of(paths):
        errors = []
        for k, view in zip((3, 2, 1, 0), found.refinements()):
            values = view[...]
            equal((view.finest, values.shape, values.dtype), (k, wanted.shape, wanted.dtype), f"the view of level {k}")
            errors.append(np.abs(values.astype("f8") - wanted).max())
            step = 2**k
            np.testing.assert_array_equal(values[::step, ::step, ::step], wanted[::step, ::step, ::step])
            np.testing.assert_array_equal(view[3:9, ::5, 7], values[3:9, ::5, 7])
            if view.max_error is not None:
                check(errors[-1] <= view.max_error, f"max_error {view.max_error:g} holds")
        equal(errors, sorted(errors, reverse=True), "errors fall level by level")
        check(errors[0] > errors[-1] == 0, "the last one is the array")


def scenario_xarray(m):
    """The engine gives what other engines give, in blocks for dask, and coarse where the mount can."""
    need("xarray", "h5py")
    import xarray
    from varve.xarray_backend import VarveBackend  # test_codec.py looks for its name

    array, paths = write_all(m)
    series = xarray.DataArray(
        array,
        dims=("time", "y", "x"),
        coords={"time": ("time", np.arange(40), {"units": "hours since 2000-01-01"}), "x": np.linspace(0, 1, 90)},
        attrs={"units": "m"},
    )
    xarray.Dataset({"u": series}).to_netcdf(m.root / "a.nc", engine="netcdf4")
    with xarray.open_dataset(m.root / "a.nc", engine=VarveBackend) as ours, xarray.open_dataset(m.root / "a.nc") as others:
        check(ours.identical(others), "the engine gives what NetCDF's gives")
        equal(str(ours.time.dtype), "datetime64[ns]", "times are decoded")
    with xarray.open_dataset(paths["c.npy"], engine=VarveBackend) as ours:
        np.testing.assert_array_equal(ours["c"][3:7, ::5], plain(paths["c.npy"], "")[3:7, ::5])
        equal(ours["c"].dims, ("dim_0", "dim_1", "dim_2"), "axes without names")
    if has_levels(m):
        with xarray.open_dataset(m.root / "a.nc", engine=VarveBackend, level=2) as coarse:
            wanted = varve.open(m.root / "a.nc")["u"].level(2)[...]
            np.testing.assert_array_equal(coarse["u"], wanted)
    need("dask")
    with xarray.open_dataset(m.root / "a.nc", engine=VarveBackend, chunks={}) as ours:
        block = varve.open(m.root / "a.nc")["u"].block
        equal(tuple(sizes[0] for sizes in ours["u"].chunks), block, "dask reads by blocks")
        mean = float(ours["u"].mean())
    check(abs(mean - array.astype("f8").mean()) < 1e-2, "dask computes")
    found = varve.open(m.root / "a.nc")["u"]
    np.testing.assert_array_equal(found.to_dask()[1:30, ::7].compute(), found[1:30, ::7])


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
