#!/usr/bin/python3
"""Simulations' own formats through a mount: NetCDF's classic ones, AMReX, VTK."""

import json

import array_grids
import arrays
import mounted
import netCDF4
import numpy as np
import xarray
from mounted import check, equal, run
from test_formats import compare, stat
from test_hdf5 import smooth
from test_netcdf import variables, write

CLASSIC = {"NETCDF3_CLASSIC": "classic", "NETCDF3_64BIT_OFFSET": "64-bit offset", "NETCDF3_64BIT_DATA": "cdf5"}


def scenario_netcdf3(m):
    """netCDF4 and ncdump: fields of fixed and record variables under a bound; coordinates and packed ones exact."""

    def fixed(path):
        with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as out:
            for name, length in (("z", 20), ("y", 50), ("x", 60)):
                out.createDimension(name, length)
                out.createVariable(name, "f8", (name,))[:] = np.arange(length) / 7
            out.createVariable("u", "f4", ("z", "y", "x"))[:] = smooth((20, 50, 60))
            out.createVariable("mask", "i1", ("y", "x"))[:] = smooth((50, 60)) > 0

    compare(m, fixed, ".fixed.nc", ["/u"])
    for kind, spoken in CLASSIC.items():
        paths = compare(m, lambda path, kind=kind: write(path, fmt=kind), f".{kind}.nc", ["/sst"])
        original = m.plain / paths[0].name
        for path in paths:
            equal(run("ncdump", "-k", path).stdout.strip(), spoken, "the kind that ncdump names")
            heads = [run("ncdump", "-h", place).stdout for place in (original, path)]
            check(heads[0] == heads[1], "ncdump -h says the same")
            was, now = variables(original), variables(path)
            moved = [name for name in was if was[name].tobytes() != now[name].tobytes()]
            equal(moved, ["sst"], "variables that moved")


def scenario_netcdf3_append(m):
    """Mode 'a' and sync: a longer time axis, and no earlier value moves."""
    m.bound("abs:0.005")
    field = smooth((40, 60, 90), seed=9)
    for kind in CLASSIC:
        path = m.root / f"{kind}.nc"
        write(path, 4, fmt=kind)
        seen = variables(path)
        for turn in range(4):
            length = 4 + turn * 6
            with netCDF4.Dataset(path, "a") as file:
                for step in range(length, length + 6):
                    file["sst"][step] = field[step]
                    file["time"][step] = step / 7
                    file["cloud"][step] = 0.5
                    file.sync()
            now = variables(path)
            for name, was in seen.items():
                if now[name][: len(was)].tobytes() != was.tobytes():
                    raise mounted.Failure(f"turn {turn}: earlier values of {name} moved")
            error = np.abs(now["sst"][length:].astype("f8") - field[length : length + 6]).max()
            check(error <= 0.005, f"{kind}, turn {turn}: appended within {error:.2g} of 0.005, nothing earlier moved")
            seen = now
        m.restart()
        check(all(variables(path)[name].tobytes() == seen[name].tobytes() for name in seen), "the same after a new mount")
        equal(stat(path)[1]["/sst"]["shape"], [28, 60, 90], "the shape that varve stat tells")


def scenario_netcdf3_programs(m):
    """nccopy and xarray write and convert on the mount; what is converted keeps the bound of what was read."""
    m.bound("rel:1e-3")
    write(m.plain / "four.nc")
    for kind, spoken in CLASSIC.items():
        path, original = m.root / f"{kind}.nc", m.plain / f"{kind}.nc"
        for place in (path, original):
            run("nccopy", "-k", spoken, m.plain / "four.nc", place)
        equal(arrays.problems(original, path, "rel:1e-3"), [], f"nccopy -k {spoken}: kept, and exact outside arrays")
        check(not mounted.same_bytes(original, path), "and the bound was used")
        back = m.root / f"{kind}.back.nc"
        run("nccopy", "-k", "nc4", path, back)
        was, now = variables(original), variables(back)
        for name in was:
            limit = 2e-3 * (np.ptp(was[name][was[name] < 1e19]) if name == "sst" else 0)
            if np.abs(was[name].astype("f8") - now[name]).max() > limit:
                raise mounted.Failure(f"{name} of {back} is further off than two bounds")
    data = xarray.Dataset({"t": (("time", "y", "x"), smooth((6, 80, 90)))}, {"time": np.arange(6.0)})
    for place in (m.plain, m.root):
        data.to_netcdf(place / "x.nc", format="NETCDF3_64BIT", unlimited_dims=["time"], engine="netcdf4")
    equal(arrays.problems(m.plain / "x.nc", m.root / "x.nc", "rel:1e-3"), [], "xarray: kept, and exact outside arrays")
    with xarray.open_dataset(m.root / "x.nc") as found:
        error = float(abs(found.t - data.t).max())
    check(0 < error <= 1e-3 * np.ptp(data.t.values), "what xarray reads is within the bound, and the bound is used")


