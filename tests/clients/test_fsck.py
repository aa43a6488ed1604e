#!/usr/bin/python3
"""varve fsck on the stores of real mounts: what programs and kills leave is clean, what is damaged by hand is found.

VARVE_FSCK_KILLS and VARVE_FSCK_SEED choose the kills of scenario killed; VARVE_FSCK_KEEP names a folder that gets the
store that a check has failed on."""

import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

import h5py
import mounted
import numpy as np
from mounted import check, equal, run, shell
from test_hdf5 import smooth


def fsck(m, *options, status=0):
    done = run(mounted.BINARY, "fsck", *options, m.store, status=None, timeout=300)
    if done.returncode != status:
        if keep := os.environ.get("VARVE_FSCK_KEEP"):
            shutil.copytree(m.store, pathlib.Path(keep) / f"store-{time.time_ns()}")
        raise mounted.Failure(f"fsck {' '.join(options)} ended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
    return done.stdout


def files_of(store):
    """Path: (size, time, digest) of each file of a store."""
    found = {}
    for path in sorted(pathlib.Path(store).rglob("*")):
        if path.is_file():
            found[str(path)] = (path.stat().st_size, path.stat().st_mtime_ns, hashlib.md5(path.read_bytes()).hexdigest())
    return found


def fill(m):
    """Arrays and plain files, links of both kinds, attributes, a sparse file, rewritten parts, copies."""
    root = m.root
    m.bound("rel:1e-3")
    x = smooth()
    for name in ("a", "b", "c"):
        (root / name).mkdir()
    for n in range(4):
        np.save(root / "a" / f"x{n}.npy", x + n)
        np.save(root / "b" / f"tiny{n}.npy", np.arange(n * 7, dtype="i4"))
        (root / "b" / f"text{n}").write_text(f"{n}\n" * 5000 * n)
    with h5py.File(root / "a" / "chunks.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(7,) * x.ndim)
        file.create_dataset("ints", data=np.arange(100_000).reshape(100, 1000))
        file.create_dataset("bytes", data=np.frombuffer(os.urandom(300_000), "u1"))
        file["scalar"] = 3.5
        file["empty"] = np.zeros((0, 4))
    run(mounted.BINARY, "sync", root)
    with h5py.File(root / "a" / "chunks.h5", "r+") as file:
        file["x"][(slice(1, 3),) * x.ndim] = 17
        file["ints"][5, 5:50] = -1
    with open(root / "b" / "text3", "r+b") as file:
        file.seek(5000)
        file.write(b"rewritten")
    os.truncate(root / "b" / "text2", 777)
    os.link(root / "b" / "text1", root / "c" / "another")
    os.link(root / "b" / "text1", root / "b" / "third")
    os.symlink("../b/text1", root / "c" / "symbolic")
    os.mkfifo(root / "c" / "pipe")
    shutil.copy(root / "a" / "x1.npy", root / "c" / "copy.npy")
    run("cp", "--reflink=auto", root / "a" / "x2.npy", root / "c" / "clone.npy")
    os.setxattr(root / "b" / "text1", "user.note", b"n" * 1000)
    os.rename(root / "a" / "x3.npy", root / "a" / "x0.npy")
    os.rename(root / "b", root / "c" / "b")
    os.unlink(root / "c" / "b" / "text0")
    with open(root / "sparse", "wb") as file:
        file.truncate(50_000_000)
        file.seek(30_000_000)
        file.write(b"middle" * 1000)
    with open(root / "removed while open", "wb") as file:
        file.write(os.urandom(300_000))
        os.unlink(root / "removed while open")
        file.write(b"more")
    for n in range(300):
        (root / "c" / f"many{n}").write_bytes(bytes([n % 256]) * n)
    for n in range(0, 300, 3):
        os.unlink(root / "c" / f"many{n}")


def scenario_clean(m):
    """A store after heavy mixed use is clean, and looking at it changes nothing."""
    fill(m)
    m.stop()
    before = files_of(m.store)
    found = json.loads(fsck(m, "--json", "-v"))
    check(found["clean"] and found["files"] > 200 and found["records"] > 50, f"clean: {fsck(m).strip()}")
    equal(files_of(m.store), before, "no byte of the store changed")
    fsck(m, "--repair")
    m.start()
    for name in ("x0.npy", "x1.npy"):
        np.load(m.root / "a" / name)
    m.restart("-o", "ro")
    done = run(mounted.BINARY, "fsck", m.store, status=0)
    check("clean" in done.stdout, "while it is mounted for reading, it can be looked at")
    m.restart()


def scenario_in_use(m):
    """A mounted store is refused, and the message names the process; so is what is no store."""
    for options in ((), ("--repair",)):
        done = run(mounted.BINARY, "fsck", *options, m.store, status=2)
        check(str(m.process.pid) in done.stderr, done.stderr.strip())
    done = run(mounted.BINARY, "fsck", m.plain, status=2)
    check(str(m.plain) in done.stderr, done.stderr.strip())
    run(mounted.BINARY, "fsck", status=2)
    done = run(mounted.BINARY, "fsck", "--help")
    check("--repair" in done.stdout, "--help tells of --repair")


BUSY = """
import os, random, sys
import numpy as np
root, seed = sys.argv[1], int(sys.argv[2])
r = random.Random(seed)
os.makedirs(f"{root}/{seed}", exist_ok=True)
kept = []
while True:
    n = r.randrange(40)
    path, other = (f"{root}/{seed}/{r.randrange(40)}" for _ in range(2))
    try:
        kind = r.randrange(12)
        if kind < 3:
            with open(path, "wb") as f:
                np.save(f, np.cumsum(np.random.default_rng(n).standard_normal((r.choice([3, 40, 130]), 300)), axis=1))
        elif kind < 5:
            with open(path, "wb") as f:
                f.write(os.urandom(r.choice([0, 10, 5000, 200_000])))
                if r.random() < 0.5:
                    f.flush()
                    os.fsync(f.fileno())
        elif kind == 5:
            with open(path, "r+b") as f:
                f.seek(r.randrange(100_000))
                f.write(b"changed" * r.randrange(200))
                if r.random() < 0.5:
                    os.chmod(path, r.choice([0o600, 0o644]))
        elif kind == 6:
            os.rename(path, other)
        elif kind == 7:
            os.link(path, other)
        elif kind == 8:
            os.truncate(path, r.randrange(300_000))
        elif kind == 9:
            kept = kept[-3:] + [open(path, "r+b")]
            kept[-1].write(b"x" * r.choice([10, 100_000]))
            os.unlink(path)
        elif kind == 10:
            os.makedirs(f"{path}.d/e", exist_ok=True)
            os.rename(f"{path}.d", f"{other}.d")
        else:
            os.setxattr(path, "user.n", os.urandom(20))
            with open(path, "ab") as f:
                f.write(b"appended" * r.randrange(3000))
                os.rename(path, other)
                os.utime(other)
    except FileNotFoundError: pass
    except FileExistsError: pass
    except OSError as error:
        if error.errno == 107 or error.errno == 103: sys.exit(0)
        if error.errno not in (39, 21, 20): raise
"""


def read_all(m):
    """Every file can be read to its size."""
    for path in m.root.rglob("*"):
        if ".varve" not in path.parts and path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if len(content) != path.stat().st_size:
                raise mounted.Failure(f"{path}: {len(content)} bytes, and its size is {path.stat().st_size}")


def scenario_killed(m):
    """kill -9 at random moments under mixed load: clean by fsck before and after the recovery, every file readable."""
    kills = int(os.environ.get("VARVE_FSCK_KILLS", "12"))
    base = int(os.environ.get("VARVE_FSCK_SEED", "1"))
    notes = 0
    for turn in range(kills):
        workers = [
            subprocess.Popen([mounted.PYTHON, "-c", BUSY, m.root, str(base * 1000 + turn * 2 + k)], stderr=subprocess.DEVNULL)
            for k in range(2)
        ]
        time.sleep(0.6 + random.random())
        m.kill()
        for worker in workers:
            worker.kill()
            worker.wait()
        found = json.loads(fsck(m, "--json"))
        notes += found["harmless"]
        if turn % 3 == 1:
            fsck(m, "--repair")
        m.start()
        read_all(m)
        m.stop()
        fsck(m)
        m.start()
    check(True, f"{kills} kills (seed {base}): clean each time; {notes} things left for the next mount")


def scenario_size_not_ahead(m):
    """A file that grew in memory, was given new attributes and lost its daemon: its size is that of its content."""
    sealed, new = m.root / "sealed", m.root / "new"
    sealed.write_bytes(b"s" * 10_000)
    run(mounted.BINARY, "sync", m.root)
    grown = open(sealed, "ab", buffering=0)
    grown.write(b"more" * 1000)
    os.chmod(sealed, 0o640)
    os.link(sealed, m.root / "linked")
    fresh = open(new, "wb", buffering=0)
    fresh.write(b"new" * 1000)
    os.rename(new, m.root / "renamed")
    equal((os.stat(sealed).st_size, os.stat(m.root / "renamed").st_size), (14_000, 3000), "sizes while they are open")
    m.kill()
    for file in (grown, fresh):
        try:
            file.close()
        except OSError:
            pass
    fsck(m)
    m.start()
    equal(sealed.read_bytes(), b"s" * 10_000, "the sealed content can be read, and nothing beyond it")
    equal(os.stat(sealed).st_mode & 0o777, 0o640, "its mode")
    equal((m.root / "linked").stat().st_nlink, 2, "its links")
    read_all(m)


def flip(path, offset, count=1):
    with open(path, "r+b") as file:
        file.seek(offset)
        bytes_there = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 0x5A for byte in bytes_there))


