#!/usr/bin/python3
"""Cold reads of a field through its views: time, and bytes of records read, against a full read.

usage: views_bench.py [--varve PROGRAM] [--folder FOLDER] [--edge N] [--runs N] [--json FILE]

A turbulence-like float32 cube of N^3 elements (4 GiB of memory for N = 512) is stored as HDF5 under
rel:1e-3. Each row follows a new mount, for root /proc/sys/vm/drop_caches, and a second of rest. A level view has the full size: what it saves is reading and decoding. A
coarse file is read by h5py, a region by numpy. Of several runs the row with the median time is shown.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np


def field(edge):
    """Planes of a random field whose power falls with the wave number as k^-11/3, as turbulence's does."""
    wave, last = np.fft.fftfreq(edge) * edge, np.fft.rfftfreq(edge) * edge
    square = wave[:, None, None] ** 2 + wave[None, :, None] ** 2 + last[None, None, :] ** 2
    square[0, 0, 0] = 1
    random = np.random.default_rng(1)
    parts = [random.standard_normal(square.shape, dtype="f4") for _ in range(2)]
    return np.fft.irfftn((parts[0] + 1j * parts[1]) * square ** (-11 / 12), s=(edge,) * 3, axes=(0, 1, 2)).astype("f4")


def read_all(path):
    buffer = memoryview(bytearray(1 << 20))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def read_corner(path):
    with h5py.File(path) as file:
        file["u"][:64, :64, :64]


def read_coarse(path):
    with h5py.File(path) as file:
        file["u"][...]


class Bench:
    def __init__(self, varve, folder):
        self.varve, self.store, self.root = varve, folder / "store", folder / "mnt"
        self.root.mkdir()

    def mount(self):
        subprocess.run([self.varve, "mount", self.store, self.root], check=True)

    def unmount(self):
        subprocess.run([self.varve, "umount", self.root], check=True)

    def cold(self, name, action):
        self.mount()
        try:
            if os.geteuid() == 0:
                pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
            time.sleep(1)
            start = time.monotonic()
            action()
            seconds = time.monotonic() - start
            counts = json.loads((self.root / ".varve" / "counters").read_text())["records_read"].values()
        finally:
            self.unmount()
        return {"name": name, "seconds": seconds, "records": sum(c["records"] for c in counts),
                "bytes": sum(c["bytes"] for c in counts)}


    def median(self, name, action, runs):
        rows = sorted((self.cold(name, action) for _ in range(runs)), key=lambda row: row["seconds"])
        return rows[len(rows) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--varve", default="varve")
    parser.add_argument("--folder")
    parser.add_argument("--edge", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="views-bench-", dir=arguments.folder) as folder:
        bench = Bench(arguments.varve, pathlib.Path(folder))
        bench.mount()
        try:
            os.setxattr(bench.root, "user.varve.bound", b"rel:1e-3")
            path, views = bench.root / "a.h5", bench.root / ".varve"
            with h5py.File(path, "w") as file:
                data = file.create_dataset("u", (arguments.edge,) * 3, "f4")
                for z, plane in enumerate(field(arguments.edge)):
                    data[z] = plane
            path.open("rb").close()  # waits for the seal
        finally:
            bench.unmount()
        corner = views / "region" / "u[:64,:64,:64]" / "a.h5.npy"
        reads = [("full read", lambda: read_all(path))]
        reads += [(f"level/{k}", lambda k=k: read_all(views / "level" / str(k) / "a.h5")) for k in (3, 2, 1)]
        reads += [(f"coarse/{k}", lambda k=k: read_coarse(views / "coarse" / str(k) / "a.h5")) for k in (4, 3, 2, 1)]
        reads += [("64^3 corner, h5py", lambda: read_corner(path)), ("64^3 corner, region", lambda: np.load(corner))]
        rows = [bench.median(name, action, arguments.runs) for name, action in reads]
    full = rows[0]
    print(f"{'':20} {'seconds':>9} {'of full':>9} {'records':>9} {'bytes':>12} {'of full':>9}")
    for row in rows:
        print(f"{row['name']:20} {row['seconds']:9.4f} {row['seconds'] / full['seconds']:9.4f} {row['records']:9} "
              f"{row['bytes']:12} {row['bytes'] / full['bytes']:9.4f}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"edge": arguments.edge, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