def scenario_amrex(m):
    """A plotfile as a simulation writes it: components within the bound of their own range, headers exact."""
    native = "((8, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 2 1)))"
    scales = (1.0, 1e-9, 1e6)

    def cells(path):
        field = np.stack([scale * smooth((64, 64, 64), "<f8", number) for number, scale in enumerate(scales)])
        with open(path, "wb") as out:
            for corner in ((0, 0, 0), (32, 0, 0), (0, 32, 0), (32, 32, 32)):
                z, y, x = corner
                box = field[:, z : z + 32, y : y + 32, x : x + 32]
                limits = f"(({x},{y},{z}) ({x + 31},{y + 31},{z + 31}) (0,0,0))"
                out.write(f"FAB {native}{limits} 3\n".encode() + box.tobytes())
                out.flush()

    paths = compare(m, cells, ".Cell_D_00000", ["/32x32x32/0", "/32x32x32/1", "/32x32x32/2"])
    original = m.plain / paths[0].name
    boxes = [np.stack([values for _, values in array_grids.fabs(path)]) for path in (original, paths[0])]
    for number, scale in enumerate(scales):
        was, now = boxes[0][:, number], boxes[1][:, number]
        error = np.abs(was - now).max()
        check(0 < error <= 1e-3 * np.ptp(was), f"component {number}, of about {scale}, is within a bound of its own")
    region = m.root / ".varve/region/32x32x32:1[3,:,5,::2]/rel1e-3" / f"{paths[0].name}.npy"
    check(np.array_equal(np.load(region), boxes[1][3, 1, :, 5, ::2]), "a region of one component of one box")


def scenario_vtk(m):
    """Legacy and XML files: fields within the bound; points, coordinates, whole numbers and all text exact."""
    points = np.stack(np.meshgrid(np.arange(20.0), np.arange(30.0), np.arange(25.0), indexing="ij"), axis=-1)

    def legacy(path):
        with open(path, "wb") as out:
            out.write(b"# vtk DataFile Version 3.0\na title\nBINARY\nDATASET STRUCTURED_GRID\nDIMENSIONS 25 30 20\n")
            out.write(b"POINTS 15000 float\n" + points.astype(">f4").tobytes() + b"\nPOINT_DATA 15000\n")
            out.write(b"SCALARS p double 1\nLOOKUP_TABLE default\n" + smooth((20, 30, 25), ">f8").tobytes() + b"\n")
            out.write(b"SCALARS id int 1\nLOOKUP_TABLE default\n" + np.arange(15000, dtype=">i4").tobytes() + b"\n")
            out.write(b"METADATA\nINFORMATION 0\n\nVECTORS v float\n" + smooth((20, 30, 25, 3), ">f4").tobytes() + b"\n")

    compare(m, legacy, ".vtk", ["/PointData/p", "/PointData/v"])

    def xml(path):
        blocks = [smooth((20, 30, 25), "<f4"), points.astype("<f8"), smooth((19, 29, 24), "<f8"), np.arange(5000, dtype="<i4")]
        offsets = np.cumsum([0] + [8 + block.nbytes for block in blocks])
        array = '<DataArray type="{}" Name="{}" NumberOfComponents="{}" format="appended" offset="{}"/>\n'.format
        with open(path, "wb") as out:
            out.write(
                b'<?xml version="1.0"?>\n<VTKFile type="StructuredGrid" byte_order="LittleEndian" header_type="UInt64">\n'
                b'<StructuredGrid WholeExtent="0 24 0 29 0 19"><Piece Extent="0 24 0 29 0 19">\n<PointData>'
                + array("Float32", "p", 1, offsets[0]).encode() + b"</PointData><Points>"
                + array("Float64", "x", 3, offsets[1]).encode() + b"</Points><CellData>"
                + array("Float64", "c", 1, offsets[2]).encode() + array("Int32", "n", 1, offsets[3]).encode()
                + b'</CellData></Piece></StructuredGrid>\n<AppendedData encoding="raw">\n_'
            )  # fmt: skip
            for block in blocks:
                out.write(np.uint64(block.nbytes).tobytes() + block.tobytes())
            out.write(b"\n</AppendedData></VTKFile>\n")

    compare(m, xml, ".vts", ["/PointData/p", "/CellData/c"])


