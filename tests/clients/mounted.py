"""A real mount for tests: each scenario gets a store, a mount point and a plain folder of its own.

A test script defines functions scenario_NAME(m), m being a Mount that serves, and ends with
`mounted.main(mounted.scenarios(globals()))`. Run without arguments it runs all its scenarios, else those named.
Environment: VARVE_BIN, the program; VARVE_TEST_DATA, the folder of test data; VARVE_CLIENTS_FOLDER, where stores and
mount points are made (default: the system's folder for temporary files). Exit status: 0, 1 (a check failed), 77 (all
scenarios were skipped: no /dev/fuse, no data).
"""

import atexit
import ctypes
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

BINARY = os.environ.get("VARVE_BIN") or "varve"
PYTHON = "/usr/bin/python3"
PR_SET_PDEATHSIG = 1
_live = []


class Skip(Exception):
    """The scenario cannot run here; the text says why."""


class Failure(Exception):
    """A check did not hold."""


def check(condition, what):
    if not condition:
        raise Failure(what)
    print(f"  ok: {what}", flush=True)


def equal(found, wanted, what):
    if found != wanted:
        raise Failure(f"{what}: found {shorten(found)}, wanted {shorten(wanted)}")
    print(f"  ok: {what}", flush=True)


def shorten(value):
    text = repr(value)
    return text if len(text) < 300 else text[:200] + f"... ({len(text)} characters)"


def refused(error_number, action, what):
    """The action must fail with that errno."""
    try:
        action()
    except OSError as error:
        equal(os.strerror(error.errno), os.strerror(error_number), what)
        return
    raise Failure(f"{what}: succeeded, wanted {os.strerror(error_number)}")


