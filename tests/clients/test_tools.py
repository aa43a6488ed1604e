#!/usr/bin/python3
"""The tools that people move and inspect files with: HDF5's and netCDF's, cp, rsync, tar, dd, find, du."""

import os
import pathlib
import random
import subprocess

import arrays
import h5py
import mounted
import numpy as np
from mounted import Skip, check, data_folder, equal, run, same_bytes, shell
from test_hdf5 import smooth


def sample(path):
    """An HDF5 file with large and tiny, contiguous and chunked, float and integer datasets."""
    with h5py.File(path, "w") as file:
        file.create_dataset("a/contiguous", data=smooth(), track_times=False)
        file.create_dataset("a/chunked", data=smooth(dtype="f8", seed=2), chunks=(32, 32, 32), track_times=False)
        file.create_dataset("counts", data=(100 * smooth((90, 80))).astype("i4"), track_times=False)
        for n in (1, 2, 3):
            file.create_dataset(f"tiny{n}", data=np.arange(n, dtype="f4"), track_times=False)
        file.attrs["title"] = "sample"


def scenario_hdf5_tools(m):
    """h5diff, h5dump, h5ls and h5repack inside the mount, without and with a bound."""
    (m.root / "bounded").mkdir()
    m.bound("abs:0.01", m.root / "bounded")
    for folder in (m.plain, m.root, m.root / "bounded"):
        sample(folder / "a.h5")
    run("h5diff", m.plain / "a.h5", m.root / "a.h5")
    for command in (("h5dump",), ("h5dump", "-p", "-H"), ("h5ls", "-rv")):
        outputs = [run(*command, "a.h5", cwd=folder).stdout for folder in (m.plain, m.root)]
        outputs = ["\n".join(l for l in text.splitlines() if "Modified" not in l) for text in outputs]
        check(outputs[0] == outputs[1] and len(outputs[0]) > 200, f"{' '.join(command)} says the same")
    bounded = m.root / "bounded" / "a.h5"
    run("h5diff", "-d", "0.01", m.plain / "a.h5", bounded)
    done = run("h5diff", m.plain / "a.h5", bounded, status=None)
    equal(done.returncode, 1, "h5diff without -d finds the rounding")
    run("h5diff", m.plain / "a.h5", bounded, "/counts")
    for options in (("-f", "GZIP=1", "-l", "CHUNK=20x20x20"), ("-l", "CONTI"), ("-L",)):
        run("h5repack", *options, "a.h5", "repacked.h5", cwd=m.root)
        run("h5diff", "a.h5", "repacked.h5", cwd=m.root)
        run("h5repack", *options, bounded, "bounded/repacked.h5", cwd=m.root)
        run("h5diff", "-d", "0.01", bounded, m.root / "bounded" / "repacked.h5")
        check(True, f"h5repack {' '.join(options)}: equal, and under a bound within it")
    m.restart()
    run("h5diff", m.plain / "a.h5", m.root / "repacked.h5")


def dump_of(name, folder, timeout=5, fill=85):
    """What ncdump says, with `fill` in its fresh memory; None where it fails or takes long (dimensions of 2^31)."""
    try:
        dump = run("ncdump", name, cwd=folder, status=None, timeout=timeout, env={"MALLOC_PERTURB_": str(fill)})
    except subprocess.TimeoutExpired:
        return None
    return dump.stdout if dump.returncode == 0 else None


def scenario_data_repacked(m):
    """h5repack, h5diff and ncdump on every HDF5 and netCDF file of the data that they can read on the plain disk."""
    data = data_folder()
    files = [p for p in sorted(data.rglob("*")) if p.suffix in (".h5", ".hdf5", ".nc", ".cdf", ".nwb")]
    counts = {"h5diff": 0, "h5repack": 0, "ncdump": 0}
    for original in files:
        name = original.name
        for folder in (m.root, m.plain):
            run("cp", original, folder / name)
        here, there = m.root / name, m.plain / name
        if h5py.is_hdf5(original) and run("h5diff", original, there, status=None).returncode == 0:
            run("h5diff", original, here)
            counts["h5diff"] += 1
            if run("h5repack", there, m.plain / "out", status=None).returncode == 0:
                run("h5repack", here, m.root / "out")
                done = [run("h5diff", copy, folder / "out", status=None).returncode
                        for copy, folder in ((here, m.root), (there, m.plain))]
                equal(*done, f"h5diff after h5repack of {name}")
                counts["h5repack"] += 1
        dump = dump_of(name, m.plain)
        # Of strings without an end, ncdump prints what its memory happened to hold: such files tell nothing.
        if dump is not None and all(dump_of(name, m.plain, fill=fill) == dump for fill in (170, 3)):
            if dump_of(name, m.root, 120) != dump:
                raise mounted.Failure(f"ncdump {name} says something else in the mount")
            counts["ncdump"] += 1
        for folder in (m.root, m.plain):
            (folder / name).unlink()
            (folder / "out").unlink(missing_ok=True)
    if not files:
        raise Skip("no HDF5 or netCDF files in the test data")
    check(min(counts.values()) > 10, f"all as on the plain disk: {counts}")


