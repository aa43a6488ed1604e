#!/usr/bin/python3
"""Replays of journals: the same corruption to the same operations, and whether those were the same."""

import os

from faulty import OLD, WRITES, Faults, attempt, fill, mounted  # isort: skip: it finds mounted
from mounted import check, equal

REPLAYED = (  # models whose effects last, grow, or are drawn: (rules, do their injections change what stands in the file)
    ([{"model": "stale_read", "nth": 2}], False),
    ([{"model": "stuck_page", "nth": 1, "offset": [4100, 4101]}], True),
    ([{"model": "latent_sector_error", "nth": 1, "offset": [50_000, 50_001]}], False),
    ([{"model": "read_disturb", "growth": 1e-5}], False),
    ([{"model": "retention", "base_rate": 1e-3}], False),
    ([{"model": "torn_write", "nth": 1, "run": 3, "persist": [1]}], True),
    ([{"model": "torn_write", "cut": "byte", "parts": 5, "persist": [0, 2, 4], "every": 2}], True),
    ([{"model": "misdirected_write"}], True),
    ([{"model": "misdirected_read", "probability": 0.5}], False),
    ([{"model": "short_read", "probability": 0.5}], False),
    ([{"model": "short_write", "probability": 0.5}], True),
    ([{"model": "errno", "probability": 0.5, "operation": ["read", "write", "fsync"]}], True),
    ([{"model": "enospc_at", "bytes": 20_000}], True),
    ([{"model": "lost_sync"}, {"model": "power_cut", "nth": 7, "lost": "random", "any_order": True, "then": "continue"}], True),
    ([{"model": "unserializable_write", "nth": 2, "window": 2}, {"model": "bit_flip", "operation": "read", "every": 3}], None),
    ([{"model": "dead_device", "nth": 3, "errno": "ENODEV"}], True),
)


def watched(m):
    """Writes, fsyncs and reads of the victim alone, what each gave, and what stands in the file without faults."""
    said = []
    handle = attempt(lambda: os.open(m.root / "victim.bin", os.O_RDWR))
    for turn in range(2):
        for offset, data in WRITES[turn:]:
            said.append(attempt(lambda: os.pwrite(handle, data[turn:] + data[:turn], offset)))
            said.append(attempt(lambda: os.pread(handle, 20_000, offset)))
        said += [attempt(lambda: os.fsync(handle)), attempt(lambda: os.pread(handle, len(OLD), 0))]
    said.append(attempt(lambda: os.close(handle)))
    text = Faults(m).journal_text()
    Faults(m).disarm()
    return said, text, (m.root / "victim.bin").read_bytes()


def scenario_same(m):
    """What lasts, grows or was drawn is replayed as it was: the same results of every call, and the same bytes after it."""
    faults = Faults(m)
    fill(m.root)
    faults.arm({"model": "count"})
    healthy_said, _, healthy_bytes = watched(m)
    for rules, changes in REPLAYED:
        name = rules[0]["model"]
        fill(m.root)
        faults.arm(*({"path": "victim.bin", **rule} for rule in rules))
        said, text, found = watched(m)
        check((said, found) != (healthy_said, healthy_bytes), f"{name}: something is wrong")
        if changes is not None:
            equal(found != healthy_bytes, changes, f"{name}: in what is stored")
        equal((m.root / "bystander.bin").read_bytes(), OLD, f"{name}: not in the file beside it")
        fill(m.root)
        faults.tell("replay", text)
        again, _, found_again = watched(m)
        differing = [number for number, (a, b) in enumerate(zip(said, again)) if a != b]
        check(not differing, f"{name}: replayed, calls {differing} give something else")
        check(found_again == found, f"{name}: and the same bytes are stored")


def scenario_another_start(m):
    """A replay over other bytes than the journal's says so."""
    faults = Faults(m)
    path = m.root / "victim.bin"
    faults.arm({"model": "bit_flip", "path": "victim.bin"})
    path.write_bytes(b"abc" * 100)
    text = faults.journal_text()
    faults.disarm()
    for content, different in ((b"abc" * 100, 0), (b"xyz" * 100, 1), (b"x", 1)):
        path.unlink()
        faults.tell("replay", text)
        path.write_bytes(content)
        equal((faults.status()["injections"], faults.status()["replay_different"]), (1, different), f"{content[:3]}...")
        faults.disarm()


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
