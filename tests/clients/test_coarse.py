#!/usr/bin/python3
"""Smaller files of the same format, .varve/coarse/K/PATH: each array at every 2^K-th point of its long axes."""

import errno
import os
import shutil

import h5py
import mounted
import netCDF4
import numpy as np
from mounted import check, equal, refused, run
from test_hdf5 import smooth
from test_regions import npy_samples, write_hdf5
from test_views import LEVELS, reads

SHORTEST = 16
MOST_ELEMENTS = 1 << 25  # of datasets that are compared; test data has some that are 2^31 long and empty


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
    for folder in m.folders("lossless", "rel:1e-3"):
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


def attribute(value, file):
    """An attribute's value so that two files' can be compared: references as what they lead to."""
    if isinstance(value, h5py.Reference) and not isinstance(value, h5py.RegionReference):
        return file[value].name if value else None
    if isinstance(value, h5py.RegionReference):
        return "region"
    if isinstance(value, np.ndarray) and value.dtype.kind in "OV":
        return [attribute(item, file) for item in value.tolist()]
    if isinstance(value, (list, tuple, np.void)):
        return [attribute(item, file) for item in value]
    return value.tobytes() if isinstance(value, (np.ndarray, np.generic)) else value


def axes_of(dataset, k):
    shape = dataset.shape
    steps = [step_of(extent, k) for extent in shape]
    if dataset.dtype.kind == "S" and dataset.dtype.itemsize == 1 and shape:
        steps[-1] = 1
    return tuple(slice(None, None, step) for step in steps)


def compare_hdf5(whole_path, seen_path, k):
    """Links in their order, attributes, types, values."""
    counts = {"datasets": 0, "attributes": 0}
    with h5py.File(whole_path, "r") as whole, h5py.File(seen_path, "r") as seen:
        visit_hdf5(whole, seen, k, counts, set())
    return counts


def visit_hdf5(whole, seen, k, counts, done):
    address = h5py.h5o.get_info(whole.id).addr
    if address in done:
        return
    done.add(address)
    what = f"{whole.file.filename}:{whole.name}"
    if list(whole.attrs) != list(seen.attrs):
        raise mounted.Failure(f"{what}: attributes {list(seen.attrs)}, wanted {list(whole.attrs)}")
    for name in whole.attrs:
        try:
            wanted = attribute(whole.attrs[name], whole.file)
        except (OSError, KeyError, TypeError, ValueError):  # what h5py cannot read
            continue
        found = attribute(seen.attrs[name], seen.file)
        counts["attributes"] += 1
        if repr(found) != repr(wanted):
            raise mounted.Failure(f"{what}: attribute {name} is {found}, wanted {wanted}")
    if isinstance(whole, h5py.Dataset):
        counts["datasets"] += 1
        return compare_dataset(whole, seen, k, what)
    if not isinstance(whole, h5py.Group):
        return
    kept = [name for name in whole if not left_out(whole, name)]
    if list(seen) != kept:
        raise mounted.Failure(f"{what}: links {list(seen)}, wanted {kept}")
    for name in kept:
        link, other = whole.get(name, getlink=True), seen.get(name, getlink=True)
        if vars(link) != vars(other):
            raise mounted.Failure(f"{what}: link {name}")
        if isinstance(link, h5py.HardLink):
            visit_hdf5(whole[name], seen[name], k, counts, done)


def left_out(group, name):
    if not isinstance(group.get(name, getlink=True), h5py.HardLink) or not isinstance(group[name], h5py.Dataset):
        return False
    filters = group[name].id.get_create_plist()
    foreign = [i for i in range(filters.get_nfilters()) if filters.get_filter(i)[0] > h5py.h5z.FILTER_SCALEOFFSET]
    return bool(foreign) or group[name].is_virtual or group[name].external is not None


