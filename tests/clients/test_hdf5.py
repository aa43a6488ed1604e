#!/usr/bin/python3
"""h5py, unmodified, on a mount."""

import os
import subprocess
import time

import arrays
import h5py
import mounted
import numpy as np
from mounted import check, equal, python, run, same_bytes

SHAPE = (70, 80, 90)


def smooth(shape=SHAPE, dtype="f4", seed=1):
    """A field that compresses: a few waves and a little noise."""
    random = np.random.default_rng(seed)
    field = np.zeros(shape)
    for _ in range(5):
        waves = [np.sin(random.uniform(0.5, 4) * np.linspace(0, 6, n) + random.uniform(0, 6)) for n in shape]
        term = waves[0]
        for wave in waves[1:]:
            term = term[..., None] * wave
        field += random.uniform(0.5, 2) * term
    return (field + random.normal(0, 1e-3, shape)).astype(dtype)


def write_both(write, *paths):
    """Runs a writer on several paths within one second: some HDF5 files hold the time."""
    for _ in range(5):
        time.sleep(1.01 - time.time() % 1)
        start = int(time.time())
        for path in paths:
            path.unlink(missing_ok=True)
            write(path)
        if int(time.time()) == start:
            return


def exact_and_bounded(m, write, bound="abs:0.01"):
    """A writer without a bound gives the bytes of the plain disk; with one, arrays within it and the rest exact."""
    path, original = m.root / "file.h5", m.plain / "file.h5"
    write_both(write, path, original)
    equal(arrays.problems(original, path, "lossless"), [], "no bound: the bytes of the same program on the plain disk")
    m.restart()
    equal(arrays.problems(original, path, "lossless"), [], "the same after a new mount")
    folder = m.root / "bounded"
    folder.mkdir()
    m.bound(bound, folder)
    write_both(write, folder / "file.h5", original)
    equal(arrays.problems(original, folder / "file.h5", bound), [], f"{bound}: kept, and exact outside arrays")
    run(mounted.BINARY, "verify", original, folder / "file.h5")
    first = (folder / "file.h5").read_bytes()
    m.restart()
    check((folder / "file.h5").read_bytes() == first, "the same bytes after a new mount")
    return folder / "file.h5", original


def read(path, name):
    with h5py.File(path, "r") as file:
        return file[name][()]


def scenario_contiguous(m):
    """Contiguous datasets of several types, groups and attributes."""

    def write(path):
        with h5py.File(path, "w", track_order=False) as file:
            for dtype in ("f4", "f8", "i2", "u1", "i8"):
                values = smooth(dtype="f8") * (1 if dtype[0] == "f" else 30)
                file.create_dataset(f"group/{dtype}", data=np.abs(values).astype(dtype), track_times=False)
            file.attrs["title"] = "contiguous"

    copy, _ = exact_and_bounded(m, write)
    check(m.stored(copy) * 2 < os.stat(copy).st_size, "under a half is stored")


def scenario_chunked(m):
    """Chunked datasets with partial edge chunks, flat chunks, and an axis of one."""

    def write(path):
        with h5py.File(path, "w") as file:
            for name, chunks in (("cubes", (32, 32, 32)), ("planes", (1, 80, 90)), ("columns", (70, 1, 9))):
                file.create_dataset(name, data=smooth(), chunks=chunks, track_times=False)
            file.create_dataset("unit", data=smooth((1, 50, 60)), chunks=(1, 16, 60), track_times=False)
            file.create_dataset("large", data=smooth((40, 40)), chunks=(40, 40), track_times=False)

    exact_and_bounded(m, write)


def scenario_big_endian(m):
    """Big-endian floats and integers."""

    def write(path):
        with h5py.File(path, "w") as file:
            for dtype in (">f4", ">f8", ">i2", ">i4"):
                values = smooth(dtype="f8") * (1 if "f" in dtype else 100)
                file.create_dataset(dtype[1:], data=values.astype(dtype), chunks=(64, 64, 64), track_times=False)

    copy, _ = exact_and_bounded(m, write)
    equal(read(copy, "f4").dtype.str, ">f4", "the type is big-endian still")


def scenario_latest(m):
    """libver latest (other chunk indices) and a user block."""

    def write(path):
        with h5py.File(path, "w", libver="latest", userblock_size=1024) as file:
            file.create_dataset("fixed", data=smooth(), chunks=(32, 32, 32), track_times=False)
            file.create_dataset("grows", data=smooth(), chunks=(32, 32, 32), maxshape=(None, 80, 90), track_times=False)
            file.create_dataset("both", data=smooth((100, 120)), chunks=(32, 50), maxshape=(None, None), track_times=False)
            file.create_dataset("single", data=smooth((60, 70)), chunks=(60, 70), track_times=False)
        with open(path, "r+b") as file:
            file.write(b"a user block")

    exact_and_bounded(m, write)


