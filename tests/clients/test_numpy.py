#!/usr/bin/python3
"""numpy, unmodified, on a mount: npy files, memory maps, raw files."""

import errno
import os

import arrays
import mounted
import numpy as np
from mounted import check, equal, refused, run, same_bytes
from test_hdf5 import smooth


def scenario_save_load(m):
    """np.save and np.load of every type, order and header version, without and with a bound."""
    (m.root / "bounded").mkdir()
    m.bound("abs:0.01", m.root / "bounded")
    shapes = [(), (1,), (0, 3), (7,), (5000,), (300, 1, 41), (3, 4, 50, 60), (2, 3, 4, 5, 60), (70, 80, 90)]
    total = 0
    for dtype in ("<f4", "<f8", ">f4", ">f8", "<f2", "i1", "<u2", ">i4", "<i8", "bool", "<c8"):
        for shape in shapes:
            values = (smooth(shape, "f8") if shape and np.prod(shape) else np.ones(shape)) * 50
            values = (np.abs(values) if dtype[-2] == "u" else values).astype(dtype)
            for order in "CF":
                name = f"{dtype.strip('<>')}{'b' if '>' in dtype else ''}_{'x'.join(map(str, shape))}_{order}.npy"
                for folder in (m.plain, m.root, m.root / "bounded"):
                    np.save(folder / name, np.asarray(values, order=order))
                if not same_bytes(m.plain / name, m.root / name):
                    raise mounted.Failure(f"{name}: bytes differ without a bound")
                wrong = arrays.problems(m.plain / name, m.root / "bounded" / name, "abs:0.01")
                equal(wrong, [], f"{name} under abs:0.01") if wrong else None
                total += 1
    check(True, f"{total} npy files: exact without a bound, within abs:0.01 with it")
    for version in ((1, 0), (2, 0), (3, 0)):
        for folder in (m.plain, m.root / "bounded"):
            with open(folder / "v.npy", "wb") as file:
                np.lib.format.write_array(file, smooth(), version)
        equal(arrays.problems(m.plain / "v.npy", m.root / "bounded" / "v.npy", "abs:0.01"), [], f"header {version}")
        differs = not same_bytes(m.plain / "v.npy", m.root / "bounded" / "v.npy")
        check(differs, f"header {version} is recognised: the bound is used")


def scenario_memory_maps(m):
    """np.load(mmap_mode) r, r+ and c, open_memmap w+, np.memmap r, r+ and w+."""
    path, field = m.root / "x.npy", smooth()
    out = np.lib.format.open_memmap(path, "w+", "f4", field.shape)
    out[:] = field
    out.flush()
    del out
    check((np.load(path) == field).all(), "open_memmap w+")
    check((np.load(path, mmap_mode="r") == field).all(), "mmap_mode r")
    private = np.load(path, mmap_mode="c")
    private[3] = 99
    check((private[3] == 99).all() and (np.load(path) == field).all(), "mmap_mode c changes nothing")
    del private
    shared = np.load(path, mmap_mode="r+")
    shared[10, 20:30] = -5
    shared.flush()
    del shared
    field[10, 20:30] = -5
    check((np.load(path) == field).all(), "mmap_mode r+")
    raw = m.root / "raw.bin"
    np.memmap(raw, "f8", "w+", shape=(1000, 10))[:] = np.arange(10000.0).reshape(1000, 10)
    np.memmap(raw, "f8", "r+", shape=(1000, 10))[5] = -1
    wanted = np.arange(10000.0).reshape(1000, 10)
    wanted[5] = -1
    check((np.memmap(raw, "f8", "r", shape=(1000, 10)) == wanted).all(), "np.memmap w+, r+, r")
    m.restart()
    check((np.load(path) == field).all() and (np.fromfile(raw) == wanted.ravel()).all(), "all of it after a new mount")


def scenario_map_survives_seal(m):
    """A map that is open while the file is sealed shows, once it is, what a fresh read shows."""
    m.bound("abs:0.01")
    path = m.root / "x.npy"
    np.save(path, smooth())
    view = np.load(path, mmap_mode="r")
    before = view.tobytes()
    check(before == np.load(path).tobytes(), "a map and a read agree")
    with open(path, "r+b") as file:
        file.seek(128)
        file.write(np.float32([7.5] * 100).tobytes())
    after = np.load(path)
    check((after.ravel()[:100] == 7.5).all() or np.abs(after.ravel()[:100] - 7.5).max() <= 0.01, "the write is there")
    check(after.ravel()[100:].tobytes() == np.frombuffer(before, "f4")[100:].tobytes(), "the rest did not move")
    check(view.tobytes() == after.tobytes(), "the old map agrees with a fresh read")