def compare_dataset(whole, seen, k, what):
    if whole.shape is None:
        return equal(seen.shape, None, what)
    index = axes_of(whole, k)
    wanted_shape = tuple(len(range(*part.indices(extent))) for part, extent in zip(index, whole.shape))
    if seen.shape != wanted_shape or seen.dtype != whole.dtype:
        raise mounted.Failure(f"{what}: {seen.shape} {seen.dtype}, wanted {wanted_shape} {whole.dtype}")
    unlimited = [i for i, extent in enumerate(whole.maxshape) if extent is None]
    equal([i for i, extent in enumerate(seen.maxshape) if extent is None], unlimited, f"{what}: unlimited axes") if unlimited else None
    if whole.size == 0 or whole.size > MOST_ELEMENTS:
        return
    try:
        wanted = whole[...][index]
    except OSError:  # a filter that is not there
        return
    found = seen[...]
    if whole.dtype.hasobject:
        if repr(attribute(np.asarray(found, object), seen.file)) != repr(attribute(np.asarray(wanted, object), whole.file)):
            raise mounted.Failure(f"{what}: values")
        return
    dtype = None if whole.dtype.subdtype else whole.dtype
    same(np.asarray(found, dtype), np.asarray(wanted, dtype), what)
    try:
        fill = whole.fillvalue
    except (OSError, RuntimeError, TypeError, ValueError):  # h5py reads none of array types
        return
    if repr(seen.fillvalue) != repr(fill):
        raise mounted.Failure(f"{what}: fill value {seen.fillvalue}, wanted {fill}")


def write_objects(path):
    """Links, attributes, references, scales, types, filters."""
    field = smooth((40, 50, 60))
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["zebra"], file.attrs["apple"] = "text", np.arange(5)
        group = file.create_group("zoo", track_order=True)
        group["b"], group["a"] = field, field[:, 0]
        group["c"] = h5py.SoftLink("/zoo/a")
        file["again"] = group["b"]
        file["loop"] = group
        group["up"] = file["/"]
        file["gone"] = h5py.SoftLink("/nothing")
        file["outer"] = h5py.ExternalLink("other.h5", "/data")
        file["x"] = np.linspace(0, 1, 60)
        file["x"].make_scale("the x")
        file["y"] = np.linspace(0, 1, 50).astype(">f4")
        file["y"].make_scale()
        group["b"].dims[2].attach_scale(file["x"])
        group["b"].dims[1].attach_scale(file["y"])
        group["b"].dims[0].label = "z"
        group["b"].attrs["to"] = group["a"].ref
        group["b"].attrs["many"] = np.array([file["x"].ref, group.ref, h5py.Reference()], h5py.ref_dtype)
        group["b"].attrs["part"] = group["a"].regionref[2:4, 1:3]
        group["b"].attrs["strings"] = ["one", "two", "three"]
        group["b"].attrs["fixed"] = np.array([b"ab", b"cde"])
        group["b"].attrs["empty"] = h5py.Empty("f4")
        group["b"].attrs.create("pair", np.array((1, 2.5), dtype=[("n", "i4"), ("v", "f8")]))
        file["kind"] = np.dtype([("n", "i4"), ("v", "f8")])
        records = np.zeros(100, file["kind"].dtype)
        records["n"] = np.arange(100)
        file.create_dataset("records", data=records, dtype=file["kind"])
        file.create_dataset("packed", data=field, compression="gzip", chunks=(8, 25, 60))
        file.create_dataset("texts", data=[f"text {i}" for i in range(40)], dtype=h5py.string_dtype())
        file["fixed"] = np.array([f"text {i}".encode() for i in range(40)])
        lists = file.create_dataset("lists", (40,), h5py.vlen_dtype("i4"))
        for i in range(40):
            lists[i] = np.arange(i % 5)
        file["references"] = np.array([file["x"].ref] * 20 + [group["a"].ref] * 20, h5py.ref_dtype)
        file.create_dataset("grown", data=field, maxshape=(None, 50, None), chunks=(16, 16, 16))
        file.create_dataset("none", (0, 50), maxshape=(None, 50), dtype="f4")
        file["null"] = h5py.Empty("f8")
        file["number"] = 4.25
        layout = h5py.VirtualLayout((40, 50, 60), "f4")
        layout[...] = h5py.VirtualSource(file["zoo/b"])
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", (1000,), "f4", external=[("raw.bin", 0, 4000)])


