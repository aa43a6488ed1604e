#!/usr/bin/python3
"""Filtered chunks of HDF5 and NetCDF-4 on a mount: shuffle, Fletcher32 and deflate, undone and redone exactly."""

import errno
import json
import os
import shutil
import zlib

import arrays
import h5py
import mounted
import netCDF4
import numpy as np
from mounted import check, equal, refused, run, same_bytes
from test_hdf5 import read, smooth

SHAPE = (40, 80, 90)
CHUNKS = (32, 40, 50)  # partial ones at the edges
COMBINATIONS = {
    "shuffle": {"shuffle": True},
    "sum": {"fletcher32": True},
    "shuffle_sum": {"shuffle": True, "fletcher32": True},
    **{f"gzip{level}": {"compression": "gzip", "compression_opts": level} for level in (0, 1, 4, 9)},
    "shuffle_gzip": {"shuffle": True, "compression": "gzip", "compression_opts": 4},
    "all": {"shuffle": True, "compression": "gzip", "compression_opts": 9, "fletcher32": True},
}
DTYPES = ("f4", "f8", "i2", ">f4", ">i4")


def values_of(dtype):
    return (smooth(SHAPE, "f8") * (1 if "f" in dtype else 100)).astype(dtype)


def write_both(write, *paths):
    for path in paths:
        path.unlink(missing_ok=True)
        write(path)


def write(path):
    with h5py.File(path, "w") as file:
        for name, options in COMBINATIONS.items():
            for dtype in DTYPES:
                file.create_dataset(f"{name}/{dtype.replace('>', 'big_')}", data=values_of(dtype), chunks=CHUNKS,
                                    track_times=False, **options)


def described(m, path):
    """What .varve/stat says of a file's arrays, by name."""
    found = json.loads((m.root / ".varve" / "stat" / path.relative_to(m.root)).read_text())
    return {array["name"].strip("/"): array for array in found["arrays"]}


def size_of(path):
    return os.stat(path).st_size


def scenario_combinations(m):
    """Each combination of filters and type is an array, and the file's bytes come back."""
    path, original = m.root / "a.h5", m.plain / "a.h5"
    write_both(write, path, original)
    check(same_bytes(original, path), "the bytes of the same program on the plain disk")
    m.restart()
    check(same_bytes(original, path), "the same after a new mount")
    found = described(m, path)
    # Without a filter that makes it smaller a chunk may be kept as bytes, where lossless coding gains nothing.
    wanted = [f"{name}/{dtype.replace('>', 'big_')}" for name in COMBINATIONS for dtype in DTYPES]
    equal([name for name in wanted if name not in found], [], "each is an array")
    print(f"  {'dataset':24} {'raw':>9} {'in file':>9} {'stored':>9}")
    for name in wanted:
        array = found[name]
        print(f"  {name:24} {array['size']:9} {array['in_file']:9} {array['stored']:9}")
        check(array["stored"] < array["in_file"], f"{name} takes less than in the file")
    check(m.stored(path) < size_of(path), "the file shrinks")
    run(mounted.BINARY, "verify", original, path)


def scenario_bounds(m):
    """A bound moves elements behind shuffle and Fletcher32, and HDF5 finds the checksums right; deflated ones stay."""
    m.bound("abs:0.01")
    path, original = m.root / "a.h5", m.plain / "a.h5"
    write_both(write, path, original)
    equal(arrays.problems(original, path, "abs:0.01"), [], "kept, and exact outside arrays")
    run(mounted.BINARY, "verify", original, path)
    first = path.read_bytes()
    m.restart()
    check(path.read_bytes() == first, "the same bytes after a new mount")
    with h5py.File(path) as file, h5py.File(original) as plain:
        for name in COMBINATIONS:
            for dtype in DTYPES:
                place = f"{name}/{dtype.replace('>', 'big_')}"
                error = np.abs(file[place][()].astype("f8") - plain[place][()].astype("f8")).max()
                lossy = "f" in dtype and "gzip" not in name and name != "all"
                check(0 < error <= 0.01 if lossy else error == 0, f"{place} is off by {error:.2g}")
    why = described(m, path)["shuffle_gzip/f4"]["why"]
    check("deflated" in why, f"stat says why: {why}")
    refused_by_rule = '[[rule]]\npath = "named.h5"\ndataset = "*/f4"\nbound = "abs:0.01"\n'
    (m.plain / "policy.toml").write_text(refused_by_rule)
    run(mounted.BINARY, "policy", "set", m.root, m.plain / "policy.toml")
    write_both(write, m.root / "named.h5", original)
    check(read(m.root / "named.h5", "all/f4").tobytes() == read(original, "all/f4").tobytes(), "no rule changes that")


