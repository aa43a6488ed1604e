#!/usr/bin/python3
"""Broken files: stored and read back byte for byte, whatever they claim; the mount lives."""

import os
import random
import struct

import array_formats
import arrays
import h5py
import mounted
import numpy as np
from mounted import Skip, check, data_folder, equal, same_bytes
from test_hdf5 import smooth


def store_all(m, files, bound):
    """Writes each content into the mount; with no bound it must read back equal, under one only arrays may change."""
    m.bound(bound)
    wrong = []
    for name, content in files.items():
        (m.root / name).write_bytes(content)
        found = (m.root / name).read_bytes()
        if len(found) != len(content) or (bound == "lossless" and found != content):
            wrong.append(name)
    equal(wrong, [], f"of {len(files)} files under {bound}, those that did not come back")
    check(m.alive(), "the mount lives")
    before = {name: (m.root / name).read_bytes() for name in files}
    m.restart()
    moved = [name for name, content in before.items() if (m.root / name).read_bytes() != content]
    equal(moved, [], "files that read differently after a new mount")


def mutations(content, count, header=4096):
    """Copies with bytes, bits and lengths changed, mostly near the start where the metadata is; and cut short."""
    for number in range(count):
        broken = bytearray(content)
        for _ in range(random.choice((1, 2, 8, 40))):
            reach = min(len(broken), header if random.random() < 0.8 else len(broken))
            place = random.randrange(reach)
            kind = random.randrange(4)
            if kind == 0:
                broken[place] ^= 1 << random.randrange(8)
            elif kind == 1:
                broken[place] = random.randrange(256)
            elif kind == 2:
                value = struct.pack("<Q", random.choice((0, 1, 2**31, 2**32, 2**63, 2**64 - 1, len(content))))
                broken[place : place + 8] = value[: len(broken[place : place + 8])]
            else:
                other = random.randrange(reach)
                broken[place : place + 16] = broken[other : other + len(broken[place : place + 16])]
        if number % 4 == 3:
            del broken[random.randrange(len(broken)) :]
        yield bytes(broken)


def sources():
    """Small files of every format that is recognised."""
    data = data_folder()
    files = sorted(p for p in data.rglob("*") if p.is_file() and 0 < p.stat().st_size < 300_000)
    found = [p for p in files if p.suffix in (".npy", ".npz") or h5py.is_hdf5(p) or is_read(p)]
    if not found:
        raise Skip("no small files of a known format in the test data")
    return found


def is_read(path):
    with open(path, "rb") as file:
        start = file.read(512)
    return any(is_it(start) for is_it, _ in array_formats.READERS)


def scenario_mutated(m):
    """Bytes changed in real files, without a bound: equal."""
    random.seed(1)
    files = {}
    for path in sources():
        for number, broken in enumerate(mutations(path.read_bytes(), 4)):
            files[f"{number}-{path.name}"] = broken
    store_all(m, files, "lossless")


def scenario_mutated_bounded(m):
    """The same under a bound: sizes kept, the same bytes for ever, and no crash."""
    random.seed(2)
    files = {}
    for path in sources():
        for number, broken in enumerate(mutations(path.read_bytes(), 2, 100_000)):
            files[f"{number}-{path.name}"] = broken
    store_all(m, files, "rel:1e-3")


def scenario_truncated(m):
    """An HDF5 file cut at many places: equal without a bound."""
    with h5py.File(m.plain / "a.h5", "w") as file:
        file["x"] = smooth()
        file.create_dataset("y", data=smooth(), chunks=(20, 20, 20))
    content = (m.plain / "a.h5").read_bytes()
    cuts = [0, 1, 7, 8, 9, 47, 48, 95, 96, 100, 500, 2047, 2048, 2049, 4096, *range(5000, len(content), 300_001)]
    store_all(m, {f"cut{cut}.h5": content[:cut] for cut in cuts}, "lossless")