def scenario_hdf5(m):
    """Everything that an HDF5 file has, thinned or carried over."""
    for folder in m.folders("lossless", "rel:1e-3"):
        write_objects(folder / "objects.h5")
        write_hdf5(folder / "kinds.h5")
        with h5py.File(folder / "old.h5", "w", libver="earliest", userblock_size=512) as file:
            file["field"] = smooth((40, 50, 60))
        with h5py.File(folder / "new.h5", "w", libver="latest") as file:
            file.create_dataset("field", data=smooth((40, 50, 60)), chunks=(8, 50, 60), maxshape=(None, 50, 60))
            file["field"].attrs["long"] = np.zeros(20_000)
        for name in ("objects", "kinds", "old", "new"):
            for k in (0, 1, 3, 5):
                path = folder / f"{name}.h5"
                seen = coarse(m, k, path.relative_to(m.root))
                print(f"  ok: {seen}: {compare_hdf5(path, seen, k)}", flush=True)
            run("h5dump", "-H", seen)
            run("h5diff", seen, seen)
        with h5py.File(coarse(m, 2, (folder / "objects.h5").relative_to(m.root))) as file:
            scale = file["zoo/b"].dims[2][0]
            equal((scale.name, scale.shape, file["zoo/b"].dims[0].label), ("/x", (15,), "z"), "dimension scales")
            equal(file["zoo/b"].attrs["to"] and file[file["zoo/b"].attrs["to"]].name, "/zoo/a", "references")


def scenario_netcdf4(m):
    """NetCDF-4: dimensions, groups, types; as netCDF4, xarray and ncdump see them."""
    m.bound("rel:1e-3")
    for kind in ("NETCDF4", "NETCDF4_CLASSIC"):
        write_netcdf(m.root / f"{kind}.nc", kind)
        for k in (0, 1, 3, 5):
            compare_netcdf(m.root / f"{kind}.nc", coarse(m, k, f"{kind}.nc"), k)
        dump = run("ncdump", coarse(m, 3, f"{kind}.nc")).stdout
        check("time = UNLIMITED ; // (5 currently)" in dump and "y = 7 ;" in dump, "ncdump")
    with netCDF4.Dataset(m.root / "groups.nc", "w") as file:
        file.createDimension("x", 40)
        file.createDimension("lonely", 33)
        group = file.createGroup("inner")
        group.createDimension("y", 50)
        group.createVariable("v", "f4", ("y", "x"), zlib=True)[:] = smooth((50, 40))
        state = group.createEnumType("u1", "state", {"off": 0, "on": 1})
        group.createVariable("s", state, ("x",))[:] = np.arange(40) % 2
        group.createVariable("words", str, ("y",))[:] = np.array([f"word {i}" for i in range(50)], object)
    with netCDF4.Dataset(coarse(m, 3, "groups.nc")) as file:
        inner = file["inner"]
        equal((len(file.dimensions["lonely"]), len(inner.dimensions["y"])), (5, 7), "dimensions")
        same(inner["v"][:], smooth((50, 40))[::8, ::8], "a variable of a group")
        equal(list(inner["s"][:]), [0] * 5, "an enumeration")
        equal(inner["words"][1], "word 8", "strings")
    import xarray

    for name in ("NETCDF4.nc", "NETCDF4_CLASSIC.nc"):
        with xarray.open_dataset(m.root / name) as whole, xarray.open_dataset(coarse(m, 3, name)) as seen:
            wanted = whole.isel(time=slice(None, None, 8), y=slice(None, None, 8), x=slice(None, None, 8))
            check(seen["field"].equals(wanted["field"]), f"xarray of {name}")


