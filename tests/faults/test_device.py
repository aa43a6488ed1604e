#!/usr/bin/python3
"""The seam below compression, on a real mount: what the drive does to the store is detected, and hits nothing else."""

import json
import os
import shutil
import signal

from faulty import Faults, attempt, mounted, noise, schedule  # isort: skip: it finds mounted
import numpy as np
from mounted import Failure, check, equal, run

PIECE = 16_384
SIZE = 3 << 20


def piece(descriptor, at):
    """A piece of a file, however many reads it takes: one that meets a bad page ends before it."""
    found = b""
    while len(found) < PIECE and (part := os.pread(descriptor, PIECE - len(found), at + len(found))):
        found += part
    return found


def pieces(path):
    with open(path, "rb", buffering=0) as file:
        return [attempt(lambda: piece(file.fileno(), at)) for at in range(0, os.path.getsize(path), PIECE)]


def judged(path, content):
    """How many pieces are right, and how many give EIO; anything else is a failure."""
    found = pieces(path)
    wrong = [n for n, piece in enumerate(found) if piece not in ("EIO", content[n * PIECE : (n + 1) * PIECE])]
    if wrong or len(found) != -(-len(content) // PIECE):
        raise Failure(f"{path.name}: pieces {wrong[:5]} of {len(found)} are silently wrong")
    return len(found) - found.count("EIO"), found.count("EIO")


def device(model, **more):
    return {"seam": "device", "model": model, **more}


def scenario_packs(m):
    """Whatever a write to a pack suffers: the records that it touched give EIO, no byte is wrong, other files are whole."""
    faults = Faults(m)
    other = noise("other", 500_000)
    (m.root / "other").write_bytes(other)
    run(mounted.BINARY, "sync", m.root)
    models = {
        "bit_flip": {}, "byte_corrupt": {"count": 8}, "zero_block": {}, "shorn_write": {}, "torn_write": {},
        "dropped_write": {}, "misdirected_write": {"distance": 40_960}, "stuck_page": {"rest": "fill"},
    }
    for number, (model, more) in enumerate(models.items()):
        content = noise(model, SIZE)
        faults.arm(device(model, kind="pack", nth=4, **more))
        (m.root / model).write_bytes(content)
        run(mounted.BINARY, "sync", m.root)
        entries = faults.journal()
        faults.disarm()
        right, bad = judged(m.root / model, content)
        check(entries and all(entry["path"].startswith("packs/") for entry in entries), f"{model}: hit a pack")
        check(bad > 0, f"{model}: {bad} pieces give EIO, {right} are right")
        check(right > bad, "most of the file is whole")
        equal((m.root / "other").read_bytes(), other, "another file is whole")
        os.unlink(m.root / model)


def scenario_staging(m):
    """Whatever a write to staging suffers: the program or varve sync is told, no byte is wrong, and rewriting the file mends it."""
    faults = Faults(m)
    other = noise("other", 500_000)
    (m.root / "other").write_bytes(other)
    models = {
        "bit_flip": {}, "byte_corrupt": {"count": 8}, "zero_block": {}, "shorn_write": {}, "torn_write": {},
        "dropped_write": {}, "misdirected_write": {"distance": 40_960}, "stuck_page": {"rest": "fill"},
    }
    for number, (model, more) in enumerate(models.items()):
        content = noise(model, SIZE)
        faults.arm(device(model, kind="staging", nth=2, **more))
        told = attempt(lambda: (m.root / model).write_bytes(content))
        done = run(mounted.BINARY, "sync", m.root, status=None)
        entries = faults.journal()
        faults.disarm()
        right, bad = judged(m.root / model, content)
        check(entries and all(entry["path"].startswith("staging/") for entry in entries), f"{model}: hit staging")
        check(bad > 0 and right > bad, f"{model}: {bad} pieces give EIO, {right} are right")
        check(told == "EIO" or (done.returncode == 2 and model in done.stderr), f"{model}: {told} {done.stderr.strip()}")
        equal((m.root / "other").read_bytes(), other, "another file is whole")
        (m.root / model).write_bytes(content)
        run(mounted.BINARY, "sync", m.root)
        equal((m.root / model).read_bytes(), content, f"{model}: written again, it is whole")


def scenario_unsealed(m):
    """What the daemon found damaged in staging stays damaged for the next one, after unmounts and kills; unmounting tells of it, and nobody's output stays open."""
    faults = Faults(m)
    models = {"bit_flip": {}, "shorn_write": {"kept": 0.375}, "dropped_write": {}, "zero_block": {}}
    for number, (model, more) in enumerate(models.items()):
        content = noise(model, SIZE)
        faults.arm(device(model, kind="staging", nth=2, **more))
        attempt(lambda: (m.root / model).write_bytes(content))
        run(mounted.BINARY, "sync", m.root, status=None)
        hit = len(faults.journal())
        faults.disarm()
        check(hit > 0 and attempt((m.root / model).read_bytes) == "EIO", f"{model}: the daemon finds it out")
        if number % 2 == 0:
            done = run(mounted.BINARY, "umount", m.root)
            check("could not be sealed" in done.stderr, f"unmounting tells: {done.stderr.strip()}")
            equal(m.process.wait(timeout=30), 0, "the daemon's exit status")
            mounted._live.remove(m)
            run(mounted.BINARY, "mount", m.store, m.root, timeout=60)  # its output ends though it recovers staged data
            judged(m.root / model, content)
            run(mounted.BINARY, "umount", m.root)
        else:
            m.kill()
        m.start()
        right, bad = judged(m.root / model, content)
        check(bad > 0, f"{model}: after the next start {bad} pieces give EIO, {right} are right, none is wrong")
        (m.root / model).write_bytes(content)
        run(mounted.BINARY, "sync", m.root)
        equal((m.root / model).read_bytes(), content, "written again, it is whole")


def scenario_reads(m):
    """Bad reads of packs are never believed; what was read badly reads well the next time."""
    faults = Faults(m)
    content = noise("reads", SIZE)
    (m.root / "x").write_bytes(content)
    run(mounted.BINARY, "sync", m.root)
    whole = (SIZE // PIECE, 0)
    for model in ("bit_flip", "misdirected_read", "errno", "byte_corrupt"):
        faults.arm(device(model, operation="read", kind="pack", nth=3))
        judged(m.root / "x", content)  # the kernel's read-ahead may ask again, and then it is right
        equal(len(faults.journal()), 1, f"{model}: one read was bad, and no byte that came out is wrong")
        faults.arm(device(model, operation="read", kind="pack"))
        equal(judged(m.root / "x", content), (0, SIZE // PIECE), "every read bad: every piece gives EIO")
        faults.disarm()
        equal(judged(m.root / "x", content), whole, "without the fault all is right again")
    faults.arm(device("latent_sector_error", operation="read", kind="pack", nth=3))
    right, bad = judged(m.root / "x", content)
    check(right > bad > 0, f"a bad sector: {bad} pieces give EIO, {right} are right")
    for model, more in (("short_read", {"bytes": 100}), ("delay", {"milliseconds": 1})):
        faults.arm(device(model, operation="read", kind="pack", every=2, **more))
        equal(judged(m.root / "x", content), whole, f"{model}: all is right")
        check(len(faults.journal()) > 2, "though it happened")
    faults.disarm()


def scenario_levels(m):
    """A record's level is a target."""
    faults = Faults(m)
    m.bound("rel:1e-4")
    x = np.linspace(0, 9, 128, dtype="f4")
    field = np.sin(x)[:, None, None] * np.cos(x)[None, :, None] + np.random.default_rng(1).random((128, 128, 128), "f4") / 50
    np.save(m.plain / "field.npy", field)
    for level, hits in ((0, True), (1, True), (40, False)):
        faults.arm(device("bit_flip", kind="pack", level=level, limit=1))
        run("cp", m.plain / "field.npy", m.root / f"{level}.npy")
        run(mounted.BINARY, "sync", m.root)
        equal(len(faults.journal()), 1 if hits else 0, f"level {level}")
        faults.disarm()
        failed = "EIO" in pieces(m.root / f"{level}.npy")
        equal(failed, hits, "a read finds it")
    for target, hits in (({"brick": 1}, True), ({"brick": 1 << 40}, False), ({"object": 1 << 40}, False)):
        faults.arm(device("count", kind="pack", level=1, **target))
        run("cp", m.plain / "field.npy", m.root / "brick.npy")
        run(mounted.BINARY, "sync", m.root)
        (counted,) = faults.status()["faults"]
        faults.disarm()
        equal(counted["matched"], 1 if hits else 0, f"records of level 1 with {target}")


def scenario_power(m):
    """Power cuts below the store, at many moments: what fsync returned for is there on the next mount."""
    faults = Faults(m)
    for number, nth in enumerate((2, 5, 9, 14, 20, 33)):
        folder = m.root / str(number)
        faults.arm(device("power_cut", nth=nth, operation=["write", "fsync"], lost="random" if number % 2 else "all", any_order=True))
        synced = {}
        try:
            folder.mkdir()
            for count in range(20):
                content = noise(f"{number}/{count}", 30_000 * (count % 5 + 1))
                with open(folder / str(count), "wb", buffering=0) as file:
                    file.write(content)
                    os.fsync(file.fileno())
                synced[count] = content
        except OSError:
            pass
        # RocksDB with assertions, as Debian builds it, may abort over the failed write before the kill comes.
        check(m.process.wait(timeout=30) in (-signal.SIGKILL, -signal.SIGABRT),
              f"power is cut at operation {nth}; {len(synced)} files are synced")
        mounted._live.remove(m)
        m.process = None
        m.start()
        for count, content in synced.items():
            equal((folder / str(count)).read_bytes(), content, "a synced file is there")


def scenario_full(m):
    """A full or failing drive: programs get the errno, the daemon lives, and works again when the drive does."""
    faults = Faults(m)
    for rule, code in ((device("enospc_at", kind=["pack", "staging"], bytes=1_000_000), "ENOSPC"),
                       (device("errno", errno="EIO", kind=["pack", "staging"], operation="write"), "EIO")):
        faults.arm(rule)
        said = []
        with open(m.root / "big", "wb", buffering=0) as file:
            for _ in range(12):
                said.append(attempt(lambda: file.write(noise("big", 300_000))))
        check(code in said, f"write(2) gives {code}")
        check(m.alive(), "the mount lives")
        faults.disarm()
        content = noise("again", 1_000_000)
        attempt(lambda: (m.root / "big").write_bytes(content))  # a seal that failed under the fault is told once
        (m.root / "big").write_bytes(content)
        run(mounted.BINARY, "sync", m.root)
        check((m.root / "big").read_bytes() == content, "afterwards all works")


def scenario_opening(m):
    """Faults while a store is opened: the mount says what is wrong and leaves nothing, or serves what is right."""
    content = noise("opening", 400_000)
    (m.root / "x").write_bytes(content)
    m.stop()
    path = m.folder / "schedule.toml"
    for rule, opens in ((device("errno", operation="read", kind="manifest"), False),
                        (device("bit_flip", operation="read", kind="manifest", count=64, scattered=True), False),
                        (device("delay", operation="read", milliseconds=1), True),
                        (device("short_read", operation="read", bytes=3, every=2), True)):
        path.write_text(schedule(rule))
        if opens:
            m.start("--faults", path)
            equal((m.root / "x").read_bytes(), content, f"{rule['model']}: it opens and reads")
            check(len(Faults(m).journal()) > 0, "though it happened")
            m.stop()
        else:
            done = run(mounted.BINARY, "mount", "-f", "--faults", path, m.store, m.root, status=2, timeout=60)
            check(not os.path.ismount(m.root) and len(done.stderr) > 40, f"{rule['model']}: {done.stderr.splitlines()[-1]}")
    m.start()
    equal((m.root / "x").read_bytes(), content, "afterwards all is there")
    done = run(mounted.BINARY, "mount", "-f", "--no-faults", "--faults", path, m.store, m.root, status=2)
    check("contradict" in done.stderr, "with --no-faults it is refused")


def looked_at(root, names, content):
    """How many names of a folder are listed and how many of their files read right: all of them, or errors; else a failure."""
    try:
        listed = sorted(os.listdir(root))
    except OSError:
        return "not listed", 0
    if listed != sorted(names):
        raise Failure(f"{len(listed)} of {len(names)} names are listed, without an error")
    said = [attempt(lambda: (root / name).read_bytes()) for name in names]
    wrong = [(name, one) for name, one in zip(names, said) if one not in ("EIO", content(name))]
    if wrong:
        raise Failure(f"{len(wrong)} of {len(names)} files are silently wrong, the first is {wrong[0]}")
    return "listed", sum(one != "EIO" for one in said)


TABLE_MODELS = {"bit_flip": {"count": 2}, "byte_corrupt": {"count": 8}, "zero_block": {"size": 512}, "shorn_write": {"kept": 0.375}, "torn_write": {"cut": "byte"},
                "dropped_write": {}, "misdirected_write": {"distance": 512}, "stuck_page": {}}


def scenario_tables(m):
    """What the index's tables and their list suffer in an unmount: the next mount is refused, or nothing is wrong but for errors."""
    names = [f"name-{n:03}" for n in range(120)]

    def content(name):
        return noise(name, 500)

    m.stop()
    outcomes = {}
    for kind, count in (("table", 5), ("manifest", 10)):
        for number, (model, more) in enumerate(TABLE_MODELS.items()):
            nth = 1 + (3 * number + 1) % count
            shutil.rmtree(m.store)
            m.start()
            for name in names:
                (m.root / name).write_bytes(content(name))
            run(mounted.BINARY, "sync", m.root)
            Faults(m).arm(device(model, kind=kind, nth=nth, **more))
            run(mounted.BINARY, "umount", m.root, status=None)
            ended = m.process.wait(timeout=30)
            mounted._live.remove(m)
            m.process = None
            lines = [json.loads(line) for line in (m.store / "faults.jsonl").read_text().splitlines()]
            hits = [line for line in lines if "effect" in line]
            check(hits and all(line["path"].startswith("db/") for line in hits), f"{model}, {kind} {nth}: hit {hits[0]['path'] if hits else 'nothing'}")
            if ended == -signal.SIGABRT:  # RocksDB with assertions, as Debian builds it, looks at a table before its checksum
                outcomes[kind, model] = "aborted"
            else:
                equal(ended, 0, "the daemon ends")
                equal((lines[-1]["injections"], lines[-1]["faults"][0]["name"]), (len(hits), model + "-1"), "the journal's last line counts what the unmount did")
            done = run(mounted.BINARY, "mount", m.store, m.root, status=None, timeout=60)
            if done.returncode != 0:
                check("index database" in done.stderr and "copy" in done.stderr, f"the mount is refused: {done.stderr.strip()[-300:]}")
                outcomes[kind, model] = "refused"
            else:
                state = looked_at(m.root, names, content)
                outcomes[kind, model] = outcomes.get((kind, model), state)
                run(mounted.BINARY, "umount", m.root, status=None)
    print(f"  {outcomes}")
    check("refused" in [outcomes["manifest", model] for model in ("dropped_write", "bit_flip")], "a manifest that lacks a part is not believed")
    check(any(value != ("listed", len(names)) for (kind, _), value in outcomes.items() if kind == "table"), "some damaged table was found")


def scenario_kinds(m):
    """Log, manifest, tables and staging are targets of their own: a fault there hits a file of that kind."""
    faults = Faults(m)
    for kind, start in (("wal", "db/"), ("staging", "staging/")):
        faults.arm(device("delay", kind=kind, limit=1, milliseconds=1))
        content = noise(kind, 400_000)
        (m.root / kind).write_bytes(content)
        run(mounted.BINARY, "sync", m.root)
        entries = faults.journal()
        faults.disarm()
        check(entries and entries[0]["path"].startswith(start), f"{kind}: {entries[0]['path'] if entries else 'nothing'}")
        equal((m.root / kind).read_bytes(), content, "a late write changes nothing")
    faults.arm(device("delay", kind="table", limit=1, milliseconds=1))
    (m.root / "small").write_bytes(b"data")
    m.stop()  # writes what RocksDB has in memory into tables
    last = [line for line in map(json.loads, (m.store / "faults.jsonl").read_text().splitlines()) if "effect" in line][-1]
    check(last["path"].startswith("db/") and last["path"].endswith(".sst"), f"table: {last['path']}")
    path = m.folder / "schedule.toml"
    path.write_text(schedule(device("delay", kind="manifest", limit=1, milliseconds=1)))
    m.start("--faults", path)
    (entry,) = faults.journal()
    check(entry["path"].startswith("db/MANIFEST-"), f"manifest, while the store is opened: {entry['path']}")
    equal((m.root / "small").read_bytes(), b"data", "nothing is lost")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
