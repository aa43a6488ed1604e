#!/usr/bin/python3
"""Which bound a file gets: policy.toml, inheritance, precedence, the default, and bad rules."""

import os
import time

import arrays
import h5py
import mounted
import numpy as np
from mounted import check, equal, run, same_bytes
from test_hdf5 import smooth

POLICY = """
[[rule]]
path = "runs/**/*.h5"
dataset = "/fields/*"
bound = "abs:0.01"

[[rule]]
path = "runs/**"
dataset = "/exact/pressure"
bound = "lossless"

[[rule]]
path = "dumps/*.bin"
bound = "abs:0.05"
raw = {dtype = "f32", shape = [70, 80, 90]}

[[rule]]
path = "runs/**"
bound = "abs:0.1"
"""


def set_policy(m, text, status=0):
    (m.folder / "rules.toml").write_text(text)
    return run(mounted.BINARY, "policy", "set", m.root, m.folder / "rules.toml", status=status)


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for number, name in enumerate(("fields/density", "exact/pressure", "other/energy")):
            file.create_dataset(name, data=smooth(seed=number), track_times=False)


def errors(path):
    """Largest error of each dataset that write() makes."""
    with h5py.File(path, "r") as file:
        names = ("fields/density", "exact/pressure", "other/energy")
        return [float(np.abs(file[name][()].astype("f8") - smooth(seed=k)).max()) for k, name in enumerate(names)]


def scenario_rules(m):
    """Rules with path and dataset globs; the first that matches wins; raw files by rule."""
    set_policy(m, POLICY)
    write(m.root / "runs" / "a" / "b" / "out.h5")
    for moment in ("at once", "after a new mount"):
        density, pressure, energy = errors(m.root / "runs" / "a" / "b" / "out.h5")
        check(0 < density <= 0.01, f"a dataset rule: {density:.3g} of 0.01, {moment}")
        equal(pressure, 0.0, f"a dataset that a rule keeps lossless, {moment}")
        check(0.01 < energy <= 0.1, f"the path's rule for the others: {energy:.3g} of 0.1, {moment}")
        m.restart() if moment == "at once" else None
    write(m.root / "elsewhere" / "out.h5")
    equal(errors(m.root / "elsewhere" / "out.h5"), [0.0] * 3, "outside of all rules: exact")
    (m.root / "dumps").mkdir()
    smooth().tofile(m.root / "dumps" / "t0.bin")
    error = np.abs(np.fromfile(m.root / "dumps" / "t0.bin", "f4").astype("f8") - smooth().ravel()).max()
    check(0.01 < error <= 0.05, f"a raw file by rule: {error:.3g} of 0.05")
    smooth()[:-1].tofile(m.root / "dumps" / "short.bin")
    check((np.fromfile(m.root / "dumps" / "short.bin", "f4") == smooth()[:-1].ravel()).all(),
          "a raw file of another size than its rule says: exact")
    shown = run(mounted.BINARY, "policy", "show", m.root).stdout
    check("dumps/*.bin" in shown, "policy show prints the rules after a new mount")
    for path, dataset, wanted in (("runs/x/y.h5", "/fields/p", "abs:0.01"), ("runs/x/y.h5", "/exact/pressure", "lossless"),
                                  ("runs/x/y.h5", "/q", "abs:0.1"), ("other", "/q", "lossless")):
        answer = run(mounted.BINARY, "policy", "test", m.root, path, dataset).stdout
        equal(answer.split()[0], wanted, f"policy test {path} {dataset}")


def scenario_bad_rules(m):
    """A policy that cannot be parsed is refused with line and reason; the former rules stay."""
    set_policy(m, POLICY)
    for text, word in (
        ('[[rule]]\npath = "a"\nbound = "rel:x"\n', "line 3"),
        ('[[rule]]\npath = "a"\nbuond = "rel:1"\n', "buond"),
        ('[[rule]]\npath = "a"\nbound = "rel:1"\n[[rule\n', "line 4"),
        ('[[rule]]\npath = "["\nbound = "rel:1"\n', "line 2"),
        ("[[rule]]\npath = 5\n", "line 2"),
        ('[[rule]]\npath = "a"\nraw = {dtype = "f99", shape = [1]}\n', "line 3"),
    ):
        refusal = set_policy(m, text, status=None)
        check(refusal.returncode != 0 and word in refusal.stderr, f"refused: {refusal.stderr.strip()}")
    write(m.root / "runs" / "out.h5")
    check(0 < errors(m.root / "runs" / "out.h5")[0] <= 0.01, "the former rules are in force")
    m.stop()
    (m.store / "policy.toml").write_text("this is no policy")
    done = run(mounted.BINARY, "mount", "-f", m.store, m.root, status=None, timeout=30)
    check(done.returncode != 0 and "policy.toml" in done.stderr, f"a mount with bad rules: {done.stderr.strip()}")
    (m.store / "policy.toml").write_text(POLICY)
    m.start()