def tree(folder):
    """A small tree of many kinds of entries, with odd times and modes."""
    folder.mkdir()
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir(mode=0o700)
    np.save(folder / "field.npy", smooth())
    (folder / "sub" / "text").write_text("some text\n" * 1000)
    (folder / "sub" / "deep" / "name with spaces and ä").write_bytes(os.urandom(70000))
    (folder / "nothing").touch()
    os.link(folder / "sub" / "text", folder / "hard")
    os.symlink("sub/text", folder / "soft")
    os.symlink("nowhere", folder / "dangling")
    with open(folder / "holes", "wb") as file:
        for offset in (0, 300_000, 5_000_000):
            file.seek(offset)
            file.write(b"data" * 5000)
        file.truncate(9_000_000)
    os.setxattr(folder / "field.npy", "user.note", b"kept")
    os.chmod(folder / "sub" / "text", 0o640)
    for number, path in enumerate(sorted(folder.rglob("*"))):
        moment = 1_000_000_000_123_456_789 + number * 10**9
        os.utime(path, ns=(moment, moment), follow_symlinks=False)
    os.utime(folder, ns=(10**18, 10**18))


def describe(folder):
    """Everything about a tree that a copy must keep."""
    lines = []
    for path in [folder, *sorted(folder.rglob("*"))]:
        info = path.lstat()
        line = [str(path.relative_to(folder)), oct(info.st_mode), info.st_uid, info.st_mtime_ns, info.st_nlink]
        if path.is_symlink():
            line = [line[0], os.readlink(path)]
        elif path.is_file():
            line.append(hash(path.read_bytes()))
            line.append([n for n in os.listxattr(path) if not n.startswith("user.varve.")])
        else:
            line.pop()
        lines.append(line)
    return lines


def scenario_copies(m):
    """cp -a, cp --sparse=always, rsync -a twice, rsync --checksum, tar, tar -S: in, out and within the mount."""
    source = m.plain / "tree"
    tree(source)
    wanted = describe(source)
    run("cp", "-a", source, m.root / "cp")
    equal(describe(m.root / "cp"), wanted, "cp -a into the mount")
    run("cp", "-a", m.root / "cp", m.root / "cp2")
    equal(describe(m.root / "cp2"), wanted, "cp -a within the mount")
    run("cp", "-a", "--sparse=always", m.root / "cp", m.plain / "back")
    equal(describe(m.plain / "back"), wanted, "cp -a --sparse=always out of the mount")
    run("rsync", "-aHX", f"{source}/", m.root / "rsync")
    equal(describe(m.root / "rsync"), wanted, "rsync -aHX into the mount")
    for options in (("-aHX",), ("-aHX", "--checksum")):
        again = run("rsync", *options, "--itemize-changes", f"{source}/", m.root / "rsync").stdout
        equal(again, "", f"rsync {' '.join(options)} again transfers nothing")
    m.restart()
    again = run("rsync", "-aHX", "--itemize-changes", f"{source}/", m.root / "rsync").stdout
    equal(again, "", "rsync -aHX again, after a new mount, transfers nothing")
    (m.root / "tar").mkdir()
    shell(f"tar -C {source} --xattrs -c . | tar -C {m.root}/tar --xattrs --xattrs-include='user.*' -xp")
    equal(describe(m.root / "tar"), wanted, "tar | tar into the mount")
    (m.plain / "tar").mkdir()
    shell(f"tar -C {m.root}/tar -S --format=posix -c . | tar -C {m.plain}/tar -xpS")
    equal([l[:5] for l in describe(m.plain / "tar")], [l[:5] for l in wanted], "tar -S out of the mount")
    check(same_bytes(m.plain / "tar" / "holes", source / "holes"), "tar -S: a file with holes is equal")
    shell(f"cd {m.root} && diff -r --no-dereference cp cp2 && diff -r --no-dereference cp rsync && rm -r cp cp2 rsync tar && test -z \"$(ls -A)\"")


