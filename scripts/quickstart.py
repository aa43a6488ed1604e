#!/usr/bin/python3
"""The programs of the quick start: a small solver, and the writers and readers that know nothing of Varve.

usage: quickstart.py solve|write|read FOLDER BOUND    (called by quickstart.sh; FOLDER has mount/ and plain/)
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import h5py
import netCDF4
import numpy as np

POINTS = 256
STEPS = 20
NETCDF_IN_DATA = "netcdf/iris-sample-data__ostia_monthly.nc"


def laplacian(field, out):
    """Second differences along the three axes; the border stays 0 (a rigid wall)."""
    core = field[1:-1, 1:-1, 1:-1]
    np.multiply(core, -6, out=out)
    for axis in range(3):
        for shift in (0, 2):
            window = [slice(1, -1)] * 3
            window[axis] = slice(shift, shift + core.shape[axis])
            out += field[tuple(window)]


def solve_wave(points=POINTS, steps=STEPS, seed=1):
    """Pressure of sound in a layered medium after some pulses: leapfrog in time, second order in space, float32."""
    random = np.random.default_rng(seed)
    axis = np.arange(points, dtype=np.float32)
    field = np.zeros((points,) * 3, np.float32)
    for _ in range(24):
        centre, width = random.uniform(0.1, 0.9, 3) * points, random.uniform(5, 14)
        gauss = [np.exp(-(((axis - c) / width) ** 2)).astype(np.float32) for c in centre]
        pulse = np.einsum("i,j,k->ijk", *gauss, dtype=np.float32)
        field += np.float32(random.uniform(-1, 1)) * pulse
    depth = np.sin(np.linspace(0, 9, points - 2, dtype=np.float32))[:, None, None]
    courant_squared = (0.25 + 0.05 * depth).astype(np.float32)  # (speed * dt / dx)^2; stable below 1/3
    before = field.copy()
    change = np.empty((points - 2,) * 3, np.float32)
    for _ in range(steps):
        laplacian(field, change)
        change *= courant_squared
        core = (slice(1, -1),) * 3
        change += field[core]
        change += field[core]
        change -= before[core]
        before, field = field, before
        field[core] = change
    return field


def make_netcdf(path):
    """Stands in for a climate model's output where the test data is absent: coordinates, land mask, packed variable."""
    random = np.random.default_rng(2)
    with netCDF4.Dataset(path, "w", format="NETCDF4") as out:
        out.title = "monthly sea surface temperature (made up)"
        out.Conventions = "CF-1.8"
        for name, values, units in (
            ("time", np.arange(24) * 30.4375, "days since 2000-01-01"),
            ("latitude", np.linspace(-89.5, 89.5, 180), "degrees_north"),
            ("longitude", np.linspace(0.5, 359.5, 360), "degrees_east"),
        ):
            out.createDimension(name, None if name == "time" else len(values))
            variable = out.createVariable(name, "f8", (name,))
            variable.units = units
            variable[:] = values
        dimensions = ("time", "latitude", "longitude")
        latitude = np.cos(np.radians(np.linspace(-89.5, 89.5, 180)))[None, :, None]
        waves = sum(
            np.sin(np.arange(360)[None, None, :] * k * np.pi / 180 + np.arange(24)[:, None, None] * k / 9)
            for k in range(1, 9)
        )
        values = (271 + 30 * latitude + latitude * waves + random.normal(0, 0.05, (24, 180, 360))).astype("f4")
        land = random.random((12, 24)).repeat(15, 0).repeat(15, 1) < 0.3
        values[:, land] = np.float32(1e20)
        sst = out.createVariable("sst", "f4", dimensions, fill_value=np.float32(1e20))
        sst.units, sst.standard_name = "K", "sea_surface_temperature"
        sst.set_auto_mask(False)
        sst[:] = values
        packed = out.createVariable("cloud", "i2", dimensions, fill_value=np.int16(-32767))
        packed.scale_factor = 1e-4
        packed[:] = random.random((24, 180, 360))


def solve(out):
    source = out / "source"
    source.mkdir(exist_ok=True)
    wave = source / "wave.npy"
    if not wave.exists():
        np.save(source / "partial.npy", solve_wave())
        os.rename(source / "partial.npy", wave)
        np.save(source / "pressure_early_128.npy", solve_wave(128, 10).astype("f8"))
    sample = pathlib.Path(os.environ.get("VARVE_TEST_DATA") or "/nonexistent", NETCDF_IN_DATA)
    if sample.exists():
        shutil.copy(sample, source / "climate.nc")
    elif not (source / "climate.nc").exists():
        make_netcdf(source / "climate.nc")


