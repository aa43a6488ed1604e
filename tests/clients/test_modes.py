#!/usr/bin/python3
"""Every bound mode with every element type through h5py and numpy: what was written against what is read."""

import json

import h5py
import mounted
import numpy as np
from mounted import check, equal, run

SHAPE = (60, 70, 33)
FLOATS = ("f2", "f4", "f8", ">f4", "c8", "c16")
INTEGERS = ("u1", "i1", "u2", "i2", ">i2", "u4", "i4", "u8", "i8")
FILL = 77
MODES = ("abs:0.03", "abs:2", "rel:0.01", "abs:3+rel:0.05", "pwrel:0.02", "psnr:45", "ratio:12", "bits:5")


def sample(dtype, seed=0):
    """A smooth field with some noise, with zeros, and of floats with special values."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    z, y, x = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    field = np.sin(z / 9) * np.cos(y / 13) + np.sin(x / 7) + 0.02 * random.standard_normal(SHAPE)
    if dtype.kind == "c":
        return (field + 1j * np.flip(field)).astype(dtype)
    if dtype.kind in "iu":
        return (field * 25 + (60 if dtype.kind == "u" else 0)).astype(dtype)
    field[3:5, 10:20, :5] = 0
    field[7, 8, ::4] = np.nan
    field[9, 8, ::4] = -np.inf
    field[11, 8, ::4] = -0.0
    return field.astype(dtype)


def reals(values):
    values = np.ascontiguousarray(values)
    if values.dtype.kind == "c":
        values = values.view(np.dtype(f"{values.dtype.byteorder}f{values.dtype.itemsize // 2}"))
    return values.astype(values.dtype.newbyteorder("=")).ravel()


def bits(values):
    return values.view(f"u{values.dtype.itemsize}")


def parts_of(bound):
    return dict((mode, float(value)) for mode, _, value in (part.partition(":") for part in bound.split("+")))


def rounded(values, kept):
    """To so many bits of mantissa, ties to even, by their value."""
    wide = values.astype("f8")
    step = np.floor(np.log2(np.abs(wide), where=wide != 0, out=np.zeros_like(wide)))
    step = np.exp2(np.maximum(step, np.log2(float(np.finfo(values.dtype).tiny))) - kept)
    return np.rint(wide / step) * step


def problem(was, now, bound, fills=()):
    """What is wrong with an array that came back; empty: nothing."""
    was, now = reals(was), reals(now)
    floats = was.dtype.kind == "f"
    special = np.isin(was, fills)
    if floats:
        special |= ~np.isfinite(was) | ((was == 0) & np.signbit(was))
    if not np.array_equal(bits(was[special]), bits(now[special])):
        return "special values changed"
    if np.isin(now[~special], fills).any() and was.dtype.kind != "f":
        return "values became missing ones"
    x, y = was[~special].astype(np.longdouble), now[~special].astype(np.longdouble)
    error, spread = np.abs(x - y), x.max() - x.min()
    if not np.isfinite(y).all():
        return "values that are not finite"
    for mode, value in parts_of(bound).items():
        limit = {"abs": value, "rel": value * spread, "pwrel": value * np.abs(x)}.get(mode)
        if limit is not None and (error > limit * (1 + np.longdouble(1e-17))).any():
            return f"{mode} is broken: {float(np.max(error)):.3g}"
        if mode in ("pwrel", "bits") and (((x == 0) != (y == 0)) | ((x < 0) != (y < 0))).any():
            return "signs or zeros changed"
        if mode == "bits" and floats and ((y != x) & (y != rounded(was[~special], int(value)))).any():
            return "values are not rounded"
        mean = float(np.mean((error / spread) ** 2))
        if mode == "psnr" and mean > 0 and -10 * np.log10(mean) < value:
            return f"{-10 * np.log10(mean):.2f} decibels"
    return ""


def stat_of(path):
    shown = json.loads(run(mounted.BINARY, "stat", "--json", path).stdout)
    shown = shown[0] if isinstance(shown, list) else shown
    return {array["name"].strip("/"): array for array in shown["arrays"]}


def write(path, types):
    with h5py.File(path, "w") as file:
        for number, dtype in enumerate(types):
            more = {"fillvalue": FILL} if np.dtype(dtype).kind in "iu" else {}
            file.create_dataset(f"x{number}", data=sample(dtype, number), track_times=False, **more)


def read(path):
    with h5py.File(path, "r") as file:
        return {name: item[()] for name, item in file.items()}


def changed(was, now):
    return not np.array_equal(bits(reals(was)), bits(reals(now)))


def scenario_floats(m):
    """HDF5 datasets of every float and complex type under a directory's bound, at once and after a new mount."""
    for mode in MODES:
        folder = m.root / mode.replace(":", "_")
        folder.mkdir()
        m.bound(mode, folder)
        write(folder / "a.h5", FLOATS)
    for moment in ("at once", "after a new mount"):
        for mode in MODES:
            path = m.root / mode.replace(":", "_") / "a.h5"
            found, facts = read(path), stat_of(path)
            for number, dtype in enumerate(FLOATS):
                was = sample(dtype, number)
                equal(problem(was, found[f"x{number}"], mode), "", f"{dtype} {mode} {moment}")
                check(changed(was, found[f"x{number}"]) and facts[f"x{number}"]["absolute_bound"] > 0, "and bounded")
        m.restart() if moment == "at once" else None


