#!/usr/bin/python3
"""What POSIX promises: names, links, times, modes, holes, maps, locks, appends; after a new mount as well."""

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import subprocess
import time

import mounted
from mounted import check, equal, python, refused, run, same_bytes, shell

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
libc = ctypes.CDLL(None, use_errno=True)


def libc_call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def rename2(old, new, flags):
    libc_call("renameat2", -100, os.fsencode(old), -100, os.fsencode(new), flags)


def fallocate(file, mode, offset, length):
    libc_call("fallocate", file, mode, ctypes.c_long(offset), ctypes.c_long(length))


def outcome(action):
    """What an action gives, or the errno that it fails with."""
    try:
        return action()
    except OSError as error:
        return errno.errorcode[error.errno]


def scenario_names(m):
    """create, link, symlink, rename over what exists, NOREPLACE, EXCHANGE, of directories, of open files."""
    root = m.root
    (root / "a").write_text("a")
    (root / "b").write_text("bb")
    os.link(root / "a", root / "hard")
    equal(os.stat(root / "a").st_nlink, 2, "links")
    os.symlink("a", root / "soft")
    equal((root / "soft").read_text(), "a", "a symbolic link is followed")
    refused(errno.EEXIST, lambda: rename2(root / "a", root / "b", RENAME_NOREPLACE), "NOREPLACE over a file")
    rename2(root / "a", root / "b", RENAME_EXCHANGE)
    equal(((root / "a").read_text(), (root / "b").read_text()), ("bb", "a"), "EXCHANGE")
    refused(errno.ENOENT, lambda: rename2(root / "a", root / "none", RENAME_EXCHANGE), "EXCHANGE with nothing")
    rename2(root / "a", root / "c", RENAME_NOREPLACE)
    (root / "target").write_text("old")
    with open(root / "target") as old:
        os.rename(root / "c", root / "target")
        equal((old.read(), (root / "target").read_text()), ("old", "bb"), "rename over an open file: both live")
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "e" / "f").write_text("deep")
    refused(errno.EINVAL, lambda: os.rename(root / "d", root / "d" / "e" / "d"), "a directory into itself")
    refused(errno.ENOTEMPTY, lambda: os.rmdir(root / "d"), "rmdir of a directory with entries")
    with open(root / "d" / "e" / "f", "a") as file:
        os.rename(root / "d", root / "moved")
        file.write(" and on")
    equal((root / "moved" / "e" / "f").read_text(), "deep and on", "a directory is renamed under an open file")
    (root / "full").mkdir()
    (root / "full" / "x").touch()
    (root / "void").mkdir()
    refused(errno.ENOTEMPTY, lambda: os.rename(root / "void", root / "full"), "rename over a full directory")
    os.rename(root / "full", root / "void")
    rename2(root / "void", root / "b", RENAME_EXCHANGE)
    check((root / "b" / "x").exists() and (root / "void").read_text() == "a", "EXCHANGE of a directory and a file")
    refused(errno.ENOTDIR, lambda: (root / "void" / "x").touch(), "a file is no directory")
    refused(errno.ENAMETOOLONG, lambda: (root / ("n" * 256)).touch(), "a name of 256 bytes")
    (root / ("n" * 255)).touch()
    (root / "ä \n\x01").touch()
    before = sorted((str(p), p.lstat().st_ino, p.lstat().st_nlink) for p in root.rglob("*"))
    m.restart()
    equal(sorted((str(p), p.lstat().st_ino, p.lstat().st_nlink) for p in root.rglob("*")), before,
          "names, inode numbers and link counts after a new mount")
    equal(os.stat(root / "hard").st_nlink, 2, "links of a file with two names")
    equal(os.stat(root).st_nlink, 2 + sum(p.is_dir() for p in root.iterdir()), "links of a directory")


