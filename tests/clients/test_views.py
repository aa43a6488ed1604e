#!/usr/bin/python3
"""The views of files under .varve/: levels and exact files; what they show, read, and refuse."""

import errno
import json
import os
import pathlib

import h5py
import mounted
import numpy as np
from mounted import check, equal, refused, same_bytes
from test_hdf5 import smooth

LEVELS = range(4)
BOUND = 1e-3


def view(m, kind, path=""):
    return m.root / ".varve" / kind / path


def reads(m):
    """Records read from the store so far, by level."""
    counts = json.loads(view(m, "counters").read_text())["records_read"]
    return {kind: count["records"] for kind, count in counts.items()}


def samples():
    """Arrays of many shapes and types that the views must show alike."""
    random = np.random.default_rng(1)
    labels = np.kron(random.integers(0, 40, (9, 10, 11)), np.ones((9, 8, 9), int)).astype("u2") * 1000
    return {
        "cube.npy": smooth((70, 65, 90)),
        "plane.npy": smooth((300, 517), dtype="f8", seed=2),
        "line.npy": np.cumsum(random.normal(size=70_001)).astype("f4"),
        "fortran.npy": np.asfortranarray(smooth((40, 50, 60), dtype=">f4", seed=3)),
        "labels.npy": labels,
        "complex.npy": (smooth((64, 64, 64), seed=4) + 1j * smooth((64, 64, 64), seed=5)).astype("c8"),
        "tiny.npy": smooth((5, 6, 7)),
    }


def multiples(array, k):
    """A view of an array's points whose indices are multiples of 2^k along every axis."""
    return array[tuple(slice(None, None, 1 << k) for _ in range(array.ndim))]


def scenario_levels(m):
    """level/K/: size and metadata of the real file, points of the level as stored, labels never averaged."""
    made = samples()
    for folder in m.folders("lossless", f"rel:{BOUND}"):
        for name, array in made.items():
            np.save(folder / name, array)
    for bound in ("lossless", f"rel{BOUND}"):
        for name, array in made.items():
            path = pathlib.Path(bound) / name
            real = np.load(m.root / path)
            errors = []
            for k in LEVELS:
                seen = view(m, f"level/{k}", path)
                was, now = os.stat(m.root / path), os.stat(seen)
                fields = ("st_size", "st_mode", "st_mtime_ns", "st_uid", "st_gid", "st_blocks")
                if any(getattr(was, f) != getattr(now, f) for f in fields):
                    raise mounted.Failure(f"stat of {seen} differs from the real file's")
                header = was.st_size - array.nbytes
                if seen.read_bytes()[:header] != (m.root / path).read_bytes()[:header]:
                    raise mounted.Failure(f"{seen}: the header differs")
                shown = np.load(seen)
                if array.size * array.itemsize < 1 << 16 or array.ndim == 0:
                    equal(shown.tobytes(), real.tobytes(), f"{path}, level {k}: too small for levels, all of it")
                    continue
                if not np.array_equal(multiples(shown, k), multiples(real, k)):
                    raise mounted.Failure(f"{path}, level {k}: points of the level are not as stored")
                if array.dtype.kind == "u" and not np.isin(shown, np.unique(real)).all():
                    raise mounted.Failure(f"{path}, level {k}: a label that is not in the file")
                errors.append(float(np.abs(shown.astype("c16") - real).max()))
            check(errors == sorted(errors), f"{path}: errors grow with the level: {errors}")
    check(same_bytes(view(m, "level/0", "lossless/cube.npy"), m.root / "lossless" / "cube.npy"), "level 0 is the file")


def scenario_level_reads(m):
    """A level view reads records of its levels alone."""
    m.bound(f"rel:{BOUND}")
    with h5py.File(m.root / "a.h5", "w") as file:
        for name in ("u", "v"):
            file[f"group/{name}"] = smooth((128, 64, 130), seed=len(name))
    np.save(m.root / "a.npy", smooth((130, 64, 128)))
    for name in ("a.npy", "a.h5"):
        for k in (3, 2, 1, 0):
            m.restart()
            view(m, f"level/{k}", name).read_bytes()
            counts = reads(m)
            touched = [level for level in LEVELS if counts[str(level)] > 0]
            equal(touched, list(range(k, 4)), f"levels read through level/{k} of {name}")
            if k > 0:
                view(m, f"level/{k}", name).read_bytes()
                equal(reads(m), counts, "a second read comes from memory")


