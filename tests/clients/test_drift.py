#!/usr/bin/python3
"""No drift: however often lossy data is read, changed in part and written back, what nobody changed stays."""

import os

import arrays
import mounted
import numpy as np
from mounted import check, equal, same_bytes
from test_hdf5 import smooth
from test_posix import KEEP_SIZE, PUNCH_HOLE, fallocate

ROUNDS = 100


def rounds(m, bound, limit):
    """Rounds of read-modify-write of parts of an npy file through a memory map."""
    m.bound(bound)
    path, original = m.root / "x.npy", smooth()
    np.save(path, original)
    state = np.load(path)
    check(np.abs(state.astype("f8") - original).max() > 0, "the bound is used")
    random = np.random.default_rng(1)
    wanted = state.astype("f8")
    for turn in range(ROUNDS):
        corner = [int(random.integers(0, n - 4)) for n in original.shape]
        box = tuple(slice(c, c + int(random.integers(1, 5 if turn % 5 else 40))) for c in corner)
        view = np.load(path, mmap_mode="r+")
        if turn % 2:
            view[box] = smooth(seed=turn)[box]
            wanted[box] = smooth(seed=turn)[box]
        else:
            view[box] = np.array(view[box])  # written back as it was read
        view.flush()
        del view
        now = np.load(path)
        touched = np.zeros(original.shape, bool)
        touched[box] = bool(turn % 2)
        if now[~touched].tobytes() != state[~touched].tobytes():
            moved = np.abs(now.astype("f8") - state)[~touched]
            raise mounted.Failure(f"round {turn}: {np.count_nonzero(moved)} untouched elements moved, by {moved.max()}")
        if np.abs(now.astype("f8") - wanted)[touched].max(initial=0) > limit:
            raise mounted.Failure(f"round {turn}: written elements are not within {limit}")
        state = now
        if turn % 40 == 39:
            m.restart()
    check(True, f"{ROUNDS} rounds: untouched elements never moved, written ones are within the bound")


def scenario_absolute(m):
    """100 rounds of read-modify-write under an absolute bound."""
    rounds(m, "abs:0.01", 0.01)


def scenario_relative(m):
    """100 rounds of read-modify-write under a relative bound."""
    values = [smooth(seed=seed) for seed in range(ROUNDS)]
    extent = max(float(v.max()) for v in values) - min(float(v.min()) for v in values)
    rounds(m, "rel:1e-3", 1e-3 * extent * 1.01)


def scenario_rewritten_whole(m):
    """A program loads a lossy file and saves it, 20 times: under an absolute bound the values stay what they are."""
    m.bound("abs:0.01")
    path = m.root / "x.npy"
    np.save(path, smooth())
    first = path.read_bytes()
    for turn in range(20):
        np.save(path, np.load(path))
        if path.read_bytes() != first:
            moved = np.abs(np.load(path).astype("f8") - np.frombuffer(first[128:], "f4").reshape(smooth().shape)).max()
            raise mounted.Failure(f"turn {turn}: values moved by up to {moved}")
    check(True, "20 loads and saves: identical bytes")


def scenario_appended_raw(m):
    """The elements of a raw file that is overwritten from its end towards its start, in pieces of odd sizes."""
    m.bound("abs:0.01")
    path, plain = m.root / "x_70x80x90.f32", m.plain / "x_70x80x90.f32"
    original = smooth()
    for place in (path, plain):
        original.tofile(place)
    before = np.fromfile(path, "f4")
    content = smooth(seed=2).tobytes()
    end = len(content)
    for turn in range(12):
        start = max(0, end - 9999 - turn)
        with open(path, "r+b") as file:
            file.seek(start)
            file.write(content[start:end])
        end = start
        now = np.fromfile(path, "f4")
        if now[: end // 4].tobytes() != before[: end // 4].tobytes():
            raise mounted.Failure(f"turn {turn}: elements before byte {end} moved")
    whole = -(-end // 4)
    error = np.abs(now[whole:].astype("f8") - np.frombuffer(content, "f4")[whole:]).max()
    check(error <= 0.01, f"12 rewrites from the end: nothing before them moved, they are within {error:.2g} of 0.01")
    m.restart()
    equal(np.fromfile(path, "f4").tobytes() == now.tobytes(), True, "the same after a new mount")
    equal(arrays.problems(plain, path, "abs:10"), [], "special values and bytes outside arrays are exact")
    check(not same_bytes(plain, path), "the file was changed")


def scenario_punched(m):
    """Zeros that nobody wrote are elements too: when a bound has moved them and the array ends, they stay so."""
    m.bound("abs:0.01")
    path = m.root / "x_70x80x90.f32"
    with open(path, "wb") as file:
        file.write(smooth().tobytes())
        fallocate(file.fileno(), KEEP_SIZE | PUNCH_HOLE, 400_000, 800_000)
    before = path.read_bytes()
    hole = np.frombuffer(before[400_000:1_200_000], "f4")
    check(np.count_nonzero(hole) > 0 and np.abs(hole).max() <= 0.01, "elements of the hole are moved by the bound")
    with open(path, "ab") as file:
        file.write(b"x")  # its name says the shape of another length: no array any more
    m.restart()  # no page of before is kept
    after = path.read_bytes()
    equal(after[:-1] == before, True, "every byte before what was appended reads as it did")
    with open(path, "rb") as file:
        equal(os.lseek(file.fileno(), 0, os.SEEK_HOLE), len(after), "SEEK_HOLE finds no hole")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
