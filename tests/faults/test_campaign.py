#!/usr/bin/python3
"""varve faults campaign: outcomes that are known beforehand, resumption, repetition of one run, the report."""

import collections
import csv
import fcntl
import html
import os
import pty
import re
import subprocess
import time

import h5py
import numpy

from faulty import mounted  # isort: skip: it finds the rest
from mounted import check, equal, run
from png import picture

CAMPAIGN = """
name = "sum of numbers"
command = ["sh", "-e", "-c", "seq 1 3000 > data.txt; awk '{s += $1} END {print s}' data.txt > sum.txt; cat in.bin > copy.bin"]
analysis = ["grep", "-q", "[0-9]", "sum.txt"]
inputs = "in"
time_limit = 3
runs = 3
[[output]]
path = "sum.txt"
[[fault]]
name = "wrong"
model = "byte_corrupt"
count = 2000
path = "data.txt"
[[fault]]
name = "unused"
model = "byte_corrupt"
path = "copy.bin"
[[fault]]
name = "empty"
model = "dropped_write"
path = "sum.txt"
[[fault]]
name = "refused"
model = "errno"
path = "*.txt"
operation = ["write", "open", "create"]
[[fault]]
name = "killed"
model = "kill_caller"
path = "data.txt"
[[fault]]
name = "below"
seam = "device"
kind = "pack"
operation = "write"
model = "bit_flip"
"""
HANG = """
command = ["sh", "-c", "echo x > x"]
time_limit = 1
runs = 1
[[fault]]
name = "late"
model = "delay"
milliseconds = 60000
"""
WANTED = {"wrong": "silent", "unused": "benign", "empty": "detected", "refused": "detected", "killed": "crash"}


def rows(results):
    with open(results / "runs.csv") as file:
        return {(row["fault"], row["run"]): row for row in csv.DictReader(file)}


def check_plots(results):
    """The plots show the numbers of their tables, and those are the runs'."""
    counts = collections.Counter((row["fault"], row["outcome"]) for row in rows(results).values())
    with open(results / "rates.csv") as file:
        rates = list(csv.DictReader(file))
    for row in rates:
        equal(int(row["count"]), counts[row["fault"], row["outcome"]], f"{row['fault']} {row['outcome']}")
        check(float(row["low"]) <= float(row["rate"]) <= float(row["high"]), "an interval holds its share")
    plot = picture(results / "rates.png")
    equal((len(plot[0]), len(plot)), (90 + 130 * 6, 420), "the plot's size")
    colours = {"benign": (0x9f, 0xc5, 0xa0), "detected": (0x6d, 0x9d, 0xc5), "silent": (0xc9, 0x4f, 0x4f)}
    groups = (len(plot[0]) - 62 - 14) / 6  # between the margins
    for row in rates:
        if row["outcome"] in colours and row["fault"] != "below":
            number = list(dict.fromkeys(one["fault"] for one in rates)).index(row["fault"])
            columns = range(int(62 + groups * number) + 1, int(62 + groups * (number + 1)) - 1)
            tallest = max(sum(line[x] == colours[row["outcome"]] for line in plot[28:]) for x in columns)
            share = tallest / (420 - 28 - 26 - 40)
            check(abs(share - float(row["rate"])) < 0.02, f"{row['fault']}: {row['outcome']} {row['rate']}, drawn {share}")
    with open(results / "sensitivity.csv") as file:
        bins = list(csv.DictReader(file))
    hits = sum(int(row[name]) for row in bins for name in ("benign", "detected", "silent", "crash", "hang"))
    runs = sum(row["seam"] == "app" and row["outcome"] != "none" for row in rows(results).values())
    check(hits > runs, "each run is in the maps, some in several parts")
    width = 13_893 / 128  # of what seq printed
    wrong = [row for row in csv.DictReader(open(results / "changes.csv")) if row["fault"] == "wrong"]
    stretches = {row["run"]: (int(row["offset"]), int(row["offset"]) + int(row["length"])) for row in wrong}
    equal({end - begin for begin, end in stretches.values()}, {2000}, "each changed so many bytes")
    silent = [int(row["silent"]) for row in bins if row["path"] == "data.txt"]
    if max(end for _, end in stretches.values()) == 13_893:
        equal(silent, [sum(begin < (i + 1) * width and end > i * width for begin, end in stretches.values()) for i in range(128)], "as often as bytes there were changed")
    check(len({pixel for line in picture(results / "sensitivity.png") for pixel in line}) > 4, "not blank")


