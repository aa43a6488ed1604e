#!/usr/bin/python3
"""varve snapshot and varve gc: a store as it was, of a mount and of a store, whatever becomes of it later."""

import os
import random
import re
import signal
import subprocess
import threading
import time

import h5py
import mounted
import numpy as np
from mounted import check, equal, refused, run
from test_hdf5 import smooth


def varve(*words, status=0):
    return run(mounted.BINARY, *words, status=status)


def content(root):
    """Every file's bytes, attributes that matter and extended attributes; links by where they lead, fifos unread."""
    found = {}
    for folder, names, others in os.walk(root):
        for name in names + others:
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            link = os.path.islink(path)
            found[os.path.relpath(path, root)] = (
                facts.st_mode, facts.st_mtime_ns, facts.st_nlink, facts.st_size, os.readlink(path) if link else "",
                open(path, "rb").read() if os.path.isfile(path) and not link else b"",
                [(name, os.getxattr(path, name)) for name in os.listxattr(path, follow_symlinks=False)] if not link else [])
    return found


class Looked:
    """A snapshot, mounted."""

    def __init__(self, m, name, where=None):
        self.root = m.plain / f"look-{name}-{(where or m.root).name}"
        self.root.mkdir()
        varve("snapshot", "mount", where or m.root, name, self.root)

    def __enter__(self):
        return self.root

    def __exit__(self, *_):
        varve("umount", self.root)
        self.root.rmdir()


def fill(m):
    m.bound("rel:1e-3")
    np.save(m.root / "a.npy", smooth((96, 80, 70)))
    (m.root / "deep").mkdir()
    with h5py.File(m.root / "deep" / "b.h5", "w") as file:
        file["density"] = smooth((70, 70, 70), seed=1)
    (m.root / "bytes").write_bytes(random.Random(5).randbytes(700_000))
    os.link(m.root / "bytes", m.root / "deep" / "second name")
    os.symlink("../a.npy", m.root / "deep" / "link")
    (m.root / "small").write_text("small\n")


def scenario_kept(m):
    """What a mounted store held is in its snapshot, byte by byte, after everything was written over, removed and collected."""
    fill(m)
    varve("snapshot", "create", m.root, "one")  # seals what is not sealed yet
    before = content(m.root)
    with Looked(m, "one") as root:
        equal(content(root), before, "the snapshot is the mount")
    (m.root / "deep" / "b.h5").unlink()
    np.save(m.root / "a.npy", smooth((64, 64, 64), seed=3))
    (m.root / "bytes").write_bytes(b"new")
    (m.root / "later").write_text("later\n")
    varve("snapshot", "create", m.root / "deep", "two")
    later = content(m.root)
    (m.root / "later").unlink()
    check("freed" in varve("gc", m.root).stdout, "varve gc tells what it freed")
    m.restart()
    for name, wanted in (("one", before), ("two", later)):
        with Looked(m, name) as root:
            equal(content(root), wanted, f"snapshot {name}, after a restart and a collection")
            refused(30, lambda: (root / "x").touch(), "it is read-only: EROFS")
            equal(np.load(root / ".varve/level/2/a.npy").shape, np.load(root / "a.npy").shape, "views work in it")
    varve("fsck", m.store / "snapshots" / "one")
    equal(varve("scrub", m.store / "snapshots" / "one").returncode, 0, "it can be scrubbed")


def scenario_unmounted(m):
    """The same commands on a store that is not mounted; space comes back when the last that holds it goes."""
    fill(m)
    m.stop()
    varve("snapshot", "create", m.store, "s")
    listed = varve("snapshot", "list", m.store).stdout
    check(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\S+ \S+  s\n", listed), f"a line each: {listed!r}")
    m.start()
    before = content(m.root)
    for path in (m.root / "a.npy", m.root / "deep" / "b.h5", m.root / "bytes", m.root / "deep" / "second name"):
        path.unlink()
    varve("sync", m.root)
    varve("gc", m.root)

    def used():
        return int(run("du", "-s", "--block-size=1", m.store).stdout.split()[0])

    held = used()
    with Looked(m, "s", m.store) as root:
        equal(content(root), before, "the snapshot holds what is gone")
        done = varve("snapshot", "delete", m.root, "s", status=2)
        check("unmount it first" in done.stderr, f"not while it is mounted: {done.stderr.strip()}")
    varve("snapshot", "delete", m.root, "s")
    check(used() < held - 700_000, "deleting it gives the space back")
    equal(varve("snapshot", "list", m.root).stdout, "", "none is left")


def scenario_mistakes(m):
    """Wrong names, twice the same, none of that name, no store: a sentence and no change."""
    fill(m)
    varve("snapshot", "create", m.root, "x")
    for words, said in (
        (("create", m.root, "x"), "already"),
        (("create", m.root, "a/b"), "no name of a snapshot"),
        (("create", m.root, "."), "no name of a snapshot"),
        (("delete", m.root, "y"), "no snapshot y"),
        (("delete", m.root, "../x"), "no name of a snapshot"),
        (("mount", m.root, "y", m.plain), "no snapshot y"),
        (("create", m.plain, "x"), "no store"),
        (("list", "/nowhere"), "no store"),
        (("create", m.root), "NAME"),
    ):
        done = varve("snapshot", *words, status=2)
        check(said in done.stderr, f"{words}: {done.stderr.strip()}")
    refused(22, lambda: (m.root / ".varve" / "snapshots").write_text("make x\n"), "the control file: EINVAL")
    refused(17, lambda: (m.root / ".varve" / "snapshots").write_text("create x\n"), "EEXIST")
    check((m.root / ".varve" / "snapshots").read_text().startswith("x\t"), "and it lists")
    done = varve("mount", "-o", "rw", m.store / "snapshots" / "x", m.plain)
    refused(30, lambda: (m.plain / "y").touch(), "a snapshot is mounted read-only even if asked otherwise")
    varve("umount", m.plain)


def scenario_busy(m):
    """Snapshots while programs write and the daemon is killed in the midst of one: each is whole or not there, and the store as well."""
    stop = threading.Event()
    errors = []

    def write(which):
        count = 0
        while not stop.is_set():
            try:
                path = m.root / f"f{which}-{count % 7}"
                path.write_bytes(bytes([which]) * random.Random(count).randrange(1, 200_000))
                os.replace(path, m.root / f"g{which}-{count % 5}")
                count += 1
            except OSError as error:
                errors.append(error)
                return

    writers = [threading.Thread(target=write, args=(which,)) for which in (1, 2)]
    for writer in writers:
        writer.start()
    for number in range(4):
        varve("snapshot", "create", m.root, f"s{number}")
    equal(errors, [], "writers go on")
    creating = subprocess.Popen([mounted.BINARY, "snapshot", "create", m.root, "killed"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(0.02)
    m.process.send_signal(signal.SIGKILL)
    m.process.wait()
    creating.wait()
    stop.set()
    for writer in writers:
        writer.join()
    mounted._live.remove(m)
    m.start()
    names = [line.split()[-1] for line in varve("snapshot", "list", m.root).stdout.splitlines()]
    check(names[:4] == ["s0", "s1", "s2", "s3"] and names[4:] in ([], ["killed"]), f"the finished ones, and that one or not: {names}")
    for name in names:
        with Looked(m, name) as root:
            for path in root.iterdir():
                data = path.read_bytes()
                check(set(data) <= {int(path.name[1])}, f"{name}/{path.name} is one file's content")
    varve("snapshot", "create", m.root, "after")
    m.stop()
    varve("fsck", m.store)


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
