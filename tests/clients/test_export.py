#!/usr/bin/python3
"""varve export: ordinary files out of a store and out of snapshots."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import time

import h5py
import mounted
import numpy as np
from mounted import Skip, check, equal, run
from test_damage import DEGRADE, flip, set_rules
from test_hdf5 import smooth
from trees import fill, no_partial_files, rsync_sees_no_difference, same_tree, tree


def export(source, target, *words, status=0, says=""):
    done = run(mounted.BINARY, "export", source, target, *words, status=status)
    said = done.stdout + done.stderr
    check(says in said, f"says {says!r}: {said.strip()[-300:]}")
    return done


def scenario_all(m):
    """Content, holes, hard and symbolic links, modes, owners, times, attributes, odd names: all of a mount."""
    fill(m.root)
    m.bound("rel:1e-3")
    np.save(m.root / "lossy.npy", smooth((90, 80, 70), seed=4))
    run(mounted.BINARY, "sync", m.root)
    target = m.plain / "target"
    wanted = tree(m.root)
    run(mounted.BINARY, "snapshot", "create", m.root, "now")
    export(f"{m.root}@now", target)
    same_tree(tree(target), wanted, "the export of a snapshot is the mount")
    rsync_sees_no_difference(m.root, target)
    os.utime(m.root / "bytes", ns=(1, 2))  # after the snapshot
    m.stop()
    export(m.store, m.plain / "second", "--jobs", "5", says=" 0 failed")
    m.start()
    same_tree(tree(m.plain / "second"), tree(m.root), "the export of a store is its mount")
    for name in ("holes", "nothing but a hole"):
        check(os.stat(target / name).st_blocks * 512 < 1 << 20, f"{name} takes no room")
    check(not (target / ".varve-unfinished").exists(), "nothing unfinished is left")


def scenario_again(m):
    """A second run keeps what is there, puts right what is other, replaces what is of another time."""
    fill(m.root)
    m.stop()
    target = m.plain / "target"
    export(m.store, target)
    before = tree(target)
    inodes = {path: os.lstat(path).st_ino for path in target.rglob("*") if path.is_file() and not path.is_symlink()}
    os.chmod(target / "a.npy", 0o777)
    os.setxattr(target / "a.npy", "user.stray", b"x")
    os.removexattr(target / "bytes", "user.colour")
    (target / "real" / "not in the store").write_text("stays\n")
    with open(target / "holes", "ab") as file:
        file.write(b"longer")
    (target / "empty folder").rmdir()
    os.symlink("/etc", target / "empty folder")  # must not be entered
    done = export(m.store, target, status=1, says="empty folder: something else than a directory has its name")
    (target / "empty folder").unlink()
    export(m.store, target, says="0 files written")
    (target / "real" / "not in the store").unlink()
    export(m.store, target)
    same_tree(tree(target), before, "as after the first run")
    check("\n1 files written" in "\n" + done.stdout, f"one was written: {done.stdout}")
    rewritten = {path.name for path, inode in inodes.items() if os.lstat(path).st_ino != inode}
    equal(rewritten, {"holes"}, "the others are the files that were there")
    shutil.rmtree(target / "odd")
    (target / "odd").write_text("a file where a folder goes\n")
    (target / "fifo").unlink()
    (target / "fifo").mkdir()
    done = export(m.store, target, status=1, says="2 failed")
    check("odd: " in done.stderr and "fifo: " in done.stderr, "both are named, and the others go on")


def scenario_killed(m):
    """Killed at any moment: what has its name is whole; the next run goes on."""
    fill(m.root)
    for number in range(120):
        (m.root / f"many {number}").write_bytes(bytes([number]) * 70_000)
    np.save(m.root / "large.npy", smooth((160, 160, 160), seed=9))
    m.stop()
    whole = m.plain / "whole"
    export(m.store, whole)
    wanted = tree(whole)
    target = m.plain / "target"
    counts = []
    for turn in range(12):
        process = subprocess.Popen([mounted.BINARY, "export", m.store, target], stdout=subprocess.DEVNULL)
        time.sleep(0.02 + 0.02 * turn)
        process.kill()
        process.wait()
        counts.append(no_partial_files(target, wanted) if target.exists() else 0)
    check(counts == sorted(counts), f"each run went on from the one before: {counts}")
    check(counts[0] < len(wanted) / 2, "the first was killed in the midst")
    export(m.store, target)
    same_tree(tree(target), wanted, "the last run made it whole")
    check(not (target / ".varve-unfinished").exists(), "nothing unfinished is left")


def scenario_damaged(m):
    """A file with a damaged record is named and left out, also where programs would be given interpolated values."""
    set_rules(m, DEGRADE)
    with h5py.File(m.root / "a.h5", "w") as file:
        file["u"] = smooth((128, 128, 128))
    for number in range(5):
        (m.root / f"sound {number}").write_bytes(bytes([number]) * 5000)
    run(mounted.BINARY, "sync", m.root)
    whole = tree(m.root)
    m.stop()
    flip(m, level=0, brick=3)
    target = m.plain / "target"
    done = export(m.store, target, status=1, says="a.h5: ")
    check("1 failed" in done.stdout and "5 files written" in done.stdout, f"the others are there: {done.stdout}")
    wanted = {path: one for path, one in whole.items() if path != b"/a.h5"}
    same_tree(tree(target), wanted, "all but the damaged one")
    export(m.store, target, status=1, says="5 were there")


def scenario_unsealed(m):
    """What was written and not sealed: a store with such is refused, a snapshot's file is named."""
    (m.root / "sealed").write_bytes(b"sealed" * 1000)
    run(mounted.BINARY, "sync", m.root)
    file = os.open(m.root / "open", os.O_CREAT | os.O_WRONLY)
    os.write(file, b"written" * 10_000)
    os.fsync(file)
    run(mounted.BINARY, "snapshot", "create", m.root, "s")
    done = export(f"{m.root}@s", m.plain / "target", status=1, says="open: it was being written")
    check("1 files written" in done.stdout, f"the other is there: {done.stdout}")
    equal(sorted(os.listdir(m.plain / "target")), ["sealed"], "and nothing else")
    m.kill()
    try:
        os.close(file)
    except OSError:
        pass  # the mount is dead
    subprocess.run(["fusermount3", "-u", "-z", m.root], check=False)
    export(m.store, m.plain / "second", status=2, says="mount it once, unmount it")
    check(not (m.plain / "second").exists(), "nothing was made")
    m.start()
    m.stop()
    export(m.store, m.plain / "second")
    equal((m.plain / "second" / "open").read_bytes(), b"written" * 10_000, "after a mount it is there")