def essence(row):
    return {key: value for key, value in row.items() if key != "seconds"}


def scenario_outcomes(m):
    """Faults whose outcome is certain are counted so; a cut table is completed; one run is repeated exactly."""
    (m.plain / "in").mkdir()
    (m.plain / "in" / "in.bin").write_bytes(mounted.random.Random(1).randbytes(100_000))
    path, results = m.plain / "sum.toml", m.plain / "sum.results"
    path.write_text(CAMPAIGN)
    said = run(mounted.BINARY, "faults", "campaign", path, "--workers", "2").stdout
    first = rows(results)
    equal(len(first), 18, "a row for each run")
    for (fault, _), row in first.items():
        if row["outcome"] != WANTED.get(fault, row["outcome"]):
            raise mounted.Failure(f"{fault}: {row}")
    check({row["outcome"] for (fault, _), row in first.items() if fault == "below"} <= {"detected", "benign", "none"},
          "a flipped bit in a pack is never silent")
    check(len({row["offset"] for (fault, _), row in first.items() if fault == "unused"}) > 1, "places are drawn anew")
    check("100.0% ( 43.9 to 100.0)" in said, "3 of 3: Wilson's interval is 43.9 to 100 per cent")
    report = (results / "report.html").read_text()
    check("43.9" in report and "<svg" in report and "wrong:0" in report and "src=" not in report, "one page has it all")

    check_plots(results)

    lines = (results / "runs.csv").read_text().splitlines(True)
    (results / "runs.csv").write_text("".join(lines[:12]) + lines[12][:30])
    run(mounted.BINARY, "faults", "campaign", path, "--workers", "1")
    again = rows(results)
    for key, row in first.items():
        if row["seam"] == "app" and essence(again[key]) != essence(row):
            raise mounted.Failure(f"{key}: first {row}, then {again[key]}")
    equal(len(again), 18, "a campaign that was cut off is completed, with the same runs")

    said = run(mounted.BINARY, "faults", "campaign", path, "--only", "wrong:2").stdout
    one = next(csv.DictReader(said.splitlines()[:2]))
    equal(essence(one), essence(first["wrong", "2"]), "one run is repeated exactly")
    path.write_text(CAMPAIGN.replace("3000", "4000"))
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("another campaign" in done.stderr, f"results are not mixed: {done.stderr.strip()}")


def scenario_limits(m):
    """A hang; and campaigns that cannot be."""
    path = m.plain / "c.toml"
    path.write_text(HANG)
    scratch = m.folder / "scratch"
    scratch.mkdir()
    run(mounted.BINARY, "faults", "campaign", path, "--scratch", scratch)
    equal([row["outcome"] for row in rows(m.plain / "c.results").values()], ["hang"], "over the time limit")
    for text, word in ((HANG + "nth = 3\n", "nth"), (HANG.replace("x > x", "x > /x/x"), "without any fault"),
                       (HANG + 'path = "y"\n', "no operation"), (HANG.replace("delay", "delays"), "delays"),
                       ("x = 1\n", "'x'"), ("command = 1\n", "command")):
        path.write_text(text)
        done = run(mounted.BINARY, "faults", "campaign", path, "--results", m.plain / "other", "--scratch", scratch, status=2)
        check(word in done.stderr, f"refused: {done.stderr.strip()}")
    equal([line for line in open("/proc/mounts") if str(scratch) in line], [], "no mount is left")
    equal(list(scratch.iterdir()), [], "nor a store")


FOREIGN = """
command = ["sh", "-c", "echo $0; for command in 'arm . {here}/other' 'disarm .' 'replay . {here}/other'; do $VARVE_BIN faults $command 2>> {here}/said; done; for file in arm disarm replay; do echo x > .varve/faults/$file; done; $VARVE_BIN faults mark . here || exit 1; seq 1 1000 > data.txt", "{here}"]
runs = 2
[[fault]]
model = "dropped_write"
path = "data.txt"
"""