def scenario_masks(m):
    """write_direct_chunk: filters that were skipped for a chunk, chunks of another compressor, and damaged ones."""

    def write_chunks(path):
        values = smooth((64, 64))
        with h5py.File(path, "w") as file:
            data = file.create_dataset("a", shape=(64, 64), dtype="f4", chunks=(16, 64), track_times=False,
                                       **COMBINATIONS["shuffle_gzip"])
            for row in range(0, 64, 16):
                plain = values[row : row + 16].tobytes()
                shuffled = np.frombuffer(plain, "u1").reshape(-1, 4).T.tobytes()
                chunk, mask = {
                    0: (zlib.compress(shuffled, 4), 0),
                    16: (zlib.compress(plain, 4), 1),
                    32: (shuffled, 2),
                    48: (plain, 3),
                }[row]
                data.id.write_direct_chunk((row, 0), chunk, mask)
            for name, level, wrong in (("other_level", 7, 2), ("most_other", 7, 4)):
                data = file.create_dataset(name, shape=(64, 64), dtype="f4", chunks=(16, 64), track_times=False,
                                           compression="gzip", compression_opts=4)
                for at in range(4):
                    plain = values[at * 16 : at * 16 + 16].tobytes()
                    data.id.write_direct_chunk((at * 16, 0), zlib.compress(plain, level if at < wrong else 4), 0)
            data = file.create_dataset("damaged", shape=(64, 64), dtype="f4", chunks=(16, 64), track_times=False,
                                       fletcher32=True)
            data[...] = values
        with h5py.File(path) as file:
            place = file["damaged"].id.get_chunk_info(1).byte_offset
        with open(path, "r+b") as file:
            file.seek(place + 7)
            file.write(b"!")

    path, original = m.root / "a.h5", m.plain / "a.h5"
    write_both(write_chunks, path, original)
    check(same_bytes(original, path), "every byte is as the program wrote it")
    m.restart()
    check(same_bytes(original, path), "the same after a new mount")
    check(read(path, "a").tobytes() == smooth((64, 64)).tobytes(), "HDF5 reads the values")
    equal(sorted(described(m, path)), ["a", "damaged", "other_level"], "datasets with enough chunks are arrays")
    with h5py.File(path) as file:
        refused_read = False
        try:
            file["damaged"][16:32]
        except OSError:
            refused_read = True
        check(refused_read, "what was damaged is")
    m.bound("abs:0.1")
    shutil.copyfile(original, m.root / "b.h5")
    was, now = arrays.file_bytes(original), arrays.file_bytes(m.root / "b.h5")
    with h5py.File(original) as file, h5py.File(m.root / "b.h5") as bounded:
        for at in (0, 2, 3):
            place = file["damaged"].id.get_chunk_info(at)
            chunk = slice(place.byte_offset, place.byte_offset + place.size)
            check(not np.array_equal(was[chunk], now[chunk]), "under a bound sound chunks of the damaged dataset move")
            now[chunk] = was[chunk]
        rows = np.r_[0:16, 32:64]
        off = np.abs(bounded["damaged"][rows] - smooth((64, 64))[rows]).max()
        check(off <= 0.1, "within it, their checksums right")
    check(np.array_equal(was, now), "and all else is exact")
    for name in ("a", "other_level"):
        with h5py.File(original) as file:
            np.save(m.plain / "part.npy", file[name][5:60:7, ::3])
        region = m.root / ".varve" / "region" / f"{name}[5:60:7,::3]" / "a.h5.npy"
        equal(np.load(region).tobytes(), np.load(m.plain / "part.npy").tobytes(), f"a region of {name}")