def run(*command, status=0, cwd=None, stdin=None, env=None, timeout=300):
    """Runs a program; its exit status must be `status` (None: any). Returns the finished process, output as text."""
    command = [str(part) for part in command]
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, timeout=timeout, env={**os.environ, **(env or {})}
    )
    done.stdout, done.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if status is not None and done.returncode != status:
        raise Failure(
            f"`{' '.join(command)}` ended with {done.returncode}, not {status}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done


def shell(script, cwd=None, status=0, **more):
    return run("bash", "-euo", "pipefail", "-c", script, cwd=cwd, status=status, **more).stdout


def data_folder():
    folder = os.environ.get("VARVE_TEST_DATA")
    if not folder or not os.path.isdir(folder):
        raise Skip("VARVE_TEST_DATA names no folder of test data")
    return pathlib.Path(folder)


def same_bytes(left, right):
    """cmp(1) without the program."""
    with open(left, "rb") as a, open(right, "rb") as b:
        while True:
            piece, other = a.read(1 << 20), b.read(1 << 20)
            if piece != other:
                return False
            if not piece:
                return True


def python(code, *arguments, **more):
    """Runs Python code in a process of its own."""
    return run(PYTHON, "-c", code, *arguments, **more).stdout


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _detach(folder):
    """Removes what an earlier run left mounted in a folder."""
    for line in reversed(pathlib.Path("/proc/self/mounts").read_text().splitlines()):
        point = line.split()[1].encode().decode("unicode_escape")
        if point.startswith(f"{folder}/"):
            subprocess.run(["fusermount3", "-u", "-z", point], stderr=subprocess.DEVNULL, check=False)


class Mount:
    """`varve mount -f STORE DIR` as a child process. `root` is the mount point, `plain` a folder on the plain disk."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.store, self.root, self.plain = (self.folder / name for name in ("store", "mnt", "plain"))
        self.log_path = self.folder / "log"
        for path in (self.root, self.plain):
            path.mkdir(parents=True)
        self.process = None

    def start(self, *options):
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [BINARY, "mount", "-f", *options, self.store, self.root],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,
        )
        log.close()
        _live.append(self)
        deadline = time.monotonic() + 60
        while not self.serves():
            if self.process.poll() is not None:
                raise Failure(f"`varve mount` ended with {self.process.returncode} before it served:\n{self.log()}")
            if time.monotonic() > deadline:
                raise Failure(f"nothing was mounted after 60 s:\n{self.log()}")
            time.sleep(0.01)
        return self

    def stop(self):
        """Unmounts with `varve umount`, which must return only when all is stored and the daemon is gone."""
        run(BINARY, "umount", self.root)
        check(not os.path.ismount(self.root), "unmounted")
        equal(self.process.wait(timeout=30), 0, "the daemon's exit status")
        _live.remove(self)
        self.process = None

    def restart(self, *options):
        self.stop()
        self.start(*options)

    def kill(self):
        """kill -9 of the daemon; the dead mount stays."""
        self._kill_daemon()
        _live.remove(self)
        self.process = None

    def _kill_daemon(self):
        """Killed while the kernel drops pages that a program waits for, it cannot end: see docs/RELIABILITY.md."""
        self.process.kill()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            print("  note: the killed daemon cannot end; its connection is aborted", flush=True)
            subprocess.run(["umount", "-f", self.root], check=False)  # aborts it, whether it can unmount or not
            self.process.wait(timeout=60)

    def serves(self):
        """This daemon answers, and not a dead mount that is still there."""
        try:
            return (self.root / ".varve" / "pid").read_text().strip() == str(self.process.pid)
        except OSError:
            return False

    def alive(self):
        return self.process is not None and self.process.poll() is None and self.serves()

    def clean_up(self):
        if self in _live:
            _live.remove(self)
        if self.process is not None:
            self._kill_daemon()
        subprocess.run(["fusermount3", "-u", "-z", self.root], stderr=subprocess.DEVNULL, check=False)

    def log(self, lines=40):
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def bound(self, text, path=None):
        """Sets the bound of the mount's root, or of a path in it."""
        os.setxattr(path or self.root, "user.varve.bound", text.encode())

    def folders(self, *bounds):
        """Makes a folder of the mount's root for each bound, which it has: "rel1e-3" for "rel:1e-3"."""
        for bound in bounds:
            folder = self.root / bound.replace(":", "")
            folder.mkdir(exist_ok=True)
            self.bound(bound, folder)
            yield folder

    def stored(self, path):
        """Bytes stored for one file, as du(1) counts them."""
        return os.stat(path).st_blocks * 512


@atexit.register
def _end_leftovers():
    for mount in list(_live):
        mount.clean_up()


def scenarios(names):
    return {name.removeprefix("scenario_"): value for name, value in names.items() if name.startswith("scenario_")}


def _run_one(name, action, base):
    folder = base / f"{pathlib.Path(sys.argv[0]).stem}.{name}"
    _detach(folder)
    shutil.rmtree(folder, ignore_errors=True)
    mount = Mount(folder)
    meaning = getattr(action, "func", action).__doc__ or ""
    print(f"{name}: {meaning.strip()}", flush=True)
    try:
        random.seed(name)
        mount.start()
        action(mount)
        if mount.process is not None:
            check(mount.alive(), "the mount lives")
            mount.stop()
    except Skip as skip:
        print(f"  SKIPPED: {skip}", flush=True)
        return "skipped"
    except Exception as error:  # a test's border: whatever happened is a failure of this scenario
        print(f"  FAILED: {error}" if isinstance(error, Failure) else traceback.format_exc(), flush=True)
        print(f"the daemon's log:\n{mount.log()}", flush=True)
        return "failed"
    finally:
        mount.clean_up()
        shutil.rmtree(folder, ignore_errors=True)
    return "passed"


def main(table):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not os.path.exists("/dev/fuse"):
        print("SKIPPED: there is no /dev/fuse here")
        sys.exit(77)
    unknown = [name for name in sys.argv[1:] if name not in table]
    if unknown:
        sys.exit(f"no such scenario: {', '.join(unknown)}; there are: {', '.join(table)}")
    base = pathlib.Path(os.environ.get("VARVE_CLIENTS_FOLDER") or tempfile.mkdtemp(prefix="varve-clients-"))
    base = base.resolve()
    results = [_run_one(name, table[name], base) for name in sys.argv[1:] or table]
    if "VARVE_CLIENTS_FOLDER" not in os.environ:
        shutil.rmtree(base, ignore_errors=True)
    print(", ".join(f"{results.count(kind)} {kind}" for kind in ("passed", "failed", "skipped")))
    sys.exit(1 if "failed" in results else 77 if results.count("skipped") == len(results) else 0)