def scenario_foreign(m):
    """A campaign's mounts are armed by the campaign alone: others are refused, and its faults strike all the same."""
    (m.plain / "other").write_text('seed = 1\n[[fault]]\nmodel = "errno"\n')
    path = m.plain / "foreign.toml"
    path.write_text(FOREIGN)
    run(mounted.BINARY, "faults", "campaign", path, env={"VARVE_BIN": mounted.BINARY})
    found = rows(m.plain / "foreign.results")
    equal([row["outcome"] for row in found.values()], ["silent"] * 2, "the dropped write alone is there")
    said = (m.plain / "said").read_text()
    equal(said.count("belongs to a running campaign"), 2 * 4, "arm and disarm are refused with the reason, in each of two runs without faults and two with one")
    equal(said.count("no JSON"), 4, "a journal that is none before it comes to that")


UNMOUNT = """
command = ["sh", "-e", "-c", "for n in 1 2 3 4 5 6 7 8 9; do echo $n > file$n; done"]
runs = 6
restart = "unmount"
[[fault]]
name = "tables"
seam = "device"
kind = "table"
operation = "write"
model = "dropped_write"
[[fault]]
name = "their-list"
seam = "device"
kind = "manifest"
operation = "write"
model = "byte_corrupt"
[[fault]]
name = "dead"
seam = "device"
kind = "table"
operation = "write"
model = "crash"
[[fault]]
name = "late"
seam = "device"
kind = "table"
operation = "write"
model = "count"
"""


BORDER = """
command = ["/usr/bin/python3", "-c", "import h5py, numpy; f = h5py.File('x.h5', 'w'); f['a'] = numpy.ones(5000); f['b'] = numpy.ones(5000)"]
runs = 2
[[fault]]
name = "zeros"
model = "zero_block"
path = "x.h5"
operation = "close"
size = 1073741824
offset = [%d, %d]
"""


def scenario_border(m):
    """A block that lies over the border of two datasets counts in both, and in all parts of the file that it covers."""
    with h5py.File(m.plain / "x.h5", "w") as file:
        file["a"], file["b"] = numpy.ones(5000), numpy.ones(5000)
        places = {name: file[name].id.get_offset() for name in "ab"}
    begin, end = places["b"] - 2048, places["b"] + 2048
    path, results = m.plain / "c.toml", m.plain / "c.results"
    path.write_text(BORDER % (begin, end))
    run(mounted.BINARY, "faults", "campaign", path)
    with open(results / "changes.csv") as file:
        changes = [row for row in csv.DictReader(file) if row["run"] == "1"]
    equal([(row["region"], int(row["offset"])) for row in changes if row["region"].endswith("/b")], [("raw_data of /b", places["b"])], "in the second")
    check("raw_data of /a" in {row["region"] for row in changes}, f"in the first: {changes}")
    equal(sum(int(row["length"]) for row in changes), 4096, "all its bytes")
    report = (results / "report.html").read_text()
    check("zeros: raw_data of /a" in report and "zeros: raw_data of /b" in report, "the table of regions has both")
    with open(results / "sensitivity.csv") as file:
        hit = [row for row in csv.DictReader(file) if row["silent"] == "2"]
    check(abs(int(hit[0]["first"]) - begin) <= end / 128 and int(hit[-1]["end"]) == end and len(hit) >= 4096 * 128 / end, f"the map: {hit}")
    run(mounted.BINARY, "faults", "campaign", path, "--runs", "2")
    equal((results / "report.html").read_text().count("raw_data of /b"), report.count("raw_data of /b"), "known when the campaign goes on")


ODD = """
command = ["sh", "-c", "echo 1 > data.txt; ln -s nothing dangling; ln -s $PWD/none absolute; ln -s . loop; mkfifo fifo; if test $(cat data.txt) = 1; then echo 1 > out; echo 1 > late; else mkfifo out; ln -s none gone; echo 2 > late; fi"]
runs = 1
time_limit = 5
[[output]]
path = "data.txt"
ignore = true
[[output]]
path = "%s"
%s
[[fault]]
model = "byte_corrupt"
path = "data.txt"
offset = [0, 1]
"""


