#!/usr/bin/python3
"""user.varve.max_error, which states what files and their level views differ by, and views by bound that rest on it."""

import errno
import os

import h5py
import mounted
import numpy as np
from mounted import check, equal, refused
from test_hdf5 import smooth
from test_views import BOUND, LEVELS, reads, samples, view

ATTRIBUTE = "user.varve.max_error"


def stated(path):
    """The greatest error stated, and that of each array."""
    most, *lines = os.getxattr(path, ATTRIBUTE).decode().splitlines()
    errors = {}
    for line in lines:
        error, _, name = line.partition(" ")
        errors[name] = float(error)
    return float(most), errors


def error_of(shown, written):
    kind = "c16" if written.dtype.kind == "c" else "f8"
    error = shown.astype(kind) - written.astype(kind)
    return max(float(np.abs(error.real).max()), float(np.abs(error.imag).max()))


def check_levels(m, path, written, load=np.load, name=""):
    """The errors of all level views of an array are within those stated, which do not fall with the level."""
    last = 0.0
    for k in LEVELS:
        seen = view(m, f"level/{k}", path)
        most, errors = stated(seen)
        real = error_of(load(seen), written)
        check(real <= errors[name] <= most, f"{path} level {k}: {real:g} is within {errors[name]:g}")
        check(last <= errors[name], f"{path}: what is stated does not fall at level {k}")
        last = errors[name]
    equal(stated(m.root / path), stated(view(m, "level/0", path)), "level 0 states what the file does")
    return stated(m.root / path)[0]


def scenario_stated(m):
    """What is stated of files and their level views is true under every kind of bound, and after a restart."""
    made = samples()
    bounds = ("lossless", f"rel:{BOUND}", "abs:0.5", "pwrel:1e-2", "bits:8")
    for bound in bounds:
        folder = m.root / bound.replace(":", "")
        folder.mkdir()
        m.bound(bound, folder)
        for name, array in made.items():
            np.save(folder / name, array)
    m.restart()
    for bound in bounds:
        for name, array in made.items():
            most = check_levels(m, f"{bound.replace(':', '')}/{name}", array)
            if bound == "lossless" or array.dtype.kind == "u":
                equal(most, 0.0, "a lossless file has no error")
            elif bound == "abs:0.5":
                check(most <= 0.5, "no error is stated above the bound")


def scenario_attribute(m):
    """The attribute is not listed, takes no value, is 0 where nothing is lossy, and of each array."""
    m.bound(f"rel:{BOUND}")
    (m.root / "text").write_text("text")
    with h5py.File(m.root / "a.h5", "w") as file:
        file["u"] = smooth((64, 64, 64))
        file["group/v"] = 100 * smooth((64, 64, 64), seed=2)
        file["ids"] = np.arange(10**5)
    most, errors = stated(m.root / "a.h5")
    equal(sorted(errors), ["/group/v", "/ids", "/u"], "a line for each array")
    equal(most, errors["/group/v"], "the first line is the greatest")
    check(0 < errors["/u"] < errors["/group/v"] and errors["/ids"] == 0, "each array has its own")
    equal(stated(m.root / "text"), (0.0, {}), "a file without arrays is exact")
    check(ATTRIBUTE not in os.listxattr(m.root / "a.h5"), "the attribute is not listed")
    os.setxattr(m.root / "a.h5", ATTRIBUTE, b"7")
    equal(stated(m.root / "a.h5")[0], most, "what is set is not taken")
    for kind in ("coarse/2", "exact"):
        equal(stated(view(m, kind, "a.h5"))[0], most, f"{kind} shows points as they are stored")
    refused(errno.ENODATA, lambda: os.getxattr(m.root, ATTRIBUTE), "a directory has no such attribute")
    with open(m.root / "new.npy", "wb") as file:
        file.write(b"\x93NUMPY")
        equal(stated(m.root / "new.npy")[0], 0.0, "what is staged is exact")