def scenario_netcdf(m):
    """netCDF4 with zlib and shuffle, and what nccopy -d makes of a file on the mount."""

    def write_netcdf(path):
        with netCDF4.Dataset(path, "w") as file:
            for name, extent in (("t", None), ("y", 80), ("x", 90)):
                file.createDimension(name, extent)
            for name, options in (("deflated", {"zlib": True, "shuffle": True, "complevel": 4}),
                                  ("summed", {"zlib": True, "shuffle": False, "complevel": 1, "fletcher32": True})):
                variable = file.createVariable(name, "f4", ("t", "y", "x"), fill_value=1e20, **options)
                variable[:] = smooth((70, 80, 90))

    path, original = m.root / "a.nc", m.plain / "a.nc"
    write_both(write_netcdf, path, original)
    m.restart()
    check(same_bytes(original, path), "every byte is as the library wrote it")
    check(m.stored(path) < size_of(path), f"{size_of(path)} bytes take {m.stored(path)}")
    for folder in (m.root, m.plain):
        run("nccopy", "-d4", "-s", folder / "a.nc", folder / "copy.nc")
    m.restart()
    check(same_bytes(m.plain / "copy.nc", m.root / "copy.nc"), "nccopy -d4 -s gives what it gives beside the mount")
    equal(sorted(described(m, m.root / "copy.nc")), ["deflated", "summed"], "and its variables are arrays")
    dumps = [run("ncdump", folder / "copy.nc").stdout for folder in (m.root, m.plain)]
    check(dumps[0] == dumps[1], "ncdump says the same")


def scenario_rewrite(m):
    """Mode r+: chunks that are written again change, and nothing else; the file on the plain disk agrees throughout."""

    def both(action):
        for folder in (m.root, m.plain):
            with h5py.File(folder / "a.h5", "r+") as file:
                action(file)

    def agree(what):
        m.restart()
        check(same_bytes(m.plain / "a.h5", m.root / "a.h5"), what)

    def write_both_files(path):
        with h5py.File(path, "w") as file:
            for name in ("sum", "shuffle_gzip", "all"):
                data = file.create_dataset(name, data=smooth((96, 80, 90)), chunks=(16, 80, 90), track_times=False,
                                           maxshape=(None, 80, 90), **COMBINATIONS[name])
                data.attrs["n"] = 1

    write_both(write_both_files, m.root / "a.h5", m.plain / "a.h5")
    agree("as written")
    other = smooth((96, 80, 90), seed=7)
    for name in ("sum", "shuffle_gzip", "all"):
        both(lambda file: file[name].__setitem__(slice(20, 30), other[20:30]))
        agree(f"{name}: a part of a chunk is rewritten")
        both(lambda file: file[name].__setitem__((slice(None), 40, 40), other[:, 40, 40]))
        agree(f"{name}: one value of each plane")
    both(lambda file: file["all"].resize(150, 0))
    both(lambda file: file["all"].__setitem__(slice(96, 150), other[:54]))
    agree("a longer dataset")
    both(lambda file: file["all"].resize(40, 0))
    agree("a shorter one")
    both(lambda file: file["sum"].attrs.__setitem__("n", np.arange(100)))
    agree("attributes alone")
    with open(m.root / "a.h5", "r+b") as mounted_file, open(m.plain / "a.h5", "r+b") as plain_file:
        with h5py.File(m.plain / "a.h5") as file:
            places = [file[name].id.get_chunk_info(1) for name in ("sum", "shuffle_gzip")]
        for place in places:
            for file in (mounted_file, plain_file):
                file.seek(place.byte_offset + place.size // 2)
                file.write(b"\xa5\x5a")
    agree("bytes inside of chunks, which make no sense any more")


def scenario_lossy_rewrite(m):
    """What a bound moved once does not move again when other chunks of its dataset are written."""
    m.bound("abs:0.01")
    path = m.root / "a.h5"
    values = smooth((96, 80, 90))
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=values, chunks=(16, 40, 45), **COMBINATIONS["shuffle_sum"])
    first = read(path, "a")
    check(first.tobytes() != values.tobytes(), "the bound is used")
    for turn in range(3):
        with h5py.File(path, "r+") as file:
            file["a"][turn * 20, 3:5] = turn
        m.restart()
        now = read(path, "a")
        check(np.abs(now[turn * 20, 3:5] - turn).max() <= 0.01, "what was written is there")
        first[turn * 20, 3:5] = now[turn * 20, 3:5]
        check(now.tobytes() == first.tobytes(), "nothing else moved")


