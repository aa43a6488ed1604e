#!/usr/bin/python3
"""varve scrub: what a drive changed is named, nothing else is, on a mount and on a store."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import h5py
import mounted
import numpy as np
from mounted import check, equal, run
from test_hdf5 import smooth


def fill(m):
    """Arrays, lossy and exact, bytes, copies, small and empty files, in folders."""
    m.bound("rel:1e-3")
    np.save(m.root / "a.npy", smooth((96, 80, 70)))
    (m.root / "deep" / "er").mkdir(parents=True)
    with h5py.File(m.root / "deep" / "er" / "b.h5", "w") as file:
        file["density"] = smooth((70, 70, 70), seed=1)
        file["counts"] = np.arange(50_000, dtype="i4").reshape(250, 200)
    (m.root / "bytes").write_bytes(random.Random(5).randbytes(700_000))
    (m.root / "empty").touch()
    (m.root / "text").write_text("some text\n" * 50)
    run(mounted.BINARY, "sync", m.root)
    run("cp", m.root / "a.npy", m.root / "deep" / "copy.npy")
    run(mounted.BINARY, "sync", m.root)


def scrubbed(*arguments, status=0):
    return json.loads(run(mounted.BINARY, "scrub", "--json", *arguments, status=status).stdout)


def files_in_error(root):
    """Paths, as scrub gives them, of files that cannot be read in whole."""
    bad = set()
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                with open(path, "rb") as file:
                    while file.read(1 << 20):
                        pass
            except OSError:
                bad.add("/" + os.path.relpath(path, root))
    return bad


def scenario_whole(m):
    """Everything is read once, on a mount and on a store; shared records once for all."""
    fill(m)
    online = scrubbed(m.root)
    equal((online["state"], online["files"], online["damage"]), ("done", 6, []), "a mount: all files, no damage")
    m.stop()
    offline = scrubbed(m.store)
    equal([offline[k] for k in ("files", "records", "bytes")], [online[k] for k in ("files", "records", "bytes")], "a store: the same")
    check(offline["records"] > 10 and offline["bytes"] > 700_000, f"{offline['records']} records, {offline['bytes']} bytes")
    text = run(mounted.BINARY, "scrub", m.store).stdout
    check("no damage" in text, text.strip())


def scenario_damaged(m):
    """A byte of a pack is changed, at many places in turn: scrub names those files that reading finds bad, and no others."""
    fill(m)
    m.stop()
    packs = sorted((m.store / "packs").iterdir())
    places = random.Random(3)
    hits = 0
    for turn in range(12):
        pack = places.choice(packs)
        offset = places.randrange(pack.stat().st_size)
        with open(pack, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ (1 << places.randrange(8))]))
        found = scrubbed(m.store, status=None)
        named = {one["path"] for one in found["damage"]}
        m.start()
        online = scrubbed(m.root, status=None)
        equal(online["damage"], found["damage"], f"byte {offset} of {pack.name}: the mount's scrub says the same")
        equal(named, files_in_error(m.root), f"named are the files that cannot be read: {sorted(named)}")
        for one in found["damage"]:
            check(one["part"].startswith(("array ", "bytes ")) and len(one["reason"]) > 20, f"{one['part']}: {one['reason'][:60]}")
        hits += bool(named)
        m.stop()
        with open(pack, "r+b") as file:
            file.seek(offset)
            file.write(bytes([byte]))
    equal(scrubbed(m.store)["damage"], [], "with the bytes put back, all is whole")
    check(hits >= 6, f"{hits} of 12 bytes were of a record")


def coarse_records(store):
    """Places of the first bytes of coarse records and of their copies: level, pack, offset."""
    found = []
    for pack in sorted((store / "packs").iterdir()):
        data = pack.read_bytes()
        at = data.find(b"VREC")
        while at >= 0:
            level = data[at + 6]
            if level >= 3 and int.from_bytes(data[at + 8:at + 12], "little") > 0:
                found.append((level, pack, at + 56))
            at = data.find(b"VREC", at + 4)
    return found


def flip(place):
    with open(place[1], "r+b") as file:
        file.seek(place[2] + 100)
        byte = file.read(1)[0]
        file.seek(place[2] + 100)
        file.write(bytes([byte ^ 4]))


def scenario_copies(m):
    """Coarse records of large arrays are there twice: either may be damaged, scrub writes it anew, both are EIO."""
    m.bound("rel:1e-5")
    data = smooth((128, 128, 128), seed=3)
    np.save(m.root / "a.npy", data)
    run(mounted.BINARY, "sync", m.root)
    run("cp", m.root / "a.npy", m.root / "copy.npy")
    seen = np.load(m.root / "a.npy")
    m.stop()
    by_level = {level: [place for place in coarse_records(m.store) if place[0] == level] for level in (3, 4)}
    equal([len(by_level[level]) for level in (3, 4)], [2, 2], "two tiles, each with a coarse record and a copy")
    for turn, level in enumerate((3, 4)):
        flip(by_level[level][turn])
        weak = scrubbed(m.store, status=1)
        equal([weak[k] for k in ("damage", "damaged_records", "repaired_records", "weak_records")], [[], 0, 0, 1],
              "a store that is not mounted: nothing is lost, and nothing is written")
        m.start()
        for name in ("a.npy", "copy.npy"):
            equal(np.load(m.root / name).tobytes(), seen.tobytes(), f"level {level} damaged: {name} reads as before")
        repaired = scrubbed(m.root)
        equal([repaired[k] for k in ("damage", "repaired_records", "weak_records")], [[], 1, 0], "the mount's scrub writes it anew")
        m.stop()
        m.start()
        equal(np.load(m.root / "a.npy").tobytes(), seen.tobytes(), "and it reads as before")
        again = scrubbed(m.root)
        equal([again[k] for k in ("damage", "repaired_records", "weak_records")], [[], 0, 0], "the next finds nothing")
        m.stop()
    equal(scrubbed(m.store)["damage"], [], "nor of the store")
    problems = run(mounted.BINARY, "fsck", m.store)
    check(problems.returncode == 0, "fsck is clean: " + problems.stdout.strip())
    by_level = {level: [place for place in coarse_records(m.store) if place[0] == level] for level in (3, 4)}
    for level in (3, 4):
        for place in by_level[level]:
            flip(place)
    lost = scrubbed(m.store, status=1)
    check(lost["damaged_records"] == 4 and len(lost["damage"]) == 8, f"both damaged: {lost['damaged_records']} records, of two files")
    m.start()
    equal(files_in_error(m.root), {"/a.npy", "/copy.npy"}, "both damaged: EIO")


def scenario_under_way(m):
    """At a low rate a scrub goes on beside other work, says how far it is, is alone, and can be stopped."""
    fill(m)
    with subprocess.Popen([mounted.BINARY, "scrub", "--rate", "200K", m.root], stderr=subprocess.PIPE, text=True) as slow:
        time.sleep(1)
        state = json.loads((m.root / ".varve" / "scrub").read_text())
        check(state["state"] == "running" and 0 < state["bytes"] < state["total_bytes"], f"{state['bytes']} bytes after a second")
        done = run(mounted.BINARY, "scrub", m.root, status=2)
        check("running already" in done.stderr, done.stderr.strip())
        np.save(m.root / "new.npy", smooth((40, 40, 40)))
        shutil.rmtree(m.root / "deep")
        slow.send_signal(signal.SIGINT)
        _, said = slow.communicate(timeout=20)
        equal(slow.returncode, 2, said.strip())
    equal(json.loads((m.root / ".varve" / "scrub").read_text())["state"], "stopped", "stopped")
    equal(scrubbed(m.root)["damage"], [], "what was removed and made meanwhile is no damage")
    done = run("sh", "-c", f"echo nonsense > {m.root}/.varve/scrub", status=None)
    equal(json.loads((m.root / ".varve" / "scrub").read_text())["state"], "done", f"nonsense changes nothing: {done.stderr.strip()}")
    (m.root / ".varve" / "scrub").write_text("start 100000")
    m.stop()
    check(True, "unmounting ends a scrub")


def scenario_wrong_use(m):
    """Neither a store nor a mount, an open store, a bad rate: sentences."""
    for arguments, said in (([m.plain], "neither a store"), ([m.store], "mounted"), (["--rate", "fast", m.root], "fast")):
        done = run(mounted.BINARY, "scrub", *arguments, status=2)
        check(said in done.stderr, done.stderr.strip())


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