def scenario_changes(m):
    """After parts are rewritten, and after a dataset has grown, what is stated is true of what was written last."""
    m.bound(f"rel:{BOUND}")
    array = smooth((192, 96, 96))
    np.save(m.root / "a.npy", array)
    before = stated(m.root / "a.npy")
    with open(m.root / "a.npy", "r+b") as file:  # some elements, and a whole tile of 64 planes
        file.seek(128 + 968 * 4)
        file.write((array.reshape(-1)[968:1000] + 9).tobytes())
        file.seek(128 + 64 * 96 * 96 * 4)
        file.write((50 * array[64:128]).tobytes())
    changed = array.copy()
    changed.reshape(-1)[968:1000] += 9
    changed[64:128] *= 50
    check(check_levels(m, "a.npy", changed) >= before[0], "what is stated does not fall")
    grown = np.concatenate([array, 3 * array[:70]])
    with h5py.File(m.root / "a.h5", "w") as file:
        file.create_dataset("u", data=array, chunks=(64, 96, 96), maxshape=(None, 96, 96))
    with h5py.File(m.root / "a.h5", "r+") as file:
        file["u"].resize(len(grown), axis=0)
        file["u"][192:] = grown[192:]

    def load(path):
        with h5py.File(path) as file:
            return file["u"][...]

    check_levels(m, "a.h5", grown, load, "/u")


def extents():
    """Shapes with every extent from 1 to 70, and those around one and two bricks, on every axis."""
    around = [63, 64, 65, 127, 128, 129, 135, 160, 255, 256, 257]
    shapes = [(n, 71 - n, 96) for n in range(1, 71)]
    shapes += [shape for n in around for shape in ((n, 40, 33), (33, n, 40), (40, 33, n), (n, 391 - n))]
    return shapes + [(4097,), (65535,), (65536,), (65537,), (131072,), (135, 160)]


def scenario_every_extent(m):
    """Level views cover arrays of any extents to their ends, with an error as stated; coarse files have each point."""
    made = {}
    random = np.random.default_rng(4)
    for i, shape in enumerate(extents()):
        made[f"u{i}"] = np.add.outer(np.linspace(0, 5, shape[0]), random.normal(size=shape[1:])).astype("f4")
        made[f"n{i}"] = random.integers(0, 9, shape).astype("u1")
    m.bound(f"rel:{BOUND}")
    with h5py.File(m.root / "a.h5", "w") as file:
        for name, array in made.items():
            file[name] = array
    with h5py.File(m.root / "a.h5") as file:
        stored = {name: file[name][...] for name in made}
    for k in LEVELS:
        _, errors = stated(view(m, f"level/{k}", "a.h5"))
        with h5py.File(view(m, f"level/{k}", "a.h5")) as file:
            for name, array in made.items():
                shown = file[name][...]
                if not error_of(shown, array) <= errors.get(f"/{name}", 0):
                    raise mounted.Failure(f"{array.shape} level {k}: {error_of(shown, array)} is above what is stated")
                if array.dtype.kind == "u" and not np.isin(shown, array).all():
                    raise mounted.Failure(f"{array.shape} level {k}: a label that is not in the file")
                points = tuple(slice(None, None, 1 << k) for _ in array.shape)
                if not np.array_equal(shown[points], stored[name][points]):
                    raise mounted.Failure(f"{array.shape} level {k}: points of the level are not as stored")
        with h5py.File(view(m, f"coarse/{k}", "a.h5")) as file:
            for name, array in made.items():
                steps = tuple(slice(None, None, 1 << k if n >= 16 and n > 1 << k else 1) for n in array.shape)
                if not np.array_equal(file[name][...], stored[name][steps]):
                    raise mounted.Failure(f"{array.shape} coarse {k}: not each point")
        check(True, f"{len(made)} arrays at level {k}")