def scenario_damaged_pack(m):
    """Headers and ends of packs: the file that holds the record is named; the rest is clean."""
    x = smooth()
    for n in range(3):
        (m.root / f"f{n}").write_bytes(random.Random(n).randbytes(500_000))
    m.stop()
    pack = next((m.store / "packs").iterdir())
    content = pack.read_bytes()
    second = content.index(b"VREC", 100)
    flip(pack, second + 20)
    found = json.loads(fsck(m, "--json", status=1))
    equal([(f["kind"], f["state"]) for f in found["findings"]], [("record", "left")], "one file has a damaged record")
    check(found["findings"][0]["where"].startswith("/f"), found["findings"][0]["where"] + ": " + found["findings"][0]["what"])
    equal(json.loads(fsck(m, "--json", "--repair", status=1))["left"], 1, "no repair is invented for it")
    flip(pack, second + 20)
    fsck(m)
    os.truncate(pack, len(content) - 1000)
    check("/f2" in fsck(m, status=1), "a pack that lost its end")
    pack.unlink()
    found = fsck(m, status=1)
    check(all(f"/f{n} " in found for n in range(3)) and "missing" in found, "a pack that is gone")
    pack.write_bytes(content)
    fsck(m)
    # What cannot be repaired can be removed.
    pack.unlink()
    m.start()
    for n in range(3):
        os.unlink(m.root / f"f{n}")
    m.stop()
    fsck(m)
    m.start()


