#!/usr/bin/python3
"""Every file of the test data through a mount: exact with no bound, within the bound and exact elsewhere with one.

Scenarios: GROUP.none, GROUP.rel:1e-2, ... GROUP.abs for each group of folders of the data.
"""

import functools
import os
import pathlib

import arrays
import mounted
import numpy as np
from mounted import Skip, check, data_folder, equal, run, same_bytes

GROUPS = ("amrex", "fields", "hdf5", "netcdf", "netcdf4", "made", "fits")  # the others together: "rest"
BOUNDS = ("none", "rel:1e-2", "rel:1e-3", "rel:1e-5", "abs")


def files_of(group):
    data = data_folder()
    if group == "rest":
        folders = [path for path in data.iterdir() if path.is_dir() and path.name not in GROUPS]
        loose = [path for path in data.iterdir() if path.is_file()]
    else:
        folders, loose = [data / group], []
    found = loose + [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    if not found:
        raise Skip(f"the test data has no files in {group}")
    return data, sorted(found)


def copy_in(m, data, files):
    """cp -p of each file to the same place below the mount; pairs (original, copy)."""
    pairs = []
    for original in files:
        copy = m.root / original.relative_to(data)
        copy.parent.mkdir(parents=True, exist_ok=True)
        pairs.append((original, copy))
    for folder in sorted({copy.parent for _, copy in pairs}):
        run("cp", "-p", *[o for o, c in pairs if c.parent == folder], folder)
    return pairs


def kept_attributes(pairs):
    for original, copy in pairs:
        was, now = os.stat(original), os.stat(copy)
        wanted = (was.st_mode, was.st_mtime_ns, was.st_size)
        if (now.st_mode, now.st_mtime_ns, now.st_size) != wanted:
            raise mounted.Failure(f"cp -p did not keep mode, mtime and size of {copy}")
    print(f"  ok: mode, mtime and size of {len(pairs)} files")


def exact(group, m):
    """cp without a bound: byte-equal, also after a new mount."""
    data, files = files_of(group)
    pairs = copy_in(m, data, files)
    for moment in ("before", "after"):
        different = [str(copy) for original, copy in pairs if not same_bytes(original, copy)]
        equal(different, [], f"files that differ {moment} a new mount, of {len(pairs)}")
        kept_attributes(pairs)
        if moment == "before":
            m.restart()
    recognised = [(o, c) for o, c in pairs if arrays.arrays_of(o)]
    for original, copy in recognised or pairs[:3]:
        run(mounted.BINARY, "verify", original, copy)
    print(f"  ok: varve verify agrees on {len(recognised or pairs[:3])}")


def file_bound(original):
    """An absolute bound that suits a file: a hundredth of its first large array's spread, to two digits."""
    for array in arrays.arrays_of(original):
        if not array.exact:
            real = array.values[~arrays.special_mask(array)].astype("f8")
            spread = float(real.std()) if real.size else 0.0
            if np.isfinite(spread) and spread > 0:
                return f"abs:{spread / 100:.1e}"
    return "abs:0.01"


def bounded(group, bound, m):
    """cp under a bound: kept, exact elsewhere, the same bytes after a new mount."""
    data, files = files_of(group)
    bounds = {}
    if bound == "abs":
        for original in files:
            copy = m.root / original.relative_to(data)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.touch()
            bounds[original] = file_bound(original)
            m.bound(bounds[original], copy)
    else:
        m.bound(bound)
    pairs = copy_in(m, data, files)
    wrong, lossy = [], []
    for original, copy in pairs:
        wrong += [f"{copy}: {text}" for text in arrays.problems(original, copy, bounds.get(original, bound))]
        if any(not array.exact for array in arrays.arrays_of(original)):
            lossy.append((original, copy))
    equal(wrong, [], f"what does not keep {bound}, of {len(pairs)} files, {len(lossy)} with arrays that it touches")
    kept_attributes(pairs)
    for original, copy in lossy or pairs[:3]:
        run(mounted.BINARY, "verify", original, copy)
    print(f"  ok: varve verify says kept for {len(lossy or pairs[:3])}")
    before = {copy: copy.read_bytes() for _, copy in pairs}
    m.restart()
    moved = [str(copy) for copy, content in before.items() if copy.read_bytes() != content]
    equal(moved, [], "files that read differently after a new mount")
    kept_attributes(pairs)
    saving(m, bound, lossy)


def saving(m, bound, lossy):
    """A loose bound must save space, or it was not in force."""
    logical = sum(original.stat().st_size for original, _ in lossy)
    stored = sum(m.stored(copy) for _, copy in lossy)
    print(f"  {logical} bytes stored in {stored}")
    if bound == "rel:1e-2" and logical > 4e6:
        check(stored * 3 < logical, "rel:1e-2 stores under a third")


TABLE = {
    f"{group}.{bound}": functools.partial(exact, group) if bound == "none" else functools.partial(bounded, group, bound)
    for group in (*GROUPS, "rest")
    for bound in BOUNDS
}

if __name__ == "__main__":
    mounted.main(TABLE)