def scenario_unlinked(m):
    """A file without a name lives on while it is open; O_TMPFILE works or is refused."""
    path = m.root / "f"
    with open(path, "w+b") as file:
        file.write(b"x" * 100_000)
        file.flush()
        os.unlink(path)
        refused(errno.ENOENT, lambda: os.stat(path), "gone by name")
        file.seek(50_000)
        file.write(b"y" * 100_000)
        file.seek(0)
        equal(file.read(), b"x" * 50_000 + b"y" * 100_000, "read and written after unlink")
        equal(os.fstat(file.fileno()).st_nlink, 0, "no links")
        path.write_text("another")
    equal(path.read_text(), "another", "another file of the same name")
    os.mkdir(m.root / "dir")
    handle = os.open(m.root / "dir", os.O_RDONLY)
    os.rmdir(m.root / "dir")
    equal(os.listdir(handle), [], "a removed directory that is open is empty")
    os.close(handle)
    result = outcome(lambda: os.close(os.open(m.root, os.O_TMPFILE | os.O_RDWR, 0o600)))
    check(result in (None, "EOPNOTSUPP", "ENOTSUP"), f"O_TMPFILE works or says that it does not: {result}")
    equal(os.listdir(m.root), ["f"], "no hidden files are left")


def scenario_attributes(m):
    """chmod, chown, utimens with nanoseconds, umask, set-id bits, owner of new files."""
    path = m.root / "f"
    path.write_text("x")
    os.chmod(path, 0o4755)
    equal(stat.S_IMODE(os.stat(path).st_mode), 0o4755, "chmod")
    if os.getuid() == 0:
        os.chown(path, 1234, 5678)
        info = os.stat(path)
        equal((info.st_uid, info.st_gid), (1234, 5678), "chown")
        equal(stat.S_IMODE(info.st_mode) & 0o4000, 0, "chown clears set-user-id")
    os.utime(path, ns=(1_111_111_111_111_111_111, 1_222_222_222_222_222_222))
    changed = os.stat(path).st_ctime_ns
    check(abs(changed - time.time_ns()) < 10**10, "ctime is now")
    run("touch", "-a", "-d", "2001-02-03 04:05:06.789", path)
    equal(os.stat(path).st_mtime_ns, 1_222_222_222_222_222_222, "touch -a leaves mtime")
    run("touch", "-m", "-d", "1960-01-01 00:00:00.5 UTC", path)
    equal(os.stat(path).st_mtime_ns, -315619200 * 10**9 + 500_000_000, "a time before 1970")
    with open(path, "ab") as file:
        file.write(b"more")
        file.flush()
        os.utime(path, ns=(5 * 10**17, 5 * 10**17))
    equal(os.stat(path).st_mtime_ns, 5 * 10**17, "a time set after a write is not overwritten by close")
    time.sleep(1.5)
    equal(os.stat(path).st_mtime_ns, 5 * 10**17, "nor later by what goes on in the background")
    m.restart()
    equal(os.stat(path).st_mtime_ns, 5 * 10**17, "nor by a new mount")
    old = os.umask(0o027)
    (m.root / "masked").touch(0o666)
    (m.root / "maskeddir").mkdir(0o777)
    os.umask(old)
    modes = [oct(stat.S_IMODE(os.stat(m.root / name).st_mode)) for name in ("masked", "maskeddir")]
    equal(modes, ["0o640", "0o750"], "umask")
    mtime = os.stat(m.root).st_mtime_ns
    time.sleep(0.02)
    (m.root / "new").touch()
    check(os.stat(m.root).st_mtime_ns > mtime, "a new entry changes its directory's mtime")