def scenario_damaged_table(m):
    """Flipped bytes of a table: fsck names it and what can be read of it, and repairs nothing."""
    for n in range(400):
        (m.root / f"small{n}").write_bytes(os.urandom(1500))
    m.stop()
    tables = sorted((m.store / "db").glob("*.sst"), key=lambda path: path.stat().st_size)
    check(len(tables) > 3, f"{len(tables)} tables")
    largest = tables[-1]
    for offset in (100, largest.stat().st_size // 2, largest.stat().st_size - 10):
        flip(largest, offset, 4)
        before = files_of(m.store)
        for options in ((), ("--repair",)):
            found = json.loads(fsck(m, "--json", *options, status=1))
            equal([f["kind"] for f in found["findings"]], ["table"], "one table is damaged")
            equal(found["findings"][0]["where"], str(largest), found["findings"][0]["what"])
            check("copy" in found["findings"][0]["remedy"], "it says what to do")
        after = files_of(m.store)
        before.pop(str(m.store / "LOCK"), None)
        after.pop(str(m.store / "LOCK"), None)
        equal(after, before, "nothing was written, with --repair either")
        flip(largest, offset, 4)
    fsck(m)
    current = m.store / "db" / "CURRENT"
    text = current.read_bytes()
    current.write_bytes(b"MANIFEST-9\n")
    found = fsck(m, status=1)
    check("db" in found and "copy" in found, found.splitlines()[0])
    current.write_bytes(text)
    m.start()


def scenario_damaged_log(m):
    """A byte of the database's log changes after a kill: reported, and nothing is repaired before the loss is accepted."""
    for n in range(30):
        (m.root / f"small{n}").write_bytes(bytes([n]) * 3000)
    run(mounted.BINARY, "sync", m.root)
    m.kill()
    fsck(m)
    log = max((m.store / "db").glob("*.log"), key=lambda path: path.stat().st_size)
    flip(log, log.stat().st_size // 2)
    before = files_of(m.store)
    for options in ((), ("--repair",)):
        found = json.loads(fsck(m, "--json", *options, status=1))
        equal([f["kind"] for f in found["findings"]], ["log"], found["findings"][0]["what"])
    after = files_of(m.store)
    for files in (before, after):
        files.pop(str(m.store / "LOCK"))
    equal(after, before, "nothing was written, with --repair either")
    m.start("--accept-loss")
    m.stop()
    fsck(m)
    m.start()


def scenario_staging(m):
    """Staged data by hand: a lost staging file, and one of nobody."""
    (m.root / "f").write_bytes(b"f" * 400_000)
    run(mounted.BINARY, "sync", m.root)
    file = open(m.root / "f", "r+b", buffering=0)
    file.seek(200_000)
    file.write(b"staged" * 50_000)
    os.fsync(file.fileno())
    m.kill()
    try:
        file.close()
    except OSError:
        pass
    staged = list((m.store / "staging").iterdir())
    equal(len(staged), 1, "one file is staged")
    (m.store / "staging" / "00000000000000ff").write_bytes(b"of nobody")
    check("staged" in fsck(m, "-v"), "clean: the next mount seals it")
    shutil.copytree(m.store, m.folder / "copy")
    staged[0].unlink()
    found = fsck(m, status=1)
    check("/f: its staged data is lost" in found, found.splitlines()[0])
    check("repaired" in fsck(m, "--repair"), "repaired")
    fsck(m)
    m.start()
    equal((m.root / "f").read_bytes(), b"f" * 400_000, "the file has its last sealed content")
    m.stop()
    shutil.rmtree(m.store)
    (m.folder / "copy").rename(m.store)
    m.start()
    equal((m.root / "f").read_bytes()[200_000:200_006], b"staged", "with its staging file, it has what was synced")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
