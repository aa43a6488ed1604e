#!/usr/bin/python3
"""Which bytes of HDF5 metadata matter: flips a bit of every byte of a file's metadata, one at a time, and reads the file.

    hdf5_map.py VARVE HALOS RESULTS     paths of the two programs; RESULTS: a folder for hdf5-map.csv. Prints the table by structure

Each byte's flip is made by the fault layer when the file is closed; `halos find` reads it then. Benign: the same halos;
detected: an exit status; silent: other halos; crash: a signal; hang: over 10 s.
"""

import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from faulty import Faults, mounted  # noqa: E402
import h5py  # noqa: E402

OUTCOMES = ("benign", "detected", "silent", "crash", "hang")


def judged(halos, path, golden):
    try:
        done = subprocess.run([halos, "find", path], capture_output=True, timeout=10)
    except subprocess.TimeoutExpired:
        return "hang"
    if done.returncode != 0:
        return "crash" if done.returncode < 0 else "detected"
    return "benign" if done.stdout == golden else "silent"


def flip_all(mount, halos):
    """Yields (offset, structure, bit mask, outcome)."""
    faults, path = Faults(mount), mount.root / "density.h5"
    subprocess.run([halos, "write", path], check=True)
    golden = subprocess.run([halos, "find", path], check=True, capture_output=True).stdout
    with h5py.File(path) as file:
        size = file["density"].id.get_offset()
    metadata = path.read_bytes()[:size]
    for offset in range(size):
        faults.arm({"model": "bit_flip", "operation": "close", "path": path.name, "structure": "*", "offset": [offset, offset + 1]},
                   seed=offset)
        handle = os.open(path, os.O_RDWR)
        os.pwrite(handle, metadata, 0)
        os.close(handle)
        (entry,) = faults.journal()
        faults.disarm()
        edit = entry["effect"]["edits"][0]
        mask = int(edit["old"], 16) ^ int(edit["new"], 16)
        yield offset, entry["where"].split(" of ")[0], mask, judged(halos, path, golden)


def main():
    mounted.BINARY, halos, results = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    mount = mounted.Mount(tempfile.mkdtemp(prefix="varve-hdf5-map-"))
    try:
        rows = list(flip_all(mount.start(), halos))
    finally:
        mount.clean_up()
        shutil.rmtree(mount.folder, ignore_errors=True)
    with open(results / "hdf5-map.csv", "w") as file:
        print("offset,structure,bit_mask,outcome", file=file)
        for row in rows:
            print(*row, sep=",", file=file)
    table = collections.defaultdict(collections.Counter)
    for _, structure, _, outcome in rows:
        table[structure][outcome] += 1
        table["all"][outcome] += 1
    print("| structure | bytes |", " | ".join(OUTCOMES), "|\n|" + " --- |" * 7)
    for structure, counts in sorted(table.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"| {structure} | {sum(counts.values())} |", " | ".join(str(counts[one]) for one in OUTCOMES), "|")


if __name__ == "__main__":
    main()
