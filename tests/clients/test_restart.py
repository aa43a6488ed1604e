#!/usr/bin/python3
"""Unmounting, remounting, killing: what was stored stays, what was synced survives."""

import errno
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import arrays
import h5py
import mounted
import numpy as np
from mounted import check, equal, refused, run, same_bytes, shell
from test_hdf5 import smooth


def scenario_unmount_at_once(m):
    """Written, unmounted in the same instant, mounted again: all is there."""
    for turn in range(5):
        shell(f"head -c 3000000 /dev/urandom > {m.plain}/{turn}.bin")
        np.save(m.plain / f"{turn}.npy", smooth(seed=turn))
        shell(f"cp {m.plain}/{turn}.bin {m.plain}/{turn}.npy {m.root}/")
        m.restart()
        for name in (f"{n}.{kind}" for n in range(turn + 1) for kind in ("bin", "npy")):
            if not same_bytes(m.root / name, m.plain / name):
                raise mounted.Failure(f"turn {turn}: {name} differs")
    check(True, "5 times: written, unmounted, mounted, equal")


def within(seconds, holds):
    """Whether something comes true before so many seconds have passed."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().split()[3])


def daemon_of(root):
    """The pid of the daemon that serves, waiting for it for at most five seconds."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return int((root / ".varve" / "pid").read_text())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def scenario_supervised(m):
    """mount --supervise: a daemon that is killed is started again, with what fsync promised; umount ends both."""
    m.stop()
    run(mounted.BINARY, "mount", "--supervise", m.store, m.root)
    contents, seen = {}, set()
    for turn in range(3):
        contents[f"f{turn}"] = os.urandom(300_000)
        synced_file(m.root / f"f{turn}", contents[f"f{turn}"])
        pid = daemon_of(m.root)
        parent = parent_of(pid)
        seen.add(pid)
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        while daemon_of(m.root) == pid:
            time.sleep(0.02)
        print(f"  it served again after {time.monotonic() - killed:.2f} s", flush=True)
        for name, content in contents.items():
            equal((m.root / name).read_bytes(), content, f"{name} after death {turn + 1}")
    equal(len(seen), 3, "three daemons")
    log = (m.store / "varve.log").read_text()
    equal(log.count("started again"), 3, "the log names each death")
    run(mounted.BINARY, "umount", m.root)
    check(within(5, lambda: not pathlib.Path(f"/proc/{parent}").exists()), "after umount the supervisor has ended")
    run(mounted.BINARY, "mount", "--supervise", m.store, m.root)
    pid = daemon_of(m.root)
    parent = parent_of(pid)
    os.kill(parent, signal.SIGTERM)
    check(within(10, lambda: not os.path.ismount(m.root)), "SIGTERM of the supervisor unmounts")
    done = run(mounted.BINARY, "mount", "--supervise", m.plain / "none" / "store", m.root, status=2)
    check("none" in done.stderr, "what cannot start says so: " + done.stderr.strip())
    m.start()
    equal((m.root / "f0").read_bytes(), contents["f0"], "without a supervisor as well")


