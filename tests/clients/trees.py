"""Trees of files with all that a tree can have, and whether two are equal."""

import os
import pathlib
import random
import shutil
import socket
import stat

import h5py
import numpy as np
from mounted import Skip, check, data_folder, equal, run
from test_hdf5 import smooth

ODD_NAMES = (
    b"new\nline", b"\xff\xfe not UTF-8 \x80", b"back\\slash", b" ", b"-rf", "ÄÖ€".encode(), b"n" * 255,
    b"tab\t\x1b[31m",
)
REAL = ("netcdf", "netcdf4", "hdf5", "npy", "h5")


def real_files(least=1):
    """Files of the test data, of every format here some."""
    files = [path for kind in REAL for path in sorted((data_folder() / kind).iterdir())[:6] if path.is_file()]
    if len(files) < least:
        raise Skip("there is no test data of these formats")
    return files


def fill(root):
    """Real files, links, holes, attributes, special files and unusual names."""
    root = pathlib.Path(root)
    (root / "real").mkdir()
    for path in real_files():
        shutil.copy2(path, root / "real" / path.name)
    np.save(root / "a.npy", smooth((70, 80, 90)))
    deep = root / "deep" / "er"
    deep.mkdir(parents=True)
    with h5py.File(deep / "b.h5", "w") as file:
        file["density"] = smooth((70, 70, 70), seed=1)
    (root / "bytes").write_bytes(random.Random(5).randbytes(700_001))
    os.link(root / "bytes", deep / "second name")
    os.link(root / "bytes", root / "third name")
    with open(root / "holes", "wb") as file:
        for at in (3 << 20, 9 << 20):
            file.seek(at)
            file.write(b"between holes" * 999)
        file.truncate(20 << 20)
    with open(root / "nothing but a hole", "wb") as file:
        file.truncate(5 << 20)
    (root / "empty").touch()
    (root / "empty folder").mkdir()
    os.symlink("../a.npy", root / "deep" / "link")
    os.symlink("/nowhere/at all", root / "broken link")
    os.symlink("deep", root / "link to a folder")
    os.mkfifo(root / "fifo", 0o640)
    (root / "odd").mkdir()
    for name in ODD_NAMES:
        (root / "odd" / os.fsdecode(name)).write_bytes(name * 3)
    os.setxattr(root / "bytes", "user.colour", b"blue\0green")
    os.setxattr(root / "deep", "user.empty", b"")
    os.chmod(root / "empty", 0o4751)
    os.chmod(root / "a.npy", 0o400)
    if os.geteuid() == 0:
        os.chown(root / "bytes", 1234, 2345)
        os.lchown(root / "broken link", 77, 88)
        os.setxattr(root / "empty", "trusted.here", b"root's")
        os.mknod(root / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    if len(os.fsencode(root)) < 90:  # a socket's path has 107 bytes at most
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(root / "socket"))
    for number, path in enumerate(sorted(root.rglob("*"), reverse=True)):  # a folder after what is in it
        os.utime(path, ns=(10**18 + number, 1_234_567_890_123_456_789 + number), follow_symlinks=False)


def tree(root):
    """All that a copy has to have, by path: no content is left out, and which names are one file."""
    found, first = {}, {}
    root = os.fsencode(root)
    for folder, folders, files in os.walk(root):
        for name in [b""] * (folder == root) + folders + files:
            path = os.path.join(folder, name) if name else root
            facts = os.lstat(path)
            kind, link = stat.S_IFMT(facts.st_mode), stat.S_ISLNK(facts.st_mode)
            one = [facts.st_mode, facts.st_uid, facts.st_gid, facts.st_mtime_ns]
            if kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    one += [facts.st_size, hash(file.read()), facts.st_nlink]
                one.append(first.setdefault(facts.st_ino, path[len(root):]) if facts.st_nlink > 1 else "")
            elif link:
                one.append(os.readlink(path))
            elif kind in (stat.S_IFCHR, stat.S_IFBLK):
                one.append(facts.st_rdev)
            if not link:
                one.append(sorted((key, os.getxattr(path, key)) for key in os.listxattr(path)))
            found[path[len(root):]] = one
    # Of a file's names any may come first.
    names = {}
    for path, one in found.items():
        if stat.S_ISREG(one[0]) and one[7]:
            names.setdefault(one[7], []).append(path)
    for path, one in found.items():
        if stat.S_ISREG(one[0]) and one[7]:
            one[7] = sorted(names[one[7]])
    return found


def same_tree(found, wanted, what):
    """Says where they differ."""
    for path in sorted(set(found) | set(wanted)):
        if found.get(path) != wanted.get(path):
            equal((path, found.get(path)), (path, wanted.get(path)), what)
    check(wanted, f"{what}: {len(wanted)} entries")


def rsync_sees_no_difference(left, right):
    """By content, in both directions. The times of folders too."""
    done = run("rsync", "-aHAX", "--checksum", "--delete", "-n", "-i", f"{left}/", f"{right}/")
    equal(done.stdout, "", "rsync -aHAX --checksum -n sees no difference")


def no_partial_files(root, wanted):
    """What has its name is whole: each file, as it is in `wanted`."""
    found = {path: one for path, one in tree(root).items() if stat.S_ISREG(one[0]) and b".varve-unfinished" not in path}
    for path, one in found.items():
        equal(one[4:6], wanted[path][4:6], f"{path} is whole") if one[4:6] != wanted[path][4:6] else None
    return len(found)
