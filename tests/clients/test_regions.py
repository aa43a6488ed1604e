#!/usr/bin/python3
"""Parts of arrays as .npy files, .varve/region/SPEC/PATH.npy: equal to NumPy's and h5py's slices, bit for bit."""

import errno
import os
import pathlib
import shutil

import h5py
import mounted
import numpy as np
from mounted import check, equal, refused
from test_hdf5 import smooth
from test_views import LEVELS, reads, view

PARTS_3D = [
    "",
    "[...]",
    "[10:40,:,::2]",
    "[::8,::8,::8]",
    "[::4,::2,::4]",
    "[3]",
    "[-1,...,5]",
    "[..., 7]",
    "[5,6,7]",
    "[::-1,::-3,-2::-7]",
    "[20:20]",
    "[60:1000:13,5:6]",
    "[+1:,-30:-5]",
    "[0:64:64, ::512]",
    "[ 1 : 9 , 2 ]",
]


def part_of(array, text):
    return array[_Index(text).value] if text else array


class _Index:
    """The index that Python makes of a text such as "[1:2, ...]"."""

    def __init__(self, text):
        self.value = eval("taker" + text, {"__builtins__": {}}, {"taker": self})

    def __getitem__(self, index):
        return index


def has(array, text):
    try:
        part_of(array, text)
        return True
    except IndexError:
        return False


def region(m, spec, path):
    return m.root / ".varve" / "region" / spec / (str(path) + ".npy")


def compare(m, array, name, parts, path):
    """Every part of an array, read and mapped, against the array in memory."""
    for text in parts:
        wanted = np.asarray(part_of(array, text), array.dtype)  # numbers by themselves lose their byte order
        spec = name + text or "[...]"
        for mode in (None, "r"):
            found = np.load(region(m, spec, path), mmap_mode=mode if wanted.size else None)
            if found.dtype != wanted.dtype or found.shape != wanted.shape or found.tobytes() != wanted.tobytes():
                raise mounted.Failure(f"{path}, region {spec}, mmap {mode}: {found.dtype} {found.shape} differs from "
                                      f"{wanted.dtype} {wanted.shape}")
    print(f"  ok: {len(parts)} regions of {path} {name}", flush=True)


def npy_samples():
    random = np.random.default_rng(1)
    shape = (70, 65, 66)
    field = smooth(shape)
    return {
        "f4": field,
        "f8": smooth(shape, dtype="f8", seed=2),
        "f2": field.astype("f2"),
        "big": field.astype(">f4"),
        "fortran": np.asfortranarray(field),
        "fortran_big": np.asfortranarray(field.astype(">f8")),
        "complex": (field + 1j * smooth(shape, seed=3)).astype("c8"),
        "fortran_complex": np.asfortranarray((field - 2j * field).astype(">c16")),
        "labels": random.integers(0, 900, shape).astype("u2"),
        "i8": random.integers(-5, 5, shape).astype("i8"),
        "bool": random.integers(0, 2, shape).astype("?"),
        "bytes": random.integers(0, 255, shape).astype("i1"),
        "time": random.integers(0, 10**15, shape).astype("M8[ns]"),
        "nan": np.where(random.random(shape) < 0.1, np.nan, field).astype("f4"),
    }


def scenario_npy(m):
    """Every element type and order of .npy; exact, under a bound, and while it is being written."""
    for folder in m.folders("lossless", "rel:1e-3"):
        for name, array in npy_samples().items():
            path = pathlib.Path(folder.name) / f"{name}.npy"
            np.save(m.root / path, array)
            compare(m, np.load(m.root / path), "", PARTS_3D, path)
    line = np.arange(100_000, dtype="i4")
    np.save(m.root / "line.npy", line)
    compare(m, line, "", ["[5:99999:7]", "[-1]", "[::-1]", "[99999:3:-1000]", "[500:]"], "line.npy")
    np.save(m.root / "scalar.npy", np.float32(3))
    compare(m, np.load(m.root / "scalar.npy"), "", ["", "[...]"], "scalar.npy")
    np.save(m.root / "empty.npy", np.zeros((0, 5)))
    raw = smooth((40, 50, 60))
    (m.root / "raw_40x50x60.f32").write_bytes(raw.tobytes())
    compare(m, raw, "", ["[3:9,::5]", "[::8,::8,::8]"], "raw_40x50x60.f32")
    with open(m.root / "staged.npy", "wb") as file:
        np.save(file, raw)
        file.flush()
        compare(m, raw, "", PARTS_3D[:4], "staged.npy")