def scenario_raw_names(m):
    """Raw files whose dimensions are in their name; wrong names fall back to exact bytes."""
    m.bound("abs:0.01")
    for dtype, suffix in (("f4", "f32"), ("f8", "f64")):
        values = smooth((40, 50, 60), dtype)
        path, plain = m.root / f"x_40x50x60.{suffix}", m.plain / f"x_40x50x60.{suffix}"
        for place in (path, plain):
            values.tofile(place)
        equal(arrays.problems(plain, path, "abs:0.01"), [], f"{path.name} keeps the bound")
        check(not same_bytes(plain, path), f"{path.name} is recognised: the bound is used")
        check(m.stored(path) * 3 < values.nbytes, f"{path.name}: under a third is stored")
        for wrong in (f"x_40x50x61.{suffix}", f"x_0x5.{suffix}", f"x_99999999999x99999999999.{suffix}", f"x.{suffix}"):
            values.tofile(m.root / wrong)
            values.tofile(m.plain / wrong)
            check(same_bytes(m.root / wrong, m.plain / wrong), f"{wrong}: exact, since the size does not match")
    integers = (smooth((40, 50, 60)) * 1000).astype("<i4")
    integers.tofile(m.root / "n_40x50x60.i32")
    check((np.fromfile(m.root / "n_40x50x60.i32", "<i4") == integers.ravel()).all(), "integers are exact")


def scenario_bound_edges(m):
    """Bounds of 0, under the type's resolution and over the whole range; constant, zero and subnormal arrays."""
    base = smooth()
    cases = {
        "zero": ("abs:0", base),
        "fine": ("rel:1e-12", base),
        "wide": ("abs:1e6", base),
        "constant": ("rel:1e-3", np.full_like(base, 2.5)),
        "zeros": ("rel:1e-3", np.zeros_like(base)),
        "nan": ("rel:1e-3", np.full_like(base, np.nan)),
        "subnormal": ("rel:1e-3", (base * 1e-40).astype("f4")),
        "huge": ("rel:1e-3", (base * 1e37).astype("f4")),
        "mixed": ("abs:1e-4", np.float32(10.0) ** np.float32(np.random.default_rng(1).uniform(-30, 30, base.shape))),
        "near116": ("abs:1e-5", 116 + 0.3 * smooth((17184, 10), "f8")),
        "ramp": ("abs:1e-5", np.linspace(0, 9e4, 250000).reshape(500, 500)),
        "noise": ("abs:1e-6", np.random.default_rng(2).random(base.shape).astype("f4")),
    }
    for name, (bound, values) in cases.items():
        path, plain = m.root / f"{name}.npy", m.plain / f"{name}.npy"
        path.touch()
        m.bound(bound, path)
        for place in (path, plain):
            np.save(place, values)
        equal(arrays.problems(plain, path, bound), [], f"{name}: {bound} kept")
        run(mounted.BINARY, "verify", plain, path)
        if name in ("zero", "fine"):
            check(same_bytes(path, plain), f"{name}: {bound} means exact")
        check(m.stored(path) <= 1.02 * path.stat().st_size + 65536, f"{name}: never much larger than the file")


def scenario_structured(m):
    """Structured, object and string arrays, and npz: exact under a bound."""
    m.bound("abs:0.5")
    record = np.zeros(9000, [("a", "<f4"), ("b", "<f8"), ("c", "S3")])
    record["b"] = np.linspace(0, 1, 9000)
    table = {
        "record.npy": record,
        "text.npy": np.array(["äé", "longer"] * 4000),
        "object.npy": np.array([{"a": 1}, None, 2.5], dtype=object),
        "time.npy": np.arange("2000", "2020", dtype="M8[h]"),
        "longdouble.npy": smooth().astype(np.longdouble),
    }
    for name, values in table.items():
        for folder in (m.root, m.plain):
            np.save(folder / name, values)
        check(same_bytes(m.root / name, m.plain / name), f"{name} is exact")
    np.savez(m.root / "many.npz", a=smooth(), b=np.arange(5))
    check((np.load(m.root / "many.npz")["a"] == smooth()).all(), "npz members are exact")


def scenario_permissions_of_maps(m):
    """A read-only descriptor cannot be mapped for shared writing."""
    path = m.root / "x.npy"
    np.save(path, smooth())
    os.chmod(path, 0o444)

    def map_for_writing():
        import mmap

        file = os.open(path, os.O_RDONLY)
        try:
            mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_WRITE | mmap.PROT_READ)
        finally:
            os.close(file)

    refused(errno.EACCES, map_for_writing, "PROT_WRITE of a read-only descriptor")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