def scenario_bounds(m):
    """bound/V: never an error above V; a looser V shows coarser levels and reads fewer bytes."""
    array = smooth((160, 160, 160))
    labels = samples()["labels.npy"]
    extent = float(array.max()) - float(array.min())
    m.bound("rel:1e-4")
    np.save(m.root / "a.npy", array)
    np.save(m.root / "labels.npy", labels)
    (m.root / "text").write_text("text")
    level_errors = [stated(view(m, f"level/{k}", "a.npy"))[0] for k in LEVELS]
    last_bytes, last_error, shown = None, 0.0, set()
    for value in (1e-4, *(error * 1.0001 / extent for error in level_errors), 1e4):
        m.restart()
        name = f"bound/rel:{value:.9g}"
        seen = view(m, name, "a.npy")
        real = error_of(np.load(seen), array)
        counts = reads(m)
        most = stated(seen)[0]
        check(real <= most <= value * extent * (1 + 1e-6), f"{name}: {real:g} is within {most:g} and that within V")
        check(most >= last_error, "what is stated does not fall as V is loosened")
        amount = sum(counts[str(k)] for k in LEVELS)
        check(last_bytes is None or amount <= last_bytes, f"{name} reads no more than a tighter bound")
        shown.add(min(k for k in LEVELS if counts[str(k)] > 0))
        last_bytes, last_error = amount, most
        equal(np.load(view(m, name, "labels.npy")).tobytes(), labels.tobytes(), "integers stay exact")
        equal(view(m, name, "text").read_text(), "text", "and so does what is no array")
    equal(shown, {0, 1, 2, 3}, "each level is the coarsest that some bound allows")
    refused(errno.EIO, view(m, "bound/rel:1e-9", "a.npy").read_bytes, "a bound tighter than what is stored")
    check("ask for a looser bound" in m.log(), "the log says so")
    equal(np.load(view(m, f"bound/{level_errors[2] * 1.01:.9g}", "a.npy")).tobytes(),
          np.load(view(m, "level/2", "a.npy")).tobytes(), "a number is an absolute bound")  # fmt: skip
    for bad in ("nonsense", "rel:x", "psnr:60", "-1"):
        refused(errno.ENOENT, view(m, f"bound/{bad}").stat, f"bound/{bad}")
    equal(os.listdir(view(m, "bound")), [], "no bound is listed")
    equal(sorted(os.listdir(view(m, "bound/abs:1"))), ["a.npy", "labels.npy", "text"], "any shows the tree")
    refused(errno.EROFS, lambda: open(view(m, "bound/abs:1", "a.npy"), "r+b"), "views are read-only")


def scenario_bound_changes(m):
    """A view by bound of what is rewritten; several at once; one whose file no longer keeps its bound."""
    m.bound("rel:1e-3")
    array = smooth((96, 96, 96))
    np.save(m.root / "a.npy", array)
    loose, tight = view(m, "bound/abs:1000", "a.npy"), view(m, "bound/rel:1e-3", "a.npy")
    check(error_of(np.load(loose), array) > error_of(np.load(tight), array), "two bounds show two files")
    np.save(m.root / "a.npy", array * 1e5)
    check(error_of(np.load(view(m, "bound/rel:1e-3", "a.npy")), array * 1e5) <= 1.001e-3 * 2e5 * np.ptp(array),
          "after a rewrite, the view shows the new content")  # fmt: skip
    refused(errno.EIO, view(m, "bound/abs:0.001", "a.npy").read_bytes, "which keeps no such bound")
    with open(m.root / "b.npy", "wb") as file:
        file.write((m.root / "a.npy").read_bytes())
        file.flush()
        equal(view(m, "bound/abs:1000", "b.npy").stat().st_size, (m.root / "a.npy").stat().st_size, "what is staged")
    copy = m.root / "copy.npy"
    with open(view(m, "bound/abs:1e12", "a.npy"), "rb") as source, open(copy, "wb") as target:
        os.copy_file_range(source.fileno(), target.fileno(), 1 << 30)
    check(copy.read_bytes() != (m.root / "a.npy").read_bytes(), "a copy of a view is a copy of what it shows")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
