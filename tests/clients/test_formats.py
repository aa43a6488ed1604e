#!/usr/bin/python3
"""Formats whose arrays are found without a library, written and read through a mount by the formats' own programs."""

import json
import os
import shutil
import zipfile

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
            if bound != "lossless" and lossy:
                told = {name for name, array in stat(path)[1].items() if array["bound"] != "lossless"}
                equal(told, set(lossy), "the arrays that it touched")
                check(not mounted.same_bytes(original, path), "it did")
                run(mounted.BINARY, "verify", original, path)
            m.restart()
    return [m.root / name / original.name for name in ("rel1e-3", "abs0.01")]


def region(m, spec, path):
    return np.load(m.root / ".varve/region" / spec / f"{path.relative_to(m.root)}.npy")


def clear(m):
    """Removes what compare() made."""
    for path in m.root.iterdir():
        shutil.rmtree(path)


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
        found = region(m, "SCI[3:7,::2,-1]", path)
        equal(found.tobytes(), fits.getdata(path, "SCI")[3:7, ::2, -1].tobytes(), "a region")
        before = {name: fits.getdata(path, name) for name in ("PRIMARY", "SCI", "DQ")}
        with fits.open(path, mode="update") as file:
            file["DQ"].data[3] = 7
            file["SCI"].header["NEW"] = "a card"
        after = {name: fits.getdata(path, name) for name in before}
        before["DQ"] = before["DQ"].copy()
        before["DQ"][3] = 7
        equal([name for name in before if not np.array_equal(before[name], after[name])], [], "images that an update moved")
        equal(fits.getheader(path, "SCI")["NEW"], "a card", "the card it set")
        fits.append(path, smooth((30, 40, 50), seed=2), fits.Header([("EXTNAME", "MORE")]))
        equal("/MORE" in stat(path)[1], True, "an extension that was appended is an array")
        grown = {name: fits.getdata(path, name) for name in after}
        equal([name for name in after if after[name].tobytes() != grown[name].tobytes()], [], "images that it moved")


def scenario_nifti(m):
    """nibabel: both versions, both byte orders; labels and scaled integers exact."""
    import nibabel

    affine = np.diag([2, 2, 3, 1])
    field = smooth((40, 50, 60))
    for number, kind in ((1, nibabel.Nifti1Image), (2, nibabel.Nifti2Image)):
        for order in "<>":

            def write(path):
                header = kind.header_class(endianness=order)
                image = kind(field.astype(f"{order}f4"), affine, header=header)
                image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"words" * 100))
                nibabel.save(image, path)

            name = f"{number}{'le' if order == '<' else 'be'}"
            for path in compare(m, write, name + ".nii", [""]):
                image = nibabel.load(path, mmap=False)
                equal(image.header.endianness, order, "the order of bytes")
                equal(image.header.extensions[0].get_content().rstrip(b"\0"), b"words" * 100, "the extension")
                values = np.asarray(image.dataobj)
                for spec, part in (("[3:7,::2,-1]", np.s_[3:7, ::2, -1]), ("[:,4]", np.s_[:, 4]), ("[...]", np.s_[...])):
                    check(np.array_equal(region(m, spec, path), values[part]), f"the region {spec}")
                limit = 0.01 if "abs" in str(path) else 1e-3 * (field.max() - field.min())
                check(np.abs(image.get_fdata() - field).max() <= limit * (1 + 1e-6), "what nibabel reads keeps the bound")
            clear(m)

    def write_labels(path):
        image = kind(np.round(field * 3).astype("f4"), affine)
        image.header.set_intent("label")
        nibabel.save(image, path)

    def write_scaled(path):
        nibabel.save(kind(field, affine, dtype="i2"), path)

    for write in (write_labels, write_scaled):
        compare(m, write, ".nii", [])
        clear(m)


