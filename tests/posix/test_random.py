#!/usr/bin/python3
"""Random operations on arrays and other files of a mount, against a model in memory, with a new mount now and then.

  test_random.py [--seconds S] [--seed N]... [--threads N] [--rounds N] [--operations N] [--only FOLDER/NAME] [--verbose]

Runs random_files with a few seeds that are always the same, then with random ones until the seconds are over, one at
least; or with the seeds that are named. Environment: RANDOM_FILES, the program, and what tests/clients/mounted.py
reads. A difference is told with the last operations on that file and the arguments that repeat it.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
import mounted
from mounted import check

BOUNDS = {"abs": "abs:0.01", "pwrel": "pwrel:1e-3", "bits": "bits:10", "rel": "rel:1e-4", "exact": None}
SEEDS = (3, 12)  # which found faults
PROGRAM = os.environ.get("RANDOM_FILES") or "random_files"


def chunks_of(dataset):
    return map(dataset.id.get_chunk_info, range(dataset.id.get_num_chunks()))


def make_patterns(folder):
    """HDF5 files with chunks that reach over the edges of their dataset, one with filters, and what to change there."""
    import h5py
    import numpy as np

    wave = np.sin(np.arange(60 * 45 * 50).reshape(60, 45, 50) / 1000)
    paths = [folder / name for name in ("pattern.h5", "filtered.h5")]
    with h5py.File(paths[0], "w") as file:
        chunked = file.create_dataset("chunked", data=wave.astype("f4"), chunks=(16, 32, 20))
        file.create_dataset("contiguous", data=wave)
        file.create_dataset("whole", data=(1000 * wave).astype("i4"))
        spans = [[(file["contiguous"].id.get_offset(), wave.nbytes, 8)]]
        spans[0] += [(chunk.byte_offset, chunk.size, 4) for chunk in chunks_of(chunked)]
    with h5py.File(paths[1], "w") as file:
        options = {"chunks": (16, 32, 20), "compression": "gzip", "shuffle": True}
        file.create_dataset("deflated", data=wave.astype("f4"), **options)
        file.create_dataset("summed", data=wave, fletcher32=True, **options)
        spans += [[(chunk.byte_offset, chunk.size, 1) for data in file.values() for chunk in chunks_of(data)]]
    for path, places in zip(paths, spans):
        pathlib.Path(f"{path}.spans").write_text("".join("%d %d %d\n" % place for place in places))
    return paths


def one_seed(m, seed, patterns, arguments):
    """Operations done; a failure when anything differed."""
    print(f"  seed {seed}", flush=True)
    root = m.root / str(seed)
    root.mkdir()
    for name, bound in BOUNDS.items():
        (root / name).mkdir()
        if bound:
            m.bound(bound, root / name)
    command = [PROGRAM, root, "--seed", seed, *(word for path in patterns for word in ("--pattern", path))]
    for name in ("threads", "rounds", "operations", "only"):
        command += [f"--{name}", getattr(arguments, name)] if getattr(arguments, name) else []
    command += ["--verbose"] if arguments.verbose else []
    child = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    done = 0
    for line in child.stdout:
        if line.startswith("round "):
            m.restart()
            child.stdin.write("\n")
            child.stdin.flush()
        elif line.startswith("equal "):
            done = int(line.split()[1])
        else:
            print(line, end="")
    if child.wait() != 0:
        raise mounted.Failure(f"seed {seed}: the mount and the model differ")
    mounted.shell(f"rm -rf {root}")
    return done


def seeds(arguments):
    end = time.monotonic() + arguments.seconds
    yield from arguments.seed or SEEDS
    while not arguments.seed:
        yield random.SystemRandom().randrange(100, 10**6)
        if time.monotonic() >= end:
            break


def random_files(m, arguments):
    """Random operations against a model in memory."""
    patterns = make_patterns(m.plain)
    operations = sum(one_seed(m, seed, patterns, arguments) for seed in seeds(arguments))
    check(True, f"{operations} operations: no difference")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, action="append")
    for name in ("threads", "rounds", "operations"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--only")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    sys.argv[1:] = []
    mounted.main({"random_files": lambda m: random_files(m, arguments)})


if __name__ == "__main__":
    main()
