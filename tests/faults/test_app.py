#!/usr/bin/python3
"""Every model at the seam that programs see, on a real mount: exactly the corruption asked for, and nothing else."""

import mmap
import os
import signal
import subprocess
import time

import faulty
import h5py
import mounted
import numpy as np
from faulty import HIT, LENGTH, NTH, OFFSET, OLD, WRITES, Faults, attempt, changed_bits, fill, healthy, twin, with_write, work
from mounted import Failure, check, equal, refused, run

DATA = WRITES[HIT][1]


def old(begin, end):
    return OLD[OFFSET + begin : OFFSET + end]


def bits_in(count, allowed):
    """A check: so many bits differ, each at a place that `allowed` accepts."""

    def holds(found, _):
        bits = changed_bits(found, twin())
        return len(bits) == count and all(OFFSET <= at < OFFSET + LENGTH and allowed(at, bit) for at, bit in bits)

    return holds


def adjacent(found, _):
    bits = [8 * at + bit for at, bit in changed_bits(found, twin())]
    return bits == list(range(bits[0], bits[0] + 3))


def sheared(keep, rest):
    stored = bytearray(DATA)
    for at in range(OFFSET, OFFSET + LENGTH):
        if at % 4096 >= keep:
            stored[at - OFFSET] = OLD[at] if rest == "old" else 0
    return with_write(stored)