def scenario_complex(m):
    """Complex numbers: both parts keep the bound."""

    def write(path):
        with h5py.File(path, "w") as file:
            values = (smooth() + 1j * smooth(seed=2)).astype("c8")
            values[3, 4] = complex(np.nan, np.inf)
            file.create_dataset("c8", data=values, chunks=(32, 32, 32), track_times=False)
            file.create_dataset("c16", data=values.astype("c16"), track_times=False)
            file.create_dataset("short", data=values.ravel()[:3000], track_times=False)

    exact_and_bounded(m, write)


def scenario_special_values(m):
    """NaN with payload, infinities, -0.0, and fill values, under a relative bound."""

    def write(path):
        values = smooth(dtype="f4")
        random = np.random.default_rng(3)
        for value in (np.nan, np.inf, -np.inf, -0.0, 1e20):
            values[random.random(SHAPE) < 0.03] = value
        payload = random.random(SHAPE) < 0.01
        values.view("u4")[payload] = 0x7FC01234
        values.view("u4")[random.random(SHAPE) < 0.01] = 0xFF812345
        with h5py.File(path, "w") as file:
            data = file.create_dataset("x", data=values, chunks=(30, 30, 30), fillvalue=1e20, track_times=False)
            data.attrs["missing_value"] = np.float32(1e20)
            file.create_dataset("nan_fill", data=values, fillvalue=np.nan, track_times=False)

    copy, original = exact_and_bounded(m, write, "rel:1e-3")
    was, now = read(original, "x"), read(copy, "x")
    special = ~np.isfinite(was) | (was == np.float32(1e20)) | ((was == 0) & np.signbit(was))
    check(was[special].tobytes() == now[special].tobytes(), f"{special.sum()} special values bit for bit")
    error = np.abs(was[~special].astype("f8") - now[~special]).max()
    extent = float(was[~special].max()) - float(was[~special].min())
    check(0 < error <= 1e-3 * extent, "the fill value does not widen the bound, and the bound is used")


def scenario_sparse_chunks(m):
    """A dataset of which only some chunks were written."""

    def write(path):
        with h5py.File(path, "w") as file:
            data = file.create_dataset("x", (300, 200, 200), "f4", chunks=(50, 50, 50), fillvalue=-7, track_times=False)
            data[100:150] = smooth((50, 200, 200))
            data[299, 199, 199] = 5

    copy, _ = exact_and_bounded(m, write)
    equal(float(read(copy, "x")[0, 0, 0]), -7.0, "unwritten elements read as the fill value")


def scenario_append(m):
    """A resizable dataset grows over several opens; what was written earlier never moves."""
    m.bound("abs:0.01")
    path = m.root / "grows.h5"
    field = smooth((200, 60, 60))
    seen = None
    for start in range(0, 200, 25):
        with h5py.File(path, "a") as file:
            if start == 0:
                file.create_dataset("x", (0, 60, 60), "f4", chunks=(10, 60, 60), maxshape=(None, 60, 60))
            file["x"].resize(start + 25, axis=0)
            file["x"][start:] = field[start : start + 25]
            file.attrs[f"step{start}"] = start
        now = read(path, "x")
        if seen is not None and now[:start].tobytes() != seen.tobytes():
            raise mounted.Failure(f"elements moved when rows {start}... were appended")
        seen = now
        if start == 100:
            m.restart()
    error = np.abs(seen.astype("f8") - field).max()
    check(0 < error <= 0.01, f"8 appends: earlier elements never moved; error {error:.3g} of 0.01")
    stored, size = m.stored(path), path.stat().st_size
    check(stored < size, f"{size} bytes, appended to in 8 sessions, are stored in {stored}")


def scenario_partial_rewrite(m):
    """r+ writes of parts and of attributes leave every other element as it read before."""
    m.bound("abs:0.01")
    path = m.root / "parts.h5"
    with h5py.File(path, "w") as file:
        file["contiguous"] = smooth(dtype="f8")
        file.create_dataset("chunked", data=smooth(), chunks=(32, 32, 32))
    random = np.random.default_rng(7)
    state = {name: read(path, name) for name in ("contiguous", "chunked")}
    for turn in range(12):
        name = ("contiguous", "chunked")[turn % 2]
        corner = [int(random.integers(0, n - 1)) for n in SHAPE]
        box = tuple(slice(c, int(random.integers(c + 1, n + 1))) for c, n in zip(corner, SHAPE))
        values = smooth(seed=turn + 10, dtype=state[name].dtype)[box]
        with h5py.File(path, "r+") as file:
            if turn % 4 != 3:
                file[name][box] = values
            else:
                file[name].attrs[f"turn{turn}"] = "only an attribute"
        for other, was in state.items():
            now = read(path, other)
            touched = np.zeros(SHAPE, bool)
            if other == name and turn % 4 != 3:
                touched[box] = True
                error = np.abs(now[box].astype("f8") - values).max()
                if error > 0.01:
                    raise mounted.Failure(f"turn {turn}: written elements are off by {error}")
            if now[~touched].tobytes() != was[~touched].tobytes():
                raise mounted.Failure(f"turn {turn}: {other}: elements that nobody wrote have moved")
            state[other] = now
        if turn == 6:
            m.restart()
    check(True, "12 partial rewrites: written within 0.01, the rest never moved")