def scenario_rsync_under_bound(m):
    """rsync -a of lossy files: size and time are kept, so that a second run transfers nothing."""
    m.bound("rel:1e-3")
    source = m.plain / "source"
    source.mkdir()
    for number in range(5):
        np.save(source / f"{number}.npy", smooth(seed=number))
    run("rsync", "-a", f"{source}/", m.root / "copy")
    check(not same_bytes(source / "0.npy", m.root / "copy" / "0.npy"), "the bound is used")
    for _ in range(2):
        again = run("rsync", "-a", "--itemize-changes", f"{source}/", m.root / "copy").stdout
        equal(again, "", "rsync -a again transfers nothing")
        m.restart()


def scenario_dd(m):
    """dd with block sizes from 1 byte to 3 MiB, seek, skip, conv=notrunc, oflag=append and direct, against the plain disk."""
    source = m.folder / "source"
    source.write_bytes(os.urandom(3_333_333))
    jobs = [
        *(f"bs={size}" for size in ("512", "4096", "65536", "128k", "1M", "3M", "7777")),
        "bs=1 count=2000",
        "bs=13 count=5000 seek=3",
        "bs=4096 seek=10 conv=notrunc count=5",
        "bs=1M seek=1 skip=1 conv=notrunc",
        "bs=100 count=10 oflag=append conv=notrunc",
        "bs=64k conv=fsync",
        "bs=64k oflag=dsync count=4",
        "bs=1M seek=5 count=0",
        "bs=4096 conv=sparse",
    ]
    for name in ("one", "many"):
        for number, job in enumerate(jobs):
            target = f"{name}{number}" if name == "many" else "one"
            for folder in (m.root, m.plain):
                shell(f"dd if={source} of={folder}/{target} status=none {job}")
            if not same_bytes(m.root / target, m.plain / target):
                raise mounted.Failure(f"dd {job} into {target}: not the bytes of the plain disk")
    check(True, f"{2 * len(jobs)} dd jobs")
    for size in ("1000", "4096", "1M"):
        shell(f"dd if={m.root}/one of={m.folder}/out bs={size} status=none")
        check(same_bytes(m.folder / "out", m.plain / "one"), f"read back with bs={size}")


def scenario_dd_random(m):
    """Overlapping writes of random sizes at random places, as one file, against the same on the plain disk."""
    random.seed(5)
    handles = [open(folder / "f", "w+b", buffering=0) for folder in (m.root, m.plain)]
    for turn in range(2000):
        offset, length = random.randrange(3_000_000), random.choice((1, 100, 4096, 5000, 70_000))
        content = os.urandom(length)
        results = set()
        for file in handles:
            file.seek(offset)
            if turn % 3:
                file.write(content)
            results.add(file.read(length))
        if len(results) != 1:
            raise mounted.Failure(f"turn {turn}: a read at {offset} differs from the plain disk")
    for file in handles:
        file.close()
    check(same_bytes(m.root / "f", m.plain / "f"), "2000 writes and reads: equal")
    m.restart()
    check(same_bytes(m.root / "f", m.plain / "f"), "equal after a new mount")


def scenario_sizes(m):
    """find, du, df and stat: logical size, stored size, units."""
    m.bound("rel:1e-3")
    np.save(m.root / "field.npy", smooth((128, 128, 128)))
    (m.root / "noise").write_bytes(os.urandom(1_000_000))
    (m.root / "zeros").write_bytes(bytes(20_000_000))
    (m.root / "empty").touch()
    run(mounted.BINARY, "sync", m.root)
    blocks, unit, size = (int(n) for n in run("stat", "-c", "%b %B %s", m.root / "field.npy").stdout.split())
    equal((unit, size), (512, 128**3 * 4 + 128), "stat: the unit of blocks, and the logical size")
    apparent = int(run("du", "--apparent-size", "-B1", m.root / "field.npy").stdout.split()[0])
    stored = int(run("du", "-B1", m.root / "field.npy").stdout.split()[0])
    equal((apparent, stored), (size, blocks * 512), "du and du --apparent-size say the same")
    check(stored * 4 < apparent, f"a smooth field takes under a quarter: {stored} of {apparent}")
    noise = int(run("du", "-B1", m.root / "noise").stdout.split()[0])
    check(1_000_000 <= noise <= 1_060_000, f"noise takes what it takes: {noise}")
    check(int(run("du", "-B1", m.root / "zeros").stdout.split()[0]) < 200_000, "20 MB of zeros take nearly nothing")
    equal(int(run("du", "-B1", m.root / "empty").stdout.split()[0]), 0, "an empty file takes nothing")
    held = sum(p.stat().st_blocks * 512 for p in m.store.rglob("*") if p.is_file())
    print(f"  the store takes {held} bytes on the disk")
    found = sorted(pathlib.Path(p).name for p in run("find", m.root, "-type", "f", "-size", "+1M").stdout.split())
    equal(found, ["field.npy", "zeros"], "find -size")
    here, disk = (os.statvfs(path) for path in (m.root, m.store))
    free = [v.f_bavail * v.f_frsize for v in (here, disk)]
    check(abs(free[0] - free[1]) < 1 << 30, "df: the free space is the disk's")
    run("df", "-i", m.root)