def npy(header, data=b"\0" * 40_000, magic=b"\x93NUMPY", version=(1, 0)):
    text = header.encode("latin1")
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return magic + bytes(version) + length + text + data


def scenario_lying_headers(m):
    """npy headers and raw names that lie: overlong, negative, huge, nested, wrong types, wrong lengths."""
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (100, 100), }"
    headers = {
        "huge": good.replace("100, 100", "99999999999999999999, 99999999999999"),
        "wrap": good.replace("100, 100", "4294967296, 4294967296"),
        "negative": good.replace("100, 100", "-100, -100"),
        "float": good.replace("100, 100", "1e2, 100"),
        "nested": good.replace("(100, 100)", "((100,), 100)"),
        "rank": good.replace("100, 100", ", ".join(["1"] * 200)),
        "zero": good.replace("100, 100", "0, 100"),
        "type": good.replace("<f4", "<f3"),
        "pipe": good.replace("<f4", "|f4"),
        "object": good.replace("<f4", "|O"),
        "noshape": good.replace("shape", "shope"),
        "twice": good.replace("'fortran_order'", "'descr': '<f8', 'fortran_order'"),
        "open": good[:-1],
        "quote": good.replace("'<f4'", "'<f4"),
        "code": "__import__('os').abort()",
        "nul": good.replace(",", ",\0"),
        "long": good + " " * 60_000,
        "short": good.replace("100, 100", "100, 101"),
        "extra": good.replace("100, 100", "100, 99"),
    }
    files = {f"{name}.npy": npy(header) for name, header in headers.items()}
    files["version.npy"] = npy(good, version=(9, 0))
    files["length.npy"] = b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + good.encode() + bytes(40_000)
    files["magic.npy"] = b"\x93NUMPY"
    for number, name in enumerate(("x_18446744073709551616x1.f32", "x_0x0.f32", "x_1x.f32", "x_-1x5.f32", "x_5x5x5.f32",
                                   "x_" + "1x" * 60 + "1.f32", "_.f32", "x_10x1000.f64", "x_4294967296x4294967296.f32")):
        files[name] = os.urandom(40_000 + number)
    store_all(m, files, "lossless")
    store_all(m, {f"again-{name}": content for name, content in files.items()}, "abs:0.1")
    check((m.root / "again-code.npy").read_bytes() == files["code.npy"], "exact under a bound, too")


def scenario_recursive(m):
    """HDF5 with cyclic links, soft links to nowhere, and thousands of groups."""
    for folder in (m.root, m.plain):
        with h5py.File(folder / "a.h5", "w", track_order=False) as file:
            file.create_dataset("g/x", data=smooth(), track_times=False)
            file["g/self"] = file["g"]
            file["g/root"] = file["/"]
            file["g/alias"] = file["g/x"]
            file["soft"] = h5py.SoftLink("/g/x")
            file["nowhere"] = h5py.SoftLink("/none/at/all")
            file["outside"] = h5py.ExternalLink("/etc/passwd", "/x")
            group = file
            for depth in range(300):
                group = group.create_group("d")
            for number in range(2000):
                file.create_group(f"many/{number}")
    check(same_bytes(m.root / "a.h5", m.plain / "a.h5"), "exact without a bound")
    (m.root / "b").mkdir()
    m.bound("abs:0.01", m.root / "b")
    (m.root / "b" / "a.h5").write_bytes((m.plain / "a.h5").read_bytes())
    equal(arrays.problems(m.plain / "a.h5", m.root / "b" / "a.h5", "abs:0.01"), [], "kept under a bound")
    check(not same_bytes(m.plain / "a.h5", m.root / "b" / "a.h5"), "and the array is found once, under all its names")
    with h5py.File(m.root / "b" / "a.h5", "r") as file:
        error = np.abs(file["soft"][()].astype("f8") - smooth()).max()
    check(0 < error <= 0.01, f"{error:.3g} of 0.01")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
