#!/usr/bin/python3
"""What the fault layer costs while nothing is armed: CPU time of the daemon with it and with --no-faults, in turns.

    faults_off.py VARVE [ROUNDS]

Each round mounts afresh, writes 256 MiB by 128 KiB and reads 256 MiB by 4 KiB past the kernel's cache; the order of
the two settings changes from round to round. Prints the medians, and the median and the quartiles of the rounds' ratios.
"""

import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))

import mounted  # noqa: E402

SIZE = 256 << 20


def seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(mount, *options):
    mount.start(*options)
    before = seconds(mount.process.pid)
    handle = os.open(mount.root / "x", os.O_RDWR | os.O_CREAT)
    piece = os.urandom(128 << 10)
    for at in range(0, SIZE, len(piece)):
        os.pwrite(handle, piece, at)
    written = seconds(mount.process.pid)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    for at in range(0, SIZE, 4096):
        os.pread(handle, 4096, at)
    read = seconds(mount.process.pid)
    os.close(handle)
    os.unlink(mount.root / "x")
    mount.stop()
    return written - before, read - written


def main():
    mounted.BINARY = str(pathlib.Path(sys.argv[1]).resolve())
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    mount = mounted.Mount(tempfile.mkdtemp(prefix="varve-faults-off-"))
    results = {(): [], ("--no-faults",): []}
    try:
        for number in range(rounds):
            for options in sorted(results, reverse=number % 2 == 1):
                results[options].append(measured(mount, *options))
    finally:
        mount.clean_up()
    for path, name in enumerate(("write", "read")):
        with_it, without = ([run[path] for run in results[options]] for options in ((), ("--no-faults",)))
        ratios = sorted(a / b for a, b in zip(with_it, without))
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name}: {statistics.median(with_it):.3f} s with, {statistics.median(without):.3f} s without;"
              f" ratio {middle:.4f} ({low:.4f} to {high:.4f})")


if __name__ == "__main__":
    main()