def scenario_mrc(m):
    """mrcfile: volumes and stacks of floats, an extended header, complex numbers; integers exact."""
    import mrcfile

    field = smooth((30, 50, 60))
    samples = {"volume": field, "half": field.astype("f2"), "stack": field.reshape(3, 10, 50, 60),
               "complex": (field + 1j * field[::-1]).astype("c8"), "big": field.astype(">f4")}  # fmt: skip
    whole = {"i2": (field * 1000).astype("i2"), "i1": (field * 10).astype("i1"), "u2": (field * 10 + 900).astype("u2")}

    def write(path, array):
        with mrcfile.new(path, overwrite=True) as file:
            file.set_data(array)
            file.set_extended_header(np.arange(1000, dtype="u1"))
            file.header.label[0] = file.header.label[0].ljust(80)[:7].ljust(80)  # mrcfile writes the time there

    for name, array in {**samples, **whole}.items():
        for path in compare(m, lambda path, array=array: write(path, array), ".mrc", [""] if name in samples else []):
            with mrcfile.open(path) as file:
                equal((file.data.shape, file.data.dtype), (array.shape, array.dtype), f"{name}: what mrcfile reads")
                equal(bytes(file.extended_header), bytes(np.arange(1000, dtype="u1")), "the extended header")
        clear(m)


def scenario_safetensors(m):
    """Tensors of all types of floats under a bound; integers and the header exact."""
    field = smooth((40, 50, 60))
    tensors = {"f16": field.astype("f2"), "f32": field, "f64": field.astype("f8"), "ids": (field * 1000).astype("i8"),
               "mask": field > 0, "bias": field[0, 0]}  # fmt: skip
    names = {"f2": "F16", "f4": "F32", "f8": "F64", "i8": "I64", "b1": "BOOL"}

    def write(path):
        header, data = {"__metadata__": {"format": "pt"}}, b""
        brain = (field.view("u4") >> 16).astype("u2")
        for name, array in {**tensors, "bf16": brain}.items():
            dtype = "BF16" if name == "bf16" else names[array.dtype.str[1:]]
            header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
            data += array.tobytes()
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)

    compare(m, write, ".safetensors", ["/f16", "/f32", "/f64", "/bf16"])


def scenario_archives(m):
    """numpy.savez, and PyTorch's layout: bounds leave members alone, whose checksums then hold."""
    field = smooth((40, 50, 60))

    def write(path):
        np.savez(path, field=field, fortran=np.asfortranarray(field.astype("f8")), whole=(field * 1000).astype("i4"))

    def write_compressed(path):
        np.savez_compressed(path, field=field)

    for action in (write, write_compressed):
        for path in compare(m, action, ".npz", []):
            equal(zipfile.ZipFile(path).testzip(), None, "no member with a wrong checksum")
            equal(np.array_equal(np.load(path)["field"], field), True, "what numpy reads")
            format, told = stat(path)
            equal(format, "npz", "the format")
            equal(set(told), {"/field", "/fortran", "/whole"} if action is write else set(), "the arrays")
            check(all("its own checksum" in array["why"] for array in told.values()), "why they are exact")
        clear(m)


def scenario_names(m):
    """Files written under other names and renamed into place, with an extension that lies: known by their content."""
    from astropy.io import fits
    import mrcfile
    import nibabel

    field = smooth((20, 30, 40))
    fits.PrimaryHDU(field).writeto(m.plain / "a.fits")
    nibabel.save(nibabel.Nifti1Image(field, np.eye(4)), m.plain / "a.nii")
    mrcfile.write(m.plain / "a.mrc", field)
    np.savez(m.plain / "a.npz", field)
    header = json.dumps({"a": {"dtype": "F32", "shape": field.shape, "data_offsets": [0, field.nbytes]}}).encode()
    (m.plain / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + field.tobytes())
    for original in sorted(m.plain.iterdir()):
        whole = original.read_bytes()
        with open(m.root / "a.tmp", "wb") as file:  # the end first
            file.seek(len(whole) // 2)
            file.write(whole[len(whole) // 2 :])
            file.seek(0)
            file.write(whole[: len(whole) // 2])
        os.rename(m.root / "a.tmp", m.root / "a.txt")
        format, told = stat(m.root / "a.txt")
        wanted = {"nii": "nifti"}.get(original.suffix[1:], original.suffix[1:])
        equal((format, len(told)), (wanted, 1), f"{original.name}: format and number of arrays")
        check(mounted.same_bytes(original, m.root / "a.txt"), "its bytes")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
