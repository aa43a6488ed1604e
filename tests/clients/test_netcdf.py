#!/usr/bin/python3
"""netCDF4, unmodified, on a mount."""

import arrays
import mounted
import netCDF4
import numpy as np
from mounted import check, equal, run
from test_hdf5 import smooth

FILL = np.float32(1e20)


def write(path, steps=8, fmt="NETCDF4"):
    with netCDF4.Dataset(path, "w", format=fmt) as out:
        out.Conventions = "CF-1.8"
        for name, values in (("time", np.arange(steps) / 7), ("lat", np.linspace(-90, 90, 60)), ("lon", np.arange(90.0))):
            out.createDimension(name, None if name == "time" else len(values))
            out.createVariable(name, "f8", (name,))[:] = values
        out.createDimension("two", 2)
        out["lat"].bounds = "lat_bounds"
        out.createVariable("lat_bounds", "f8", ("lat", "two"))[:] = smooth((60, 2), "f8")
        out.createVariable("rotated_lat", "f8", ("lat", "lon"))[:] = smooth((60, 90), "f8", 2)
        sst = out.createVariable("sst", "f4", ("time", "lat", "lon"), fill_value=FILL)
        sst.coordinates = "rotated_lat"
        sst.set_auto_mask(False)
        field = smooth((steps, 60, 90))
        field[:, 20:30, 40:60] = FILL
        sst[:] = field
        packed = out.createVariable("cloud", "i2", ("time", "lat", "lon"))
        packed.scale_factor = 1e-3
        packed[:] = np.abs(smooth((steps, 60, 90), seed=4))


def variables(path):
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return {name: variable[...] for name, variable in file.variables.items()}


def scenario_write(m):
    """Coordinates, bounds variables, auxiliary coordinates and packed variables exact; data within the bound."""
    m.bound("rel:1e-3")
    path, original = m.root / "a.nc", m.plain / "a.nc"
    for place in (path, original):
        write(place)
    equal(arrays.problems(original, path, "rel:1e-3"), [], "kept, and exact outside arrays")
    run(mounted.BINARY, "verify", original, path)
    m.restart()
    was, now = variables(original), variables(path)
    for name in ("time", "lat", "lon", "lat_bounds", "rotated_lat", "cloud"):
        check(was[name].tobytes() == now[name].tobytes(), f"{name} is exact")
    mask = was["sst"] == FILL
    check(was["sst"][mask].tobytes() == now["sst"][mask].tobytes(), "missing values are exact")
    error = np.abs(was["sst"][~mask].astype("f8") - now["sst"][~mask]).max()
    extent = float(was["sst"][~mask].max()) - float(was["sst"][~mask].min())
    check(0 < error <= 1e-3 * extent, "sst is within the bound, and the bound is used")
    with netCDF4.Dataset(path) as file:
        masked = file["sst"][:]
    equal(int(masked.mask.sum()), int(mask.sum()), "the library masks as many values as before")


def scenario_formats(m):
    """The other formats of the library, without a bound: the bytes of the plain disk."""
    for fmt in ("NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
        path, original = m.root / f"{fmt}.nc", m.plain / f"{fmt}.nc"
        for place in (path, original):
            write(place, fmt=fmt)
        dumps = [run("ncdump", f"{fmt}.nc", cwd=folder).stdout for folder in (m.root, m.plain)]
        check(dumps[0] == dumps[1] and len(dumps[0]) > 10000, f"ncdump of {fmt} says the same")
        was, now = variables(original), variables(path)
        check(all(was[name].tobytes() == now[name].tobytes() for name in was), f"{fmt}: every variable is exact")


def scenario_append(m):
    """Mode 'a' over several opens: a longer time axis, and no earlier value moves."""
    m.bound("abs:0.005")
    path = m.root / "grows.nc"
    write(path, 4)
    field = smooth((40, 60, 90), seed=9)
    seen = variables(path)
    for turn in range(5):
        length = 4 + turn * 6
        with netCDF4.Dataset(path, "a") as file:
            file["sst"][length : length + 6] = field[length : length + 6]
            file["time"][length : length + 6] = np.arange(length, length + 6) / 7
            file.history = f"turn {turn}"
        now = variables(path)
        for name, was in seen.items():
            part = now[name][:length] if name in ("sst", "time") else now[name][: len(was)]
            if name != "cloud" and part.tobytes() != was.tobytes():
                raise mounted.Failure(f"turn {turn}: earlier values of {name} moved")
        error = np.abs(now["sst"][length:].astype("f8") - field[length : length + 6]).max()
        check(error <= 0.005, f"turn {turn}: appended within {error:.2g} of 0.005, nothing earlier moved")
        seen = now
        m.restart()
    equal(variables(path)["time"].tolist(), (np.arange(34) / 7).tolist(), "the time axis is exact")


def scenario_small_values(m):
    """Four values with a NaN (needs.md B-26), and short variables, are never touched by a directory's bound."""
    m.bound("abs:0.5")
    path = m.root / "four.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("n", 4)
        file.createVariable("v", "f4", ("n",))[:] = np.array([5.3, 6.2, 7.3, np.nan], "f4")
    wanted = np.array([5.3, 6.2, 7.3, np.nan], "f4")
    check(variables(path)["v"].tobytes() == wanted.tobytes(), "four values and a NaN are exact")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
