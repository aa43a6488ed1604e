#!/usr/bin/python3
"""A disk that refuses: full, over quota, failing or read-only, under each kind of file of the store, on a real mount.

Every cell of the table is an errno at writes or at syncs of one kind of file. The program that needs that file must be
told that errno, and no other, by create, write, fsync or close, or by varve sync; the mount goes on, sealed files are as
they were, and once the disk takes bytes again so does the mount. Whatever fsync returned for is there at the end.
Environment: as in tests/clients/mounted.py.
"""

import errno
import functools
import os
import pathlib
import sys
import time

for folder in ("faults", "clients"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / folder))

from faulty import Faults, mounted, noise  # isort: skip: it finds mounted
import numpy as np
from mounted import Failure, check, equal, run

CODES = ("ENOSPC", "EIO", "EDQUOT", "EROFS")
KINDS = ("wal", "manifest", "table", "pack", "staging")
PIECE = 60_000  # of a file that is staged in its note: in RocksDB's log, then in its tables
MOST_PIECES = 700  # more than RocksDB holds in memory before it writes a table
CHANGES = ["create", "write", "fsync", "truncate", "allocate", "mkdir", "unlink", "rename", "close"]
PATIENCE = 20  # seconds until a disk that takes bytes again is used again


class Told:
    """What a program's calls gave, by the name of the call: names of errors."""

    def __init__(self):
        self.calls = []

    def call(self, name, action):
        """The action's result; None, and remembered, if it fails."""
        try:
            return action()
        except OSError as error:
            self.calls.append((name, errno.errorcode[error.errno]))
            return None

    def codes(self):
        return {code for _, code in self.calls}


def store(told, path, content, sync=True):
    """A program that writes a file and looks at what each call says. True: fsync promised all of it."""
    handle = told.call("create", lambda: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
    if handle is None:
        return False
    good = told.call("write", lambda: write_all(handle, content)) is not None
    if good and sync:
        good = told.call("fsync", lambda: os.fsync(handle) is None) is not None
    told.call("close", lambda: os.close(handle))
    return good and sync


def write_all(handle, content):
    at = 0
    while at < len(content):
        at += os.write(handle, content[at : at + (1 << 20)])
    return True


def provoke_log(m, told, promised, name):
    path, content = m.root / name, noise(name, 5000)
    if store(told, path, content):
        promised[path] = content


def provoke_staging(m, told, promised, name):
    path, content = m.root / name, noise(name, 300_000)
    if store(told, path, content):
        promised[path] = content


def provoke_pack(m, told, promised, name):
    """Packs are written when a file is sealed, after its last close: the next one who syncs it is told."""
    path, content = m.root / name, noise(name, 300_000)
    if not store(told, path, content):
        return
    promised[path] = content
    tell_of_seal(m, told, path)


def tell_of_seal(m, told, path):
    handle = told.call("open", lambda: os.open(path, os.O_RDWR))
    if handle is not None:
        told.call("fsync", lambda: os.fsync(handle))
        told.call("close", lambda: os.close(handle))


def provoke_table(m, told, promised, name):
    """Small files, each synced, until RocksDB writes a table and its name into the manifest."""
    for number in range(MOST_PIECES):
        provoke_piece(m, told, promised, f"{name}-{number}")
        if told.calls:
            return


def provoke_piece(m, told, promised, name):
    path, content = m.root / "pieces" / name, noise(name, PIECE)
    handle = told.call("create", lambda: os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))
    if handle is None:
        return
    try:
        if told.call("write", lambda: os.pwrite(handle, content, 0)) and told.call("fsync", lambda: os.fsync(handle) is None):
            promised[path] = content
    finally:
        told.call("close", lambda: os.close(handle))


PROVOKE = {"wal": provoke_log, "staging": provoke_staging, "pack": provoke_pack, "table": provoke_table, "manifest": provoke_table}


def goes_on(m, name):
    """Room was made: soon a file can be written, synced and removed again."""
    deadline = time.monotonic() + PATIENCE
    while True:
        told = Told()
        content = noise(name, 200_000)
        if store(told, m.root / name, content) and not told.calls:
            break
        if time.monotonic() > deadline:
            raise Failure(f"{PATIENCE} s after the disk took bytes again: {told.calls}\n{m.log()}")
        time.sleep(0.2)
    equal((m.root / name).read_bytes(), content, "once the disk takes bytes, files can be written")
    os.unlink(m.root / name)
    done = run(mounted.BINARY, "sync", m.root, status=None)
    equal(done.returncode, 0, f"and what was left staged is sealed {done.stderr.strip()}")


def sealed_files(m):
    (m.root / "plain").write_bytes(noise("plain", 400_000))
    np.save(m.root / "array.npy", np.cumsum(np.random.default_rng(3).normal(size=(40, 64, 64)), axis=0).astype("f4"))
    (m.root / "pieces").mkdir()
    run(mounted.BINARY, "sync", m.root)
    return {name: (m.root / name).read_bytes() for name in ("plain", "array.npy")}


def sealed_are_whole(m, sealed):
    changed = [name for name, content in sealed.items() if past_cache(m.root / name) != content]
    equal(changed, [], "sealed files are untouched")


def past_cache(path):
    """A file's bytes, asked of the daemon."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.read()


def cell(m, faults, sealed, promised, code, kind, operation):
    name = f"{code}-{kind}-{operation}"
    target = {"operation": CHANGES} if operation == "every change" else {"operation": operation, "kind": kind}
    faults.arm({"seam": "device", "model": "errno", "errno": [code], **target})
    told = Told()
    if operation == "every change":
        for number, provoke in enumerate((provoke_log, provoke_staging, provoke_pack)):
            provoke(m, told, promised, f"{name}-{number}")
        told.call("mkdir", lambda: os.mkdir(m.root / name))
    else:
        PROVOKE[kind](m, told, promised, name)
    struck = sum(rule["injected"] for rule in faults.status()["faults"])
    equal(told.codes(), {code}, f"{name}: {struck} times; told {told.calls}")
    check(m.alive(), "the mount goes on")
    sealed_are_whole(m, sealed)
    faults.disarm()
    goes_on(m, f"{name}-after")


def kept(m, promised):
    lost = [path.name for path, content in promised.items() if path.read_bytes() != content]
    equal(lost, [], f"{len(promised)} files that fsync promised are there")


def table_of(m, code):
    """Each kind of file gives one errno; programs are told it, and nothing is lost."""
    faults = Faults(m)
    sealed = sealed_files(m)
    promised = {}
    for kind in KINDS:
        for operation in ("write", "fsync"):
            cell(m, faults, sealed, promised, code, kind, operation)
    cell(m, faults, sealed, promised, code, "every", "every change")
    kept(m, promised)
    m.stop()
    done = run(mounted.BINARY, "fsck", m.store, status=None)
    equal(done.returncode, 0, f"varve fsck is clean {done.stdout if done.returncode else ''}")
    m.start()
    kept(m, promised)
    sealed_are_whole(m, sealed)


scenarios = {code.lower(): functools.partial(table_of, code=code) for code in CODES}
for scenario in scenarios.values():
    scenario.__doc__ = table_of.__doc__

if __name__ == "__main__":
    mounted.main(scenarios)