def synced_file(path, content):
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def killed_while_dropping(m):
    """Kills the daemon of a mount in the background while the kernel, at its request, drops a page that a program waits
    for: it cannot end then. Gives back both."""
    schedule = m.plain / "late.toml"
    schedule.write_text('page_cache = "kernel"\n[[fault]]\nmodel = "delay"\nseam = "app"\noperation = "read"\n'
                        'path = "held.npy"\nmilliseconds = 600000\nmost_milliseconds = 600000\n')
    path = m.root / "held.npy"
    np.save(path, smooth())
    run(mounted.BINARY, "sync", m.root)
    synced_file(m.root / "synced", b"synced" * 100_000)
    run(mounted.BINARY, "faults", "arm", m.root, schedule)
    program = subprocess.Popen(["head", "-c", "4096", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(0.5)
    with open(path, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(bytes(100))
    pid = daemon_of(m.root)
    threads = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    check(within(10, lambda: any((thread / "stat").read_text().split()[2] == "D" for thread in threads)),
          "a thread of the daemon waits for the page")
    os.kill(pid, signal.SIGKILL)
    return pid, program


def is_over(pid):
    """It has ended, whether its parent has taken notice or not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return True


def scenario_held_supervised(m):
    """A daemon that cannot end when it is killed: its supervisor ends the connection, and it serves again in a second."""
    m.stop()
    run(mounted.BINARY, "mount", "--supervise", m.store, m.root)
    m.bound("rel:1e-3")
    pid, program = killed_while_dropping(m)
    killed = time.monotonic()
    check(within(5, lambda: daemon_of(m.root) != pid), "another daemon serves")
    taken = time.monotonic() - killed
    check(taken < 1.5, f"it served again after {taken:.2f} s")  # within a second, on a machine that has time
    check("not connected" in program.communicate(timeout=10)[1].decode(), "the program that waited got ENOTCONN")
    equal((m.root / "synced").read_bytes(), b"synced" * 100_000, "what was synced is there")
    check(np.abs(np.load(m.root / "held.npy") - smooth())[:-25].max() < 0.1, "the file reads")
    check(is_over(pid), "the killed daemon has ended")
    run(mounted.BINARY, "umount", m.root)
    m.start()


def scenario_held_mount(m):
    """A daemon that cannot end when it is killed: varve mount on the same directory ends the connection, umount too."""
    m.stop()
    for command in ("mount", "umount"):
        run(mounted.BINARY, "mount", m.store, m.root)
        m.bound("rel:1e-3")
        pid, program = killed_while_dropping(m)
        time.sleep(1)
        check(program.poll() is None and not is_over(pid), "the program and the killed daemon hang")
        if command == "mount":
            run(mounted.BINARY, "mount", m.store, f"{m.root}/", timeout=30)
        else:
            run(mounted.BINARY, "umount", m.root, status=None, timeout=30)
        check("not connected" in program.communicate(timeout=10)[1].decode(), "the program that waited got ENOTCONN")
        check(is_over(pid), f"after varve {command} the daemon has ended")
        run(mounted.BINARY, "umount", m.root, status=None)
        check(not os.path.ismount(m.root), "and the mount can be taken off")
        m.start()
        equal((m.root / "synced").read_bytes(), b"synced" * 100_000, "what was synced is there")
        m.stop()
    m.start()


def scenario_killed_after_fsync(m):
    """kill -9 of the daemon: what fsync returned for is there on the next mount, on the same mount point."""
    contents = {}
    for turn in range(4):
        name = f"synced{turn}"
        contents[name] = os.urandom(500_000 + turn)
        synced_file(m.root / name, contents[name])
        open_file = open(m.root / f"open{turn}", "wb", buffering=0)
        open_file.write(contents[name])
        os.fsync(open_file.fileno())
        contents[f"open{turn}"] = contents[name]
        open_file.write(b"not synced" * 1000)
        folder = os.open(m.root, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        m.kill()
        try:
            open_file.close()
        except OSError:
            pass
        refused(errno.ENOTCONN, lambda: os.listdir(m.root), "the dead mount says that it is dead")
        m.start()
        for known, content in contents.items():
            found = (m.root / known).read_bytes()
            if found[: len(content)] != content or (known.startswith("synced") and len(found) != len(content)):
                raise mounted.Failure(f"kill {turn}: {known} is not what was synced ({len(found)} bytes)")
    check(True, "4 kills: all that was synced is there")


def scenario_killed_while_writing(m):
    """kill -9 in the middle of rewriting sealed files: each is wholly old or new where it was sealed, and readable."""
    np.save(m.plain / "x.npy", smooth())
    for number in range(6):
        shell(f"cp {m.plain}/x.npy {m.root}/{number}.npy")
    run(mounted.BINARY, "sync", m.root)
    code = ("import numpy as np, sys\nx = np.load(sys.argv[1]) + 1\nwhile True:\n"
            "    for k in range(6): np.save(f'{sys.argv[2]}/{k}.npy', x)\n")
    for delay in (0.2, 0.5, 0.9):
        with subprocess.Popen([mounted.PYTHON, "-c", code, m.plain / "x.npy", m.root], stderr=subprocess.DEVNULL) as child:
            time.sleep(delay)
            m.kill()
            child.kill()
        m.start()
        for number in range(6):
            size = (m.root / f"{number}.npy").stat().st_size
            content = (m.root / f"{number}.npy").read_bytes()
            equal(len(content), size, f"{number}.npy: all bytes of its size can be read")
        (m.root / "probe").write_bytes(b"x")
        equal((m.root / "probe").read_bytes(), b"x", "the mount takes writes")


def scenario_killed_sealed(m):
    """kill -9 after varve sync: sealed lossy files read the same bytes, their bound and times are kept."""
    m.bound("rel:1e-3")
    with h5py.File(m.root / "a.h5", "w") as file:
        file["x"] = smooth()
    np.save(m.root / "b.npy", smooth())
    os.utime(m.root / "b.npy", ns=(10**18, 10**18))
    run(mounted.BINARY, "sync", m.root)
    before = [(m.root / name).read_bytes() for name in ("a.h5", "b.npy")]
    m.kill()
    m.start()
    check([(m.root / name).read_bytes() for name in ("a.h5", "b.npy")] == before, "the same bytes")
    equal(os.stat(m.root / "b.npy").st_mtime_ns, 10**18, "the time")
    equal(os.getxattr(m.root, "user.varve.bound").decode().split(":")[0], "rel", "the directory's bound")


def scenario_locked_store(m):
    """A store that is mounted cannot be mounted again; the message names the process."""
    other = m.folder / "other"
    other.mkdir()
    done = run(mounted.BINARY, "mount", "-f", m.store, other, status=None, timeout=30)
    check(done.returncode != 0, "the second mount is refused")
    check(str(m.process.pid) in done.stderr, f"and says by whom: {done.stderr.strip()}")
    (m.root / "f").write_text("x")
    equal((m.root / "f").read_text(), "x", "the first one serves on")


def scenario_background(m):
    """`varve mount` without -f returns once it serves; `varve umount` returns once all is stored."""
    m.stop()
    for turn in range(3):
        run(mounted.BINARY, "mount", m.store, m.root)
        check(os.path.ismount(m.root), "mounted when the command returns")
        (m.root / f"f{turn}").write_bytes(os.urandom(100_000))
        content = (m.root / f"f{turn}").read_bytes()
        run(mounted.BINARY, "umount", m.root)
        check(not os.path.ismount(m.root), "unmounted when the command returns")
        m.start()
        check((m.root / f"f{turn}").read_bytes() == content, "the store is free at once, and has the file")
        m.stop()
    done = run(mounted.BINARY, "umount", m.root, status=None)
    check(done.returncode != 0 and str(m.root) in done.stderr, f"umount of nothing: {done.stderr.strip()}")


def scenario_fusermount(m):
    """`fusermount3 -u` by hand, and SIGTERM to the daemon: both store everything."""
    (m.root / "a").write_bytes(b"a" * 100_000)
    run("fusermount3", "-u", m.root)
    equal(m.process.wait(timeout=60), 0, "the daemon ends after fusermount3 -u")
    m.start()
    equal((m.root / "a").read_bytes(), b"a" * 100_000, "the file is there")
    (m.root / "b").write_bytes(b"b" * 100_000)
    m.process.send_signal(signal.SIGTERM)
    equal(m.process.wait(timeout=60), 0, "the daemon ends after SIGTERM")
    check(not os.path.ismount(m.root), "and takes its mount with it")
    m.start()
    equal((m.root / "b").read_bytes(), b"b" * 100_000, "the file is there")


def scenario_busy(m):
    """umount while a file is open says so, and the mount lives."""
    with open(m.root / "open", "w") as file:
        file.write("x")
        file.flush()
        done = run(mounted.BINARY, "umount", m.root, status=None, timeout=60)
        check(done.returncode != 0 and done.stderr.strip(), f"refused: {done.stderr.strip()}")
        file.write("y")
    equal((m.root / "open").read_text(), "xy", "the mount lives")


def scenario_dead_mount(m):
    """umount of a mount that answers nothing: back only when the store is free, or with an error once its time is up."""
    (m.root / "f").write_bytes(b"f" * 100_000)
    m.process.send_signal(signal.SIGSTOP)
    done = run(mounted.BINARY, "umount", "--timeout", "1", m.root, status=2, timeout=60)
    check(str(m.process.pid) in done.stderr and str(m.store) in done.stderr, f"while the daemon hangs: {done.stderr.strip()}")
    check(not os.path.ismount(m.root), "though the mount is off")
    m.process.send_signal(signal.SIGCONT)
    equal(m.process.wait(timeout=60), 0, "the daemon goes on and ends")
    m.start()
    m.process.send_signal(signal.SIGSTOP)
    with subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {m.process.pid}"]) as waker:
        start = time.monotonic()
        run(mounted.BINARY, "umount", m.root, timeout=60)
        check(time.monotonic() - start > 2, "umount waits for a daemon that hangs a while")
        waker.wait()
    done = run(mounted.BINARY, "mount", m.store, m.root, status=0, timeout=60)
    run(mounted.BINARY, "umount", m.root)
    m.process.wait()
    m.start()
    other = m.folder / "other"
    other.mkdir()
    m.kill()
    run(mounted.BINARY, "mount", m.store, other)
    run(mounted.BINARY, "umount", m.root, timeout=30)
    check(not os.path.ismount(m.root), "a dead mount goes at once, though its store is in use elsewhere")
    equal((other / "f").read_bytes(), b"f" * 100_000, "where it serves on")
    run(mounted.BINARY, "umount", other)
    m.start()


def scenario_bad_mounts(m):
    """Mounts that cannot be: clear messages, no traces."""
    cases = {
        "no such mount point": (m.folder / "store2", m.folder / "none"),
        "a store inside the mount": (m.root / "store", m.root),
        "a mount inside the store": (m.store, m.store),
        "a store that is something else": (pathlib.Path("/usr"), m.folder / "plain"),
    }
    for what, (store, point) in cases.items():
        done = run(mounted.BINARY, "mount", "-f", store, point, status=None, timeout=30)
        check(done.returncode not in (0, None) and len(done.stderr.strip()) > 20, f"{what}: {done.stderr.strip()}")
    check(not os.path.exists("/usr/CURRENT"), "nothing was made in /usr")


def scenario_read_only(m):
    """-o ro: everything reads, nothing writes, HDF5 can lock."""
    m.bound("rel:1e-3")
    with h5py.File(m.root / "a.h5", "w") as file:
        file["x"] = smooth()
    before = (m.root / "a.h5").read_bytes()
    m.restart("-o", "ro")
    check((m.root / "a.h5").read_bytes() == before, "reads the same")
    with h5py.File(m.root / "a.h5", "r") as file:
        check(np.abs(file["x"][()] - smooth()).max() > 0, "h5py opens it for reading")
    for action in (lambda: (m.root / "new").touch(), lambda: os.unlink(m.root / "a.h5"), lambda: os.mkdir(m.root / "d"),
                   lambda: open(m.root / "a.h5", "r+b"), lambda: os.truncate(m.root / "a.h5", 0),
                   lambda: os.setxattr(m.root / "a.h5", "user.x", b"1")):
        refused(errno.EROFS, action, "a change is refused")
    m.restart()
    (m.root / "new").touch()


def scenario_damaged_log(m):
    """A byte of the log changes after a kill: the mount says that changes are lost; what was sealed before stays right."""
    first = smooth()
    np.save(m.root / "first.npy", first)
    m.restart()  # everything goes from the log into tables
    for n in range(30):
        (m.root / f"small{n}").write_bytes(bytes([n]) * 3000)
    run(mounted.BINARY, "sync", m.root)
    m.kill()
    logs = [path for path in (m.store / "db").glob("*.log") if path.stat().st_size > 0]
    equal(len(logs), 1, "one log has something in it")
    with open(logs[0], "r+b") as file:
        file.seek(logs[0].stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    for _ in range(2):
        done = run(mounted.BINARY, "mount", "-f", m.store, m.root, status=2, timeout=60)
        check("--accept-loss" in done.stderr, done.stderr.strip())
    m.start("--accept-loss")
    equal(np.load(m.root / "first.npy").tobytes(), first.tobytes(), "what was in tables is there")
    found = [n for n in range(30) if (m.root / f"small{n}").exists()]
    check(0 < len(found) < 30 and found == list(range(len(found))), f"{len(found)} of 30 later files are there")
    sizes = {len(data) for n in found if (data := (m.root / f"small{n}").read_bytes()) != bytes([n]) * 3000}
    check(sizes <= {0}, "each is whole, or was created and not yet stored")
    check(list(m.store.glob("db-lost-*/*.log")), "the damaged log is kept")
    m.restart()


def scenario_moved_store(m):
    """The store copied elsewhere holds the same file system."""
    m.bound("rel:1e-3")
    np.save(m.root / "x.npy", smooth())
    (m.root / "text").write_text("text")
    before = (m.root / "x.npy").read_bytes()
    np.save(m.plain / "x.npy", smooth())
    m.stop()
    run("cp", "-a", m.store, m.folder / "copy")
    m.store = m.folder / "copy"
    m.start()
    check((m.root / "x.npy").read_bytes() == before, "the same bytes")
    equal(arrays.problems(m.plain / "x.npy", m.root / "x.npy", "rel:1e-3"), [], "the bound is kept")


def scenario_service(m):
    """What scripts/varve@.service runs mounts, tells when it serves, comes back after a crash, and stores all when it is stopped."""
    m.stop()
    text = (pathlib.Path(__file__).resolve().parents[2] / "scripts" / "varve@.service").read_text()
    text = text.replace("/usr/local/bin/varve", str(mounted.BINARY))
    unit = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    words = {"$OPTIONS": ["-o", "show_views"], "${STORE}": [str(m.store)], "${DIR}": [str(m.root)]}

    def command(key):
        return [part for word in unit[key].split() for part in words.get(word, [word])]

    if shutil.which("systemd-analyze"):
        path = m.plain / "varve@.service"
        path.write_text(text)
        said = run("systemd-analyze", "verify", path, status=None)
        check(said.returncode == 0 and "varve@" not in said.stderr, f"systemd takes it: {said.stderr.strip()}")
    else:
        print("  SKIPPED in part: there is no systemd-analyze here")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(m.plain / "notify"))
        manager.settimeout(60)
        for content in ("first", "second"):
            service = subprocess.Popen(command("ExecStart"), env={**os.environ, "NOTIFY_SOCKET": str(m.plain / "notify")})
            equal(manager.recv(100), b"READY=1", "the service manager hears when it serves")
            check((m.root / ".varve" / "pid").read_text() == f"{service.pid}\n", "it is mounted then")
            if content == "second":
                equal((m.root / "file").read_text(), "first", "after a crash it comes back")
            (m.root / "file").write_text(content)
            run(mounted.BINARY, "sync", m.root)
            if content == "first":
                service.kill()  # Restart=on-failure: the same command again
                service.wait()
        run(*command("ExecStop"))
        equal(service.wait(timeout=60), 0, "it ends well when it is stopped")
    m.start()
    equal((m.root / "file").read_text(), "second", "and has stored everything")


def scenario_foreign_store(m):
    """A directory with other things in it is no store, and is left as it is."""
    other = m.folder / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    done = run(mounted.BINARY, "mount", "-f", other, m.plain, status=None, timeout=30)
    check(done.returncode != 0, f"refused: {done.stderr.strip()}")
    equal(os.listdir(other), ["precious"], "nothing was added")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
