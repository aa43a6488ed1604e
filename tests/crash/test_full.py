#!/usr/bin/python3
"""A disk without a byte left, not one that a fault makes so: the daemon lives, and deleting makes room.

Needs root, for a small file system of its own. Environment: as in tests/clients/mounted.py.
"""

import errno
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))

import mounted
from mounted import Failure, Skip, check, equal, run

DISK = 300  # MiB
SMALL = 3000  # bytes of a file that lies in its note: its removal is a change of RocksDB alone
MOST_SMALL = 3000


def fill(m, disk):
    """Writes files until there is no room, then takes what is left. Gives back their paths."""
    paths, told = [], None
    content = os.urandom(2_000_000)
    while told is None:
        path = m.root / f"large{len(paths)}"
        paths.append(path)
        try:
            with open(path, "wb", buffering=0) as file:
                file.write(len(paths).to_bytes(4, "little") + content)
                os.fsync(file.fileno())
        except OSError as error:
            told = error.errno
    equal(errno.errorcode[told], "ENOSPC", f"the disk is full after {len(paths)} files of 2 MB")
    for number in range(MOST_SMALL):
        path = m.root / f"small{number}"
        try:
            with open(path, "wb", buffering=0) as file:
                file.write(os.urandom(SMALL))
                os.fsync(file.fileno())
            paths.append(path)
        except OSError:
            break
    try:
        with open(disk / "others", "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError as error:
        equal(errno.errorcode[error.errno], "ENOSPC", f"other programs took {os.path.getsize(disk / 'others')} bytes")
    return [path for path in paths if path.exists()]


def sealed_file(path, byte, size):
    path.write_bytes(random.Random(byte).randbytes(size))


def written(path, content):
    """Writes a file as soon as there is room, which a deletion made."""
    deadline = time.monotonic() + 30
    while True:
        try:
            path.write_bytes(content)
            return
        except OSError as error:
            if error.errno != errno.ENOSPC or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def free_bytes(path):
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize


def room_again(m, before):
    run(mounted.BINARY, "gc", m.root)
    written(m.root / "new", b"new" * 100_000)
    run(mounted.BINARY, "sync", m.root)
    check((m.store / "reserve").exists(), "there is a reserve again")
    check(free_bytes(m.root) > before, f"{free_bytes(m.root)} bytes are free")


def clean(m, *paths):
    """The store agrees with itself, and all is there after another mount."""
    before = {path: path.read_bytes() for path in paths}
    m.stop()
    equal(run(mounted.BINARY, "fsck", m.store).returncode, 0, "fsck is clean")
    m.start()
    check(all(path.read_bytes() == content for path, content in before.items()), "all is there after another mount")


def on_small_disk(action):
    def scenario(m):
        m.stop()
        image, disk = m.folder / "image", m.folder / "disk"
        disk.mkdir()
        run("truncate", "-s", f"{DISK}M", image)
        run("mkfs.ext4", "-q", "-m", "0", image)
        if run("mount", "-o", "loop", image, disk, status=None).returncode != 0:
            m.start()
            raise Skip("no file system can be mounted here")
        plain, m.store = m.store, disk / "store"
        try:
            m.start()
            check((m.store / "reserve").stat().st_blocks * 512 >= DISK << 15, "a part of the disk is reserved")
            action(m, disk)
            m.stop()
        finally:
            m.clean_up()
            m.process, m.store = None, plain
            run("umount", "-l", disk)

    scenario.__doc__ = action.__doc__
    return scenario


@on_small_disk
def scenario_full(m, disk):
    """Files, directories and contents can be removed on a full disk, by programs that know nothing of it."""
    (m.root / "folder").mkdir()
    (m.root / "kept").write_bytes(b"kept" * 100)
    sealed_file(m.root / "shorter", 1, 3_000_000)
    sealed_file(m.root / "replaced", 2, 3_000_000)
    run(mounted.BINARY, "sync", m.root)
    paths = fill(m, disk)
    check((m.store / "reserve").exists(), "what was written did not touch the reserve")
    before = free_bytes(m.root)
    run("rmdir", m.root / "folder")
    run("truncate", "-s", "1000000", m.root / "shorter")
    run("mv", "-f", m.root / "kept", m.root / "replaced")
    run("truncate", "-s", "0", paths[0])
    for path in reversed(paths):
        try:
            path.unlink()
        except OSError as error:
            raise Failure(f"{path.name} of {len(paths)} files was not removed: {error}") from error
    check(m.alive(), f"{len(paths)} files were removed, the daemon lives")
    equal((m.root / "replaced").read_bytes(), b"kept" * 100, "the file that replaced another")
    (disk / "others").unlink()
    room_again(m, before)
    equal((m.root / "shorter").read_bytes(), random.Random(1).randbytes(3_000_000)[:1_000_000], "the shorter file")
    clean(m, m.root / "new", m.root / "shorter")


@on_small_disk
def scenario_alone(m, disk):
    """What others took stays taken: what is deleted in the store is enough, through a mount that is started there."""
    sealed_file(m.root / "sealed", 1, 1_000_000)
    run(mounted.BINARY, "sync", m.root)
    paths = fill(m, disk)
    m.kill()
    m.clean_up()
    m.start("-o", "ro")
    equal((m.root / "sealed").read_bytes(), random.Random(1).randbytes(1_000_000), "a sealed file")
    m.restart()
    check(free_bytes(m.root) <= free_bytes(disk), "what is reserved is not free")
    before = free_bytes(m.root)
    for path in paths:
        path.unlink()
    room_again(m, before)
    clean(m, m.root / "new", m.root / "sealed")


@on_small_disk
def scenario_kill(m, disk):
    """A kill while the reserve is in use, again and again."""
    sealed_file(m.root / "sealed", 1, 1_000_000)
    run(mounted.BINARY, "sync", m.root)
    paths = fill(m, disk)
    for number in range(4):
        for path in paths[number::8]:
            path.unlink()
        m.kill()
        m.clean_up()
        gone = [path for path in paths[number::8]]
        m.start()
        check(not any(path.exists() for path in gone), "what was removed stays removed")
        equal((m.root / "sealed").read_bytes(), random.Random(1).randbytes(1_000_000), "a sealed file")
    for path in paths:
        path.unlink(missing_ok=True)
    room_again(m, 0)
    clean(m, m.root / "new", m.root / "sealed")


@on_small_disk
def scenario_snapshot(m, disk):
    """On a full disk a snapshot can be deleted, and space collected."""
    for number in range(12):
        sealed_file(m.root / f"old{number}", number, 5_000_000)
    run(mounted.BINARY, "sync", m.root)
    run(mounted.BINARY, "snapshot", "create", m.root, "before")
    for number in range(12):
        (m.root / f"old{number}").unlink()
    fill(m, disk)
    before = free_bytes(disk)
    run(mounted.BINARY, "snapshot", "delete", m.root, "before")
    run(mounted.BINARY, "gc", m.root)
    check(free_bytes(disk) > before + 40_000_000, f"{free_bytes(disk) - before} bytes came back")
    room_again(m, 0)
    clean(m, m.root / "new")


@on_small_disk
def scenario_older(m, disk):
    """A store without a reserve gets one at the next mount, not at one that only reads."""
    m.stop()
    (m.store / "reserve").unlink()
    m.start("-o", "ro")
    check(not (m.store / "reserve").exists(), "a mount that only reads makes none")
    m.restart()
    check((m.store / "reserve").exists(), "another makes one")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