def scenario_permissions(m):
    """Other users: the kernel enforces modes; new files belong to their maker; set-group-id directories pass it on."""
    if os.getuid() != 0:
        raise mounted.Skip("only root can become other users")
    for folder in (m.folder, m.folder.parent):
        os.chmod(folder, 0o755)
    os.chmod(m.root, 0o777)
    (m.root / "secret").write_text("x")
    os.chmod(m.root / "secret", 0o600)
    (m.root / "group").mkdir()
    os.chown(m.root / "group", 0, 4242)
    os.chmod(m.root / "group", 0o2777)
    code = (
        "import os, sys; os.setgroups([]); os.setgid(1001); os.setuid(1000); os.chdir(sys.argv[1])\n"
        "try: open('secret'); print('read')\n"
        "except PermissionError: print('refused')\n"
        "open('mine', 'w').write('x'); os.mkdir('dir'); open('group/inherits', 'w'); os.mkdir('group/sub')\n"
        "try: os.chown('mine', 0, 0); print('given')\n"
        "except PermissionError: print('refused')\n"
    )
    done = run(mounted.PYTHON, "-c", code, m.root, status=None)
    if done.returncode:
        raise mounted.Failure(f"another user's program failed: {done.stderr}")
    equal(done.stdout.split(), ["refused", "refused"], "another user's secret, and giving files away")
    owners = [(i.st_uid, i.st_gid) for i in (os.stat(m.root / n) for n in ("mine", "dir", "group/inherits", "group/sub"))]
    equal(owners, [(1000, 1001), (1000, 1001), (1000, 4242), (1000, 4242)], "owners of new files")
    check(os.stat(m.root / "group/sub").st_mode & stat.S_ISGID, "set-group-id is passed on to directories")


def scenario_xattrs(m):
    """Set, get, list, remove; sizes; flags; what the bound's attribute takes and refuses."""
    path = m.root / "f"
    path.write_text("x")
    for name, value in (("user.a", b"1"), ("user.empty", b""), ("user.big", os.urandom(4000))):
        os.setxattr(path, name, value)
    refused(errno.EEXIST, lambda: os.setxattr(path, "user.a", b"2", os.XATTR_CREATE), "XATTR_CREATE of one that exists")
    refused(errno.ENODATA, lambda: os.setxattr(path, "user.z", b"2", os.XATTR_REPLACE), "XATTR_REPLACE of none")
    refused(errno.ENODATA, lambda: os.getxattr(path, "user.none"), "one that is not there")
    os.setxattr(path, "user.gone", b"1")
    os.removexattr(path, "user.gone")
    m.restart()
    own = {n: os.getxattr(path, n) for n in os.listxattr(path) if not n.startswith("user.varve.")}
    equal(sorted(own), ["user.a", "user.big", "user.empty"], "names after a new mount")
    equal((own["user.a"], own["user.empty"], len(own["user.big"])), (b"1", b"", 4000), "values after a new mount")
    for text in ("rel:-1", "rel:nan", "abs:inf", "abs:", "abs:x", "relative", "", "rel:1e-3 ", "REL:1"):
        refused(errno.EINVAL, lambda t=text: m.bound(t, path), f"bound '{text}' is refused")
    run("setfattr", "-n", "user.varve.bound", "-v", "rel:nonsense", path, status=1)
    for text in ("rel:1e-3", "abs:0.5", "lossless"):
        m.bound(text, path)
        found = run("getfattr", "--only-values", "-n", "user.varve.bound", path).stdout
        mode, _, value = text.partition(":")
        same = found.partition(":")[0] == mode and (not value or float(found.partition(":")[2]) == float(value))
        check(same, f"bound '{text}' reads back as '{found}'")


def scenario_state_xattrs(m):
    """getfattr shows bound, ratio and state of a file."""
    import numpy as np
    from test_hdf5 import smooth

    m.bound("rel:1e-3")
    np.save(m.root / "x.npy", smooth((128, 128, 128)))
    listed = run("getfattr", "-n", "user.varve.bound", "-n", "user.varve.ratio", m.root / "x.npy").stdout
    print("  " + listed.replace("\n", "\n  "))
    for name in ("bound", "ratio", "state"):
        run("getfattr", "-n", f"user.varve.{name}", m.root / "x.npy")
    ratio = float(run("getfattr", "--only-values", "-n", "user.varve.ratio", m.root / "x.npy").stdout.split()[0])
    info = os.stat(m.root / "x.npy")
    check(abs(ratio * info.st_blocks * 512 / info.st_size - 1) < 0.1, f"ratio {ratio} is what stat(2) says")
    equal(run("getfattr", "--only-values", "-n", "user.varve.state", m.root / "x.npy").stdout, "sealed", "state")