def scenario_hdf5_data(m):
    """Files of the test data."""
    count = 0
    for path in sorted(p for kind in ("h5", "hdf5", "netcdf", "netcdf4", "nc", "made") for p in (mounted.data_folder() / kind).rglob("*")):
        if not path.is_file() or path.open("rb").read(8) != b"\x89HDF\r\n\x1a\n":
            continue
        shutil.copy(path, m.root / path.name)
        try:
            with h5py.File(m.root / path.name) as file:
                objects = []
                file.visit(objects.append)
        except (OSError, RuntimeError):
            continue
        if len(objects) > 1000:  # h5py takes a minute
            continue
        print(f"  {path.name}: {compare_hdf5(m.root / path.name, coarse(m, 2, path.name), 2)}", flush=True)
        run("h5dump", "-H", coarse(m, 2, path.name))
        count += 1
    check(count > 20, f"{count} files")


def fits_units(path):
    """Header cards and data of each unit of a FITS file, by the standard: the tests need no astropy."""
    data = path.read_bytes()
    at, units = 0, []
    while at < len(data) and (at == 0 or data[at : at + 8] == b"XTENSION"):
        cards = {}
        while True:
            card = data[at : at + 80].decode("ascii")
            at += 80
            if card.rstrip() == "END":
                break
            if card[8:10] == "= ":
                text = card[10:]
                value = text.split("'")[1].rstrip() if text.lstrip().startswith("'") else text.split("/")[0].strip()
                cards[card[:8].strip()] = value
        at = -(-at // 2880) * 2880
        shape = tuple(int(cards[f"NAXIS{i}"]) for i in range(int(cards["NAXIS"]), 0, -1))
        bits = int(cards["BITPIX"])
        size = 0
        if shape and not (shape[-1] == 0 and "GROUPS" in cards):
            size = abs(bits) // 8 * int(cards.get("GCOUNT", 1)) * (int(cards.get("PCOUNT", 0)) + int(np.prod(shape, dtype="i8")))
        elif shape:
            size = abs(bits) // 8 * int(cards["GCOUNT"]) * (int(cards["PCOUNT"]) + int(np.prod(shape[:-1], dtype="i8")))
        kind = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}[bits]
        image = size > 0 and cards.get("XTENSION", "IMAGE") == "IMAGE" and "GROUPS" not in cards
        content = data[at : at + size]
        units.append((cards, np.frombuffer(content, kind).reshape(shape) if image else content))
        at += -(-size // 2880) * 2880
    check(len(data) % 2880 == 0 or at >= len(data), "whole blocks") if len(data) % 2880 else None
    return units


def world(cards, pixel, suffix=""):
    """Intermediate world coordinates of a pixel (from 1, fastest axis first)."""
    axes = range(1, len(pixel) + 1)

    def number(key, otherwise):
        return float(str(cards.get(key + suffix, otherwise)).replace("D", "E"))

    offset = [p - number(f"CRPIX{i}", 0) for i, p in zip(axes, pixel)]
    matrix = any(f"CD{i}_{j}{suffix}" in cards for i in axes for j in axes)
    out = []
    for i in axes:
        if matrix:
            out.append(sum(number(f"CD{i}_{j}", 0) * o for j, o in zip(axes, offset)))
        else:
            out.append(number(f"CDELT{i}", 1) * sum(number(f"PC{i}_{j}", float(i == j)) * o for j, o in zip(axes, offset)))
    return out


def compare_fits(whole_path, seen_path, k):
    whole, seen = fits_units(whole_path), fits_units(seen_path)
    equal(len(seen), len(whole), "units")
    for (cards, data), (found, other) in zip(whole, seen):
        if isinstance(data, bytes):
            equal((found, other == data), (cards, True), "a table stays")
            continue
        same(other, thinned(data, k), f"{seen_path}")
        changed = ("NAXIS", "CRPIX", "CDELT", "CD", "PC", "LTM", "LTV", "A_", "B_", "AP_", "BP_", "CHECKSUM", "DATASUM")
        for key in cards:
            if not key.startswith(changed) and found.get(key) != cards[key]:
                raise mounted.Failure(f"card {key} of {seen_path} is {found.get(key)}, was {cards[key]}")
        steps = [step_of(extent, k) for extent in reversed(data.shape)]
        for suffix in ("", "A"):
            for at in range(3):
                pixel = [1 + at * (i + 1) for i in range(len(steps))]
                wanted = world(cards, [(p - 1) * step + 1 for p, step in zip(pixel, steps)], suffix)
                if any(f"CRVAL{i + 1}{suffix}" in cards for i in range(len(steps))):
                    if not np.allclose(world(found, pixel, suffix), wanted, rtol=1e-10, atol=1e-12):
                        raise mounted.Failure(f"{seen_path}: world coordinates of pixel {pixel}")


def card(key, value, comment="c"):
    text = f"'{value:<8}'" if isinstance(value, str) and value != "T" and not value[0].isdigit() else f"{value:>20}"
    return f"{key:<8}= {text:<20} / {comment}".ljust(80)


def write_fits(path):
    """An image with a CD matrix, one with PC and CDELT, one with defaults, one of integers, a table."""
    field = smooth((40, 50, 60))
    units = []

    def unit(first, array, more, kind=None):
        bits = {"u1": 8, "i2": 16, "i4": 32, "i8": 64, "f4": -32, "f8": -64}[array.dtype.str[1:]]
        cards = [first, card("BITPIX", bits), card("NAXIS", array.ndim)]
        cards += [card(f"NAXIS{i + 1}", n) for i, n in enumerate(reversed(array.shape))]
        cards += [card("PCOUNT", 0), card("GCOUNT", 1)] if "XTENSION" in first else []
        cards += [card(key, value) for key, value in more.items()] + ["COMMENT what it is".ljust(80), "END".ljust(80)]
        header = "".join(cards).encode()
        data = array.astype(array.dtype.newbyteorder(">")).tobytes()
        units.extend([header.ljust(-(-len(header) // 2880) * 2880), data.ljust(-(-len(data) // 2880) * 2880, b"\0")])

    unit(card("SIMPLE", "T"), field[0], {"CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN", "CRVAL1": 10.5, "CRVAL2": -5.25,
         "CRPIX1": 30.5, "CRPIX2": "2.55E1", "CD1_1": -1e-4, "CD1_2": 2e-5, "CD2_1": "2.0D-5", "CD2_2": 1e-4, "LTV1": -3.0,
         "LTM1_1": 1.0, "CHECKSUM": "abcdefgh", "DATASUM": "0", "OBJECT": "M 31"})
    unit(card("XTENSION", "IMAGE"), field.astype("f8"), {"EXTNAME": "SCI", "CRVAL1": 1.0, "CRVAL2": 2.0, "CRVAL3": 3.0,
         "CRPIX1": 1.0, "CDELT1": 0.5, "CDELT2": -0.25, "PC1_2": 0.5, "CRVAL1A": 7.0, "CDELT1A": 2.0, "CRPIX1A": 4.0})
    unit(card("XTENSION", "IMAGE"), (field[:, :, :3] * 1000).astype("i2"), {"BZERO": 32768.0, "CRVAL2": 1.0, "CRVAL3": 4.0})
    unit(card("XTENSION", "IMAGE"), np.arange(10, dtype="u1"), {"CRVAL1": 5.0})
    unit(card("XTENSION", "BINTABLE"), np.arange(24 * 100, dtype="u1").reshape(100, 24),
         {"TFIELDS": 1, "TFORM1": "24B", "TTYPE1": "bytes"})
    path.write_bytes(b"".join(units))


def scenario_fits(m):
    """Images and their world coordinates; tables stay."""
    write_fits(m.root / "made.fits")
    for k in (0, 1, 2, 3, 5):
        compare_fits(m.root / "made.fits", coarse(m, k, "made.fits"), k)
    found = fits_units(coarse(m, 3, "made.fits"))
    equal((found[0][0].get("CHECKSUM"), found[0][0]["OBJECT"]), (None, "M 31"), "checksums go")
    equal((float(found[0][0]["LTM1_1"]), float(found[0][0]["LTV1"])), (0.125, 0.5), "IRAF's coordinates")
    count = 0
    for path in sorted((mounted.data_folder() / "fits").rglob("*")):
        if path.is_file() and path.open("rb").read(30)[:10] == b"SIMPLE  = ":
            shutil.copy(path, m.root / path.name)
            compare_fits(path, coarse(m, 2, path.name), 2)
            count += 1
    check(count > 5, f"{count} files")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