def scenario_full(m):
    """A full destination: it stops, leaves no part of a file under its name, and goes on when there is room."""
    if os.geteuid() != 0:
        raise Skip("only root mounts a small file system")
    for number in range(12):
        (m.root / f"f{number:02}").write_bytes(np.random.default_rng(number).bytes(1 << 20))
    m.stop()
    whole = m.plain / "whole"
    export(m.store, whole)
    wanted = tree(whole)
    small = m.plain / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=5m,mode=755", "tmpfs", small)
    try:
        done = export(m.store, small / "target", status=1, says="No space left on device")
        check("stopped: make room" in done.stderr and done.stderr.count("No space") <= 16, "it stops")
        check(0 < no_partial_files(small / "target", wanted) < 12, "some are there, and whole")
        run("mount", "-o", "remount,size=40m", small)
        export(m.store, small / "target", says=" 0 failed")
        same_tree(tree(small / "target"), wanted, "then all")
    finally:
        run("umount", "-l", small)


def scenario_mistakes(m):
    """What cannot be meant is refused with a sentence, before anything is written."""
    (m.root / "a").write_text("a\n")
    run(mounted.BINARY, "snapshot", "create", m.root, "s")
    target = m.plain / "target"
    for source, place, says in (
        (m.root, target, f"is mounted on {m.root}"),
        (m.store, target, f"is mounted on {m.root}"),
        (f"{m.root}@t", target, "no snapshot t"),
        (f"{m.plain}@s", target, "no store"),
        (m.plain, target, "no store"),
        (f"{m.root}@s", m.root / "sub", "where the store itself is mounted"),
        (f"{m.root}@s", m.store / "sub", "inside the store"),
        (f"{m.store}@s", m.store / "snapshots" / "s", "inside the store"),
        (f"{m.root}@s", m.folder, "lies inside"),
        (f"{m.root}@s", m.plain / "no" / "such", "cannot make"),
        (f"{m.root}@s", m.root / "a", "where the store itself is mounted"),
    ):
        export(source, place, status=2, says=says)
    check(not target.exists() and not (m.root / "sub").exists(), "nothing was made")
    (m.plain / "file").write_text("file\n")
    export(f"{m.root}@s", m.plain / "file", status=2, says="Not a directory")
    export(m.store / "snapshots" / "s", target, says="1 files written")
    (target / ".varve-unfinished").mkdir()
    folder = os.open(target / ".varve-unfinished", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    export(f"{m.root}@s", target, status=2, says="another transfer writes to")
    os.close(folder)
    check((target / ".varve-unfinished").exists(), "and is let be")
    export(m.root, m.plain / "x", "--jobs", "-1", status=2, says="--jobs")
    m.stop()
    at = pathlib.Path(str(m.store) + "@home")
    os.rename(m.store, at)
    export(at, target, says="1 were there")
    os.rename(at, m.store)


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