def write_hdf5(path):
    """Datasets of every layout and kind. Returns their names."""
    field = smooth((70, 65, 66))
    random = np.random.default_rng(7)
    with h5py.File(path, "w") as file:
        file["field"] = field
        file["group/deep/big"] = field.astype(">f8")
        file.create_dataset("chunked", data=field, chunks=(16, 20, 64))
        grown = file.create_dataset("grown", (10, 65, 66), "f4", maxshape=(None, None, 66), chunks=(4, 64, 64), fillvalue=-7)
        grown[:5] = field[:5]
        grown.resize((70, 80, 66))
        grown[60:, 5:70] = field[60:]
        file.create_dataset("never", (70, 65, 66), "i4", fillvalue=9)
        file.create_dataset("never_chunked", (70, 65, 66), ">f4", chunks=(8, 8, 8), fillvalue=2.5)
        file.create_dataset("packed", data=field, chunks=(16, 65, 66), compression="gzip", shuffle=True)
        file.create_dataset("summed", data=field, chunks=(16, 65, 66), fletcher32=True)
        file["complex"] = (field + 1j * field).astype("c16")
        file["complex_big"] = (field + 1j * field).astype(">c8")
        file["flags"] = random.integers(0, 2, field.shape).astype("?")
        file["half"] = field.astype("f2")
        kinds = h5py.enum_dtype({"A": 0, "B": 1, "C": 2}, basetype="u1")
        file.create_dataset("kinds", data=random.integers(0, 3, field.shape).astype("u1"), dtype=kinds)
        file["vectors"] = np.zeros((70, 65), np.dtype(("f4", (3,))))
        file["vectors"][...] = random.normal(size=(70, 65, 3))
        file.create_dataset("vectors_packed", data=random.normal(size=(70, 65, 3)).astype("f4"), compression="gzip")
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        small = np.arange(4 * 5 * 6, dtype="i2").reshape(4, 5, 6)
        space = h5py.h5s.create_simple(small.shape)
        h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16LE, space, compact)
        file["compact"][...] = small
        file["odd:name %[1]"] = field
        file["soft"] = h5py.SoftLink("/group/deep/big")
        file["outside"] = h5py.ExternalLink("other.h5", "/field")
        file["text"] = "text"
        file["number"] = 4.5
        names = ["field", "group/deep/big", "chunked", "grown", "never", "never_chunked", "packed", "summed", "complex",
                 "complex_big", "flags", "half", "kinds", "vectors", "vectors_packed", "compact", "odd:name %[1]", "soft"]
    return names


def escaped(name):
    return name.replace("%", "%25").replace(":", "%3a").replace("[", "%5B").replace("/", ":")


def scenario_hdf5(m):
    """Every kind of dataset, as h5py reads it."""
    for folder in m.folders("lossless", "rel:1e-3"):
        path = pathlib.Path(folder.name) / "a.h5"
        names = write_hdf5(m.root / path)
        with h5py.File(m.root / path, "r") as file:
            for name in names:
                array = file[name][...]
                if array.ndim == 3:
                    equal(part_of(array, PARTS_3D[2]).tobytes(), file[name][_Index(PARTS_3D[2]).value].tobytes(), "h5py")
                compare(m, array, escaped(name), [part for part in PARTS_3D if has(array, part)], path)
            equal(np.load(region(m, "number", path))[()], 4.5, "a scalar")
        compare(m, np.load(region(m, ":field", path)), "%2Ffield", ["[1]"], path)
        for name in ("text", "outside", "nothing", "group"):
            refused(errno.ENOENT, region(m, name, path).stat, f"{name} is no array of numbers in the file")
        refused(errno.ENOENT, region(m, "[0]", path).stat, "a file of many arrays without a name")
        with h5py.File(m.root / path, "r+") as file:
            file["field"][20:22, 3] = 42
        with h5py.File(m.root / path, "r") as file:
            compare(m, file["field"][...], "field", PARTS_3D, path)
    with h5py.File(m.root / "one.h5", "w") as file:
        file["a/b/only"] = smooth((20, 30, 40))
        file["text"] = "text"
    compare(m, smooth((20, 30, 40)), "", ["[3]", "[::4,::4,::4]"], "one.h5")