def scenario_odd(m):
    """Dangling links, loops and FIFOs that a program leaves are outputs like others; a comparator has a time limit."""
    path = m.plain / "c.toml"
    wait = 'compare = ["sh", "-c", "cmp -s $0 $1 || sleep 1000", "{golden}", "{found}"]'
    for number, (name, rule, outcome, detail) in enumerate((
            ("*", "", "detected", "out is no regular file"), ("late", wait, "detected", "late could not be compared within the time limit"),
            ("dangling", "", "benign", ""), ("absolute", "", "benign", ""), ("loop", "", "benign", ""), ("fifo", "", "benign", ""))):
        path.write_text(ODD % (name, rule))
        start = time.monotonic()
        run(mounted.BINARY, "faults", "campaign", path, "--results", m.plain / f"r{number}")
        check(time.monotonic() - start < 60, "soon")
        found = rows(m.plain / f"r{number}")["byte_corrupt-1", "0"]
        equal((found["outcome"], found["detail"]), (outcome, detail), name)


ONE = """
command = ["sh", "-c", "seq 1 1000 > data.txt"]
runs = 2
[[fault]]
name = "drop"
model = "dropped_write"
path = "data.txt"
[[fault]]
name = "never"
seam = "device"
model = "count"
"""


def scenario_repeat(m):
    """The command that the report gives for a run repeats it when pasted into a shell, from anywhere; what names no run is refused."""
    folder = m.plain / "it's a $(study)"
    folder.mkdir()
    path = folder / "o'ne & two.toml"
    path.write_text(ONE)
    for extra in ([], ["--results", folder / "else where", "--runs", "3"]):
        said = run(mounted.BINARY, "faults", "campaign", path, *extra).stdout
        results = extra[1] if extra else path.with_suffix(".results")
        number = len(rows(results)) // 2 - 1
        shown = re.findall(r"<code>([^<]*--only drop:%d[^<]*)</code>" % number, (results / "report.html").read_text())
        equal(len(shown), 1, "the run's own command is in its row")
        done = run("sh", "-c", html.unescape(shown[0]), cwd="/").stdout
        equal(essence(next(csv.DictReader(done.splitlines()[:2]))), essence(rows(results)["drop", str(number)]), "pasted, it repeats that run")
        equal((results / "kept" / f"drop-{number}" / "store").is_dir(), True, "and keeps its store")
        line = next(line for line in said.splitlines() if line.startswith("never"))
        check(line.split() == ["never", "0", "-", "-", "-", "-", "-"], f"no run, no rate: {line}")
    for only, word in (("drop:2", "runs 0 to 1"), ("drop:1x", "names no run"), ("dorp:1", "names no run"), ("drop:", "names no run"), ("drop", "names no run")):
        done = run(mounted.BINARY, "faults", "campaign", path, "--only", only, status=2)
        check(word in done.stderr and not done.stdout, f"--only {only}: {done.stderr.strip()}")


def scenario_leftovers(m):
    """A campaign that fails before its first run leaves no folder of results; one that was there is left as it was."""
    path = m.plain / "c.toml"
    path.write_text(ONE.replace("data.txt\"]", "data.txt; exit 3\"]"))
    run(mounted.BINARY, "faults", "campaign", path, status=2)
    equal([file.name for file in m.plain.iterdir()], ["c.toml"], "nothing is left")
    (m.plain / "c.results").mkdir()
    (m.plain / "c.results" / "mine").write_text("x")
    run(mounted.BINARY, "faults", "campaign", path, status=2)
    equal([file.name for file in (m.plain / "c.results").iterdir()], ["mine"], "but what was there")
    shown = run(mounted.BINARY, "faults", "campaign", "--help").stdout
    check("NAME.results beside NAME.toml" in " ".join(shown.split()), f"the true folder: {shown}")


CHANGED = """
command = ["sh", "-e", "-c", "'{here}/a program' > x; cat in >> x; echo . >> '{here}/counted'"]
inputs = "inputs"
runs = 2
[[output]]
path = "x"
compare = ["cmp", "-s", "{golden}", "{found}"]
[[fault]]
name = "drop"
model = "dropped_write"
path = "x"
"""