def scenario_integers(m):
    """Integers: exact under a directory's bound, bounded by a rule that says so; a fill value stays one, alone."""
    rules = "".join(f'[[rule]]\npath = "{mode.replace(":", "_")}/**"\nbound = "{mode}"\nintegers = true\n'
                    for mode in MODES)
    (m.folder / "rules.toml").write_text(rules)
    run(mounted.BINARY, "policy", "set", m.root, m.folder / "rules.toml")
    (m.root / "plain").mkdir()
    m.bound("abs:2", m.root / "plain")
    for mode in MODES:
        (m.root / mode.replace(":", "_")).mkdir()
        write(m.root / mode.replace(":", "_") / "a.h5", INTEGERS)
    write(m.root / "plain" / "a.h5", INTEGERS)
    m.restart()
    for number, now in enumerate(read(m.root / "plain" / "a.h5").values()):
        check(not changed(sample(INTEGERS[number], number), now), f"{INTEGERS[number]} without a rule: exact")
    for mode in MODES:
        path = m.root / mode.replace(":", "_") / "a.h5"
        found, facts = read(path), stat_of(path)
        for number, dtype in enumerate(INTEGERS):
            was, now = sample(dtype, number), found[f"x{number}"]
            equal(problem(was, now, mode, [FILL]), "", f"{dtype} {mode}")
            bounded = mode in ("abs:2", "abs:3+rel:0.05")
            check(changed(was, now) or not bounded, "and bounded, where steps of 1 allow it")
            if mode == "abs:0.03":
                check("finer" in facts[f"x{number}"]["why"] and not changed(was, now), facts[f"x{number}"]["why"])


def scenario_facts(m):
    """What varve stat says of mode, mapping and the bound found; a ratio is reached; verify agrees."""
    for mode, mapping in (("pwrel:0.001", "orders"), ("bits:5", "rounded"), ("psnr:60", "values")):
        m.bound(mode)
        for folder in (m.root, m.plain):
            np.save(folder / f"{mapping}.npy", sample("f4"))
        facts = stat_of(m.root / f"{mapping}.npy")[""]
        equal((facts["bound"], facts["mapping"]), (mode, mapping), f"stat of {mode}")
        check(facts["absolute_bound"] > 0, "and what the largest may move by")
        run(mounted.BINARY, "verify", m.plain / f"{mapping}.npy", m.root / f"{mapping}.npy")
    random = np.random.default_rng(1)
    field = np.cumsum(np.cumsum(random.standard_normal((1500, 1600)), 0), 1).astype("f4")
    for ratio in (8, 25):
        m.bound(f"ratio:{ratio}")
        for folder in (m.root, m.plain):
            np.save(folder / f"r{ratio}.npy", field)
        facts = stat_of(m.root / f"r{ratio}.npy")[""]
        check(0.9 * ratio < facts["ratio"] < 1.1 * ratio, f"ratio:{ratio} came to {facts['ratio']:.2f}")
        error = float(np.abs(np.load(m.root / f"r{ratio}.npy").astype("f8") - field).max())
        check(0 < error <= facts["absolute_bound"], f"the bound found, {facts['absolute_bound']:.4g}, is kept: {error:.4g}")
        shown = run(mounted.BINARY, "stat", m.root / f"r{ratio}.npy").stdout
        check(f"{facts['absolute_bound']:g}" in shown and f"ratio:{ratio}" in shown, "varve stat shows it")
        run(mounted.BINARY, "verify", m.plain / f"r{ratio}.npy", m.root / f"r{ratio}.npy")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
