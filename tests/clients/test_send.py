#!/usr/bin/python3
"""varve send and varve receive: a snapshot in another store, whole or what it has more than the one before."""

import os
import random
import subprocess

import mounted
import numpy as np
from mounted import check, equal
from test_hdf5 import smooth
from test_snapshots import Looked, content, fill, varve


def send(m, name, *words):
    path = m.plain / f"{name}{len(words)}.stream"
    with open(path, "wb") as out:
        subprocess.run([mounted.BINARY, "send", m.root, name, *words], stdout=out, check=True)
    return path


def receive(store, stream, *words, status=0, says=""):
    with open(stream, "rb") as source:
        done = subprocess.run([mounted.BINARY, "receive", *words, store], stdin=source, capture_output=True, text=True)
    equal(done.returncode, status, f"receive's exit status: {done.stdout} {done.stderr}")
    check(says in done.stderr, f"says {says!r}: {done.stderr}")


def change(m):
    with open(m.root / "a.npy", "r+b") as file:
        file.seek(900_000)
        file.write(np.linspace(0, 1, 400, dtype="f4").tobytes())
    np.save(m.root / "new.npy", smooth((40, 50, 60)))
    os.unlink(m.root / "bytes")
    os.mkdir(m.root / "empty")
    os.mkfifo(m.root / "empty" / "fifo")
    os.setxattr(m.root / "small", "user.colour", b"blue")
    os.rename(m.root / "deep" / "b.h5", m.root / "b.h5")


def same(m, store, name):
    """A store's files are those of a snapshot of the mount."""
    with Looked(m, name) as wanted, Looked(m, name, store) as found:
        equal(content(found), content(wanted), f"{store.name} has the files of {name}")
    check("clean" in varve("fsck", store).stdout, f"{store.name} is sound")
    varve("scrub", store)


def scenario_copies(m):
    """A whole stream, one that goes on from it and one that takes its place all give the same files."""
    fill(m)
    varve("snapshot", "create", m.root, "one")
    change(m)
    varve("snapshot", "create", m.root, "two")
    one, two, whole = send(m, "one"), send(m, "two", "--since", "one"), send(m, "two")
    check(os.stat(two).st_size < os.stat(whole).st_size / 3, f"{os.stat(two).st_size} of {os.stat(whole).st_size} bytes go over")
    first, second = m.plain / "first", m.plain / "second"
    receive(first, two, status=2, says="receive that first")
    receive(first, one)
    same(m, first, "one")
    receive(first, two)
    same(m, first, "two")
    receive(second, whole)
    same(m, second, "two")
    receive(second, one, status=2, says="--replace")
    receive(second, one, "--replace")
    same(m, second, "one")
    receive(second, two, status=2, says="snapshot two already")


def scenario_changed_here(m):
    """A store that was written since it was received does not take what goes on from before."""
    fill(m)
    varve("snapshot", "create", m.root, "one")
    change(m)
    varve("snapshot", "create", m.root, "two")
    one, two = send(m, "one"), send(m, "two", "--since", "one")
    store, place = m.plain / "copy", m.plain / "place"
    receive(store, one)
    place.mkdir()
    varve("mount", store, place)
    receive(store, two, status=2, says="")
    (place / "mine").write_text("mine\n")
    varve("umount", place)
    receive(store, two, status=2, says="the files of")
    varve("mount", store, place)
    equal((place / "mine").read_text(), "mine\n", "what was written stays")
    (place / "mine").unlink()
    varve("umount", place)


def scenario_bad_streams(m):
    """A stream that ends early or was changed leaves the store as it was."""
    fill(m)
    varve("snapshot", "create", m.root, "one")
    varve("snapshot", "create", m.root, "again")
    stream = send(m, "one").read_bytes()
    store = m.plain / "copy"
    receive(store, send(m, "again"))
    draw = random.Random(7)
    bad = m.plain / "bad"
    for turn in range(40):
        if turn % 2:
            bad.write_bytes(stream[:draw.randrange(len(stream))])
        else:
            at = draw.choice([draw.randrange(len(stream)), draw.randrange(200), len(stream) - 1 - draw.randrange(3000)])
            bad.write_bytes(stream[:at] + bytes([stream[at] ^ 1 << draw.randrange(8)]) + stream[at + 1:])
        receive(store, bad, "--replace", status=2)
    bad.write_bytes(b"PK\3\4 another program's file, long enough to have a frame")
    receive(store, bad, "--replace", status=2, says="no stream of varve send")
    same(m, store, "again")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