def scenario_truncate(m):
    """truncate down, up and to nothing, by name and by descriptor; O_TRUNC; reads beyond the end."""
    for folder in (m.root, m.plain):
        path = folder / "f"
        path.write_bytes(bytes(range(256)) * 1000)
        for size in (100_000, 5, 200_000, 0, 7_000_001, 123_456):
            os.truncate(path, size)
            with open(path, "r+b") as file:
                file.seek(size // 2)
                file.write(b"middle")
        with open(path, "r+b") as file:
            file.truncate(50_000)
            file.seek(60_000)
            file.write(b"end")
            file.truncate()
    check(same_bytes(m.root / "f", m.plain / "f"), "as on the plain disk")
    m.restart()
    check(same_bytes(m.root / "f", m.plain / "f"), "after a new mount")
    with open(m.root / "f", "r+b") as file:
        equal(os.pread(file.fileno(), 10, 10**9), b"", "a read beyond the end")
        refused(errno.EINVAL, lambda: os.truncate(m.root / "f", -1), "a negative size")
    open(m.root / "f", "w").close()
    equal(os.stat(m.root / "f").st_size, 0, "O_TRUNC")


def scenario_holes(m):
    """fallocate (keep-size, punch, zero range), SEEK_DATA and SEEK_HOLE, blocks of sparse files."""
    path = m.root / "f"
    with open(path, "w+b") as file:
        file.write(os.urandom(1_000_000))
        file.flush()
        number = file.fileno()
        wanted = bytearray(path.read_bytes())
        fallocate(number, PUNCH_HOLE | KEEP_SIZE, 100_000, 300_000)
        wanted[100_000:400_000] = bytes(300_000)
        fallocate(number, KEEP_SIZE, 0, 2_000_000)
        equal(os.fstat(number).st_size, 1_000_000, "keep-size keeps the size")
        fallocate(number, 0, 0, 1_200_000)
        wanted.extend(bytes(200_000))
        if outcome(lambda: fallocate(number, ZERO_RANGE | KEEP_SIZE, 500_000, 10_000)) is None:
            wanted[500_000:510_000] = bytes(10_000)
        equal(path.read_bytes() == wanted, True, "bytes after punch, reserve and zero range")
    equal(path.read_bytes() == wanted, True, "bytes once it is closed")
    sparse = m.root / "sparse"
    with open(sparse, "wb") as file:
        file.seek(8 << 20)
        file.write(b"x" * 65536)
        file.truncate(32 << 20)
    for moment in ("while staged or sealed", "after a new mount"):
        with open(sparse, "rb") as file:
            data = os.lseek(file.fileno(), 0, os.SEEK_DATA)
            check(data <= 8 << 20, f"SEEK_DATA finds no data too late, {moment}: {data}")
            hole = os.lseek(file.fileno(), 8 << 20, os.SEEK_HOLE)
            check((8 << 20) + 65536 <= hole <= 32 << 20, f"SEEK_HOLE, {moment}: {hole}")
            refused(errno.ENXIO, lambda f=file: os.lseek(f.fileno(), 33 << 20, os.SEEK_DATA), "SEEK_DATA past the end")
        check(os.stat(sparse).st_blocks * 512 < 1 << 20, f"a sparse file takes little, {moment}")
        m.restart() if moment.startswith("while") else None
    run("cp", "--sparse=auto", sparse, m.plain / "sparse")
    check(same_bytes(sparse, m.plain / "sparse"), "cp --sparse=auto of it is equal")


def scenario_maps(m):
    """mmap MAP_SHARED: writes reach readers and the disk; maps see writes; msync."""
    path = m.root / "f"
    path.write_bytes(bytes(1_000_000))
    with open(path, "r+b") as file:
        view = mmap.mmap(file.fileno(), 0)
        view[500_000:500_010] = b"0123456789"
        equal(os.pread(file.fileno(), 10, 500_000), b"0123456789", "read sees the map's write")
        os.pwrite(file.fileno(), b"written", 10)
        equal(view[10:17], b"written", "the map sees a write")
        view.flush()
        view[999_999] = 255
    view.close()
    wanted = bytearray(1_000_000)
    wanted[500_000:500_010], wanted[10:17], wanted[999_999] = b"0123456789", b"written", 255
    check(path.read_bytes() == wanted, "after the map is closed")
    m.restart()
    check(path.read_bytes() == wanted, "after a new mount")


LOCKER = """
import fcntl, sys, errno
kind, path = sys.argv[1:]
f = open(path, 'r+b')
try:
    if kind == 'flock': fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
    print('got')
except OSError as e:
    print(errno.errorcode[e.errno])
"""


def scenario_holes_filled_through_a_map(m):
    """SEEK_DATA and SEEK_HOLE see what was written through a map into a hole, without msync."""
    for name, keeps_descriptor in (("kept", True), ("closed", False)):
        with open(m.root / name, "w+b") as file:
            file.truncate(1 << 20)
            pages = mmap.mmap(file.fileno(), 0)
            if not keeps_descriptor:
                file.close()
            for at in (500_000, 700_000):
                pages[at : at + 4] = b"word"
                with open(m.root / name, "rb") as other:
                    start, page = at // 65536 * 65536, at // 4096 * 4096
                    data = os.lseek(other.fileno(), start, os.SEEK_DATA)
                    found = (data, os.lseek(other.fileno(), data, os.SEEK_HOLE))
                equal(found, (page, page + 4096), f"data in the hole, the descriptor {name}")
                equal(pages[at : at + 4], b"word", "what the map shows")
            pages.close()


def scenario_sealed_after_a_map(m):
    """The last that writes is a map without a descriptor: whoever comes after its munmap finds the file sealed."""
    libc.mmap.restype = ctypes.c_void_p
    path, length = m.root / "mapped", 100_000
    states = []
    for round in range(300):
        path.write_bytes(bytes(length))
        with open(path, "r+b") as file:
            address = libc.mmap(None, ctypes.c_size_t(length), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED,
                                file.fileno(), ctypes.c_long(0))
        ctypes.memmove(address + round * 10, b"word.", 5)
        libc_call("munmap", ctypes.c_void_p(address), ctypes.c_size_t(length))
        states.append(os.getxattr(path, "user.varve.state"))
    equal(states.count(b"sealed"), len(states), "times that it is sealed right after munmap")


def scenario_locks(m):
    """flock and fcntl locks between processes: held, shared, by range, released at exit."""
    path = m.root / "f"
    path.write_bytes(bytes(100))
    for kind, take in (("flock", lambda f, how: fcntl.flock(f, how)), ("fcntl", lambda f, how: fcntl.lockf(f, how, 10, 5))):
        with open(path, "r+b") as file:
            take(file, fcntl.LOCK_EX)
            equal(python(LOCKER, kind, path).strip(), "EAGAIN", f"{kind}: held by another process")
            take(file, fcntl.LOCK_UN)
            equal(python(LOCKER, kind, path).strip(), "got", f"{kind}: free again")
            take(file, fcntl.LOCK_SH)
            equal(python(LOCKER, kind, path).strip(), "EAGAIN", f"{kind}: shared by another process")
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 50)
        equal(python(LOCKER, "fcntl", path).strip(), "got", "fcntl: another range is free")
        code = ("import fcntl,struct,sys; f=open(sys.argv[1],'r+b');"
                "r=fcntl.fcntl(f,fcntl.F_GETLK,struct.pack('hhqqi4x',fcntl.F_WRLCK,0,50,10,0));"
                "t,w,s,l,p=struct.unpack('hhqqi4x',r); print(t,s,l,p)")
        equal(python(code, path).split(), [str(fcntl.F_WRLCK), "50", "10", str(os.getpid())], "F_GETLK names the holder")
    shell("flock f true && flock -n f true", cwd=m.root)