def torn(found, entries):
    """One border at a multiple of 512; new bytes on one side of it, old ones on the other."""
    for border in range(OFFSET // 512 * 512 + 512, OFFSET + LENGTH, 512):
        cut = border - OFFSET
        if found in (with_write(DATA[:cut] + old(cut, LENGTH)), with_write(old(0, cut) + DATA[cut:])):
            return True
    return False


def zeroed(found, _):
    places = [at for at in range(len(found)) if found[at] != twin()[at]]
    start = places[0] // 512 * 512
    return 500 <= len(places) <= 512 and all(found[at] == 0xAA for at in range(max(start, OFFSET), min(start + 512, OFFSET + LENGTH)))


def moved(distance):
    content = twin()
    content[OFFSET : OFFSET + LENGTH] = OLD[OFFSET : OFFSET + LENGTH]
    last, data = WRITES[3]
    content[OFFSET + distance : OFFSET + distance + LENGTH] = DATA
    content[last : last + len(data)] = data
    return content


def in_a_row(found, bits, count):
    """So many bits of little-endian f32 elements differ, all of those allowed and with none of them between two."""
    places = sorted(8 * at + bit for at, bit in changed_bits(found, twin()))
    allowed = [place for place in range(places[0], places[-1] + 1) if place % 32 in bits]
    return len(places) == count and places == allowed


def steps_of(places):
    places = sorted(places)
    return [b - a for a, b in zip(places, places[1:])]


STORED = {  # name: (rule, the whole file expected or a check of it, results of the calls if they are not healthy)
    "one bit": ({"model": "bit_flip"}, bits_in(1, lambda at, bit: True)),
    "three bits in a row": ({"model": "bit_flip", "count": 3}, adjacent),
    "five bits anywhere": ({"model": "bit_flip", "count": 5, "scattered": True}, bits_in(5, lambda at, bit: True)),
    "an exponent's bit": (
        {"model": "bit_flip", "bits": "exponent", "element": "f32"},
        bits_in(1, lambda at, bit: (at % 4 == 3 and bit < 7) or (at % 4 == 2 and bit == 7)),
    ),
    "a mantissa's bit": (
        {"model": "bit_flip", "bits": "mantissa", "element": "f32"},
        bits_in(1, lambda at, bit: at % 4 < 2 or (at % 4 == 2 and bit < 7)),
    ),
    "a big-endian double's sign": (
        {"model": "bit_flip", "bits": "sign", "element": "f64", "big_endian": True},
        bits_in(1, lambda at, bit: at % 8 == 0 and bit == 7),
    ),
    "a sign where elements begin at byte 2": (
        {"model": "bit_flip", "bits": "sign", "element": "f32", "element_base": 2}, bits_in(1, lambda at, bit: at % 4 == 1 and bit == 7),
    ),
    "the second byte of elements": (
        {"model": "bit_flip", "byte": 1, "element": "f32"}, bits_in(1, lambda at, bit: at % 4 == 1),
    ),
    "the sign alone, by its byte": (
        {"model": "bit_flip", "bits": "sign", "byte": 3, "element": "f32"}, bits_in(1, lambda at, bit: at % 4 == 3 and bit == 7),
    ),
    "the exponent's lowest bit, by its byte": (
        {"model": "bit_flip", "bits": "exponent", "byte": 2, "element": "f32"}, bits_in(1, lambda at, bit: at % 4 == 2 and bit == 7),
    ),
    "signs in a row": (
        {"model": "bit_flip", "bits": "sign", "element": "f32", "count": 5},
        lambda found, _: in_a_row(found, [31], 5),
    ),
    "bits of exponents in a row": (
        {"model": "bit_flip", "bits": "exponent", "element": "f32", "count": 20},
        lambda found, _: in_a_row(found, range(23, 31), 20),
    ),
    "bytes of elements in a row": (
        {"model": "byte_corrupt", "byte": 1, "element": "f32", "count": 4},
        lambda found, _: steps_of({at for at, _ in changed_bits(found, twin())}) == [4, 4, 4],
    ),
    "within a range": (
        {"model": "bit_flip", "offset": [25_000, 25_010], "nth": 1}, bits_in(1, lambda at, bit: 25_000 <= at < 25_010),
    ),
    "sixteen bytes": (
        {"model": "byte_corrupt", "count": 16},
        lambda found, _: len({at for at, _ in changed_bits(found, twin())}) == 16,
    ),
    "a sector of one value": ({"model": "zero_block", "size": 512, "fill": 0xAA}, zeroed),
    "shorn, old bytes": ({"model": "shorn_write", "kept": 0.375}, sheared(1536, "old")),
    "shorn, zeros": ({"model": "shorn_write", "kept": [0.875], "rest": "zeros"}, sheared(3584, "zeros")),
    "torn at a sector": ({"model": "torn_write"}, torn),
    "torn at a page": (
        {"model": "torn_write", "cut": "page", "persist": [0]},
        lambda found, _: found in [with_write(DATA[:c] + old(c, LENGTH)) for c in (20_480 - OFFSET, 24_576 - OFFSET, 28_672 - OFFSET)],
    ),
    "dropped": ({"model": "dropped_write"}, with_write(old(0, LENGTH))),
    "misdirected": ({"model": "misdirected_write", "distance": 6000}, moved(6000)),
    "cut short": ({"model": "short_write", "bytes": 100}, with_write(DATA[:100] + old(100, LENGTH)), {HIT: 100}),
    "refused": ({"model": "errno", "errno": "EDQUOT"}, with_write(old(0, LENGTH)), {HIT: "EDQUOT"}),
    "counted": ({"model": "count"}, twin()),
    "late": ({"model": "delay", "milliseconds": 1}, twin()),
}


def same(result, wanted, found, entries):
    return wanted(found, entries) if callable(wanted) else found == wanted


def scenario_writes(m):
    """What a write stores under each model, against a twin without faults; the journal says so, and replays to it."""
    faults = Faults(m)
    for name, (rule, wanted, *calls) in STORED.items():
        fill(m.root)
        faults.arm({**NTH, **rule})
        said = work(m.root)
        entries, text = faults.journal(), faults.journal_text()
        faults.disarm()
        found = bytearray((m.root / "victim.bin").read_bytes())
        expected = healthy()
        for call, outcome in (calls[0] if calls else {}).items():
            expected[call] = outcome
        if said != expected or not same(said, wanted, found, entries):
            raise Failure(f"{name}: calls gave {said}; journal {entries}")
        if (m.root / "bystander.bin").read_bytes() != twin():
            raise Failure(f"{name}: the file beside the target changed")
        if len(entries) != (0 if rule["model"] == "count" else 1):
            raise Failure(f"{name}: {len(entries)} entries in the journal")
        if entries and all(edit["length"] <= 4096 for edit in entries[0]["effect"].get("edits", [])):
            moved_or_short = any(key in entries[0]["effect"] for key in ("moved", "count", "errno"))
            if not moved_or_short and faulty.edits_applied(twin(), entries) != found:
                raise Failure(f"{name}: the journal does not lead to these bytes: {entries}")
        if entries:
            fill(m.root)
            faults.tell("replay", text)
            if work(m.root) != said or (m.root / "victim.bin").read_bytes() != found:
                raise Failure(f"{name}: the replay led to other bytes")
            equal(faults.status()["replay_left"], 0, f"{name}; replayed to the same bytes")
            equal(faults.status()["replay_different"], 0, "and to bytes that were the same before")
            faults.disarm()


def scenario_growth(m):
    """Writes past the end that do not persist: the file ends where the last persistent byte is, unless it grows."""
    faults = Faults(m)
    for model, grows, wanted in (("dropped_write", False, 100), ("dropped_write", True, 300), ("torn_write", False, None)):
        path = m.root / "grown.bin"
        path.write_bytes(b"")
        rule = {"model": model, "path": "grown.bin", "nth": 2, "grows": grows}
        faults.arm(rule if model == "dropped_write" else {**rule, "cut": "byte", "persist": [0]})
        with open(path, "r+b", buffering=0) as file:
            file.write(b"a" * 100)
            equal(file.write(b"b" * 200), 200, f"{model}: the program is told that all is written")
        entries = faults.journal()
        faults.disarm()
        content = path.read_bytes()
        if wanted is None:
            wanted = entries[0]["effect"]["edits"][0]["offset"]
            equal(content, b"a" * 100 + b"b" * (wanted - 100), "a torn write's first part, and the end after it")
        else:
            equal(content, b"a" * 100 + bytes(wanted - 100), f"{model}, grows {grows}: what stands in the file")


def scenario_close(m):
    """Content models at close change what is stored, once."""
    faults = Faults(m)
    fill(m.root)
    faults.arm({"model": "bit_flip", "operation": "close", "path": "victim.bin"})
    equal(work(m.root), healthy(), "the program notices nothing")
    entries, text = faults.journal(), faults.journal_text()
    faults.disarm()
    found = (m.root / "victim.bin").read_bytes()
    equal(len(changed_bits(found, twin())), 1, "one bit of the file is another")
    check(faulty.edits_applied(twin(), entries) == found, "the one that the journal names")
    fill(m.root)
    faults.tell("replay", text)
    work(m.root)
    check((m.root / "victim.bin").read_bytes() == found, "replayed to the same bytes")


def read_all(path, piece=16_384):
    with open(path, "rb", buffering=0) as file:
        return [attempt(lambda: os.pread(file.fileno(), piece, at)) for at in range(0, len(OLD), piece)]


def whole(pieces):
    return [OLD[at : at + 16_384] for at in range(0, len(OLD), 16_384)] if pieces is None else pieces


def scenario_reads(m):
    """Models of reading: one read is wrong, the next is right, what is stored stays."""
    faults = Faults(m)
    fill(m.root)
    second = {"path": "victim.bin", "operation": "read", "nth": 2}
    good = whole(None)

    def reading(rule):
        faults.arm(rule)
        read_all(m.root / "bystander.bin")
        found = read_all(m.root / "victim.bin")
        entries, text = faults.journal(), faults.journal_text()
        again = read_all(m.root / "victim.bin")
        faults.disarm()
        equal([found[i] for i in (0, 2, 3)], [good[i] for i in (0, 2, 3)], f"{rule['model']}: other reads are right")
        equal(again, good, "and so is the next of the same bytes")
        faults.tell("replay", text)
        equal(read_all(m.root / "victim.bin"), found, "replayed to the same bytes")
        faults.disarm()
        return found[1], entries

    found, entries = reading({"model": "bit_flip", **second})
    equal(len(changed_bits(found, good[1])), 1, "one bit")
    check(faulty.edits_applied(OLD, entries)[16_384:32_768] == found, "that of the journal")
    equal(reading({"model": "short_read", "bytes": 7, **second})[0], good[1][:7], "a short count, no error")
    found = reading({"model": "short_read", **second})[0]
    check(1 <= len(found) < 16_384 and found == good[1][: len(found)], "a drawn count of at least one byte")
    equal(reading({"model": "errno", **second})[0], "EIO", "a failing read")
    equal(reading({"model": "misdirected_read", "distance": 512, **second})[0], OLD[16_896:33_280], "bytes from elsewhere")
    found = reading({"model": "zero_block", "size": 4096, "fill": 255, **second})[0]
    equal(found.count(b"\xff" * 4096), 1, "a page of ones")
    check(read_all(m.root / "victim.bin") == good, "what is stored was never touched")


def scenario_cache(m):
    """With the kernel's cache on, what was read badly stays so until it is disarmed."""
    faults = Faults(m)
    fill(m.root)
    faults.arm({"model": "bit_flip", "path": "victim.bin", "operation": "read", "nth": 1}, page_cache="kernel")
    first = (m.root / "victim.bin").read_bytes()
    equal(len(changed_bits(first, OLD)), 1, "one bit")
    equal((m.root / "victim.bin").read_bytes(), first, "the same again, from the cache")
    with open(m.root / "victim.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        equal(mapped[:], first, "files can be mapped")
    faults.disarm()
    equal((m.root / "victim.bin").read_bytes(), OLD, "disarming makes the kernel forget")


def scenario_misdirected(m):
    """Drawn distances lead somewhere: every write and every read goes astray, in the file where there is room in it."""
    faults, pieces = Faults(m), [bytes([1 + n]) * 8192 for n in range(8)]
    faults.arm({"model": "misdirected_write", "path": "x"})
    with open(m.root / "x", "wb", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
    entries = faults.journal()
    faults.disarm()
    equal(len(entries), 8, "eight writes, all astray")
    size, found = 0, (m.root / "x").read_bytes()
    for number, entry in enumerate(entries):
        place = entry["offset"] + entry["effect"]["moved"]
        check(place >= 0 and entry["effect"]["moved"] % 4096 == 0, f"write {number} went to {place}")
        size = max(size, place + 8192)
    equal(len(found), size, "the file ends where the last of them does")
    (m.root / "x").write_bytes(b"".join(pieces))
    faults.arm({"model": "misdirected_read", "path": "x"})
    with open(m.root / "x", "rb", buffering=0) as file:
        wrong = sum(os.pread(file.fileno(), 8192, 8192 * n) != pieces[n] for n in range(8))
    entries = faults.journal()
    equal((wrong, len(entries)), (8, 8), "eight reads, all of other bytes")
    check(all(0 <= entry["offset"] + entry["effect"]["moved"] <= 65_536 - 8192 for entry in entries), "of the file")


def scenario_stale(m):
    """A stale read gives what stood there before the last write."""
    faults = Faults(m)
    fill(m.root)
    faults.arm({"model": "stale_read", "path": "victim.bin", "nth": 1})
    found = work(m.root, reread=True)[-2]
    faults.disarm()
    equal(found, OLD, "the file as it was before the writes")
    check((m.root / "victim.bin").read_bytes() == twin(), "which are stored all the same")


def scenario_sectors(m):
    """A latent sector error lasts until the sector is written; a stuck page takes no more writes."""
    faults = Faults(m)
    fill(m.root)
    faults.arm({"model": "latent_sector_error", "path": "victim.bin", "nth": 1, "offset": [1000, 1001]})
    handle = os.open(m.root / "victim.bin", os.O_RDWR)
    equal([attempt(lambda: os.pread(handle, 10, 1000)) for _ in range(3)], ["EIO"] * 3, "bytes 512 to 1023 are bad")
    equal(attempt(lambda: os.pread(handle, 100, 400)), OLD[400:500], "byte 499 is not")
    equal(attempt(lambda: os.pread(handle, 200, 400)), "EIO", "a read that touches them fails")
    os.pwrite(handle, b"x" * 512, 512)
    equal(os.pread(handle, 514, 511), OLD[511:512] + b"x" * 512 + OLD[1024:1025], "once written they read")
    os.close(handle)
    fill(m.root)
    faults.arm({"model": "stuck_page", "path": "victim.bin", "nth": 1, "offset": [4100, 4101]})
    work(m.root)
    faults.disarm()
    content = twin()
    content[4096:8192] = (m.root / "victim.bin").read_bytes()[4096:8192]
    check((m.root / "victim.bin").read_bytes() == content, "nothing but the page differs")
    check(bytes(content[4096:8192]) == OLD[4096:8192], "which holds what it held when it stuck")


def scenario_wear(m):
    """Read disturb: more reads, more wrong bits, the earlier among them; retention: with age."""
    faults = Faults(m)
    fill(m.root)
    counts = []
    faults.arm({"model": "read_disturb", "path": "victim.bin", "growth": 2e-7})
    for _ in range(40):
        found = b"".join(read_all(m.root / "victim.bin"))
        counts.append({bit for bit in changed_bits(found, OLD)})
    faults.disarm()
    check(all(a <= b for a, b in zip(counts, counts[1:])) and len(counts[-1]) > len(counts[0]),
          f"wrong bits grow from {len(counts[0])} to {len(counts[-1])}, and stay")
    equal(b"".join(read_all(m.root / "victim.bin")), OLD, "they are gone without the fault")
    faults.arm({"model": "retention", "path": "victim.bin", "base_rate": 1e-3, "corrected": 10_000})
    equal(b"".join(read_all(m.root / "victim.bin")), OLD, "what the drive corrects is not seen")
    faults.arm({"model": "retention", "path": "victim.bin", "growth": 1e-3, "speed": 3600e3})
    time.sleep(0.2)
    found = b"".join(read_all(m.root / "victim.bin"))
    check(len(changed_bits(found, OLD)) > 50, "old pages have wrong bits")


def scenario_late(m):
    """An unserializable write comes once more after later ones, over what they wrote."""
    faults = Faults(m)
    path = m.root / "late.bin"
    for replay in (False, True):
        path.write_bytes(b"0" * 100)
        if replay:
            faults.tell("replay", text)
        else:
            faults.arm({"model": "unserializable_write", "path": "late.bin", "nth": 1, "window": 2})
        handle = os.open(path, os.O_RDWR)
        os.pwrite(handle, b"1" * 50, 0)
        os.pwrite(handle, b"2" * 50, 25)
        equal(os.pread(handle, 100, 0), b"1" * 25 + b"2" * 50 + b"0" * 25, "the second write is there")
        os.pwrite(handle, b"3" * 10, 90)
        os.close(handle)
        text = text if replay else faults.journal_text()
        faults.disarm()
        equal(path.read_bytes(), b"1" * 50 + b"2" * 25 + b"0" * 15 + b"3" * 10, "the first came over it")


def scenario_power(m):
    """A power cut takes what no fsync made safe, and the device with it; a lying fsync makes nothing safe."""
    faults = Faults(m)
    cut = {"model": "power_cut", "path": "victim.bin", "nth": 4}
    for lie in (False, True):
        fill(m.root)
        rules = [cut] + ([{"model": "lost_sync", "path": "victim.bin"}] if lie else [])
        faults.arm(*rules)
        said = work_alone(m, sync=True)
        text = faults.journal_text()
        equal(said, [8192, 8192, None, 10_000, "EIO", "EIO"], "writes, fsync, a write, the cut, a close")
        refused(5, lambda: open(m.root / "bystander.bin", "rb"), "after which nothing works")
        faults.disarm()
        content = bytearray(OLD)
        content[:16_384] = OLD[:16_384] if lie else WRITES[0][1] + WRITES[1][1]
        check((m.root / "victim.bin").read_bytes() == content, "only what was synced is there")
        fill(m.root)
        faults.tell("replay", text)
        equal(work_alone(m, sync=True)[:5], said[:5], "the replay gives the same results")
        faults.disarm()
        check((m.root / "victim.bin").read_bytes() == content, "and the same bytes")
    fill(m.root)
    faults.arm({**cut, "lost": "random", "any_order": True, "then": "continue"})
    work_alone(m)
    entries = faults.journal()
    faults.disarm()
    found = (m.root / "victim.bin").read_bytes()
    for offset, data in WRITES[:3]:
        if found[offset : offset + len(data)] not in (data, OLD[offset : offset + len(data)]):
            raise Failure("a write is neither there nor lost")
    check("unsynced writes are lost" in entries[0]["effect"]["note"], entries[0]["effect"]["note"])


def work_alone(m, sync=False):
    """work() on the victim alone: the device may be dead after it."""
    said = []
    handle = os.open(m.root / "victim.bin", os.O_RDWR)
    for number, (offset, data) in enumerate(WRITES):
        said.append(attempt(lambda: os.pwrite(handle, data, offset)))
        if sync and number == 1:
            said.append(attempt(lambda: os.fsync(handle)))
    return said + [attempt(lambda: os.close(handle))]


def scenario_runs(m):
    """A run of writes of which some persist."""
    faults = Faults(m)
    fill(m.root)
    faults.arm({"model": "torn_write", "path": "victim.bin", "nth": 2, "run": 3, "persist": [1]})
    equal(work(m.root), healthy(), "the program notices nothing")
    faults.disarm()
    content = twin()
    for offset, data in (WRITES[1], WRITES[3]):
        content[offset : offset + len(data)] = OLD[offset : offset + len(data)]
    check((m.root / "victim.bin").read_bytes() == content, "the second and the fourth write are lost, the third is there")


def scenario_ends(m):
    """A full disk, a dead device, a killed program, a killed daemon."""
    faults = Faults(m)
    fill(m.root)
    faults.arm({"model": "enospc_at", "path": "victim.bin", "bytes": 20_000})
    equal(work(m.root), [8192, 8192, 3616, "ENOSPC", None], "the write that passes the limit is short, the next fails")
    faults.arm({"model": "dead_device", "path": "victim.bin", "nth": 2, "errno": "ENODEV"})
    equal(work_alone(m), [8192] + ["ENODEV"] * 4, "all calls fail from one on")
    equal(subprocess.run(["stat", "--cached=never", m.root], stdout=subprocess.DEVNULL).returncode, 0,
          "the root, through which the control files are reached, still answers")
    faults.arm({"model": "kill_caller", "path": "victim.bin", "nth": 3, "process": "python3"})
    child = subprocess.Popen([mounted.PYTHON, "-c", f"open(r'{m.root}/own', 'w'); import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
                              f"import faulty, pathlib; faulty.work(pathlib.Path(r'{m.root}'))"])
    equal(child.wait(timeout=60), -signal.SIGKILL, "the program is killed in its third write")
    killed, text = (m.root / "victim.bin").read_bytes(), faults.journal_text()
    fill(m.root)
    faults.tell("replay", text)
    child = subprocess.Popen(child.args)
    equal(child.wait(timeout=60), -signal.SIGKILL, "and so in the replay")
    check((m.root / "victim.bin").read_bytes() == killed != twin(), "with the same bytes written")
    faults.arm({"model": "crash", "path": "victim.bin", "nth": 3})
    attempt(lambda: work_alone(m))
    start_again(m, "its third write")
    last = (m.store / "faults.jsonl").read_text().splitlines()[-1]
    check('"crash_after"' in last, "the journal on the disk has it")
    (m.root / "new").write_text("x")


def start_again(m, where):
    equal(m.process.wait(timeout=30), -signal.SIGKILL, f"the daemon is killed in {where}")
    mounted._live.remove(m)
    m.process = None
    m.start()


def scenario_crashes(m):
    """The daemon dies before a write, or with some parts of it, or some writes of a run, on the disk; and so in the replay."""
    faults = Faults(m)
    data = DATA * 2
    pages = [page for page in range(0, len(data), 4096)]
    for name, rule, persists in (
        ("before", {"model": "crash", "before": True}, lambda at: False),
        ("torn", {"model": "torn_write", "then": "crash", "cut": "page", "parts": len(pages), "persist": [0, 2]}, lambda at: at // 4096 in (0, 2)),
        ("a run", {"model": "torn_write", "then": "crash", "run": 3, "persist": [0, 2]}, lambda at: at // 4096 != 1),
        ("after", {"model": "crash"}, lambda at: False),
    ):
        text = None
        for replay in (False, True):
            (m.root / "victim.bin").write_bytes(OLD)
            run(mounted.BINARY, "sync", m.root)
            if replay:
                faults.tell("replay", text)
            else:
                faults.arm({"path": "victim.bin", "nth": 1, **rule})
            with open(m.root / "victim.bin", "r+b", buffering=0) as file:
                for at in pages if name == "a run" else [0]:
                    attempt(lambda: os.pwrite(file.fileno(), data[at : at + 4096] if name == "a run" else data, at))
                attempt(file.close)
            start_again(m, f"a write, {name}, {'replayed' if replay else 'armed'}")
            wanted = bytearray(OLD)
            for at in pages[:3] if name == "a run" else pages:
                if persists(at):
                    wanted[at : at + 4096] = data[at : at + 4096]
            check((m.root / "victim.bin").read_bytes() == wanted, f"{name}: the parts that persist are there, and nothing else")
            text = text or (m.store / "faults.jsonl").read_text()


def scenario_meaning(m):
    """Faults that aim at HDF5 structures, datasets, and arrays or the bytes around them hit those."""
    faults = Faults(m)
    plain, path = m.plain / "x.h5", m.root / "x.h5"
    with h5py.File(plain, "w") as file:
        file["a"] = np.arange(4096, dtype="f4").reshape(64, 64)
        file["g/b"] = np.arange(4096, dtype="f8")
    with h5py.File(plain) as file:
        places = {name: (file[name].id.get_offset(), file[name].nbytes) for name in ("a", "g/b")}
    content = plain.read_bytes()

    def flip(rule, target=path, wanted=content):
        target.write_bytes(wanted)
        faults.arm({"model": "bit_flip", "operation": "close", "path": target.name, **rule})
        os.close(os.open(target, os.O_RDWR))
        entries = faults.journal()
        faults.disarm()
        (at, bit), = changed_bits(target.read_bytes(), wanted)
        return at, bit, entries[0]["where"]

    sizes = {b"SNOD": 328, b"TREE": 544, b"HEAP": 32}
    for structure, mark in (("symbol_node", b"SNOD"), ("b_tree", b"TREE")):
        at, _, where = flip({"structure": structure})
        starts = [n for n in range(len(content)) if content.startswith(mark, n)]
        check(any(n <= at < n + sizes[mark] for n in starts) and where.startswith(structure), f"{where} at {at}")
    at, _, where = flip({"structure": "superblock"})
    check(at < 96, f"{where} at {at}")
    at, _, where = flip({"structure": "object_header.datatype"})
    check(content[at - 32 : at + 1].find(b"\x03\x00") >= 0 and "datatype" in where, f"{where} at {at}")
    begin, length = places["g/b"]
    at, _, where = flip({"structure": "raw_data", "dataset": "/g/*"})
    check(begin <= at < begin + length and where == "raw_data of /g/b", f"{where} at {at}")
    begin, length = places["a"]
    at, bit, where = flip({"dataset": "/a", "bits": "exponent"})
    place = (at - begin) % 4
    check(begin <= at < begin + length and (place, bit == 7) in ((3, False), (2, True)), f"an exponent of {where}")
    array = m.plain / "y.npy"
    np.save(array, np.arange(30_000, dtype="f8"))
    for region, inside in (("bytes", range(128)), ("array", range(128, 240_128))):
        at, _, where = flip({"region": region}, m.root / "y.npy", array.read_bytes())
        check(at in inside, f"{region}: {where} at {at}")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