ZARR_2 = {"zarr_format": 2, "shape": [64, 96], "chunks": [64, 48], "compressor": None, "filters": None, "order": "C"}
ZARR_3 = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [64, 96],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64, 48]}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
}


def zarr_array(folder, version, values, **more):
    """Writes an array of two chunks as zarr-python does: metadata first, each chunk renamed into place."""
    (folder / "c" / "0" if version == 3 else folder).mkdir(parents=True)
    attributes = more.pop("attributes", {})
    if version == 2:
        (folder / ".zarray").write_text(json.dumps({**ZARR_2, "dtype": values.dtype.str, "fill_value": 0.0, **more}))
        (folder / ".zattrs").write_text(json.dumps(attributes))
    else:
        more = {"data_type": values.dtype.name, "fill_value": 0.0, "attributes": attributes, **more}
        (folder / "zarr.json").write_text(json.dumps({**ZARR_3, **more}))
    chunks = []
    for number, part in enumerate((values[:, :48], values[:, 48:])):
        chunk = folder / (f"0.{number}" if version == 2 else f"c/0/{number}")
        unfinished = chunk.parent / f"{chunk.name}.d41d8cd98f00b204e9800998ecf8427e.partial"
        unfinished.write_bytes(np.ascontiguousarray(part).tobytes(more.get("order", "C")))
        unfinished.rename(chunk)
        chunks.append((chunk, part))
    return chunks


def scenario_zarr(m):
    """Chunks of both versions: within the bound where they are plain measurements, else exact, once metadata are there."""
    m.bound("rel:1e-3")
    field = smooth((64, 96), "f8")
    holes = field.copy()
    holes[::7, ::5] = 1e20
    late = m.root / "late"
    late.mkdir()
    (late / "0.0").write_bytes(field[:, :48].tobytes())
    zarr_array(m.root / "late2", 2, field)
    cases = {
        "two": (2, field.astype("<f4"), {}, True),
        "big": (2, field.astype(">f8"), {}, True),
        "fortran": (2, field, {"order": "F"}, True),
        "holes": (2, holes, {"fill_value": 1e20}, True),
        "three": (3, field.astype(">f8"), {}, True),
        "packed": (2, field, {"attributes": {"scale_factor": 0.5}}, False),
        "coordinate": (3, field.astype(">f8"), {"dimension_names": ["coordinate", "x"]}, False),
        "squeezed": (2, field, {"compressor": {"id": "zlib", "level": 1}}, False),
        "integers": (2, (field * 1000).astype("<i4"), {}, False),
    }
    written = {name: zarr_array(m.root / "group" / name, *case[:2], **case[2]) for name, case in cases.items()}
    for _ in range(2):
        for name, (version, values, more, lossy) in cases.items():
            for chunk, part in written[name]:
                found = np.fromfile(chunk, values.dtype).reshape(part.shape, order=more.get("order", "C"))
                good = part < 1e19
                check(found[~good].tobytes() == part[~good].tobytes(), f"{name}: missing values are exact")
                error = np.abs(found[good].astype("f8") - part[good]).max()
                within = 0 < error <= 1e-3 * np.ptp(part[good]) if lossy else error == 0
                check(within, f"{name}: off by {error:.2g}, {'within the bound' if lossy else 'which must be none'}")
                equal(stat(chunk)[0], "bytes" if name == "squeezed" else "raw", f"{name}: the format")
        check((late / "0.0").read_bytes() == field[:, :48].tobytes(), "a chunk without metadata is exact")
        m.restart()
    chunk, part = written["fortran"][0]
    region = np.load(m.root / ".varve/region/[3:60:2,7]/group/fortran/0.0.npy")
    wanted = np.fromfile(chunk, "<f8").reshape(part.shape, order="F")[3:60:2, 7]
    check(np.array_equal(region, wanted), "a region of a chunk in Fortran order")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
