#!/usr/bin/python3
"""Cold reads of a field through its views: time, and bytes of records read, against a full read.

usage: views_bench.py [--varve PROGRAM] [--folder FOLDER] [--edge N] [--json FILE]

A smooth float32 cube of N^3 elements with weak noise is stored as HDF5 under rel:1e-3. Each row follows a new mount
and, for root, /proc/sys/vm/drop_caches. A level view has the full size: what it saves is reading and decoding.
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
    axis = np.linspace(0, 9, edge, dtype="f4")
    noise = np.random.default_rng(1)
    for z in axis:
        plane = sum(np.sin(k * axis + z)[:, None] * np.cos(k * axis - z * k)[None] / k for k in (1, 2, 3, 5))
        yield (plane + noise.normal(0, 1e-3, plane.shape)).astype("f4")


def read_all(path):
    buffer = memoryview(bytearray(1 << 20))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def read_corner(path):
    with h5py.File(path) as file:
        file["u"][:64, :64, :64]


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
            start = time.monotonic()
            action()
            seconds = time.monotonic() - start
            counts = json.loads((self.root / ".varve" / "counters").read_text())["records_read"].values()
        finally:
            self.unmount()
        return {"name": name, "seconds": seconds, "records": sum(c["records"] for c in counts),
                "bytes": sum(c["bytes"] for c in counts)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--varve", default="varve")
    parser.add_argument("--folder")
    parser.add_argument("--edge", type=int, default=512)
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
        rows = [bench.cold("full read", lambda: read_all(path))]
        rows += [bench.cold(f"level/{k}", lambda k=k: read_all(views / "level" / str(k) / "a.h5")) for k in (3, 2, 1)]
        rows.append(bench.cold("64^3 corner, h5py", lambda: read_corner(path)))
    full = rows[0]
    print(f"{'':20} {'seconds':>9} {'of full':>9} {'records':>9} {'bytes':>12} {'of full':>9}")
    for row in rows:
        print(f"{row['name']:20} {row['seconds']:9.4f} {row['seconds'] / full['seconds']:9.4f} {row['records']:9} "
              f"{row['bytes']:12} {row['bytes'] / full['bytes']:9.4f}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"edge": arguments.edge, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