def scenario_create_like_b05(m):
    """A short dataset, then one larger than it: the superblock is written again at close (needs.md B-05)."""

    def write(path):
        with h5py.File(path, "w") as file:
            file.create_dataset("time", data=np.arange(48.0), track_times=False)
            file.create_dataset("data", data=smooth((48, 201, 201), "f8"), track_times=False)

    copy, _ = exact_and_bounded(m, write)
    check((read(copy, "time") == np.arange(48.0)).all(), "the time axis is exact")


def scenario_scales(m):
    """Dimension scales stay exact under a bound, whatever their size."""
    m.bound("rel:1e-2")
    path = m.root / "scales.h5"
    axis = np.cumsum(np.random.default_rng(1).random(20000)) * 1e-9 + 1e6
    with h5py.File(path, "w") as file:
        file["x"] = axis
        file["x"].make_scale("x")
        file["values"] = smooth((20000, 12), "f8")
        file["values"].dims[0].attach_scale(file["x"])
    check(read(path, "x").tobytes() == axis.tobytes(), "a dimension scale of 20,000 elements is exact")
    check(np.abs(read(path, "values") - smooth((20000, 12), "f8")).max() > 0, "the data beside it is not")


def scenario_locking(m):
    """A second writer is refused while the first has the file open; readers and other modes as on the plain disk."""
    code = "import h5py,sys; h5py.File(sys.argv[1], sys.argv[2]).close()"
    outcomes = {}
    for folder in (m.root, m.plain):
        path = folder / "locked.h5"
        for held in ("w", "r"):
            with h5py.File(path, held):
                for mode in ("r", "r+"):
                    for locking in ("TRUE", "FALSE", "BEST_EFFORT"):
                        done = run(mounted.PYTHON, "-c", code, path, mode, status=None,
                                   env={"HDF5_USE_FILE_LOCKING": locking})
                        outcomes.setdefault((held, mode, locking), []).append(done.returncode)
    for key, (here, plain) in outcomes.items():
        equal(here, plain, f"held {key[0]}, opened {key[1]}, locking {key[2]}: as on the plain disk")


def scenario_killed_writer(m):
    """kill -9 of a program that writes HDF5: what it flushed is there, the mount lives, the file can be replaced."""
    path = m.root / "killed.h5"
    code = (
        "import h5py, numpy as np, sys, time\n"
        "f = h5py.File(sys.argv[1], 'w'); f['x'] = np.arange(50000.0); f.flush()\n"
        "f['y'] = np.arange(50000.0); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([mounted.PYTHON, "-c", code, path], stdout=subprocess.PIPE, text=True) as child:
        equal(child.stdout.readline().strip(), "ready", "the writer flushed")
        child.kill()
    try:
        check((read(path, "x") == np.arange(50000.0)).all(), "what was flushed reads back")
    except OSError as error:
        print(f"  (HDF5 refuses the file, as it may: {error})")
    with h5py.File(path, "w") as file:
        file["z"] = np.arange(3.0)
    m.restart()
    equal(read(path, "z").tolist(), [0.0, 1.0, 2.0], "written anew")


def scenario_single_writer_many_readers(m):
    """SWMR: a reader sees what a writer flushed, while both have the file open."""
    path = m.root / "swmr.h5"
    with h5py.File(path, "w", libver="latest") as file:
        data = file.create_dataset("x", (0,), "f8", chunks=(1000,), maxshape=(None,))
        file.swmr_mode = True
        for turn in range(1, 6):
            data.resize((turn * 1000,))
            data[-1000:] = turn
            data.flush()
            code = "import h5py,sys; print(h5py.File(sys.argv[1],'r',libver='latest',swmr=True)['x'][()].sum())"
            equal(float(python(code, path)), 1000.0 * turn * (turn + 1) / 2, f"sum that a reader sees, turn {turn}")


def scenario_tiny(m):
    """Datasets of 0 to 3 elements, scalars, empty ones, strings, compounds and references stay as they are."""

    def write(path):
        with h5py.File(path, "w") as file:
            for n in range(4):
                file.create_dataset(f"n{n}", data=np.arange(n, dtype="f4"), track_times=False)
            file.create_dataset("scalar", data=np.float64(1.25), track_times=False)
            file.create_dataset("empty", data=h5py.Empty("f4"), track_times=False)
            file.create_dataset("text", data=["one", "two"], track_times=False)
            record = np.zeros(5000, [("a", "f4"), ("b", "f8", (2,)), ("c", "S5")])
            record["a"] = np.arange(5000)
            file.create_dataset("compound", data=record, track_times=False)
            file.create_dataset("zipped", data=smooth(), chunks=(32, 32, 32), compression="gzip", track_times=False)

    copy, original = exact_and_bounded(m, write)
    check(same_bytes(copy, original), "nothing here may be touched by a bound, and nothing was")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
