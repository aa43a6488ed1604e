#!/usr/bin/python3
"""How faults are armed, aimed, counted and ended on a real mount, and what the control files and commands refuse."""

import errno
import json
import mmap
import os
import pathlib
import re
import subprocess
import time

import faulty
import mounted
from faulty import Faults, fill, healthy, twin, work
from mounted import check, equal, refused, run


def scenario_unarmed(m):
    """Nothing armed, or armed for another file: no bytes, counts, attributes or journal lines that would not be there."""
    faults = Faults(m)
    for armed in (False, True):
        if armed:
            faults.arm({"model": "dropped_write", "path": "elsewhere/*"}, {"model": "errno", "path": "elsewhere/*", "operation": "open"})
        fill(m.root)
        equal(work(m.root), healthy(), "calls give what they should")
        check((m.root / "victim.bin").read_bytes() == twin(), "and bytes are what they should be")
        equal(faults.journal(), [], "the journal is empty")
        equal(faults.status()["armed"], armed, "status")
        equal(os.listxattr(m.root / "victim.bin"), [], "no attributes")
    with open(m.root / "victim.bin", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        check(mapped[:] == twin(), "a file that is no target can be mapped")


def scenario_example(m):
    """The first example of docs/FAULTS.md does what it says, pasted as it is."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "FAULTS.md").read_text()
    lines = re.search(r"(?:^    .*\n)+", text, re.MULTILINE)[0]
    tools = m.plain / "bin"
    tools.mkdir()
    (tools / "varve").symlink_to(mounted.BINARY)
    script = "".join(line[4:] for line in lines.splitlines(True))
    done = run("bash", "-euc", script, cwd=m.plain, env={"HOME": str(m.plain), "PATH": f"{tools}:{os.environ['PATH']}"})
    value = re.search(r"silent: \[(\S+)\]", done.stdout)
    check(value and value[1] != "1." and '"injected": 1' in done.stdout, f"one value is plainly another: {done.stdout}{done.stderr}")


def scenario_triggers(m):
    """nth, every, probability, limit, marks, per file, process: who is hit; and a seed gives the same again."""
    faults = Faults(m)

    def hit(rule, names=("a", "b"), writes=12, marks=()):
        for name in names:
            (m.root / name).write_bytes(b"")
        faults.arm({"model": "count" if rule is None else "dropped_write", "grows": True, **(rule or {})})
        for name in names:
            with open(m.root / name, "r+b", buffering=0) as file:
                for number in range(writes):
                    if (name, number) in marks:
                        os.setxattr(m.root, "user.varve.mark", marks[name, number].encode())
                    file.write(b"x")
        faults.disarm()
        return [[at for at, byte in enumerate((m.root / name).read_bytes()) if byte == 0] for name in names]

    equal(hit({"nth": [2, 15]}), [[1], [2]], "nth counts over all files")
    equal(hit({"nth": 2, "per": "file"}), [[1], [1]], "or over each")
    equal(hit({"every": 5}), [[4, 9], [2, 7]], "every")
    equal(hit({"every": 2, "limit": 3}), [[1, 3, 5], []], "limit")
    equal(hit({"path": "b", "every": 6}), [[], [5, 11]], "path")
    equal(hit({"offset": [3, 5]}), [[3, 4], [3, 4]], "offset")
    equal(hit({"ranges": [[1, 3], [7, 8]], "path": "a"}), [[1, 2, 7], []], "ranges")
    equal(hit({"from_mark": "go", "to_mark": "stop"}, marks={("a", 3): "go", ("a", 6): "stop", ("b", 10): "go"}),
          [[3, 4, 5], [10, 11]], "between marks")
    equal(hit({"process": "nobody"}), [[], []], "another process")
    equal(hit({"pid": os.getpid(), "nth": 1}), [[0], []], "this process")
    faults.arm({"model": "dropped_write", "path": "a", "grows": True, "after": 2})
    with open(m.root / "a", "wb", buffering=0) as file:
        file.write(b"xx")
        time.sleep(2.1)
        file.write(b"xx")
    faults.disarm()
    equal((m.root / "a").read_bytes(), b"xx\0\0", "after two seconds")
    first = hit({"probability": 0.3}, writes=60)
    check(20 <= sum(map(len, first)) <= 55 and first == hit({"probability": 0.3}, writes=60), "probability, repeatable")


def scenario_distributions(m):
    """Errors that were not chosen are what such a call gives on a failing disk; weights and spreads of delays are kept."""
    faults = Faults(m)

    def errors(action, count, **rule):
        path = m.root / "x"
        faults.disarm()
        path.write_bytes(b"data")
        handle = os.open(path, os.O_RDWR)
        faults.arm({"model": "errno", "path": "x", **rule})
        said = [faulty.attempt(lambda: action(handle)) for _ in range(count)]
        faults.disarm()
        os.close(handle)
        return said

    usual = (("write", lambda handle: os.pwrite(handle, b"x", 0), {"EIO", "ENOSPC", "EDQUOT", "EROFS"}),
             ("read", lambda handle: os.pread(handle, 1, 0), {"EIO"}), ("fsync", os.fsync, {"EIO", "ENOSPC", "EDQUOT"}),
             ("truncate", lambda handle: os.ftruncate(handle, 1), {"EIO", "EROFS"}))
    for operation, action, wanted in usual:
        equal(set(errors(action, 60, operation=operation)), wanted, f"errors of {operation}")
    said = errors(usual[0][1], 300, operation="write", errno=["EIO", "ENODEV"], weights=[1, 9])
    check(set(said) == {"EIO", "ENODEV"} and 240 <= said.count("ENODEV") <= 295, f"9 of 10: {said.count('ENODEV')} of 300")
    delays = {}
    for spread in ("fixed", "uniform", "exponential", "pareto"):
        faults.arm({"model": "delay", "path": "x", "operation": "write", "milliseconds": 1, "most_milliseconds": 5, "distribution": spread})
        start = time.monotonic()
        with open(m.root / "x", "r+b", buffering=0) as file:
            for _ in range(200):
                file.write(b"x")
        took = time.monotonic() - start
        delays[spread] = sorted(entry["effect"].get("delay_us", 0) for entry in faults.journal())
        faults.disarm()
        check(199 <= len(delays[spread]) <= 200, f"{spread}: each write is late, if not by less than a microsecond")
        check(took >= sum(delays[spread]) / 1e6, f"{spread}: by what the journal says, {sum(delays[spread]) / 1e3:.0f} ms")
    equal(set(delays["fixed"]), {1000}, "fixed: one millisecond")
    median = {spread: times[100] for spread, times in delays.items()}
    check(1000 <= delays["uniform"][0] and delays["uniform"][-1] <= 5000 and 2500 <= median["uniform"] <= 3500, f"uniform: {median['uniform']} us")
    check(delays["exponential"][0] < 100 and 550 <= median["exponential"] <= 850, f"exponential, ln 2 of the mean: {median['exponential']} us")
    check(delays["pareto"][0] >= 1000 and delays["pareto"][-1] <= 5000 and 1400 <= median["pareto"] <= 1800,
          f"pareto, 2^(2/3) of the least: {median['pareto']} us")


def scenario_control(m):
    """The command line: what it says, what it refuses, and that it waits until it is obeyed."""
    varve = mounted.BINARY
    path = m.folder / "schedule.toml"
    path.write_text('[[fault]]\nmodel = "dropped_write"\npath = "x"\n')
    said = run(varve, "faults", "arm", m.root, path).stdout
    check(said.startswith("seed = "), "a seed that was drawn is told")
    (m.root / "x").write_bytes(b"data")
    equal((m.root / "x").read_bytes(), b"", "armed when the command returns")
    status = mounted.run(varve, "faults", "status", m.root).stdout
    check('"injected": 1' in status and '"possible": true' in status, "status counts")
    journal = run(varve, "faults", "journal", m.root).stdout
    run(varve, "faults", "disarm", m.root)
    (m.root / "x").write_bytes(b"data")
    equal((m.root / "x").read_bytes(), b"data", "disarmed when the command returns")
    (m.folder / "journal").write_text(journal)
    run(varve, "faults", "replay", m.root, m.folder / "journal")
    (m.root / "x").write_bytes(b"data")
    equal((m.root / "x").read_bytes(), b"", "replayed")
    run(varve, "faults", "mark", m.root, "here")
    run(varve, "faults", "disarm", m.root)
    for text, word in (('[[fault]]\nmodel = "bitflip"\n', "line 2"), ('[[fault]]\nmodel = "errno"\nerrno = "EWHAT"\n', "EWHAT"),
                       ('[[fault]]\nmodel = "delay"\nkept = 1\n', "kept"), ("x = ", "line 1")):
        path.write_text(text)
        done = run(varve, "faults", "arm", m.root, path, status=2)
        check(word in done.stderr, f"refused: {done.stderr.strip()}")
    refused(22, lambda: Faults(m).tell("arm", "x = "), "the control file refuses it too")
    check("line 1" in Faults(m).status()["refused"], "and says why")
    equal(oct(os.stat(Faults(m).folder).st_mode & 0o777), "0o700", "only its owner may enter")
    m.restart("--no-faults")
    path.write_text('[[fault]]\nmodel = "dropped_write"\n')
    done = run(varve, "faults", "arm", m.root, path, status=2)
    check("--no-faults" in done.stderr, f"refused: {done.stderr.strip()}")
    done = run(mounted.BINARY, "faults", "disarm", m.root, status=2)
    check("no fault is armed" in done.stderr and "disarm" in done.stderr, f"about disarming: {done.stderr.strip()}")
    equal(Faults(m).status()["possible"], False, "status says so")
    (m.root / "x").write_bytes(b"data")
    equal((m.root / "x").read_bytes(), b"data", "nothing is dropped")
    os.setxattr(m.root / "x", "user.varve.mark", b"go")
    equal(os.listxattr(m.root / "x"), [], "programs that set marks work, and leave nothing")


def scenario_refusals(m):
    """What a control file refuses, write(2) refuses where it can be seen: shells do not look at close(2)."""
    folder = Faults(m).folder
    cases = {
        "arm": ["garbage", "[[fault]]\nmodel = \"bitflip\"", "[[fault]]\nmodel = \"count\"\npath = \"/x\""],
        "replay": ["garbage", '{"armed": 1}\n{"effect": {}}'],
        "mark": ["a b", ""], "status": ["x"], "journal": ["x"], "log": ["x"],
    }
    for name, texts in cases.items():
        for text in texts:
            for shell in ("bash", "dash"):
                done = run(shell, "-c", 'echo "$1" > "$2"', shell, text, folder / name, status=None)
                check(done.returncode != 0, f"{shell}: echo {text!r} > {name}: {done.stderr.strip()}")
                equal(Faults(m).status()["armed"], False, "nothing is armed")
                check(Faults(m).status()["refused"], Faults(m).status()["refused"])
    refused(22, lambda: Faults(m).tell("arm", "[[fault]]\n"), "what may still become right is refused at close")
    refused(22, lambda: Faults(m).tell("mark", "a b"), "a mark of two words, without an end of line")
    for value in (b"", b"a b"):
        refused(22, lambda: os.setxattr(m.root, "user.varve.mark", value), f"a mark through an attribute: {value}")
    for word in ("", "a b"):
        done = run(mounted.BINARY, "faults", "mark", m.root, word, status=2)
        check("one word" in done.stderr, done.stderr.strip())
    done = run(mounted.BINARY, "faults", "amr", m.root, status=2)
    check("varve faults: no command \"amr\" (did you mean \"arm\"?): give one of arm, disarm" in done.stderr, done.stderr.strip())
    done = run(mounted.BINARY, "faults", "arm", status=2)
    check(done.stderr.startswith("varve faults arm: DIR is required\n"), done.stderr.strip())
    with open(folder / "arm", "w", buffering=1) as file:
        for line in ("seed = 1", "[[fault]]", 'model = "dropped_write"', "nth = [", "1]", 'path = "x"'):
            print(line, file=file)
    (m.root / "x").write_bytes(b"data")
    equal(Faults(m).status()["injections"], 1, "a schedule that comes line by line is armed at close")
    equal((folder / "log").read_text(), (folder / "journal").read_text(), "log is journal")
    check("dropped_write" in (folder / "log").read_text(), "and has the injection")
    path = m.folder / "bad.toml"
    path.write_text("seed = 1\n[[fault]]\nmodel = bit_flip\n")
    done = run(mounted.BINARY, "faults", "arm", m.root, path, status=2)
    check(f"{path}, line 3: " in done.stderr and "quotation marks" in done.stderr, done.stderr.strip())
    path.write_text("{}\n")
    done = run(mounted.BINARY, "faults", "replay", m.root, path, status=2)
    check(f"{path}, line 1: " in done.stderr and "json" not in done.stderr, done.stderr.strip())


def scenario_owner(m):
    """On a mount that others may use, root and the owner of its root alone may arm, ask, or set a mark."""
    if os.geteuid() != 0:
        print("  skipped: only root can become somebody else")
        return
    m.restart("-o", "allow_other")
    somebody = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": m.root}  # enters the folder before it changes

    def told(command):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, **somebody)
        return done.returncode, done.stderr

    arming = "printf '[[fault]]\\nmodel = \"count\"\\n' > .varve/faults/arm"
    for command in (arming, "cat .varve/faults/status", "echo x > .varve/faults/disarm", "setfattr -n user.varve.mark -v here ."):
        status, said = told(command)
        check(status != 0 and "ermission denied" in said, f"somebody else: {said.strip()}")
    equal(Faults(m).status()["armed"], False, "nothing is armed")
    os.chown(m.root, 65534, 65534)
    equal(told(arming), (0, ""), "the owner of the root may arm")
    equal(Faults(m).status()["armed"], True, "and did")


def scenario_journal(m):
    """The journal's file: there from the first arming, made anew once it was removed; without one nothing is armed."""
    faults, path = Faults(m), m.store / "faults.jsonl"
    equal((path.exists(), faults.journal_text()), (False, ""), "no journal before the first arming")
    rule = {"model": "dropped_write", "path": "x"}
    for turn in range(2):
        faults.arm(rule)
        (m.root / "x").write_bytes(b"data")
        faults.disarm()
    equal((path.read_text().count('"effect"'), len(faults.journal())), (2, 1), "two armings in the file, the last in `journal`")
    m.restart()
    equal(faults.journal_text(), "", "after a new mount `journal` is empty")
    faults.tell("replay", path.read_text())
    equal(faults.status()["replay_left"], 1, "but the file can be replayed, its last arming")
    faults.disarm()
    path.unlink()
    faults.arm(rule)
    (m.root / "x").write_bytes(b"data")
    equal((path.read_text().count('"effect"'), len(faults.journal())), (1, 1), "removed: the next arming makes it anew")
    faults.disarm()
    path.unlink()
    path.mkdir()
    refused(errno.EISDIR, lambda: faults.arm(rule), "a journal that cannot be written: arming is refused")
    equal(faults.status()["armed"], False, "and nothing is armed")
    check("faults.jsonl" in faults.status()["refused"], faults.status()["refused"])
    (m.root / "x").write_bytes(b"data")
    equal((m.root / "x").read_bytes(), b"data", "nothing is dropped")
    path.rmdir()


def scenario_long_journal(m):
    """A journal of 24 MiB is replayed; one that is too long for a control file is refused, and no part of it is obeyed."""
    faults, path, victim = Faults(m), m.folder / "journal", m.root / "x"

    def write_lines(count):
        with open(victim, "wb", buffering=0) as file:
            for number in range(count):
                file.write(b"%064d" % number)
        return victim.read_bytes()

    faults.arm({"model": "bit_flip", "path": "x"})
    wrong = write_lines(2_000)
    lines = faults.journal_text().splitlines(True)
    faults.disarm()
    equal(len(lines), 2_001, "a line for each write")
    many = (24 << 20) // len(lines[-1])
    more = [json.dumps({**json.loads(lines[-1]), "index": 10_000 + number}) + "\n" for number in range(many)]
    path.write_text("".join(lines[:1000] + lines + more))
    check(path.stat().st_size > 24 << 20, f"{path.stat().st_size:,} bytes, the second arming of the file counts")
    run(mounted.BINARY, "faults", "replay", m.root, path)
    equal(faults.status()["replay_left"], 2_000 + many, "all of it is armed")
    check(write_lines(2_000) == wrong, "and leads to the same bytes")
    faults.disarm()
    text = "".join(lines)
    refused(errno.EFBIG, lambda: faults.tell("replay", text + "\n" * ((81 << 20) - len(text))), "81 MiB are too long")
    equal(faults.status()["armed"], False, "and nothing is armed")


def scenario_stuck(m):
    """More late operations than the daemon has threads, at either seam: disarming ends them all the same."""
    faults = Faults(m)
    for rule in ({"path": "late*"}, {"seam": "device", "kind": "wal"}):
        faults.arm({"model": "delay", "milliseconds": 120_000, **rule})
        late = [subprocess.Popen(["sh", "-c", f"echo x > late{n}; sync late{n}"], cwd=m.root) for n in range(60)]
        time.sleep(1)
        check(any(one.poll() is None for one in late), "programs wait")
        start = time.monotonic()
        run(mounted.BINARY, "faults", "disarm", m.root, timeout=60)
        check(time.monotonic() - start < 30, f"disarmed after {time.monotonic() - start:.1f} s")
        equal({one.wait(timeout=60) for one in late}, {0}, "and all of them end")
        equal(faults.status()["armed"], False, "nothing is armed")


def scenario_large(m):
    """50,000 faults: armed soon, and operations pass by those that name other files."""
    faults, count = Faults(m), 50_000
    start = time.monotonic()
    faults.tell("arm", faulty.schedule(*({"model": "dropped_write", "path": f"f{n}"} for n in range(count))))
    passed = time.monotonic() - start
    check(passed < 10, f"armed in {passed:.2f} s")
    start = time.monotonic()
    for n in (0, count // 2, count - 1, count):
        (m.root / f"f{n}").write_bytes(b"data")
        equal((m.root / f"f{n}").read_bytes(), b"data" if n == count else b"", f"f{n}")
    for n in range(500):
        (m.root / f"g{n}").write_bytes(b"data")
    passed = time.monotonic() - start
    check(passed < 10, f"and 504 files written in {passed:.2f} s")
    equal(faults.status()["injections"], 3, "three were hit")


def scenario_concurrent(m):
    """Arming and disarming while programs write: nothing hangs, what is not a target stays whole."""
    faults = Faults(m)
    writers = [subprocess.Popen([mounted.PYTHON, "-c", "import os, sys\n"
                                 "for n in range(300):\n    open(sys.argv[1], 'wb').write(bytes([n % 256]) * 50_000)\n", m.root / f"w{n}"])
               for n in range(3)]
    turns = 0
    while any(writer.poll() is None for writer in writers):
        faults.arm({"model": "bit_flip", "path": "w0", "probability": 0.5}, {"model": "delay", "path": "w1", "milliseconds": 50})
        faults.disarm()
        turns += 1
    check(all(writer.returncode == 0 for writer in writers) and turns > 3, f"{turns} turns of arming")
    check((m.root / "w2").read_bytes() == bytes([299 % 256]) * 50_000, "the file that is no target is whole")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
