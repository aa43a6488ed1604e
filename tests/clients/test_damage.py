#!/usr/bin/python3
"""on_damage: what a flipped bit costs, and what is given in place of it where the rules say "degrade"."""

import errno
import json
import os
import struct

import h5py
import mounted
import numpy as np
from mounted import check, equal, refused, run
from test_hdf5 import smooth

SHAPE = (128, 128, 128)
DEGRADE = 'on_damage = "degrade"\n'
HEADER = 56  # bytes of a record's header in a pack: index/FORMAT.md


def records(store):
    """Of each record in packs: object, region, level, brick, and where its payload is."""
    found = []
    for pack in sorted((store / "packs").iterdir()):
        data = pack.read_bytes()
        at = data.find(b"VREC")
        while at >= 0:
            level, region = data[at + 6], struct.unpack_from("<I", data, at + 8)[0]
            thing, brick, length = struct.unpack_from("<QQQ", data, at + 16)
            found.append({"object": thing, "region": region, "level": level, "brick": brick, "place": (pack, at + HEADER, length)})
            at = data.find(b"VREC", at + HEADER)
    return found


def flip(m, **wanted):
    """Flips a bit of the one record of the store, which is not mounted, that is so."""
    hits = [one for one in records(m.store) if all(one[key] == value for key, value in wanted.items())]
    equal(len(hits), 1, f"one record has {wanted}")
    pack, offset, length = hits[0]["place"]
    with open(pack, "r+b") as file:
        file.seek(offset + length // 2)
        byte = file.read(1)[0]
        file.seek(offset + length // 2)
        file.write(bytes([byte ^ 8]))


def set_rules(m, text, status=0):
    (m.plain / "rules.toml").write_text(text)
    return run(mounted.BINARY, "policy", "set", m.root, m.plain / "rules.toml", status=status)


def field():
    """Smooth at the distance of a few elements, other than the noise of smooth()."""
    z, y, x = np.mgrid[0 : SHAPE[0], 0 : SHAPE[1], 0 : SHAPE[2]].astype("f4")
    return np.sin(x / 30) * np.cos(y / 25) + np.sin(z / 35)


def made(m, bound="rel:1e-5", name="a.npy"):
    """A sealed array; what it reads as."""
    if bound:
        m.bound(bound)
    np.save(m.root / name, field())
    run(mounted.BINARY, "sync", m.root)
    return np.load(m.root / name)


def marks(path):
    """The lines of user.varve.damage."""
    try:
        return [json.loads(line) for line in os.getxattr(path, "user.varve.damage").splitlines()]
    except OSError as error:
        equal(error.errno, errno.ENODATA, "no mark")
        return []


def box_of(mark):
    return tuple(slice(first, end) for first, end in mark["box"])


def outside(mark):
    there = np.ones(SHAPE, bool)
    there[box_of(mark)] = False
    return there


def scrubbed(m, status=1):
    return json.loads(run(mounted.BINARY, "scrub", "--json", m.root, status=status).stdout)


def max_error(path):
    return float(os.getxattr(path, "user.varve.max_error").split()[0])


def rows_in_error(path, rows):
    """Those of a file's slowest axis that cannot be read."""
    size, bad = path.stat().st_size, set()
    start = size - int(np.prod(SHAPE)) * 4
    with open(path, "rb", buffering=0) as file:
        for row in rows:
            at, end = (start + number * SHAPE[1] * SHAPE[2] * 4 for number in (row, row + 1))
            try:
                while at < end:
                    at += len(os.pread(file.fileno(), end - at, at))
            except OSError as error:
                equal(error.errno, errno.EIO, f"plane {row}")
                bad.add(row)
    return bad


def scenario_default(m):
    """Without a rule a flipped bit is EIO for the reads that need the record, and nothing else."""
    before = made(m)
    coarse = np.load(m.root / ".varve/level/1/a.npy")
    m.stop()
    flip(m, level=0, region=1, brick=7)
    m.start()
    equal(rows_in_error(m.root / "a.npy", (0, 63, 64, 127)), {64, 127}, "planes of the brick are EIO")
    check(np.load(m.root / "a.npy", mmap_mode="r")[:64].tobytes() == before[:64].tobytes(), "the rest reads as before")
    check(np.load(m.root / ".varve/level/1/a.npy").tobytes() == coarse.tobytes(), "and so do coarser levels")
    equal(marks(m.root / "a.npy"), [], "nothing was degraded")


def scenario_interpolated(m):
    """on_damage = "degrade": values near the truth in the damaged brick, all others as before; the attribute says where."""
    before, path = made(m), m.root / "a.npy"
    error_before = max_error(path)
    views = {name: (m.root / ".varve" / name).read_bytes() for name in ("level/1/a.npy", "level/3/a.npy", "coarse/1/a.npy")}
    set_rules(m, DEGRADE)
    m.stop()
    flip(m, level=0, region=1, brick=3)
    m.start()
    equal(marks(path), [], "before it is read nothing is marked")
    after = np.load(path)
    found = marks(path)
    equal([(one["array"], one["levels"], one["brick"]) for one in found], [("", [0], 3)], "level 0 of brick 3 is marked")
    inside = box_of(found[0])
    equal(after[inside].shape, (64, 64, 64), "its box is a brick")
    check(found[0]["when"].startswith("20") and found[0]["when"].endswith("Z"), f"at {found[0]['when']}")
    check(np.array_equal(after[outside(found[0])], before[outside(found[0])]), "all other elements read as before")
    odd = np.ones((64, 64, 64), bool)
    odd[::2, ::2, ::2] = False
    check(np.array_equal(after[inside][~odd], before[inside][~odd]), "and so do its points of coarser levels")
    error = np.abs(after[inside] - field()[inside]).max()
    check(0 < error < 5e-3, f"interpolated values differ by {error:.1e} from what was written, of a range of 4")
    check(np.abs(after - field()).max() <= max_error(path), f"max_error says so: {max_error(path):.1e}")
    check(max_error(path) > error_before, f"which was {error_before:.1e}")
    for name, content in views.items():
        check((m.root / ".varve" / name).read_bytes() == content, f"{name} is as it was")
    for spec, part in ((":[60:70,:,::3]", np.s_[60:70, :, ::3]), ("[...]", np.s_[...])):
        region = np.load(m.root / ".varve/region" / spec.removeprefix(":") / "a.npy.npy")
        check(np.array_equal(region, after[part]), f"the region {spec} is what the file gives")
    np.load(path), np.load(m.root / ".varve/level/0/a.npy")
    equal(m.log(1000).count("are interpolated"), 1, "the log says it once")
    equal([one["part"] for one in scrubbed(m)["damage"]], ['array "", level 0, brick 3'], "scrub names the record")
    m.restart()
    equal(marks(path), found, "the mark stays")
    check("user.varve.damage" in os.listxattr(path), "and is listed")
    m.stop()
    flip(m, level=1, region=1, brick=3)
    m.start()
    worse = np.load(path)
    equal([one["levels"] for one in marks(path)], [[0, 1]], "with a record of level 1 damaged too, both are")
    check(np.abs(worse[inside] - field()[inside]).max() < 0.02, "from every fourth point")
    set_rules(m, "")
    equal(rows_in_error(path, (0, 127)), {int(inside[0].start and 127)}, "without the rule they are EIO again")
    os.removexattr(path, "user.varve.damage")
    equal(marks(path), [], "the mark can be removed")
    m.restart("-o", "ro")
    refused(errno.EIO, path.read_bytes, "and nothing is given, read-only")
    (m.store / "policy.toml").write_text(DEGRADE)
    m.restart("-o", "ro")
    check(np.array_equal(np.load(path), worse), "but with the rule it is")
    equal(len(marks(path)), 1, "and marked as long as it is mounted")
    m.restart()


def scenario_exact(m):
    """Exact floats degrade, integers and bytes never; .varve/exact/ gives only what is as it was written."""
    set_rules(m, DEGRADE)
    with h5py.File(m.root / "a.h5", "w") as file:
        file.attrs["noise"] = np.void(np.random.default_rng(2).bytes(60_000))
        file["floats"] = field()[:, :64, :64].astype("f8")
        file["counts"] = np.random.default_rng(1).integers(0, 10**9, (128, 64, 64))
    (m.root / "bytes").write_bytes(np.random.default_rng(3).bytes(300_000))
    run(mounted.BINARY, "sync", m.root)
    m.stop()
    everything = records(m.store)
    in_file = max(one["object"] for one in everything if one["level"] == 0 and one["region"] == 2)
    in_bytes = next(one["object"] for one in everything if one["object"] != in_file)
    flip(m, object=in_file, region=1, level=0, brick=1)
    flip(m, object=in_file, region=2, level=0, brick=1)
    flip(m, object=in_bytes, brick=1)
    m.start()
    with h5py.File(m.root / "a.h5") as file:
        names = {name: file[name] for name in ("floats", "counts")}
        first, second = sorted(names, key=lambda name: names[name].id.get_offset())
        equal((first, second), ("floats", "counts"), "the first array of the file is that of the floats")
        check(np.abs(names["floats"][()] - field()[:, :64, :64]).max() < 5e-3, "exact floats are interpolated")
        equal(int(names["counts"][60].min() >= 0), 1, "integers before the damage read")
        refused(errno.EIO, lambda: names["counts"][64:], "integers are EIO")
    equal([(one["array"], one["levels"]) for one in marks(m.root / "a.h5")], [("/floats", [0])], "the floats are marked")
    refused(errno.EIO, lambda: (m.root / ".varve/exact/a.h5").read_bytes(), "the exact view is EIO")
    with open(m.root / "bytes", "rb", buffering=0) as file:
        equal(len(file.read(131072)), 131072, "bytes before the damage read")
        refused(errno.EIO, lambda: file.read(131072), "bytes are EIO")
    m.stop()
    flip(m, object=in_file, region=0, brick=0)
    m.start()
    refused(errno.EIO, lambda: (m.root / "a.h5").read_bytes(), "damaged metadata is EIO")


def scenario_written(m):
    """What was interpolated is never stored: writes keep the damaged record, or fail where they would need it."""
    before, path = made(m), m.root / "a.npy"
    start = path.stat().st_size - before.nbytes
    set_rules(m, DEGRADE)
    m.stop()
    flip(m, level=0, region=1, brick=0)
    m.start()
    degraded = np.load(path)
    check(not np.array_equal(degraded, before), "it reads degraded")

    def write(first, data):
        with open(path, "r+b") as file:
            file.seek(start + first)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    write(4 * 1001, np.float32(7).tobytes())
    run(mounted.BINARY, "sync", m.root)
    equal(os.getxattr(path, "user.varve.state"), b"sealed", "a few elements are sealed as patches")
    degraded.reshape(-1)[1001] = 7
    check(np.array_equal(np.load(path), degraded), "they are there, and the rest is given as before")
    equal([one["part"] for one in scrubbed(m)["damage"]], ['array "", level 0, brick 0'], "the record is still damaged")
    equal(len(marks(path)), 1, "and marked")
    with open(path, "r+b", buffering=0) as file:
        file.seek(start)
        refused(errno.EIO, lambda: file.read(4096), "while it is open for writing, damaged elements are EIO")
    check(np.array_equal(np.load(path), degraded), "and given again afterwards")

    half = np.full(SHAPE[0] // 4 * SHAPE[1] * SHAPE[2], 3, "f4")  # half of the damaged tile
    write(0, half.tobytes())
    done = run(mounted.BINARY, "sync", m.root, status=None)
    check(done.returncode != 0, f"what would need the damaged record is not sealed: {done.stderr.strip()}")
    with open(path, "r+b") as file:
        refused(errno.EIO, lambda: os.fsync(file.fileno()), "the next fsync is told")
    equal(os.getxattr(path, "user.varve.state"), b"staged", "it stays as it was written")
    degraded.reshape(-1)[: len(half)] = 3
    check(np.array_equal(np.load(path), degraded), "and reads so")
    m.restart()
    check(np.array_equal(np.load(path), degraded), "after another mount too")
    try:
        write(0, field()[:64].tobytes())
    except OSError as error:
        equal(error.errno, errno.EIO, "of the seal that failed last")
    run(mounted.BINARY, "sync", m.root)
    equal(os.getxattr(path, "user.varve.state"), b"sealed", "with all of the tile written it is sealed")
    equal(scrubbed(m, status=0)["damage"], [], "the damaged record is gone")
    equal(marks(path), [], "and so is the mark")
    check(np.array_equal(np.load(path)[64:], before[64:]), "the other tile reads as before")
    check(np.abs(np.load(path) - field()).max() < 1e-3, "all is whole")
    m.stop()
    flip(m, level=0, region=1, brick=7)
    m.start()
    np.load(path), equal(len(marks(path)), 1, "damaged elsewhere")
    np.save(path, field())
    equal(marks(path), [], "a file that is written anew has no mark")


def scenario_copied(m):
    """Copies share the damaged record; a part is not copied by the mount itself."""
    before, path = made(m), m.root / "a.npy"
    set_rules(m, DEGRADE)
    m.stop()
    flip(m, level=1, region=1, brick=0)
    m.start()
    degraded = np.load(path)
    with open(path, "rb") as source, open(m.root / "copy.npy", "wb") as target:
        equal(os.copy_file_range(source.fileno(), target.fileno(), 1 << 30), path.stat().st_size, "the whole file is copied")
    check(np.array_equal(np.load(m.root / "copy.npy"), degraded), "a copy gives the same")
    equal([one["levels"] for one in marks(m.root / "copy.npy")], [[0, 1]], "and says so")
    equal(sorted(one["path"] for one in scrubbed(m)["damage"]), ["/a.npy", "/copy.npy"], "scrub names both")
    with open(path, "rb") as source, open(m.root / "part", "wb") as target:
        refused(errno.EIO, lambda: os.copy_file_range(source.fileno(), target.fileno(), 65536, 4096), "a part is not copied")
    equal((m.root / "part").stat().st_size, 0, "nothing was written")
    # Restored from elsewhere, where the truth is what interpolation gives: it must not share the damaged record.
    (m.plain / "a.npy").write_bytes(path.read_bytes())
    run("cp", "--reflink=never", m.plain / "a.npy", m.root / "restored.npy")
    run(mounted.BINARY, "sync", m.root)
    np.load(m.root / "restored.npy")
    equal(marks(m.root / "restored.npy"), [], "what is written from outside is whole")
    equal(sorted(one["path"] for one in scrubbed(m)["damage"]), ["/a.npy", "/copy.npy"], "as before")


def scenario_rules(m):
    """on_damage by path and dataset; what is no such word is refused; varve policy test says it."""
    for text in ('on_damage = "ignore"\n', '[[rule]]\npath = "*.h5"\non_damage = true\n', 'on_damge = "eio"\n'):
        done = set_rules(m, text, status=2)
        check("line " in done.stderr and "on_damage" in done.stderr, done.stderr.strip())
    m.bound("rel:1e-5")
    for name in ("a.h5", "b.h5"):
        with h5py.File(m.root / name, "w") as file:
            file["u"], file["v"] = field(), field() + (1 if name == "a.h5" else 2)
    run(mounted.BINARY, "sync", m.root)
    set_rules(m, '[[rule]]\npath = "a.h5"\non_damage = "degrade"\n[[rule]]\npath = "*.h5"\ndataset = "v"\non_damage = "eio"\n')
    m.stop()
    for thing in sorted({one["object"] for one in records(m.store)}):
        for region in (1, 2):
            flip(m, object=thing, region=region, level=0, brick=2)
    m.start()

    def reads(name, dataset):
        try:
            with h5py.File(m.root / name) as file:
                return np.abs(file[dataset][()]).max() > 0
        except OSError:
            return False

    found = {(name, dataset): reads(name, dataset) for name in ("a.h5", "b.h5") for dataset in "uv"}
    equal([key for key, good in found.items() if good], [("a.h5", "u")], "the rule of the dataset wins, and other files have none")
    said = run(mounted.BINARY, "policy", "test", m.root, "a.h5", "/u").stdout
    check("degrade" in said, said.strip())
    check("degrade" not in run(mounted.BINARY, "policy", "test", m.root, "a.h5", "/v").stdout, "of v it does not say so")


def scenario_coarse(m):
    """Without a tile's coarse record and its copy there is nothing to interpolate from."""
    made(m)
    set_rules(m, DEGRADE)
    m.stop()
    for copy in [one for one in records(m.store) if one["level"] >= 3 and one["brick"] == 0]:
        flip(m, level=copy["level"], region=1, brick=0)
    m.start()
    equal(rows_in_error(m.root / "a.npy", (0, 65)), {0}, "the tile is EIO, the other is not")
    equal(marks(m.root / "a.npy"), [], "nothing is marked")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