def write_h5(source, path):
    field = np.load(source / "wave.npy")
    with h5py.File(path, "w") as file:
        file.attrs["what"] = "acoustic wave in a layered medium"
        pressure = file.create_dataset("pressure", data=field)
        for axis, name in enumerate("zyx"):
            file[name] = np.linspace(0, 1, field.shape[axis])
            file[name].make_scale(name)
            pressure.dims[axis].attach_scale(file[name])


def copy_file(source, path):
    subprocess.run(["cp", source, path], check=True)


FILES = {  # name: (how it is written, what it is written from)
    "wave.h5": (write_h5, ""),
    "climate.nc": (copy_file, "climate.nc"),
    "pressure_early_128.npy": (copy_file, "pressure_early_128.npy"),
}


def timed(action, *arguments):
    start = time.monotonic()
    result = action(*arguments)
    return result, time.monotonic() - start


def write_durably(name, target, source):
    """Runs the writer and waits until its file is safe on the disk."""
    write, origin = FILES[name]
    write(source / origin, target / name)
    file = os.open(target / name, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def write(out):
    times = {}
    for name in FILES:
        times[name] = [timed(write_durably, name, out / place, out / "source")[1] for place in ("plain", "mount")]
    (out / "write-times.json").write_text(json.dumps(times))


def read_arrays(path):
    """Every numeric array of a file, by the library that its users use; masked values as they are stored."""
    if path.suffix == ".npy":
        return {path.stem: np.load(path)}
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return {name: file[name][()] for name in file}
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return {name: variable[...] for name, variable in file.variables.items()}


def forget_cached_pages(path):
    """As far as one may: reads come from the disk then."""
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def largest_error(original, found):
    """(error, range of values) of the array that moved most for its range; raises if what must be exact is not."""
    worst = (0.0, 1.0)
    for name, was in original.items():
        now = found[name]
        if was.dtype != now.dtype or was.shape != now.shape:
            raise ValueError(f"{name}: type or shape changed")
        if was.tobytes() == now.tobytes():
            continue
        if was.dtype.kind != "f":
            raise ValueError(f"{name}: an array of {was.dtype} must come back bit for bit")
        real = np.isfinite(was) & (np.abs(was) < 1e19)
        if was[~real].tobytes() != now[~real].tobytes():
            raise ValueError(f"{name}: missing values must come back bit for bit")
        values = was[real].astype("f8")
        error = float(np.abs(values - now[real].astype("f8")).max())
        extent = float(values.max() - values.min())
        if error * worst[1] > worst[0] * extent:
            worst = (error, extent)
    return worst


def kept(bound, error, extent):
    mode, _, value = bound.partition(":")
    if mode == "lossless":
        return error == 0
    return error <= float(value) * (extent if mode == "rel" else 1)


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))


def read(out, bound):
    written = json.loads((out / "write-times.json").read_text())
    heads = "file, logical MB, stored MB, ratio, bound, max error, of range, write s, plain, read s, plain"
    rows = [heads.split(", ")]
    broken = False
    for name in FILES:
        for place in ("plain", "mount"):
            forget_cached_pages(out / place / name)
        original, plain_seconds = timed(read_arrays, out / "plain" / name)
        found, mount_seconds = timed(read_arrays, out / "mount" / name)
        error, extent = largest_error(original, found)
        broken |= not kept(bound, error, extent)
        info = os.stat(out / "mount" / name)
        stored = info.st_blocks * 512
        rows.append(
            [name, f"{info.st_size / 1e6:.2f}", f"{stored / 1e6:.2f}", f"{info.st_size / max(stored, 1):.1f}", bound]
            + [f"{error:.3g}", f"{error / extent:.2e}", f"{written[name][1]:.2f}", f"{written[name][0]:.2f}"]
            + [f"{mount_seconds:.2f}", f"{plain_seconds:.2f}"]
        )
    table(rows)
    print("(write: until fsync returned; read: after a new mount; plain: the same on the disk without Varve)")
    if broken:
        sys.exit("quickstart: an error above is larger than the bound")


if __name__ == "__main__":
    step, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if step == "read":
        read(folder, sys.argv[3])
    else:
        {"solve": solve, "write": write}[step](folder)
