#!/usr/bin/python3
"""varve preview and varve quality on a mount: pictures and figures against what NumPy makes of the same arrays."""

import json

import h5py
import mounted
import numpy as np
from mounted import BINARY, check, equal, run
from png import picture
from test_hdf5 import smooth

GREY = (153, 153, 153)


def sample(path):
    """A smooth field with holes, a chunked one, a line."""
    field = smooth((60, 70, 80))
    field[10:20, 30:40, 50:60] = np.nan
    with h5py.File(path, "w") as file:
        file.create_dataset("field", data=field, track_times=False)
        file.create_dataset("g/chunked", data=smooth((50, 40), dtype="f8", seed=2), chunks=(16, 16), track_times=False)
        file.create_dataset("line", data=np.sin(np.arange(300) / 20), track_times=False)


def sealed_sample(m):
    """The sample on the plain disk, and a copy of it that is sealed under a bound."""
    original, copy = m.plain / "a.h5", m.root / "a.h5"
    sample(original)
    m.bound("rel:1e-3")
    copy.write_bytes(original.read_bytes())
    run(BINARY, "sync", m.root)
    return original, copy


def preview(*arguments, status=0):
    return run(BINARY, "preview", *arguments, status=status)


def scenario_preview(m):
    """Each 2^K-th point, exactly as the file reads; pictures are pictures; slices; the error beside it."""
    original, copy = sealed_sample(m)
    out = m.plain / "out.npy"
    with h5py.File(copy) as file, h5py.File(original) as before:
        for name in ("field", "g/chunked", "line"):
            for level in (0, 1, 3):
                preview(f"{copy}:{name}", "--level", level, "-o", out)
                wanted = file[name][tuple([slice(None, None, 2**level)] * file[name].ndim)]
                check(np.array_equal(np.load(out), wanted, equal_nan=True), f"{name}: level {level} is each {2**level}th point")
        preview(f"{copy}:/field", "--slice", "y=33", "--level", 1, "-o", out)
        check(np.array_equal(np.load(out), file["field"][::2, 33, ::2], equal_nan=True), "a slice between coarse points")
        preview(copy, "--slice", "0=12", "--slice", "x=55", "--level", 0, "-o", out)
        check(np.array_equal(np.load(out), file["field"][12, :, 55], equal_nan=True), "a line; the largest array is chosen")
        check(not np.array_equal(file["line"][:], before["g/chunked"][0]), "the arrays differ")

    counters = m.root / ".varve" / "counters"
    m.restart()
    for level in (3, 2):
        preview(f"{copy}:field", "--level", level, "-o", out)
        read = json.loads(counters.read_text())["records_read"]
        check(all(read[str(k)]["records"] == 0 for k in range(level)), f"no record below level {level} is read")
        check(read[str(level)]["records"] > 0, f"records of level {level} are")

    png = m.plain / "out.png"
    said = preview(f"{copy}:field", "--level", 0, "--original", original, "-o", png).stdout
    check("60 x 70 x 80" in said, f"says what it shows: {said.strip()}")
    whole = png.read_bytes()
    check(whole.startswith(b"\x89PNG") and len(whole) > 50_000, f"four pictures and three errors: {len(whole)} bytes")
    preview(f"{copy}:field", "--slice", "z=15", "--level", 0, "-o", png)
    shot = picture(png)
    grey = sum(line.count(GREY) for line in shot)
    height, width = 360 * 70 / 80, 360  # of the slice, drawn
    check(abs(grey / (height * width) - 100 / (70 * 80)) < 0.005, f"the hole is grey: {grey} pixels")
    preview(f"{copy}:line", "--original", original, "-o", png)
    check(len(png.read_bytes()) > 5000, "a line and its error")
    preview(f"{copy}:g/chunked", "--original", original, "-o", png)
    check(len({pixel for line in picture(png) for pixel in line}) > 100, "a plane and its error")


