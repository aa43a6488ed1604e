#!/usr/bin/python3
"""Smaller files of the same format, .varve/coarse/K/PATH: each array at every 2^K-th point of its long axes."""

import errno
import os
import shutil

import mounted
import netCDF4
import numpy as np
from mounted import check, equal, refused, run
from test_hdf5 import smooth
from test_regions import npy_samples
from test_views import LEVELS, reads

SHORTEST = 16


def step_of(extent, k):
    return 1 << k if extent >= SHORTEST and extent > 1 << k else 1


def thinned(array, k):
    return array[tuple(slice(None, None, step_of(extent, k)) for extent in array.shape)]


def coarse(m, k, path):
    return m.root / ".varve" / "coarse" / str(k) / path


def same(found, wanted, what):
    found, wanted = np.ma.getdata(found), np.ma.getdata(wanted)
    if found.dtype != wanted.dtype or found.shape != wanted.shape or found.tobytes() != wanted.tobytes():
        raise mounted.Failure(f"{what}: {found.dtype} {found.shape} differs from {wanted.dtype} {wanted.shape}")


def scenario_npy(m):
    """Arrays of every type and order, and the trees of the views."""
    for bound in ("lossless", "rel:1e-3"):
        folder = m.root / bound.replace(":", "")
        folder.mkdir()
        m.bound(bound, folder)
        for name, array in npy_samples().items():
            np.save(folder / f"{name}.npy", array)
        np.save(folder / "line.npy", np.arange(100_003, dtype="i4"))
        np.save(folder / "short.npy", smooth((15, 16, 100, 3)))
        np.save(folder / "number.npy", np.float64(3))
        for path in sorted(folder.glob("*.npy")):
            whole = np.load(path)
            for k in range(10):
                seen = coarse(m, k, path.relative_to(m.root))
                found = np.load(seen)
                same(found, thinned(whole, k), f"{seen}")
                if found.ndim > 1 and 1 not in found.shape and found.flags.f_contiguous != whole.flags.f_contiguous:
                    raise mounted.Failure(f"{seen}: the order of elements is another")
                if k in (0, 3) and found.ndim:
                    same(np.load(seen, mmap_mode="r"), found, f"{seen} mapped")
    equal(np.load(coarse(m, 3, "lossless/short.npy")).shape, (15, 2, 13, 3), "short axes stay whole")
    (m.root / "text").write_text("text")
    np.save(m.root / "words.npy", np.array(["a", "b"]))
    (m.root / "a_64x64.f32").write_bytes(smooth((64, 64)).tobytes())
    for name in ("text", "words.npy", "a_64x64.f32", "nothing"):
        refused(errno.ENOENT, coarse(m, 3, name).stat, f"no coarse form of {name}")
    check("no coarse form of words.npy" in m.log(), "the log says why")
    equal(sorted(os.listdir(coarse(m, 3, ""))), ["lossless", "rel1e-3"], "and they are not listed")
    equal(sorted(os.listdir(m.root / ".varve" / "coarse")), list("0123456789"), "the levels")
    refused(errno.EROFS, lambda: open(coarse(m, 3, "lossless/f4.npy"), "r+b"), "a change")
    shutil.copytree(coarse(m, 4, "lossless"), m.plain / "copied")
    same(np.load(m.plain / "copied" / "f8.npy"), thinned(np.load(m.root / "lossless" / "f8.npy"), 4), "a copied tree")


def scenario_reads(m):
    """A coarse file reads records of its levels alone."""
    m.bound("rel:1e-3")
    np.save(m.root / "a.npy", smooth((130, 128, 128)))
    for k in (4, 3, 2, 1, 0):
        m.restart()
        coarse(m, k, "a.npy").read_bytes()
        counts = reads(m)
        equal([level for level in LEVELS if counts[str(level)] > 0], list(range(min(k, 3), 4)), f"levels read for {k}")