def scenario_level_changes(m):
    """Views of files that are written, rewritten, replaced, removed and made again under the same name."""
    m.bound(f"rel:{BOUND}")
    first, second = smooth((64, 64, 64)), smooth((64, 64, 64), seed=9) * 3
    seen = view(m, "level/2", "a.npy")
    np.save(m.root / "a.npy", first)
    before = np.load(seen)
    np.save(m.root / "a.npy", second)
    after = np.load(seen)
    check(np.abs(after - second).max() < np.abs(after - first).max(), "after a rewrite, the view shows the new content")
    with open(m.root / "a.npy", "r+b") as file:
        file.seek(128)
        file.write(first[:8].tobytes())
        file.flush()
        equal(np.load(seen)[:8].tobytes(), first[:8].tobytes(), "what is staged shows as it is")
    equal(np.load(view(m, "level/3", "a.npy"))[0, 0].tobytes(), first[0, 0].tobytes(), "and patches once it is sealed")
    for kind in ("level/2", "stat", "exact"):
        view(m, kind, "a.npy").stat()
    (m.root / "a.npy").unlink()
    for kind in ("level/2", "stat", "exact"):
        refused(errno.ENOENT, view(m, kind, "a.npy").stat, f"{kind} of a removed file")
    np.save(m.root / "a.npy", first)
    for kind in ("level/2", "stat", "exact"):
        view(m, kind, "a.npy").stat()
    equal(json.loads(view(m, "stat", "a.npy").read_text())["path"], "a.npy", "stat of a file made again")
    equal(np.load(seen).tobytes(), before.tobytes(), "and its view")
    with open(seen, "rb") as file:
        (m.root / "a.npy").unlink()
        equal(file.read(), open_bytes(before), "an open view outlives its file's name")


def open_bytes(array):
    """What np.save writes."""
    import io

    memory = io.BytesIO()
    np.save(memory, array)
    return memory.getvalue()


def scenario_trees(m):
    """Directories, links, attributes and refusals of the mirrored trees."""
    (m.root / "sub" / "deep").mkdir(parents=True)
    (m.root / "sub" / "text").write_text("text")
    os.symlink("../text", m.root / "sub" / "deep" / "link")
    os.mkfifo(m.root / "fifo")
    os.chmod(m.root / "sub" / "text", 0o640)
    os.setxattr(m.root / "sub" / "text", "user.note", b"kept")
    for kind in ("level/0", "level/3", "exact"):
        root = view(m, kind)
        equal(sorted(os.listdir(root)), ["sub"], f"{kind}: what is listed")
        equal((root / "sub" / "deep" / "link").read_text(), "text", "a relative link leads to the view")
        equal(os.listxattr(root / "sub" / "text"), ["user.note"], "attributes are listed")
        equal(os.getxattr(root / "sub" / "text", "user.note"), b"kept", "and read")
        equal((root / "sub" / "text").stat().st_mode & 0o777, 0o640, "the mode")
        for action in (
            lambda: (root / "new").touch(),
            lambda: (root / "new").mkdir(),
            lambda: (root / "sub" / "text").unlink(),
            lambda: (root / "sub" / "deep").rmdir(),
            lambda: (root / "sub").rename(root / "other"),
            lambda: (root / "sub").rename(m.root / "other"),
            lambda: open(root / "sub" / "text", "r+b"),
            lambda: os.truncate(root / "sub" / "text", 1),
            lambda: os.chmod(root / "sub" / "text", 0o600),
            lambda: os.setxattr(root / "sub" / "text", "user.a", b"b"),
            lambda: os.removexattr(root / "sub" / "text", "user.note"),
        ):
            refused(errno.EROFS, action, "a change")
    equal(sorted(os.listdir(view(m, "level"))), list("0123"), "the levels")
    refused(errno.ENOENT, view(m, "level/4").stat, "a level that there is not")
    check(".varve" not in os.listdir(m.root), "views are hidden")
    m.restart("-o", "show_views")
    check(".varve" in os.listdir(m.root), "and shown on demand")
    equal(sorted(os.listdir(m.root)), [".varve", "fifo", "sub"], "each entry once")


def scenario_exact(m):
    """exact/ opens what is bit-exact and nothing else, and the log says why."""
    m.bound(f"rel:{BOUND}")
    np.save(m.root / "lossy.npy", smooth((64, 64, 64)))
    np.save(m.root / "labels.npy", samples()["labels.npy"])
    (m.root / "text").write_text("text")
    refused(errno.EIO, view(m, "exact", "lossy.npy").read_bytes, "a file under a bound")
    check("lossy.npy is not bit-exact" in m.log(), "the log says so")
    for name in ("labels.npy", "text"):
        check(same_bytes(view(m, "exact", name), m.root / name), f"{name} is served")
    with open(m.root / "growing.npy", "wb") as file:
        content = open_bytes(smooth((64, 64, 64), seed=7))
        file.write(content)
        file.flush()
        reader = os.open(view(m, "exact", "growing.npy"), os.O_RDONLY)
        equal(os.pread(reader, 4096, 0), content[:4096], "what is staged is exact")
    (m.root / "growing.npy").stat()
    open(m.root / "growing.npy", "rb").close()
    refused(errno.EIO, lambda: os.pread(reader, 4096, 1 << 19), "once it is rounded, an open view refuses")
    os.close(reader)


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
