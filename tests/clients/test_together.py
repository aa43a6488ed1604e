#!/usr/bin/python3
"""Several processes at once on the same files, and programs that watch or walk a tree."""

import ctypes
import errno
import fcntl
import os
import struct
import subprocess

import mounted
import numpy as np
from mounted import check, equal, refused, run, same_bytes, shell

SHAPE = (64, 128, 128)
FICLONE = 0x40049409


def wave(shift=0.0):
    z, y, x = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    return (np.sin(z / 9 + shift) * np.cos(y / 17) + x / 100).astype("f4")


def children(commands):
    """Runs programs at once; all must succeed."""
    running = [subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE) for command in commands]
    for child in running:
        text = child.communicate(timeout=300)[1].decode(errors="replace")
        if child.returncode != 0:
            raise mounted.Failure(f"{child.args} ended with {child.returncode}: {text[-2000:]}")


def scenario_parallel_writers(m):
    """Eight dd at once, each an eighth of one raw array: exact without a bound, within it otherwise."""
    original = wave()
    plain = m.plain / "x_64x128x128.f32"
    original.tofile(plain)
    eighth = original.nbytes // 8
    for folder, limit in ((m.root, 0), *((folder, 1e-3) for folder in m.folders("abs:1e-3"))):
        path = folder / plain.name
        for turn in range(2):  # a new file; one that is sealed
            children(["dd", f"if={plain}", f"of={path}", "bs=64K", f"skip={part * eighth // 65536}",
                      f"seek={part * eighth // 65536}", f"count={eighth // 65536}", "conv=notrunc", "status=none"]
                     for part in range(8))
            equal(os.getxattr(path, "user.varve.state"), b"sealed", "the file is sealed when the last has closed it")
            found = np.fromfile(path, "f4").reshape(SHAPE)
            error = np.abs(found.astype("f8") - original).max()
            check(error <= limit and (limit == 0 or error > 0), f"turn {turn}: off by {error:.2g}, at most {limit}")


MAPPER = """
import numpy, sys
part, value = slice(*map(int, sys.argv[2].split(':'))), float(sys.argv[3])
array = numpy.load(sys.argv[1], mmap_mode='r+')
for turn in range(5):
    array[part] = value + turn
    array.flush()
"""


def scenario_parallel_maps(m):
    """Four processes change parts of one sealed npy array through memory maps; the rest stays as it was."""
    m.bound("abs:1e-3")
    path = m.root / "x.npy"
    np.save(path, wave())
    wanted = np.load(path)
    children([mounted.PYTHON, "-c", MAPPER, path, f"{8 * part}:{8 * part + 7}", part] for part in range(4))
    for when in ("at once", "after a new mount"):
        found = np.load(path)
        for part in range(4):
            error = np.abs(found[8 * part : 8 * part + 7] - (part + 4)).max()
            check(error <= 1e-3, f"part {part} within the bound {when}: {error:.2g}")
            # A plane is a whole number of pages: nothing of the next was handed over.
            equal(found[8 * part + 7].tobytes() == wanted[8 * part + 7].tobytes(), True, "the plane after it")
        equal(found[32:].tobytes() == wanted[32:].tobytes(), True, "what nobody wrote")
        m.restart()


READER = """
import os, sys, numpy
path, rounds = sys.argv[1], int(sys.argv[2])
for turn in range(rounds):
    with open(path, 'rb') as file:
        values = numpy.frombuffer(file.read()[128:], 'f4').astype('f8')
    whole = numpy.round(values)
    if numpy.abs(values - whole).max() > 1e-3 or whole.min() < 0 or whole.max() > 30:
        sys.exit(f'turn {turn}: values that nobody wrote')
"""
WRITER = """
import os, sys, numpy
path = sys.argv[1]
for version in range(1, 31):
    with open(path, 'r+b') as file:
        file.seek(128)
        file.write(numpy.full(%d, version, 'f4').tobytes())
""" % np.prod(SHAPE)


def scenario_readers_of_what_changes(m):
    """While a process rewrites a lossy array 30 times, readers see values that were written, and nothing else."""
    m.bound("abs:1e-3")
    path = m.root / "x.npy"
    np.save(path, np.zeros(SHAPE, "f4"))
    children([[mounted.PYTHON, "-c", WRITER, path]] + 2 * [[mounted.PYTHON, "-c", READER, path, 40]])
    found = np.load(path)
    check(np.abs(found - 30.0).max() <= 1e-3, "the last version is there")
    equal(path.read_bytes(), path.read_bytes(), "and reads the same again")


def scenario_counter_under_a_lock(m):
    """Four processes count in one file under flock, and under a POSIX lock: no count is lost."""
    code = ("import fcntl, sys\n"
            "for turn in range(150):\n"
            "    with open(sys.argv[1], 'r+') as file:\n"
            "        getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX)\n"
            "        count = int(file.read() or 0)\n"
            "        file.seek(0)\n"
            "        file.write(str(count + 1))\n"
            "        file.flush()\n")
    for lock in ("flock", "lockf"):
        path = m.root / lock
        path.write_text("")
        children(4 * [[mounted.PYTHON, "-c", code, path, lock]])
        equal(path.read_text(), "600", f"counts under {lock}")