def scenario_quality(m):
    """Figures against NumPy's; a page; a file that is equal."""
    original, copy = sealed_sample(m)
    page = m.plain / "q.html"
    report = json.loads(run(BINARY, "quality", original, copy, "--json", "--html", page).stdout)
    found = {array["name"]: array for array in report["arrays"]}
    with h5py.File(copy) as file, h5py.File(original) as before:
        a, b = before["field"][:].astype("f8"), file["field"][:].astype("f8")
    error, extent = b - a, np.nanmax(a) - np.nanmin(a)
    field = found["/field"]
    for name, wanted in (("max_error", np.nanmax(abs(error))), ("rmse", np.sqrt(np.nanmean(error**2))),
                         ("psnr", -20 * np.log10(np.sqrt(np.nanmean(error**2)) / extent)), ("mean_error", np.nanmean(error))):
        check(abs(field[name] - wanted) <= 1e-6 * abs(wanted) + 1e-12, f"{name}: {field[name]}, NumPy {wanted}")
    check(0.9 < field["ssim"] <= 1 and 0 < field["gradient_nrmse"] < 1, f"SSIM {field['ssim']}")
    mean = lambda x: np.where(np.isfinite(x), x - np.nanmean(x), 0)
    power = abs(np.fft.fftn(mean(a))) ** 2
    grid = np.sqrt(sum((np.fft.fftfreq(n)[tuple(slice(None) if i == axis else None for i in range(3))]) ** 2
                       for axis, n in enumerate(a.shape)))
    shell = np.floor(grid * max(a.shape) + 0.5)
    for k, value in zip(field["spectrum"]["wave_number"][:5], field["spectrum"]["original"]):
        wanted = power[shell == k].mean()
        check(abs(value - wanted) < 1e-9 * wanted, f"power of shell {k:g}: {value:g}, NumPy {wanted:g}")
    lag = mean(error).ravel()
    wanted = (lag[:-1] * lag[1:]).sum() / (lag**2).sum()
    check(abs(field["error_autocorrelation"][0] - wanted) < 1e-9, "autocorrelation at lag 1")
    equal(found["/line"]["changed"], 0, "a line of 300 points is exact")
    text = page.read_text()
    check(text.count("data:image/png;base64,") == sum(one["changed"] > 0 for one in found.values()) > 0, "a plot an array")
    check("PSNR" in run(BINARY, "quality", original, copy).stdout, "text")
    check("equal bit for bit" in run(BINARY, "quality", original, original).stdout, "a file is equal to itself")


def scenario_refusals(m):
    """What cannot be shown is said in a sentence."""
    sample(m.root / "a.h5")
    (m.root / "b.bin").write_bytes(b"x" * 1000)
    np.save(m.root / "scalar.npy", np.float32(1))
    a = m.root / "a.h5"
    for arguments, word in (((a, "--slice", "w=1"), "z, y, x"), ((a, "--slice", "z=60"), "60 points"),
                            ((a, "--slice", "z"), "makes no sense"), ((f"{a}:no",), "/field"),
                            ((a, "-o", "x.gif"), ".png or .npy"), ((m.root / "b.bin",), "--raw"),
                            ((m.root / "none.h5",), "No such file"), ((m.root / "scalar.npy",), "no points"),
                            ((a, "--level", "31"), "at most"), ((a, "-o", "/nowhere/x.png"), "cannot write"),
                            ((f"{a}:line", "--slice", "x=3"), "no axis"),
                            ((f"{a}:line", "--original", m.root / "scalar.npy"), "no array /line"),
                            ((m.root / "b.bin", "--raw", "f32:3x3"), "describes 36")):
        done = preview(*arguments, status=2)
        check(word in done.stderr and done.stderr.count("\n") == 1, f"refused: {done.stderr.strip()}")
    (m.root / "c.h5").write_bytes(a.read_bytes() + b"more")
    for arguments, word in (((a, m.root / "c.h5"), "not a file and its copy"), ((m.root / "b.bin", a), "--raw"),
                            ((a, m.root / "none.h5"), "none.h5"), ((a, a, "--html", "/nowhere/q.html"), "cannot write")):
        done = run(BINARY, "quality", *arguments, status=2)
        check(word in done.stderr, f"refused: {done.stderr.strip()}")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
