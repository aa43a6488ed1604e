#!/usr/bin/python3
"""Throughput through a mount against the plain disk, measured in one run.

usage: mount_bench.py [--varve PROGRAM] [--folder FOLDER] [--megabytes N] [--files N] [--repeat N] [--json FILE]

Large files are written and read by 1 MiB requests: a smooth float32 field without a bound and under rel:1e-3, and
random bytes. Small files of 1 KiB are created, looked up,
read and removed. Each step is done on the plain disk and in the mount in turn, `repeat` times; the best counts. Writes
end with fsync, and so with the file sealed. "cold" reads follow a new mount and, for root, /proc/sys/vm/drop_caches.
Compare rows of one run only.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

MIB = 1 << 20
BOUND = "user.varve.bound"


def smooth_field(megabytes):
    """A raw float32 field of waves and weak noise; its name carries its shape, so that it is recognised."""
    planes = max(4, megabytes)  # 512 x 512 x 4 bytes = 1 MiB a plane
    random = np.random.default_rng(1)
    y, x = np.meshgrid(np.linspace(0, 6, 512, dtype="f4"), np.linspace(0, 6, 512, dtype="f4"), indexing="ij")
    pieces = []
    for plane in range(planes):
        values = sum(np.sin(k * x + plane * k / 40) * np.cos(k * y - plane / 30) / k for k in (1, 2, 3, 5, 8))
        pieces.append((values + random.normal(0, 1e-3, values.shape)).astype("f4").tobytes())
    return f"field_{planes}x512x512.f32", b"".join(pieces)


def write_file(path, content):
    view = memoryview(content)
    start = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for offset in range(0, len(view), MIB):
            file.write(view[offset : offset + MIB])
    file = os.open(path, os.O_RDONLY)  # waits for the seal
    os.fsync(file)
    os.close(file)
    return time.monotonic() - start


def read_file(path, length):
    buffer = memoryview(bytearray(MIB))
    start = time.monotonic()
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    if total != length:
        sys.exit(f"mount_bench: {path} has {total} bytes, not {length}")
    return time.monotonic() - start


def random_reads(path, length, count=400, size=4096):
    """Seconds for one 4 KiB read at a random place, on average."""
    places = np.random.default_rng(3).integers(0, length - size, count)
    with open(path, "rb", buffering=0) as file:
        start = time.monotonic()
        for place in places:
            os.pread(file.fileno(), size, int(place))
        return (time.monotonic() - start) / count


def drop_caches():
    try:
        os.sync()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        return True
    except OSError:
        return False


class Bench:
    def __init__(self, arguments):
        self.varve = arguments.varve
        self.repeat = arguments.repeat
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="varve-bench-", dir=arguments.folder))
        self.store, self.mount, self.plain = (self.base / name for name in ("store", "mnt", "plain"))
        for folder in (self.mount, self.plain):
            folder.mkdir()
        self.results = {}

    def on(self):
        subprocess.run([self.varve, "mount", self.store, self.mount], check=True)

    def off(self):
        if os.path.ismount(self.mount):
            subprocess.run([self.varve, "umount", self.mount], check=True)

    def close(self):
        self.off()
        shutil.rmtree(self.base, ignore_errors=True)

    def note(self, what, place, value, better=max):
        row = self.results.setdefault(what, {})
        row[place] = better(row.get(place, value), value)

    def large(self, name, content, bound, label):
        """Write, cold read, warm read and random cold reads of one file."""
        megabytes = len(content) / 1e6
        for _ in range(self.repeat):
            for place, folder in (("plain", self.plain), ("mount", self.mount)):
                path = folder / name
                path.unlink(missing_ok=True)
                if place == "mount":
                    os.setxattr(self.mount, BOUND, bound.encode())
                self.note(f"{label}: write", place, megabytes / write_file(path, content))
                if place == "mount":
                    self.results[f"{label}: write"]["ratio"] = len(content) / max(1, os.stat(path).st_blocks * 512)
                    self.off()
                    self.on()
                drop_caches()
                self.note(f"{label}: read, cold", place, megabytes / read_file(path, len(content)))
                self.note(f"{label}: read, warm", place, megabytes / read_file(path, len(content)))
                if place == "mount":
                    self.off()
                    self.on()
                drop_caches()
                self.note(f"{label}: random 4 KiB reads, cold", place, 1 / random_reads(path, len(content)))
        for folder in (self.plain, self.mount):
            (folder / name).unlink()

    def small(self, count):
        """Creates, looks up, reads and removes files of 1 KiB."""
        content = os.urandom(1024)
        steps = {
            "create": lambda path: path.write_bytes(content),
            "stat": os.stat,
            "read": lambda path: path.read_bytes(),
            "unlink": os.unlink,
        }
        for _ in range(self.repeat):
            for place, folder in (("plain", self.plain / "small"), ("mount", self.mount / "small")):
                folder.mkdir()
                paths = [folder / f"file{number:06}" for number in range(count)]
                for step, action in steps.items():
                    start = time.monotonic()
                    for path in paths:
                        action(path)
                    self.note(f"1 KiB files: {step}", place, count / (time.monotonic() - start))
                folder.rmdir()


def print_table(results):
    print(f"{'':44} {'plain':>10} {'mount':>10} {'mount/plain':>12} {'ratio':>7}")
    for what, row in results.items():
        unit = "/s" if "KiB" in what else "MB/s"
        ratio = f"{row['ratio']:7.2f}" if "ratio" in row else ""
        print(f"{what + ', ' + unit:44} {row['plain']:10.0f} {row['mount']:10.0f} {row['mount'] / row['plain']:12.2f} {ratio}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--varve", default=os.environ.get("VARVE_BIN", "build/release/tools/varve"))
    parser.add_argument("--folder", help="where the store and the plain files are made (default: the system's)")
    parser.add_argument("--megabytes", type=int, default=256, help="size of each large file, MiB")
    parser.add_argument("--files", type=int, default=2000, help="number of small files")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", help="write the results to this file, too")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    try:
        bench.on()
        name, field = smooth_field(arguments.megabytes)
        bench.large(name, field, "lossless", "field, lossless")
        bench.large(name, field, "rel:1e-3", "field, rel:1e-3")
        bench.large("noise.bin", os.urandom(arguments.megabytes * MIB), "lossless", "random bytes")
        bench.small(arguments.files)
    finally:
        bench.close()
    print_table(bench.results)
    if arguments.json:
        facts = {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "cold_caches_dropped": os.geteuid() == 0,
            "megabytes": arguments.megabytes,
            "repeat": arguments.repeat,
            "results": bench.results,
        }
        pathlib.Path(arguments.json).write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