def scenario_edited_by_hand(m):
    """policy.toml edited in the store while mounted is taken up within seconds."""
    (m.store / "policy.toml").write_text('[[rule]]\npath = "**"\nbound = "abs:0.01"\n')
    time.sleep(2.5)
    np.save(m.root / "x.npy", smooth())
    error = np.abs(np.load(m.root / "x.npy").astype("f8") - smooth()).max()
    check(0 < error <= 0.01, f"in force: {error:.3g} of 0.01")


def scenario_inheritance(m):
    """A directory's bound holds for files made below it, the nearest one wins, a file's own wins over all."""
    (m.root / "a" / "b" / "c").mkdir(parents=True)
    m.bound("abs:0.1", m.root / "a")
    m.bound("abs:0.01", m.root / "a" / "b")
    m.bound("lossless", m.root / "a" / "b" / "c")
    files = {"x.npy": 0.0, "a/x.npy": 0.1, "a/b/x.npy": 0.01, "a/b/c/x.npy": 0.0, "a/b/own.npy": 0.001}
    (m.root / "a/b/own.npy").touch()
    m.bound("abs:0.001", m.root / "a/b/own.npy")
    for name in files:
        np.save(m.root / name, smooth())
    m.restart()
    for name, bound in files.items():
        error = float(np.abs(np.load(m.root / name).astype("f8") - smooth()).max())
        check(bound / 20 <= error <= bound, f"{name}: {error:.3g} of {bound}")
    m.bound("abs:0.1", m.root / "a" / "b")
    error = float(np.abs(np.load(m.root / "a/b/x.npy").astype("f8") - smooth()).max())
    check(error <= 0.01, "a directory's new bound does not touch files that are there")
    before = np.load(m.root / "a/x.npy").tobytes()
    os.rename(m.root / "a/x.npy", m.root / "moved.npy")
    m.restart()
    equal(np.load(m.root / "moved.npy").tobytes() == before, True, "a file that is moved keeps its values")
    with open(m.root / "moved.npy", "r+b") as file:
        file.seek(128)
        file.write(smooth(seed=3).tobytes())
    error = np.abs(np.load(m.root / "moved.npy").astype("f8") - smooth(seed=3)).max()
    check(0.01 < error <= 0.1, f"and its bound, the one in force when it was made: {error:.3g} of 0.1")


def scenario_precedence(m):
    """Rules that name a dataset, then the inherited bound, then rules without a dataset."""
    set_policy(m, POLICY)
    (m.root / "runs").mkdir()
    m.bound("abs:0.001", m.root / "runs")
    write(m.root / "runs" / "out.h5")
    density, pressure, energy = errors(m.root / "runs" / "out.h5")
    check(0.001 < density <= 0.01, "the dataset's rule wins over the directory's bound")
    equal(pressure, 0.0, "so does a lossless one")
    check(0 < energy <= 0.001, "the directory's bound wins over the path's rule")


def scenario_default(m):
    """A fresh mount with no bound and no rules: everything is byte-exact."""
    for number, dtype in enumerate(("f4", "f8", ">f4", ">f8")):
        for folder in (m.root, m.plain):
            np.save(folder / f"{number}.npy", smooth(dtype=dtype))
    for folder in (m.root, m.plain):
        write(folder / "a.h5")
        smooth().tofile(folder / "x_70x80x90.f32")
    for name in ("0.npy", "1.npy", "2.npy", "3.npy", "a.h5", "x_70x80x90.f32"):
        check(same_bytes(m.root / name, m.plain / name), f"{name} is exact")
    equal(run("getfattr", "--only-values", "-n", "user.varve.bound", m.root / "0.npy").stdout, "lossless",
          "getfattr says lossless")


def scenario_named_protected(m):
    """What a directory's bound must not touch, a rule that names the dataset may: but never a deflated array."""
    set_policy(m, '[[rule]]\ndataset = "/x"\nbound = "abs:0.01"\n[[rule]]\ndataset = "/zipped"\nbound = "abs:0.01"\n'
                  '[[rule]]\ndataset = "/short"\nbound = "abs:0.01"\n')
    axis, short = smooth((20000, 1), "f8").ravel(), smooth((500, 1), "f8").ravel()
    with h5py.File(m.root / "a.h5", "w") as file:
        file["x"] = axis
        file["x"].make_scale("x")
        file["short"] = short
        file.create_dataset("zipped", data=smooth(), chunks=(70, 80, 90), compression="gzip")
    with h5py.File(m.root / "a.h5", "r") as file:
        check(0 < np.abs(file["x"][()] - axis).max() <= 0.01, "a dimension scale that a rule names")
        check(0 < np.abs(file["short"][()] - short).max() <= 0.01, "a short array that a rule names")
        equal(float(np.abs(file["zipped"][()] - smooth()).max()), 0.0, "a deflated array stays exact")


def scenario_warning(m):
    """A bound larger than an array's range is applied, with a warning in stat and in the log."""
    m.bound("abs:100")
    np.save(m.root / "x.npy", smooth())
    np.save(m.plain / "x.npy", smooth())
    equal(arrays.problems(m.plain / "x.npy", m.root / "x.npy", "abs:100"), [], "kept")
    shown = run(mounted.BINARY, "stat", m.root / "x.npy").stdout
    check("range" in shown, "varve stat warns")
    check("range" in m.log(200), "the log warns")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