APPENDER = """
import os, sys
f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for number in range(500):
    os.write(f, (f'{sys.argv[2]}:{number:05}'.ljust(63, '.') + '\\n').encode())
"""


def scenario_append(m):
    """O_APPEND from four processes at once: every line is there, whole and in its writer's order."""
    path = m.root / "log"
    path.write_text("")
    children = [subprocess.Popen([mounted.PYTHON, "-c", APPENDER, path, str(who)]) for who in range(4)]
    equal([child.wait(timeout=120) for child in children], [0] * 4, "four writers")
    lines = path.read_text().splitlines()
    equal(len(lines), 2000, "lines")
    for who in range(4):
        mine = [int(line.split(":")[1][:5]) for line in lines if line.startswith(f"{who}:")]
        equal(mine, list(range(500)), f"writer {who}'s lines, in order")
    shell("echo foo > f; echo bar >> f; test \"$(cat f)\" = $'foo\\nbar'; printf x | dd of=f conv=notrunc status=none; "
          "test \"$(cat f)\" = $'xoo\\nbar'", cwd=m.root)


def scenario_many_operations(m):
    """3,000 random operations on a few files, against the same on the plain disk, over several mounts."""
    import random

    random.seed(11)
    names = ["a", "b", "d/c", "d/e"]
    for folder in (m.root, m.plain):
        (folder / "d").mkdir()

    def operate(folder, kind, name, other, offset, content):
        path, second = folder / name, folder / other
        if kind == "write":
            with open(path, "r+b" if path.exists() else "w+b") as file:
                file.seek(offset)
                file.write(content)
        elif kind == "append":
            with open(path, "ab") as file:
                file.write(content)
        elif kind == "read":
            with open(path, "rb") as file:
                return os.pread(file.fileno(), len(content), offset)
        elif kind == "truncate":
            os.truncate(path, offset)
        elif kind == "punch":
            with open(path, "r+b") as file:
                fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, offset, len(content) + 1)
        elif kind == "rename":
            os.rename(path, second)
        elif kind == "link":
            os.link(path, second)
        elif kind == "unlink":
            os.unlink(path)
        elif kind == "copy":
            with open(path, "rb") as source, open(second, "r+b") as target:
                os.copy_file_range(source.fileno(), target.fileno(), len(content), offset // 2, offset)
        return path.stat().st_size if path.exists() else None

    kinds = ["write"] * 8 + ["append"] * 3 + ["read"] * 8 + ["truncate", "punch", "rename", "link", "unlink"] + ["copy"] * 3
    for turn in range(3000):
        kind, name, other = random.choice(kinds), random.choice(names), random.choice(names)
        if other == name:
            continue
        offset, content = random.randrange(400_000), os.urandom(random.choice((1, 500, 4096, 30_000)))
        here, there = (outcome(lambda f=f: operate(f, kind, name, other, offset, content)) for f in (m.root, m.plain))
        if here != there:
            raise mounted.Failure(f"turn {turn}, {kind} {name} {other} {offset} {len(content)}: {mounted.shorten(here)}"
                                  f" here, {mounted.shorten(there)} on the plain disk")
        if turn % 750 == 749:
            m.restart()
            shell(f"diff -r {m.root} {m.plain}")
    check(True, "3,000 operations gave the same")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