def scenario_views(m):
    """level, coarse and region of filtered datasets."""
    path = m.root / "a.h5"
    with h5py.File(path, "w") as file:
        for name in ("shuffle_sum", "shuffle_gzip"):
            file.create_dataset(name, data=smooth((96, 80, 90)), chunks=CHUNKS, **COMBINATIONS[name])
    m.restart()
    values = smooth((96, 80, 90))
    view = m.root / ".varve" / "level" / "2" / "a.h5"
    equal(size_of(view), size_of(path), "a level has the file's size")
    coarse = read(view, "shuffle_sum")
    off = float(np.abs(coarse - values).max())
    check(0 < off < np.ptp(values), f"shuffled: a level is coarse, off by {off:.3g}")
    check(read(view, "shuffle_gzip").tobytes() == values.tobytes(), "deflated: a level shows every value")
    lines = os.getxattr(view, "user.varve.max_error").decode().splitlines()
    stated = {line.split()[1].strip("/"): float(line.split()[0]) for line in lines[1:]}
    equal(stated["shuffle_gzip"], 0, "max_error of the deflated one")
    check(0 < stated["shuffle_sum"] >= np.abs(coarse.astype("f8") - values).max(), "max_error of the shuffled one")
    for name in ("shuffle_sum", "shuffle_gzip"):
        part = np.load(m.root / ".varve" / "region" / f"{name}[10:70:7,5,::-2]" / "a.h5.npy")
        check(part.tobytes() == values[10:70:7, 5, ::-2].tobytes(), f"a region of {name}")
        part = np.load(m.root / ".varve" / "region" / f"{name}[...]@2" / "a.h5.npy")
        check(part.tobytes() == coarse.tobytes(), f"a region of {name} at level 2")
        thin = read(m.root / ".varve" / "coarse" / "2" / "a.h5", name)
        check(thin.tobytes() == values[::4, ::4, ::4].tobytes(), f"coarse/2 of {name}")
    check(read(m.root / ".varve" / "exact" / "a.h5", "shuffle_gzip").tobytes() == values.tobytes(), "exact opens it")
    with h5py.File(path, "r+") as file:
        file["shuffle_gzip"][0] = 0
    values[0] = 0
    part = np.load(m.root / ".varve" / "region" / "shuffle_gzip[...]" / "a.h5.npy")
    check(part.tobytes() == values.tobytes(), "a region of what was rewritten")