class Watch:
    """inotify(7) of a folder."""

    NAMES = {0x2: "modify", 0x8: "close_write", 0x40: "moved_from", 0x80: "moved_to", 0x100: "create", 0x200: "delete"}

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = libc.inotify_init1(os.O_NONBLOCK)
        if libc.inotify_add_watch(self.descriptor, os.fsencode(folder), sum(self.NAMES)) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")

    def events(self):
        """What came since the last call, a modify once in a row."""
        try:
            data = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            _, mask, _, length = struct.unpack_from("iIII", data, at)
            name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
            event = f"{self.NAMES.get(mask & 0xfff, hex(mask))} {name}"
            if found[-1:] != [event]:
                found.append(event)
            at += 16 + length
        return found


def scenario_inotify(m):
    """A program that watches a folder hears of what others do there, once, and of no seal."""
    m.bound("abs:1e-3")
    folder = m.root / "watched"
    folder.mkdir()
    watch = Watch(folder)
    run(mounted.PYTHON, "-c", "import numpy, sys; numpy.save(sys.argv[1], numpy.sin(numpy.arange(100000.0)))",
        folder / "x.npy")
    equal(os.getxattr(folder / "x.npy", "user.varve.state"), b"sealed", "its state")
    equal(watch.events(), ["create x.npy", "modify x.npy", "close_write x.npy"], "an array is written and sealed")
    shell("mv x.npy y.npy; cp y.npy ../z.npy; cat y.npy > /dev/null; rm y.npy", cwd=folder)
    equal(watch.events(), ["moved_from x.npy", "moved_to y.npy", "delete y.npy"], "renamed, copied, read, removed")


def scenario_make(m):
    """make -j4 of forty sources, again without a change, again with one; the program runs."""
    folder = m.root / "project"
    folder.mkdir()
    count = 40
    for number in range(count):
        (folder / f"f{number}.c").write_text(f'#include "all.h"\nint f{number}(void) {{ return {number}; }}\n')
    (folder / "all.h").write_text("".join(f"int f{number}(void);\n" for number in range(count)))
    total = " + ".join(f"f{number}()" for number in range(count))
    (folder / "main.c").write_text(f'#include <stdio.h>\n#include "all.h"\nint main(void) {{ printf("%d\\n", {total}); }}\n')
    (folder / "Makefile").write_text(
        "OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\n"
        "program: $(OBJECTS)\n\tgcc -o $@ $^\n"
        "%.o: %.c all.h\n\tgcc -c -O0 -o $@ $<\n"
    )
    run("make", "-j4", cwd=folder)
    equal(run(folder / "program").stdout, f"{sum(range(count))}\n", "what the program prints")
    check("up to date" in run("make", cwd=folder).stdout, "make finds nothing to do")
    m.restart()
    check("up to date" in run("make", cwd=folder).stdout, "nor after a new mount")
    (folder / "f7.c").write_text('#include "all.h"\nint f7(void) { return 1007; }\n')
    equal(run("make", "-j4", cwd=folder).stdout.count("gcc"), 2, "commands after a change of one source")
    equal(run(folder / "program").stdout, f"{sum(range(count)) + 1000}\n", "what the program prints then")


def scenario_walk(m):
    """find, du and rm over 10,000 files in 100 folders."""
    shell("for d in $(seq 100); do mkdir -p t/$((d % 10))/$d; (cd t/$((d % 10))/$d; "
          "for f in $(seq 100); do echo $f > $f; done); done", cwd=m.root)

    def count(*tests):
        return len(run("find", m.root / "t", *tests).stdout.splitlines())

    for when in ("at once", "after a new mount"):
        equal(count("-type", "f"), 10_000, f"files that find finds {when}")
        equal(count("-type", "d"), 111, "folders")
        equal(count("-name", "7*", "-size", "-3c"), 100, "by name and size")
        equal(count("-type", "f", "-links", "1", "-newer", m.root / "t", "-empty"), 0, "by links, time and content")
        m.restart()
    run("rm", "-r", m.root / "t")
    equal(os.listdir(m.root), [], "rm -r leaves nothing")


def scenario_reflink(m):
    """cp --reflink=always is refused, --reflink=auto and --sparse=always copy; FICLONE says EOPNOTSUPP."""
    source = m.root / "source"
    with open(source, "wb") as file:
        file.write(os.urandom(300_000))
        file.truncate(2_000_000)
        file.seek(3_000_000)
        file.write(b"end")
    for folder in (m.root, m.plain):
        failed = run("cp", "--reflink=always", source, folder / "always", status=1).stderr
        check("failed to clone" in failed, f"cp --reflink=always says why it fails: {failed.strip()}")
        for options in (["--reflink=auto"], ["--sparse=always"], ["--reflink=auto", "--sparse=always", "-a"]):
            run("cp", *options, source, folder / "copy")
            equal(same_bytes(source, folder / "copy"), True, f"cp {' '.join(options)}")
    with open(source, "rb") as one, open(m.root / "other", "wb") as other:
        refused(errno.EOPNOTSUPP, lambda: fcntl.ioctl(other, FICLONE, one.fileno()), "FICLONE")
    equal((m.root / "other").stat().st_size, 0, "size of what was to be a clone")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