def write_netcdf(path, kind):
    random = np.random.default_rng(3)
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, length in (("time", None), ("z", 6), ("y", 50), ("x", 71), ("strlen", 20), ("station", 33), ("two", 2)):
            file.createDimension(name, length)
        file.title, file.numbers = "a title", np.arange(3, dtype="f4")
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = np.arange(37) / 4
        file.createVariable("y", "f4", ("y",))[:] = np.linspace(-5, 5, 50)
        file.createVariable("x", "i2", ("x",))[:] = np.arange(71)
        field = file.createVariable("field", "f4", ("time", "z", "y", "x"), fill_value=-99)
        field.long_name = "a field"
        field[:] = random.normal(size=(37, 6, 50, 71))
        odd = file.createVariable("odd", "i1", ("time", "x"))
        odd[:] = random.integers(-9, 9, (37, 71))
        file.createVariable("bounds", "f8", ("x", "two"))[:] = random.normal(size=(71, 2))
        names = file.createVariable("names", "S1", ("station", "strlen"))
        names[:] = np.array([[chr(97 + (i + j) % 26).encode() for j in range(20)] for i in range(33)])
        file.createVariable("number", "i4", ())[...] = 42
        file.createVariable("fixed", "f8", ("y", "x"))[:] = random.normal(size=(50, 71))


def dimensions(file, k):
    """Wanted lengths: those of strings stay whole."""
    strings = {v.dimensions[-1] for v in file.variables.values() if v.dtype == "S1" and v.dimensions}
    return {name: len(range(0, len(d), 1 if name in strings else step_of(len(d), k))) for name, d in file.dimensions.items()}


def compare_netcdf(whole_path, seen_path, k):
    with netCDF4.Dataset(whole_path) as whole, netCDF4.Dataset(seen_path) as seen:
        for file in (whole, seen):
            file.set_auto_maskandscale(False)
            file.set_auto_chartostring(False)
        equal(seen.data_model, whole.data_model, "the format")
        wanted = dimensions(whole, k)
        equal({n: len(d) for n, d in seen.dimensions.items()}, wanted, "lengths of dimensions")
        equal([n for n, d in seen.dimensions.items() if d.isunlimited()],
              [n for n, d in whole.dimensions.items() if d.isunlimited()], "unlimited ones")
        equal(list(seen.variables), list(whole.variables), "variables")
        equal(repr(seen.__dict__), repr(whole.__dict__), "attributes of the file")
        for name, variable in whole.variables.items():
            other = seen.variables[name]
            equal(other.dimensions, variable.dimensions, f"dimensions of {name}")
            if repr(other.__dict__) != repr(variable.__dict__):
                raise mounted.Failure(f"attributes of {name}")
            index = tuple(slice(None, None, 1 if wanted[d] == len(whole.dimensions[d]) else 1 << k) for d in variable.dimensions)
            same(np.asarray(other[...]), np.asarray(variable[index] if index else variable[...]), name)


def scenario_netcdf3(m):
    """The classic formats: records, strings, coordinates, attributes."""
    for kind in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
        name = f"{kind}.nc"
        write_netcdf(m.root / name, kind)
        for k in (0, 1, 3, 5):
            compare_netcdf(m.root / name, coarse(m, k, name), k)
        dump = run("ncdump", coarse(m, 3, name)).stdout
        check("time = UNLIMITED ; // (5 currently)" in dump and "y = 7 ;" in dump, "ncdump")
        with netCDF4.Dataset(m.root / "one.nc", "w", format=kind) as file:  # its records are not padded
            file.createDimension("time", None)
            file.createDimension("x", 17)
            file.createVariable("a", "i1", ("time", "x"))[:] = np.arange(34 * 17).reshape(34, 17) % 100
        compare_netcdf(m.root / "one.nc", coarse(m, 2, "one.nc"), 2)
        with netCDF4.Dataset(m.root / name) as file:
            file.set_auto_mask(False)
            part = np.load(m.root / ".varve" / "region" / "field[::5,1,-3:,::-2]" / f"{name}.npy")
            equal(part.dtype.str, ">f4", "a region's type")
            equal(part.tobytes(), file["field"][:][::5, 1, -3:, ::-2].astype(">f4").tobytes(), "a region")


def scenario_netcdf3_data(m):
    """Files of the test data."""
    count = 0
    for path in sorted(p for kind in ("netcdf", "nc", "md", "made") for p in (mounted.data_folder() / kind).rglob("*")):
        if not path.is_file() or path.open("rb").read(3) != b"CDF":
            continue
        shutil.copy(path, m.root / path.name)
        for k in (1, 3):
            compare_netcdf(path, coarse(m, k, path.name), k)
        run("ncdump", "-h", coarse(m, 3, path.name))
        count += 1
    check(count > 5, f"{count} files")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