OTHER_ZLIB = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <zlib.h>
const char* zlibVersion(void) { return "9.8.7"; }
int compress2(Bytef* to, uLongf* made, const Bytef* from, uLong size, int level) {
  int (*real)(Bytef*, uLongf*, const Bytef*, uLong, int) = dlsym(RTLD_NEXT, "compress2");
  return real(to, made, from, size, level == 1 ? 9 : 1);
}
"""


def scenario_other_zlib(m):
    """Under a zlib that deflates differently: EIO and never other bytes; what it cannot redo is sealed as bytes."""
    path, original = m.root / "a.h5", m.plain / "a.h5"

    def write_two(path):
        with h5py.File(path, "w") as file:
            for name in ("shuffle_gzip", "shuffle_sum"):
                file.create_dataset(name, data=smooth(SHAPE), chunks=CHUNKS, track_times=False, **COMBINATIONS[name])

    write_both(write_two, path, original)
    (m.plain / "other.c").write_text(OTHER_ZLIB)
    run("gcc", "-shared", "-fPIC", "-o", m.plain / "other.so", m.plain / "other.c", "-lz", "-ldl")
    m.stop()
    os.environ["LD_PRELOAD"] = str(m.plain / "other.so")
    try:
        m.start()
    finally:
        del os.environ["LD_PRELOAD"]
    refused(errno.EIO, path.read_bytes, "reading the whole file")
    log = m.log(200)
    check(f"zlib {zlib.ZLIB_RUNTIME_VERSION} gave" in log and "zlib 9.8.7" in log, "the log names both libraries")
    for name in ("shuffle_gzip", "shuffle_sum"):
        part = np.load(m.root / ".varve" / "region" / f"{name}[...]" / "a.h5.npy")
        check(part.tobytes() == smooth(SHAPE).tobytes(), f"the elements of {name} are there")
    shutil.copyfile(original, m.root / "b.h5")
    check(same_bytes(original, m.root / "b.h5"), "a file that is sealed now is exact")
    equal(sorted(described(m, m.root / "b.h5")), ["shuffle_sum"], "its deflated dataset is bytes")
    m.restart()
    for name in ("a.h5", "b.h5"):
        check(same_bytes(original, m.root / name), f"{name} with the first library")


def scenario_large(m):
    """An array of many tiles is stored in less than its deflated bytes, as it is after a part of it is rewritten."""
    path, original = m.root / "a.h5", m.plain / "a.h5"
    values = smooth((160, 256, 256))

    def write_large(path):
        with h5py.File(path, "w") as file:
            file.create_dataset("a", data=values, chunks=(16, 128, 128), track_times=False,
                                compression="gzip", shuffle=True)

    write_both(write_large, path, original)
    m.restart()
    check(same_bytes(original, path), "every byte is as the program wrote it")
    first = m.stored(path)
    check(first < 0.8 * size_of(path), f"{size_of(path)} bytes take {first}")
    for place in (path, original):
        with h5py.File(place, "r+") as file:
            file["a"][40:60, :, :200] = values[20:40, :, :200]
    m.restart()
    check(same_bytes(original, path), "the same with a part rewritten")
    check(m.stored(path) < 1.1 * first, f"{size_of(path)} bytes take {m.stored(path)}")


def scenario_incompressible(m):
    """What lossless coding cannot make smaller than deflate did stays as it is, and takes no more."""
    path, original = m.root / "a.h5", m.plain / "a.h5"

    def write_noise(path):
        random = np.random.default_rng(1)
        with h5py.File(path, "w") as file:
            file.create_dataset("labels", data=np.repeat(random.integers(0, 9, 40000), 50).reshape(200, 100, 100),
                                compression="gzip", compression_opts=9, chunks=(50, 100, 100), track_times=False)
            noise = random.integers(0, 256, SHAPE, "u1")
            file.create_dataset("noise", data=noise, compression="gzip", track_times=False)
            file.create_dataset("zeros", data=np.zeros((500, 1000, 10)), compression="gzip", track_times=False)

    write_both(write_noise, path, original)
    m.restart()
    check(same_bytes(original, path), "every byte is as the program wrote it")
    for name, array in described(m, path).items():
        check(array["stored"] < array["in_file"], f"{name} is an array and takes less than in the file")
    check(m.stored(path) <= size_of(path) + 4096, f"{size_of(path)} bytes take {m.stored(path)}")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