def scenario_changed(m):
    """Runs of a program, input or campaign that changed are not mixed with those from before; files that the runs write themselves may change."""
    folder = m.plain / "a study"
    (folder / "inputs").mkdir(parents=True)
    (folder / "inputs" / "in").write_text("input\n")
    program = folder / "a program"
    program.write_text("#!/bin/sh\necho one\n")
    program.chmod(0o755)
    path, results = folder / "c.toml", folder / "c.results"
    path.write_text(CHANGED)

    def campaign(*more, status=0):
        return run(mounted.BINARY, "faults", "campaign", path, *more, status=status)

    campaign()
    campaign("--runs", "3")
    equal(len(rows(results)), 3, "it goes on, though the runs wrote beside the campaign's file")
    kept = (results / "runs.csv").read_bytes()
    for changed, text in ((program, "#!/bin/sh\necho two\n"), (folder / "inputs" / "in", "other\n"), (folder / "inputs" / "new", "")):
        before = changed.read_text() if changed.exists() else None
        changed.write_text(text)
        for more in ((), ("--runs", "4"), ("--only", "drop:1")):
            done = campaign(*more, status=2)
            check(f"from before {changed} changed" in done.stderr and "--results" in done.stderr, f"{changed.name}, {more}: {done.stderr.strip()}")
        equal((results / "runs.csv").read_bytes(), kept, "and nothing was added")
        changed.unlink() if before is None else changed.write_text(before)
    campaign("--runs", "4")
    equal(len(rows(results)), 4, "it goes on once all is as it was")


def scenario_unsteady(m):
    """A program that gives something else each time ends the campaign before any run, unless a comparator allows for it."""
    unsteady = """
command = ["sh", "-c", "date +%%N > a; echo b > b"]
runs = 2
%s
[[fault]]
name = "drop"
model = "dropped_write"
path = "b"
"""
    path = m.plain / "c.toml"
    path.write_text(unsteady % "")
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("two runs without any fault do not give the same: a differs" in done.stderr, done.stderr.strip())
    for rule in ('[[output]]\npath = "b"', '[[output]]\npath = "*"\ncompare = ["true"]'):
        path.write_text(unsteady % rule)
        run(mounted.BINARY, "faults", "campaign", path, "--results", m.plain / str(len(rule)))
    done = run(mounted.BINARY, "faults", "campaign", path, "--workers", "100000", status=2)
    check("--workers" in done.stderr, f"so many workers: {done.stderr.strip()}")
    path.write_text((unsteady % "").replace("runs = 2", "runs = 99999999999"))
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("'runs'" in done.stderr, f"so many runs: {done.stderr.strip()}")


ENDLESS = """
command = ["sh", "-c", "echo x > x; sleep 600"]
time_limit = 700
runs = 1
[[fault]]
name = "count"
model = "count"
"""