def scenario_refusals(m):
    """What is malformed is EINVAL, what the file lacks ENOENT, and the log says why."""
    np.save(m.root / "a.npy", smooth((20, 30, 40)))
    (m.root / "text").write_text("text")
    np.save(m.root / "objects.npy", np.array(["a", "b"]))
    for spec in ("[", "[]", "u[1", "u]x[", "[1::0]", "[a]", "[1,,2]", "[...,...]", "[1:2:3:4]", "%", "%2", "%zz", "%00",
                 "[99999999999999999999]", "[1]x", "[,]"):
        refused(errno.EINVAL, region(m, spec, "a.npy").stat, f"{spec}")
    check("\"[1::0]\": a step is 0" in m.log(), "the log says what is wrong")
    for spec, why in (("[20]", "out of bounds for axis 0"), ("[-21]", "out of bounds"), ("[0,0,0,0]", "has 3 axes"),
                      ("name[0]", "without a name")):
        refused(errno.ENOENT, region(m, spec, "a.npy").stat, f"{spec} of a.npy")
        check(why in m.log(), f"the log says: {why}")
    for path in ("text", "nothing", "objects.npy", "a"):
        refused(errno.ENOENT, region(m, "[0]", path).stat, f"a region of {path}")
    refused(errno.ENOENT, (m.root / ".varve" / "region" / "[0]" / "a.npy").stat, "the name without .npy")
    with open(m.root / "half.h5", "wb") as file:
        file.write(b"\x89HDF\r\n\x1a\n" + bytes(100))
    refused(errno.ENOENT, region(m, "u", "half.h5").stat, "a damaged file")
    check("half.h5" in m.log(), "and the log says so")


def scenario_trees(m):
    """Folders of a region: what is listed, links, attributes, copies, refusals."""
    (m.root / "run" / "deep").mkdir(parents=True)
    for name in ("run/a.npy", "run/deep/b.npy", "c.npy"):
        np.save(m.root / name, smooth((20, 30, 40)))
    (m.root / "run" / "text").write_text("text")
    os.symlink("run/deep", m.root / "latest")
    os.chmod(m.root / "c.npy", 0o640)
    root = m.root / ".varve" / "region" / "[::2,3]"
    equal(os.listdir(m.root / ".varve" / "region"), [], "no SPEC is listed")
    equal(sorted(os.listdir(root)), ["c.npy.npy", "latest", "run"], "folders, links, files with an array")
    equal(sorted(os.listdir(root / "run")), ["a.npy.npy", "deep"], "and in a folder")
    equal(sorted(os.listdir(root / "latest")), ["b.npy.npy"], "a link to a folder")
    equal(sorted(os.listdir(m.root / ".varve" / "region" / "nothing" / "run")), ["deep"], "files without the array are not")
    whole = smooth((20, 30, 40))[::2, 3]
    equal((root / "c.npy.npy").stat().st_size, 128 + whole.nbytes, "the size")
    equal((root / "c.npy.npy").stat().st_mode & 0o777, 0o640, "the mode")
    shutil.copy(root / "c.npy.npy", m.root / "copy.npy")
    equal(np.load(m.root / "copy.npy").tobytes(), whole.tobytes(), "a copy")
    for program in ("cp", "cp --sparse=always"):
        mounted.shell(f"{program} '{root}/c.npy.npy' copy2.npy", cwd=m.root)
        equal(np.load(m.root / "copy2.npy").tobytes(), whole.tobytes(), program)
    for action in (
        lambda: (root / "new").touch(),
        lambda: (root / "c.npy.npy").unlink(),
        lambda: open(root / "c.npy.npy", "r+b"),
        lambda: os.truncate(root / "c.npy.npy", 1),
        lambda: (root / "run").rmdir(),
    ):
        refused(errno.EROFS, action, "a change")
    reader = os.open(root / "c.npy.npy", os.O_RDONLY)
    np.save(m.root / "c.npy", smooth((50, 30, 40), seed=5))
    refused(errno.ESTALE, lambda: os.pread(reader, 100, 0) and os.pread(reader, 1 << 20, 0), "the file was changed")
    os.close(reader)
    equal(np.load(root / "c.npy.npy").shape, (25, 40), "opened again it is the new file's")
    (m.root / "c.npy").unlink()
    refused(errno.ENOENT, (root / "c.npy.npy").stat, "and gone with it")
    for i in range(2000):
        region(m, f"[{i % 20},{i % 7}:,{i}:]", "run/a.npy").stat()
    equal(np.load(root / "run" / "a.npy.npy").tobytes(), whole.tobytes(), "after 2,000 other regions")


