#!/usr/bin/python3
"""Formats whose arrays are found without a library, written and read through a mount by the formats' own programs."""

import json

import arrays
import mounted
import numpy as np
from mounted import check, equal, run
from test_hdf5 import smooth


def stat(path):
    """What `varve stat` says of a file, its arrays by name."""
    told = json.loads(run(mounted.BINARY, "stat", "--json", path).stdout)
    told = told[0] if isinstance(told, list) else told
    return told["format"], {array["name"]: array for array in told["arrays"]}


def compare(m, write, suffix, lossy):
    """Has `write` make a file on the plain disk and in folders without and with a bound: equal bytes, or the bound kept
    and all else equal. `lossy`: names of arrays that a bound must have touched. The files under a bound are returned."""
    original = m.plain / f"file{suffix}"
    write(original)
    for folder in m.folders("lossless", "rel:1e-3", "abs:0.01"):
        path = folder / original.name
        write(path)
        bound = {"rel1e-3": "rel:1e-3", "abs0.01": "abs:0.01"}.get(folder.name, "lossless")
        for _ in range(2):
            equal(arrays.problems(original, path, bound), [], f"what is wrong with {path.name} under {bound}")
            if bound != "lossless":
                told = {name for name, array in stat(path)[1].items() if array["bound"] != "lossless"}
                equal(told, set(lossy), "the arrays that it touched")
                check(not mounted.same_bytes(original, path), "it did")
                run(mounted.BINARY, "verify", original, path)
            m.restart()
    return [m.root / name / original.name for name in ("rel1e-3", "abs0.01")]


def scenario_fits(m):
    """astropy: images of floats under a bound; integers, scaled and checksummed ones, tables and headers exact."""
    from astropy.io import fits

    def write(path):
        field = smooth((40, 60, 50))
        whole = (field * 1000).astype("i2")
        table = fits.BinTableHDU.from_columns([fits.Column("a", "E", array=np.sin(np.arange(20000.0)))])
        scaled = fits.ImageHDU(field, name="SCALED")
        scaled.header["BSCALE"] = 2.0
        summed = fits.ImageHDU(field, name="SUMMED")
        hdus = [fits.PrimaryHDU(field), fits.ImageHDU(field.astype("f8"), name="SCI"), table, scaled, summed,
                fits.ImageHDU(whole, name="DQ"), fits.CompImageHDU(whole[0], name="SMALL")]  # fmt: skip
        for hdu in hdus:
            hdu.header["HISTORY"] = "0123456789" * 300
        summed.add_checksum(when="a day")
        fits.HDUList(hdus).writeto(path, checksum=False)

    paths = compare(m, write, ".fits", ["/PRIMARY", "/SCI"])
    for path in paths:
        with fits.open(path, checksum=True) as file:
            file.verify("exception")
            equal(file["SUMMED"]._checksum_valid, True, "a checksum still holds")
        before = {name: fits.getdata(path, name) for name in ("PRIMARY", "SCI", "DQ")}
        with fits.open(path, mode="update") as file:
            file["DQ"].data[3] = 7
            file["SCI"].header["NEW"] = "a card"
        after = {name: fits.getdata(path, name) for name in before}
        before["DQ"] = before["DQ"].copy()
        before["DQ"][3] = 7
        equal([name for name in before if not np.array_equal(before[name], after[name])], [], "images that an update moved")
        equal(fits.getheader(path, "SCI")["NEW"], "a card", "the card it set")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