def scenario_many_entries(m):
    """A directory of 5,000 files: each is listed once, also while others come and go."""
    folder = m.root / "many"
    folder.mkdir()
    for number in range(5000):
        (folder / f"file{number:05}").write_bytes(b"x" * (number % 7))
    equal(len(os.listdir(folder)), 5000, "entries that readdir gives")
    seen = []
    with os.scandir(folder) as entries:
        for position, entry in enumerate(entries):
            seen.append(entry.name)
            if position % 10 == 0:
                (folder / f"new{position}").touch()
                (folder / f"file{(position * 7) % 5000:05}").unlink(missing_ok=True)
    equal(len(seen), len(set(seen)), "entries listed while others come and go: none twice")
    for entry in os.scandir(folder):
        if entry.inode() != entry.stat().st_ino:
            raise mounted.Failure(f"{entry.name}: d_ino is not st_ino")
    m.restart()
    run("rm", "-r", folder)
    equal(os.listdir(m.root), [], "rm -r leaves nothing")


def scenario_parallel_copies(m):
    """Ten cp at once of one file, and of many small files: all equal."""
    (m.plain / "large").write_bytes(os.urandom(8_000_000))
    (m.plain / "small").mkdir()
    for number in range(100):
        (m.plain / "small" / str(number)).write_bytes(os.urandom(number * 50))
    shell(
        f"for i in 0 1 2 3 4 5 6 7 8 9; do (cp {m.plain}/large {m.root}/large$i; cp -r {m.plain}/small {m.root}/small$i) & done;"
        f" wait; for i in 0 1 2 3 4 5 6 7 8 9; do cmp {m.plain}/large {m.root}/large$i;"
        f" diff -r {m.plain}/small {m.root}/small$i; done"
    )
    check(True, "10 large copies and 10 trees are equal")


def copies(m, bound, ways):
    """Copies a lossy file from copy to copy; every one must be identical to the first."""
    m.bound(bound)
    for folder in (m.root, m.plain):
        np.save(folder / "copy0.npy", smooth())
    first = (m.root / "copy0.npy").read_bytes()
    check(not same_bytes(m.root / "copy0.npy", m.plain / "copy0.npy"), "the bound is used")
    for turn, way in enumerate(ways, 1):
        shell(way.format(old=f"{m.root}/copy{turn - 1}.npy", new=f"{m.root}/copy{turn}.npy"))
        check((m.root / f"copy{turn}.npy").read_bytes() == first, f"copy {turn} is identical, by {way}")
    m.restart()
    last = m.root / f"copy{len(ways)}.npy"
    check(last.read_bytes() == first, "the last copy is identical after a new mount")
    equal(arrays.problems(m.plain / "copy0.npy", last, bound), [], "and keeps the bound")


def scenario_copies_within(m):
    """cp of a lossy file inside the mount, five times over: identical bytes each time (no second rounding)."""
    copies(m, "rel:1e-3", ["cp {old} {new}", "cp -a {old} {new}", "cp --reflink=auto {old} {new}"] * 2)


def scenario_rewriting_copies(m):
    """Copies that read and write (cat, dd, tar) under an absolute bound: identical bytes each time."""
    ways = ["cat {old} > {new}", "dd if={old} of={new} bs=1000 status=none", "cp --reflink=never {old} {new}"]
    copies(m, "abs:0.005", ways * 2)


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
