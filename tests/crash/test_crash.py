#!/usr/bin/python3
"""What a store is after its daemon was killed, and after power cuts.

    test_crash.py kill  [--cuts N] [--seed S]     SIGKILL of the daemon at random moments
    test_crash.py power [--cuts N] [--seed S]     power cuts, see disk.py; some come again during the recovery

Programs (workload.py) work on a mount; then the store is checked by varve fsck, mounted again, and held against what
they were promised. Every cut has a number, which is its seed: --seed S --cuts 1 repeats cut S (of power, exactly as it
was if --trace names a trace that was kept). VARVE_CRASH_KEEP names a folder that gets what a failed cut leaves.
Environment otherwise as in tests/clients/mounted.py; CRASH_MOUNT is the program crash_mount.
"""

import argparse
import json
import os
import pathlib
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))

import disk
import mounted
import workload

CRASH_MOUNT = os.environ.get("CRASH_MOUNT", "crash_mount")
CUTS_OF_A_TRACE = 25
STEPS = 70  # of each worker
WORKERS = 2
SLACK = 200_000  # bytes of packs: an appended record may just not fit


class Mount(mounted.Mount):
    """Of crash_mount instead of varve, if `small`: with small packs, and a trace if there is to be one."""

    def start(self, *options, small=False, trace=None):
        if not small:
            return super().start(*options)
        command = [CRASH_MOUNT, self.store, self.root] + ([trace] if trace else [])
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=mounted._die_with_parent)
        mounted._live.append(self)
        deadline = time.monotonic() + 60
        while not self.serves():
            if self.process.poll() is not None:
                raise mounted.Failure(f"crash_mount ended with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise mounted.Failure(f"nothing was mounted after 60 s:\n{self.log()}")
            time.sleep(0.003)
        return self

    def end(self):
        """As unmounting does, without a sound."""
        self.process.send_signal(signal.SIGTERM)
        if (status := self.process.wait(timeout=60)) != 0:
            raise mounted.Failure(f"the daemon ended with {status}:\n{self.log()}")
        mounted._live.remove(self)
        self.process = None

    def drop(self):
        """The dead mount goes."""
        subprocess.run(["fusermount3", "-u", "-z", self.root], stderr=subprocess.DEVNULL, check=False)


def fsck(store, what):
    done = mounted.run(mounted.BINARY, "fsck", "-v", store, status=None)
    if done.returncode != 0:
        raise mounted.Failure(f"varve fsck {what}:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(problems, what):
    if problems:
        raise mounted.Failure(f"{what}: " + "\n".join(problems))


def works_on(root):
    """The mount takes new files, of every kind of staging, and gives them back."""
    probe = root / "probe"
    for size in (1000, 100_000):
        content = os.urandom(size)
        probe.write_bytes(content)
        if probe.read_bytes() != content:
            raise mounted.Failure("what is written after the recovery reads wrong")
    probe.unlink()


def nothing_is_left_over(store):
    """After the recovery and an orderly end: no staging, no object of nobody, no pack of nobody."""
    left = sorted(path.name for path in (store / "staging").iterdir())
    if left:
        raise mounted.Failure(f"staging files of nobody take space: {left}")
    done = mounted.run(CRASH_MOUNT, "--collect", store)
    packs = json.loads(done.stdout)
    if packs["bytes"] > 2 * packs["live"] + packs["limit"] + SLACK:
        raise mounted.Failure(f"packs hold more than they should: {packs}")
    fsck(store, "after the recovery and collecting")


# Kills.


def run_workers(workers):
    """Until each has done its steps, or the mount is gone."""

    def run(worker):
        try:
            worker.run(STEPS if worker.count() else 10**6)  # without a disk that counts, a kill ends it
        except OSError as error:
            worker.error = error
        except BaseException:
            worker.error = traceback.format_exc()

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    return threads


def stopped_by(workers, may_stop):
    for worker in workers:
        if worker.error is not None and not (may_stop and isinstance(worker.error, OSError)):
            raise mounted.Failure(f"a program was stopped by {worker.error!r} after {worker.steps[-3:]}")


def kill_once(m, seed):
    """On a mount that serves; afterwards it serves again."""
    chance = random.Random(seed)
    workers = []
    for number in range(WORKERS):
        root = m.root / f"kill{seed}-{number}"
        root.mkdir()
        workers.append(workload.Worker(root, f"{seed}-{number}"))
    threads = run_workers(workers)
    time.sleep(chance.choice((0.02, 0.1, 0.4, 1.0)) * chance.random())
    m.kill()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.close_all()
    stopped_by(workers, may_stop=True)
    m.drop()
    fsck(m.store, "after the kill")
    m.start()
    for worker in workers:
        expect(workload.problems(worker, worker.root, kill=True), worker.root)
        shutil.rmtree(worker.root)
    works_on(m.root)
    m.end()
    nothing_is_left_over(m.store)
    m.start()
    return sum(len(worker.steps) for worker in workers)


def kills(folder, seed, cuts):
    m = Mount(folder)
    steps = 0
    m.start()
    try:
        for number in range(seed, seed + cuts):
            print(f"kill {number}", flush=True)
            steps += kill_once(m, number)
        m.end()
    except BaseException:
        keep(m.store, f"kill-{number}")
        raise
    finally:
        m.clean_up()
    print(f"{cuts} kills survived, of {steps} operations under way or done", flush=True)


# Power cuts.


def record(folder, seed):
    """Programs work on a new store on a disk that keeps a record. Returns (workers, trace, when it was mounted)."""
    m = Mount(folder)
    trace = folder / "trace"
    m.start(small=True, trace=trace)
    count = disk.Counter(trace)
    mounted_at = count()
    workers = []
    for number in range(WORKERS):
        root = m.root / f"w{number}"
        root.mkdir()
        workers.append(workload.Worker(root, f"{seed}-{number}", count))
    descriptor = os.open(m.root, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    begun = count()
    for thread in run_workers(workers):
        thread.join()
    for worker in workers:
        worker.close_all()
    m.kill()
    m.drop()
    stopped_by(workers, may_stop=False)
    return workers, trace, mounted_at, begun


def recovers(m, workers, cut, begun, trace):
    """Mounts what a cut left and compares."""
    m.start(small=True, trace=trace)
    try:
        for worker in workers if cut >= begun else ():
            root = m.root / os.path.basename(worker.root)
            expect(workload.problems(worker, root, cut), root.name)
        works_on(m.root)
        m.end()
    finally:
        m.drop()


def power_cut(folder, number, steps, workers, mounted_at, begun):
    """One cut, and perhaps a second while the first is recovered from."""
    chance = random.Random(number)
    mode = chance.choice(disk.MODES)
    cut = chance.randrange(begun) if chance.random() < 0.08 else chance.randrange(begun, len(steps) + 1)
    again = chance.random() < 0.25
    print(f"power cut {number}: after {cut} of {len(steps)} steps, {mode}{', and again' if again else ''}", flush=True)
    m = Mount(folder / f"cut{number}")
    try:
        disk.cut_store(steps, cut, mode, number, m.store)
        if cut >= mounted_at:
            fsck(m.store, "after the cut")
        if again:
            first = m.folder / "first"
            shutil.copytree(m.store, first)
            recovers(m, workers, cut, begun, m.folder / "trace")
            more = disk.read_trace(m.folder / "trace")
            second = chance.randrange(len(more) + 1)
            second_mode = chance.choice(disk.MODES)
            disk.cut_store(more, second, second_mode, number + 1, m.store, first)
            if cut >= mounted_at:
                fsck(m.store, f"after a second cut, {second} of {len(more)}, {second_mode}")
        recovers(m, workers, cut, begun, None)
        nothing_is_left_over(m.store)
    except BaseException:
        keep(m.folder, f"power-{number}")
        disk.cut_store(steps, cut, mode, number, m.folder / "image")
        keep(m.folder / "image", f"power-{number}-image")
        raise
    finally:
        m.clean_up()
        shutil.rmtree(m.folder, ignore_errors=True)


def recorded(folder, seed, kept):
    """(workers, steps, when it was mounted, when the programs began), anew or of a folder that was kept."""
    if kept:
        workers, mounted_at, begun = pickle.loads((pathlib.Path(kept) / "workers").read_bytes())
        return workers, disk.read_trace(pathlib.Path(kept) / "trace"), mounted_at, begun
    workers, trace, mounted_at, begun = record(folder, seed)
    for worker in workers:
        worker.count = None
    (folder / "workers").write_bytes(pickle.dumps((workers, mounted_at, begun)))
    return workers, disk.read_trace(trace), mounted_at, begun


def power_cuts(folder, seed, cuts, kept):
    done, failed, operations, number = 0, [], 0, seed
    while number < seed + cuts:
        session = number // CUTS_OF_A_TRACE
        home = folder / f"trace{session}"
        print(f"programs {session}", flush=True)
        workers, steps, mounted_at, begun = recorded(home, session, kept)
        operations += sum(len(worker.steps) for worker in workers)
        end = min((session + 1) * CUTS_OF_A_TRACE, seed + cuts)
        bad = False
        while number < end:
            try:
                power_cut(folder, number, steps, workers, mounted_at, begun)
                done += 1
            except mounted.Failure as failure:
                print(f"  FAILED: {failure}", flush=True)
                failed.append(number)
                bad = True
            number += 1
        if bad:
            keep(home, f"trace{session}")
        shutil.rmtree(home, ignore_errors=True)
    print(f"{done} power cuts survived, in records of {operations} operations", flush=True)
    if failed:
        raise mounted.Failure(f"{len(failed)} failed: {failed}")


def keep(what, name):
    if (place := os.environ.get("VARVE_CRASH_KEEP")) and os.path.isdir(what):
        shutil.rmtree(pathlib.Path(place) / name, ignore_errors=True)
        shutil.copytree(what, pathlib.Path(place) / name, ignore=shutil.ignore_patterns("mnt"))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kill", "power"))
    parser.add_argument("--cuts", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0, help="number of the first cut")
    parser.add_argument("--trace", help="a folder trace* that VARVE_CRASH_KEEP got")
    arguments = parser.parse_args()
    if not os.path.exists("/dev/fuse"):
        print("SKIPPED: there is no /dev/fuse here")
        sys.exit(77)
    base = pathlib.Path(tempfile.mkdtemp(prefix="varve-crash-", dir=os.environ.get("VARVE_CLIENTS_FOLDER")))
    started = time.monotonic()
    status = 0
    try:
        if arguments.what == "kill":
            kills(base / "kill", arguments.seed, arguments.cuts)
        else:
            power_cuts(base, arguments.seed, arguments.cuts, arguments.trace)
    except mounted.Failure as failure:
        print(f"FAILED: {failure}", flush=True)
        status = 1
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