def scenario_killed(m):
    """What a campaign leaves that SIGKILL ended is taken away by the next: mounts, daemons and folders, but nothing of one that runs."""
    def start(name, text):
        path = m.plain / f"{name}.toml"
        path.write_text(text)
        return subprocess.Popen([mounted.BINARY, "faults", "campaign", path, "--scratch", m.plain], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def mounts():
        return [line.split()[4] for line in open("/proc/self/mountinfo") if str(m.plain) in line.split()[4]]

    def wait_for_mount(process):
        mount = str(m.plain / f"varve-campaign-{process.pid}" / "golden" / "mnt")
        for _ in range(600):
            if mount in mounts() and os.path.exists(mount + "/x"):
                return int(open(mount + "/.varve/pid").read())
            time.sleep(0.05)
        raise mounted.Failure("the campaign did not come to its program")

    killed, other = start("killed", ENDLESS), start("other", ENDLESS)
    daemon = wait_for_mount(killed)
    wait_for_mount(other)
    killed.kill()
    killed.wait()
    equal(len(mounts()), 2, "a killed campaign leaves its mount")
    (m.plain / "varve-campaign-notes").mkdir()
    path = m.plain / "next.toml"
    path.write_text(ENDLESS.replace("; sleep 600", ""))
    run(mounted.BINARY, "faults", "campaign", path, "--scratch", m.plain)
    equal(sorted(file.name for file in m.plain.glob("varve-campaign-*")), [f"varve-campaign-{other.pid}", "varve-campaign-notes"], "the next one takes its folder away")
    equal(len(mounts()), 1, "and its mount, not that of a campaign that runs")
    for _ in range(100):
        if not os.path.exists(f"/proc/{daemon}"):
            break
        time.sleep(0.05)
    check(not os.path.exists(f"/proc/{daemon}"), "its daemon is gone")
    equal(other.poll(), None, "the other goes on")
    other.terminate()
    equal(other.wait(timeout=60), 2, "and ends when it is told")
    equal(mounts(), [], "without a mount")


def scenario_unmount(m):
    """With restart = "unmount" faults strike what an unmount writes, and results are read from the store that is mounted after it."""
    path = m.plain / "c.toml"
    path.write_text(UNMOUNT)
    run(mounted.BINARY, "faults", "campaign", path, "--scratch", m.plain)
    found = rows(m.plain / "c.results")
    for fault, region, outcomes in (("tables", "table", {"benign"}), ("their-list", "manifest", {"detected", "benign"}), ("dead", "table", {"benign"})):
        those = [row for (name, _), row in found.items() if name == fault]
        equal({row["region"] for row in those}, {region}, f"{fault}: hit a {region}")
        check({row["outcome"] for row in those} <= outcomes, f"{fault}: {[row['outcome'] + ' ' + row['detail'] for row in those]}")
    check("detected" in [row["outcome"] for (name, _), row in found.items() if name == "their-list"], "a damaged list is found")
    equal({row["outcome"] for (name, _), row in found.items() if name == "late"}, {"none"}, "a fault that does nothing is none")
    equal([line for line in open("/proc/mounts") if str(m.plain) in line], [], "no mount is left")
    path.write_text(UNMOUNT.replace('"unmount"', '"umount"'))
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("line 4: 'restart'" in done.stderr and '"unmount"' in done.stderr, done.stderr.strip())


DEATHS = """
command = ["sh", "-c", "for i in 1 2 3 4; do head -c 9000 /dev/zero > out$i || exit 1; done"]
runs = 4
[[fault]]
name = "dies"
seam = "app"
operation = "write"
model = "crash"
[[fault]]
name = "dies-first"
seam = "app"
operation = "write"
model = "crash"
before = true
[[fault]]
name = "torn"
seam = "app"
operation = "write"
model = "torn_write"
then = "crash"
"""


def scenario_deaths(m):
    """A fault that kills the daemon counts, with what the program and the store made of it; one campaign at a time has the results."""
    path, results = m.plain / "c.toml", m.plain / "c.results"
    path.write_text(DEATHS)
    said = run(mounted.BINARY, "faults", "campaign", path, "--scratch", m.plain).stdout
    found = rows(results)
    equal(len(found), 12, "all runs")
    for (fault, number), row in found.items():
        if row["operation"] != "write" or row["outcome"] in ("none", "crash"):
            raise mounted.Failure(f"{fault}:{number}: {row}")
        check("effect" in (results / "journals" / f"{fault}-{number}.jsonl").read_text(), f"{fault}:{number}: {row['outcome']} {row['detail']}")
    check("no operation" not in said, "no run is left out")
    with open(results / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("runs a campaign" in done.stderr, "a second campaign with these results is refused: " + done.stderr.strip())
    run(mounted.BINARY, "faults", "campaign", path)
    equal(len(rows(results)), 12, "and goes on when the first has ended")


def scenario_no_match(m):
    """A target that matches nothing is an error that names it, before any run and without a table."""
    path = m.plain / "c.toml"
    path.write_text('command = ["sh", "-c", "echo 1 > a.txt; echo 2 > b.txt"]\nruns = 5\n[[fault]]\nmodel = "bit_flip"\n'
                    'path = "c.txt"\n')
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("no operation that matches" in done.stderr and "c.txt" in done.stderr and "a.txt, b.txt" in done.stderr, done.stderr.strip())
    equal(done.stdout, "", "no table is printed")
    equal((m.plain / "c.results" / "runs.csv").exists(), False, "nor made")
    path.write_text('command = ["sh", "-c", "cp {here}/a.npy ."]\nruns = 5\n[[fault]]\nmodel = "bit_flip"\nregion = "array"\n')
    (m.plain / "a.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (20000,), }".ljust(127) + b"\n" + bytes(80_000))
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check('operation = "close"' in done.stderr, done.stderr.strip())
    path.write_text(path.read_text() + 'operation = "close"\n')
    run(mounted.BINARY, "faults", "campaign", path, "--results", m.plain / "closed")
    equal({row["region"] for row in rows(m.plain / "closed").values()}, {"raw_data"}, "as it says")
    rest = '[[fault]]\nmodel = "bit_flip"\npath = "a.txt"\n'
    for head, word in (('[[output]]\npath = "b.txt"\n', '"b.txt": the run without faults left nothing of that name, but a.txt'),
                       ('[[output]]\npath = "analysis"\n', "left nothing of that name")):
        path.write_text('command = ["sh", "-c", "echo 1 > a.txt"]\nruns = 1\n' + head + rest)
        done = run(mounted.BINARY, "faults", "campaign", path, status=2)
        check(word in done.stderr and not done.stdout, done.stderr.strip())
    path.write_text('command = ["sh", "-c", "echo 1 > a.txt; cat a.txt; rm a.txt"]\nruns = 1\n' + rest)
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("nothing to compare" in done.stderr and not done.stdout, done.stderr.strip())
    for text, word in (("comand = 1\n", 'did you mean "command"'), ("command = [\"a\"]\nruns = many\n", "line 2"),
                       ('command = ["a"]\n[[fault]]\nmodel = "bit_flip"\npath = "x"\nstructure = "superbloc"\n', 'line 5')):
        path.write_text(text)
        done = run(mounted.BINARY, "faults", "campaign", path, status=2)
        check(word in done.stderr and str(path) in done.stderr, done.stderr.strip())


def scenario_mistakes(m):
    """A mistake in a campaign's file is an error before any run, with the file, the line or the key, and what to write."""
    path = m.plain / "c.toml"
    base = 'command = ["sh", "-c", "echo 1 > a.txt"]\nruns = 2\n'
    fault = '\n[[fault]]\nmodel = "bit_flip"\npath = "a.txt"\n'
    compare = '[[output]]\npath = "*.txt"\ncompare = '
    cases = (('bound = "rel"', "line 3: 'bound' cannot be \"rel\""), ('inputs = "none"', "line 3: 'inputs' must be a folder"),
             ('inputs = "c.toml"', "line 3: 'inputs' must be a folder"), ('analysis = ["no-such-program"]', "'analysis': cannot start"),
             (compare + '["no-such-program", "{golden}", "{found}"]', "cannot start no-such-program"),
             (compare + '["false"]', "'compare' does not find a.txt of the golden run equal to itself: its exit status is 1"),
             (compare + '["sh", "-c", "echo no option -z; exit 2"]', "neither 0 nor 1; it printed: no option -z"))
    for line, word in cases:
        path.write_text(base + line + fault)
        done = run(mounted.BINARY, "faults", "campaign", path, status=2)
        check(word in done.stderr and done.stderr.startswith(f"varve: {path}"), done.stderr.strip())
        equal((m.plain / "c.results" / "runs.csv").exists(), False, "nothing is run")
    path.write_text(base.replace('"sh"', '"no-such-program"') + fault)
    done = run(mounted.BINARY, "faults", "campaign", path, status=2)
    check("'command': cannot start no-such-program" in done.stderr, done.stderr.strip())
    path.write_text(base + compare + '["cmp", "{golden}", "{found}"]' + fault)
    done = run(mounted.BINARY, "faults", "campaign", path, "--scratch", path, status=2)
    check("--scratch" in done.stderr and str(path) in done.stderr, done.stderr.strip())
    for option, value, word in (("--scratch", m.plain / "none" / "here", "cannot make"), ("--runs", "-1", "--runs"), ("--runs", "0", "--runs")):
        done = run(mounted.BINARY, "faults", "campaign", path, option, value, status=2)
        check(word in done.stderr, done.stderr.strip())
    equal((m.plain / "none").exists(), False, "a folder that is not there is not made")
    (m.plain / "full" / "journals").mkdir(parents=True)
    (m.plain / "full" / "report.html").symlink_to("/dev/full")
    done = run(mounted.BINARY, "faults", "campaign", path, "--results", m.plain / "full", status=2)
    check("cannot write" in done.stderr and "report.html" in done.stderr, done.stderr.strip())
    equal(len(rows(m.plain / "full")), 2, "the runs are kept")
    terminal, end = pty.openpty()
    done = subprocess.run([mounted.BINARY, "faults", "campaign", path], stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    shown = os.read(terminal, 65_536).decode()
    os.close(terminal)
    equal(done.returncode, 0, "a campaign without mistakes")
    equal([row["outcome"] for row in rows(m.plain / "c.results").values()], ["silent"] * 2, "a comparator that tells them apart")
    check(re.search(r"1 of 2 runs; silent 1; \d+ min \d\d s left", shown) and "2 of 2 runs; silent 2; 0 min 00 s left" in shown,
          f"how far it is, and when it ends: {shown!r}")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