def scenario_reads(m):
    """A region reads the bricks that it touches, and of a stride the levels that it needs."""
    m.bound("rel:1e-3")
    np.save(m.root / "a.npy", smooth((130, 128, 128)))
    for step, levels in ((8, [3]), (16, [3]), (24, [3]), (4, [2, 3]), (2, [1, 2, 3]), (3, [0, 1, 2, 3])):
        m.restart()
        spec = f"[::{step},::{step},::{step}]"
        np.load(region(m, spec, "a.npy"))
        counts = reads(m)
        equal([level for level in LEVELS if counts[str(level)] > 0], levels, f"levels read for {spec}")
    m.restart()
    np.load(region(m, "[:64,:64,:64]", "a.npy"))
    counts = reads(m)
    equal([counts[str(level)] for level in LEVELS], [1, 1, 1, 1], "a corner is one brick")


def scenario_levels(m):
    """SPEC@K: the elements that .varve/level/K shows, read from levels K and up, and what they are off by at most."""
    m.bound("rel:1e-3")
    parts = ["[33]", "[33,::8,::8]", "[::8,::8,::8]", "[5:60:3,7]", "[..., 9]", "[::-1,4:40]", "[5,6,7]"]
    samples = npy_samples()
    for name in ("f4", "f8", "big", "fortran", "fortran_big", "complex", "labels", "nan", "bool"):
        np.save(m.root / f"{name}.npy", samples[name])
    names = write_hdf5(m.root / "a.h5")
    np.save(m.root / "patched.npy", samples["f4"])
    m.restart()
    patched = np.load(m.root / "patched.npy", mmap_mode="r+")
    patched[30:34, 20:40] = 7
    del patched
    m.restart()
    for level in LEVELS:
        for name in ("f4", "f8", "big", "fortran", "fortran_big", "complex", "labels", "nan", "bool", "patched"):
            whole = np.load(view(m, f"level/{level}", f"{name}.npy"))
            for text in parts:
                wanted = np.asarray(part_of(whole, text), whole.dtype)
                equal_bytes(np.load(region(m, f"{text}@{level}", f"{name}.npy")), wanted, f"{name} {text}@{level}")
        with h5py.File(view(m, f"level/{level}", "a.h5"), "r") as file:
            for name in names:
                whole = file[name][...]
                if file[name].compression:  # level/K shows those exactly: parts are held against the coarse whole
                    whole = np.load(region(m, f"{escaped(name)}[...]@{level}", "a.h5"))
                for text in (text for text in parts if has(whole, text)):
                    found = np.load(region(m, f"{escaped(name)}{text}@{level}", "a.h5"))
                    equal_bytes(found, np.asarray(part_of(whole, text), whole.dtype), f"{name} {text}@{level}")
        stated = [os.getxattr(path, "user.varve.max_error")
                  for path in (view(m, f"level/{level}", "f4.npy"), region(m, f"[33]@{level}", "f4.npy"))]
        equal(stated[1], stated[0], f"the stated error at level {level}")
    np.save(m.root / "large.npy", smooth((130, 128, 128)))
    for level in LEVELS:
        m.restart()
        np.load(region(m, f"[33,::8,::8]@{level}", "large.npy"))
        counts = reads(m)
        equal([one for one in LEVELS if counts[str(one)] > 0], list(range(level, 4)), f"levels read for @{level}")
    for spec in ("[1]@", "[1]@4", "[1]@33", "[1]@-1", "[1]@a", "[1] @1", "[1]@1]"):
        refused(errno.EINVAL, region(m, spec, "f4.npy").stat, f"{spec}")
    check("after ']'" in m.log(), "the log says why")


def equal_bytes(found, wanted, what):
    if found.dtype != wanted.dtype or found.shape != wanted.shape or found.tobytes() != wanted.tobytes():
        raise mounted.Failure(f"{what}: {found.dtype} {found.shape} differs from {wanted.dtype} {wanted.shape}")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
