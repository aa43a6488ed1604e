#!/usr/bin/python3
"""varve web over HTTP: who is answered, what is refused, and that slices are the arrays' own values."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import time

import h5py
import mounted
import numpy as np
from arrays import hdf5_fills
from mounted import check, data_folder, equal
from test_hdf5 import smooth
from test_regions import npy_samples, write_hdf5
from web import Web, wait_until

LEVELS = range(4)
RAW = {"f32": "<f4", "f64": "<f8"}


def scenario_access(m):
    """Only who has the token, under the server's own name, gets data; nothing outside of what is shown is reached."""
    (m.root / "shown").mkdir()
    np.save(m.root / "shown" / "a.npy", smooth((40, 50, 60)))
    np.save(m.root / "hidden.npy", smooth((40, 50, 60)))
    (m.plain / "outside").mkdir()
    np.save(m.plain / "outside" / "b.npy", np.zeros(5000))
    os.symlink(m.plain / "outside", m.root / "shown" / "link")
    os.symlink(m.plain / "outside" / "b.npy", m.root / "shown" / "b.npy")
    os.symlink("a.npy", m.root / "shown" / "same.npy")
    with Web(m.root / "shown") as web, Web(m.root / "shown") as other:
        check(len(web.token) == 32 and web.token != other.token, "a token of 128 bits, another each time")
        for path in ("/", "/page.css", "/main.js", "/icon.svg"):
            status, headers, body = web.get(path, headers={})
            equal((status, len(body) > 100), (200, True), f"{path} needs no token")
        equal(headers["X-Content-Type-Options"], "nosniff", "the type is not guessed")
        policy = headers["Content-Security-Policy"]
        check("default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy, policy)
        check("Access-Control-Allow-Origin" not in headers and "Server" not in headers, "nothing is told to others")
        for token in ("", "x", web.token[:-1], web.token + "0", web.token[:-1] + "g", other.token, web.token.upper() + "x"):
            for form in (f"Bearer {token}", token, f"Basic {token}", f"bearer {token}x"):
                equal(web.get("/api/list", headers={"Authorization": form})[0], 401, f"refused: {form[:14]}...")
        equal(web.get("/api/list", headers={})[0], 401, "refused without a token")
        equal(web.get(f"/api/list?token={web.token}", headers={})[0], 401, "nor in the address")
        for host in ("", "example.com", f"example.com:{web.port}", "127.0.0.1", f"127.0.0.1:{other.port}", f"127.0.0.1.:{web.port}",
                     f"127.0.0.1:{web.port}@x", f"[::1]:{web.port}", f"0.0.0.0:{web.port}"):
            for path in ("/", "/api/list"):
                equal(web.get(path, headers={**web.authorization(), "Host": host})[0], 403, f"refused: Host {host!r} {path}")
        equal(web.get("/api/list", headers={**web.authorization(), "Host": f"LocalHost:{web.port}"})[0], 200, "localhost")
        equal([entry["name"] for entry in web.json("list")["entries"]], ["a.npy"], "links are not listed")
        for path in ("..", "../hidden.npy", "/hidden.npy", "a.npy/..", "./a.npy", "a.npy/", "//a.npy", "/etc/passwd", "a\0.npy",
                     "link", "link/b.npy", "b.npy", "same.npy", ".varve", ".varve/stat/hidden.npy", "%2e%2e/hidden.npy",
                     "x" * 300, "nothing", "nothing/deep"):
            for what in ("list", "file"):
                status, _, body = web.get(f"/api/{what}", path=path)
                check(status in (400, 404) and json.loads(body)["error"], f"{what} of {path[:20]!r}: {json.loads(body)['error'][:80]}")
        for path in ("/etc/passwd", "/../x", "/page.css/..", "/%2e%2e/x", "/api", "/api/", "/api/nothing", "/index.html"):
            equal(web.get(path)[0], 404, f"nothing is at {path}")
        listening = pathlib.Path("/proc/net/tcp").read_text().splitlines()
        port = f":{web.port:04X}"
        places = {line.split()[1] for line in listening if line.split()[1].endswith(port) and line.split()[3] == "0A"}
        equal(places, {f"0100007F{port}"}, "it listens on 127.0.0.1 alone")
    taken = socket.create_server(("127.0.0.1", 0))
    for options, words in ((["--port", str(taken.getsockname()[1]), m.root], "cannot listen"), (["--port", "99999", m.root], "--port"),
                           ([m.plain], "neither a store nor"), ([m.folder / "none"], "neither a store nor"), ([], "PATH"),
                           ([m.store], "name the mounted directory"), ([m.root / "hidden.npy"], "cannot show"),
                           ([m.root / ".varve" / "level"], "is not shown")):
        check(words in mounted.run(mounted.BINARY, "web", *options, status=2).stderr, f"refused: {words}")


def scenario_open(m):
    """--open: the browser is told a file that its user alone can read, which leads to the address and goes at the end."""
    (m.plain / "xdg-open").write_text(f'#!/bin/sh\necho "$1" > {m.plain}/told.new\nmv {m.plain}/told.new {m.plain}/told\n')
    (m.plain / "xdg-open").chmod(0o755)
    was = os.environ["PATH"]
    os.environ["PATH"] = f"{m.plain}:{was}"
    try:
        with Web(m.root, "--open") as web:
            check(wait_until((m.plain / "told").exists), "the browser is started")
            told = pathlib.Path((m.plain / "told").read_text().strip())
            check(f"url={web.url}\"" in told.read_text(), "the file leads to the address")
            equal(told.parent.stat().st_mode & 0o777, 0o700, "nobody else can read it")
            check(web.token not in str(told), "the token is not among the arguments")
        check(not told.parent.exists(), "it goes at the end")
    finally:
        os.environ["PATH"] = was


def malformed():
    """Requests, and the status that each must get; None: none at all."""
    host = b"Host: 127.0.0.1:PORT\r\n"
    yield b"GET / HTTP/1.1\r\n" + host + b"\r\n", 200
    yield b"GET / HTTP/1.0\r\n" + host + b"\r\n", 200
    yield b"GET / HTTP/1.1\r\n\r\n", 403
    for line in (b"", b"GET", b"GET /", b"GET  / HTTP/1.1", b"GET / HTTP/1.1 ", b" GET / HTTP/1.1", b"GET / /HTTP/1.1", b"GET x HTTP/1.1",
                 b"GET http://127.0.0.1/ HTTP/1.1", b"GET * HTTP/1.1", b"G(T / HTTP/1.1", b"GET /\x01 HTTP/1.1", b"GET /\xff HTTP/1.1",
                 b"GET /?a=%zz HTTP/1.1", b"GET /?a=% HTTP/1.1", b"GET /?a=1&a=2 HTTP/1.1", b"GET / FTP/1.1", b"GET / http/1.1"):
        yield line + b"\r\n" + host + b"\r\n", 400
    for version in (b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/11"):
        yield b"GET / " + version + b"\r\n" + host + b"\r\n", 505
    for method in (b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"X" * 500):
        yield method + b" / HTTP/1.1\r\n" + host + b"\r\n", 405
    for field in (b"Host: x", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 0, 0", b"Transfer-Encoding: chunked", b"novalue",
                  b": x", b"a b: c", b" folded: x", b"a\x00: b", b"a: b\x00c", b"a: \x7f", b"Authorization: a\r\nAuthorization: b"):
        yield b"GET / HTTP/1.1\r\n" + host + field + b"\r\n\r\n", 400
    yield b"GET / HTTP/1.1\n" + host.replace(b"\r", b"") + b"\n", 400
    yield b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n" + host + b"\r\n", 431
    yield b"GET / HTTP/1.1\r\n" + host + b"a: b\r\n" * 101 + b"\r\n", 431
    yield b"GET / HTTP/1.1\r\n" + host + b"a: " + b"b" * 17000, 431
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n", 400
    yield b"\r\n\r\n", 400


def scenario_requests(m):
    """Malformed, hostile, oversized and interleaved requests get a status and a sentence; the program lives on."""
    np.save(m.root / "a.npy", smooth((40, 50, 60)))
    np.save(m.root / "flat.npy", np.zeros((3000, 3000), "u1"))
    with Web(m.root) as web:
        for request, wanted in malformed():
            request = request.replace(b"PORT", str(web.port).encode())
            head = request.replace(b"\r\n" + f"Host: 127.0.0.1:{web.port}".encode(), b"\r\nConnection: close\r\n" + f"Host: 127.0.0.1:{web.port}".encode(), 1)
            found = web.raw(head, half_close=True)
            check(found.startswith(f"HTTP/1.1 {wanted} ".encode()), f"{wanted} for {request[:60]!r}")
        check(web.raw(b"GET / HTT", half_close=True) == b"", "half a request and an end: no answer")
        two = f"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\n\r\n".encode()
        last = two.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        equal(web.raw(two + two + last).count(b"HTTP/1.1 401 "), 3, "three requests at once get three answers")
        whole = dict(path="a.npy", array="", at="1,0,0", rows="1:0:50:1", columns="2:0:60:1")
        for change, wanted in (({}, 200), ({"at": "1,0"}, 400), ({"at": "40,0,0"}, 400), ({"at": "x"}, 400), ({"at": "1,,0"}, 400),
                               ({"at": "1,0,0,"}, 400), ({"at": "-1,0,0"}, 400), ({"at": "99999999999999999999,0,0"}, 400),
                               ({"rows": "1:0:51:1"}, 400), ({"rows": "3:0:1:1"}, 400), ({"rows": "2:0:60:1"}, 400), ({"rows": "1:5:4:1"}, 400),
                               ({"rows": "1:0:50:0"}, 400), ({"rows": "1:0:50"}, 400), ({"rows": "1:0:50:1:1"}, 400), ({"rows": ""}, 400),
                               ({"rows": "1:50:50:1"}, 200), ({"columns": "2:59:60:4611686018427387904"}, 200), ({"level": "4"}, 400),
                               ({"level": "-1"}, 400), ({"type": "f16"}, 400), ({"part": "x"}, 400), ({"array": "u"}, 404), ({"path": "b.npy"}, 404),
                               ({"path": ""}, 400), ({"path": "flat.npy", "at": "0,0", "rows": "0:0:3000:1", "columns": "1:0:3000:1"}, 413),
                               ({"path": "flat.npy", "at": "0,0", "rows": "0:0:3000:2", "columns": "1:0:3000:2"}, 200)):
            status, _, body = web.get("/api/slice", **{**whole, **change})
            check(status == wanted and (status == 200 or len(json.loads(body)["error"]) > 10), f"{wanted} for {change}")
        for bound, wanted in (("rel:1e-1", 200), ("1e30", 200), ("x", 400), ("", 400), ("../x", 400), ("pwrel:1", 400), ("rel:-1", 400)):
            equal(web.get("/api/level", path="a.npy", array="", bound=bound)[0], wanted, f"{wanted} for the bound {bound!r}")
        equal(web.get("/", headers={"Host": f"127.0.0.1:{web.port}"})[0], 200, "it still answers")


def read_raw(path):
    shape, _, kind = path.name.rpartition("_")[2].rpartition(".")
    return np.fromfile(path, RAW[kind]).reshape([int(extent) for extent in shape.split("x")])


def middle_slices(shape):
    """at, and the axes to show: the last two through the middle; those of a cube in any order."""
    at = [extent // 2 for extent in shape]
    rank = len(shape)
    if rank < 2:
        return [(at, (), (0,) if rank else ())]
    pairs = [(rank - 2, rank - 1), (rank - 1, rank - 2)] + ([(0, 2), (2, 0), (0, 1)] if rank == 3 else [])
    return [(at, pair[:1], pair[1:]) for pair in pairs]


def compare(web, path, name, views, fills=(), limit=100):
    """Slices at each level against the arrays that the level views have. Returns how many."""
    count = 0
    for level, array in views.items():
        for at, rows, columns in middle_slices(array.shape)[:limit]:
            shown = list(rows) + list(columns)
            step = 1 << level
            index = tuple(slice(None, None, step) if axis in shown else at[axis] for axis in range(array.ndim))
            wanted = array[index].astype("f8")
            if len(shown) == 2 and shown[0] > shown[1]:
                wanted = wanted.T
            axes = [(axis, 0, array.shape[axis], step) for axis in shown]
            if np.prod([-(-stop // step) for _, _, stop, _ in axes]) > 1 << 22:
                continue
            found = web.slice(path, name, at, *(axes if len(axes) == 2 else [None] + axes if axes else []), level=level)
            missing = np.isin(wanted, np.asarray(fills, "f8")) if len(fills) else np.zeros(wanted.shape, bool)
            wanted = np.where(missing, np.nan, wanted).reshape(found.shape)
            if not np.array_equal(found, wanted, equal_nan=True):
                raise mounted.Failure(f"{path} {name}, level {level}, axes {shown}: {np.sum(found != wanted)} of {wanted.size} differ")
            count += 1
    return count


def scenario_fields(m):
    """Every field of the test data, on the mount and on its store: level 0 is the array, coarse ones the level views."""
    data = data_folder()
    m.bound("rel:1e-3")
    shutil.copytree(data / "fields", m.root / "fields", ignore=shutil.ignore_patterns("*.tsv"))
    files = {f"fields/{path.name}": {level: read_raw(m.root / ".varve" / f"level/{level}/fields" / path.name) for level in LEVELS}
             for path in sorted((m.root / "fields").iterdir())}
    for place in (m.root, m.store):
        if place == m.store:
            m.stop()
        with Web(place) as web:
            equal(len(web.json("list", path="fields")["entries"]), len(files), "all are listed")
            count = sum(compare(web, path, "", views) for path, views in files.items())
            check(count >= 8 * len(files), f"{count} slices of {len(files)} fields are equal on {place.name}")


def scenario_containers(m):
    """Every dataset of the HDF5 and NetCDF-4 files of the test data."""
    data = data_folder()
    m.bound("rel:1e-3")
    count = 0
    for folder in ("hdf5", "h5", "netcdf4", "netcdf", "nc"):
        if (data / folder).is_dir():
            shutil.copytree(data / folder, m.root / folder)
    with Web(m.root) as web:
        for path in sorted(path for path in m.root.rglob("*") if path.is_file()):
            relative = str(path.relative_to(m.root))
            known = web.json("file", path=relative)["arrays"]
            if not known or not h5py.is_hdf5(path):
                continue
            for array in known:
                with h5py.File(path, "r") as file:
                    dataset = file[array["name"]]
                    values, fills = dataset[()], hdf5_fills(dataset)
                if values.dtype.kind in "fiu" and values.size:
                    count += compare(web, relative, array["name"], {0: values}, fills, limit=2)
    check(count > 100, f"{count} slices are equal")


def scenario_kinds(m):
    """Element types, byte orders, Fortran order, complex numbers, missing values, few or no elements, odd names."""
    m.bound("rel:1e-3")
    samples = npy_samples()
    samples["halves"] = np.arange(5, dtype="f2")
    samples["u8_large"] = np.full(5000, 2**63 + 1025, "u8")
    for name, array in samples.items():
        np.save(m.root / f"{name}.npy", array)
    np.save(m.root / "empty.npy", np.zeros((0, 5)))
    np.save(m.root / "scalar.npy", np.float32(3.5))
    names = write_hdf5(m.root / "a.h5")
    odd = ["<script>alert(1)</script>", "it's \"quoted\"", "a b+c&d=e%20?#", "ünïcödé 雪", "back\\slash"]
    with h5py.File(m.root / "odd.h5", "w") as file:
        for name in odd:
            file[name] = smooth((20, 30, 40))
        file.create_dataset("gaps", data=np.where(smooth((40, 40, 40)) > 0, -9, 1.5).astype("f4"), fillvalue=-9)
        file["tiny"] = np.float64(2.5)
    for name in ["<script>alert(1)<-script>", "it's \"quoted\"", "a b+c&d=e%20?#", "ünïcödé 雪", "-x"]:
        np.save(m.root / f"{name}.npy", smooth((20, 30, 40)))
    os.mkdir(os.fsencode(m.root) + b"/bad\xff")
    with open(os.fsencode(m.root) + b"/bad\xff/\xfe.npy", "wb") as file:
        np.save(file, smooth((20, 30, 40)))
    views = {level: {name: np.load(m.root / ".varve" / f"level/{level}" / f"{name}.npy") for name in samples} for level in LEVELS}
    with h5py.File(m.root / "a.h5", "r") as file:
        wanted_h5 = {name: file[name][...] for name in names}
    for place in (m.root, m.store):
        if place == m.store:
            m.stop()
        with Web(place) as web:
            for name in samples:
                of = {level: views[level][name] for level in LEVELS}
                if of[0].dtype.kind == "M":
                    of = {level: array.view("i8") for level, array in of.items()}
                if of[0].dtype.kind != "c":
                    compare(web, f"{name}.npy", "", of)
                    continue
                face = web.json("array", path=f"{name}.npy", array="")
                equal((face["complex"], face["shape"]), (True, list(of[0].shape)), f"{name} is complex")
                for part, take in (("magnitude", np.hypot), ("real", lambda x, y: x), ("imaginary", lambda x, y: y), ("phase", lambda x, y: np.arctan2(y, x))):
                    part_of = of[0][7].astype("c16")
                    found = web.slice(f"{name}.npy", "", [7, 0, 0], (1, 0, 65, 1), (2, 0, 66, 1), part=part)
                    check(np.allclose(found, take(part_of.real, part_of.imag), rtol=1e-14, atol=0), f"{part} of {name}")
            for name in names:
                array = wanted_h5[name]
                known = [one["name"] for one in web.json("file", path="a.h5")["arrays"]]
                if f"/{name}" in known and array.dtype.kind in "fiu":
                    fill = {"grown": [-7], "never": [9], "never_chunked": [2.5]}.get(name, [])
                    compare(web, "a.h5", f"/{name}", {0: array}, fill)
            equal(web.json("file", path="empty.npy")["arrays"], [], "an array without elements is none")
            check(len(web.json("file", path="odd.h5")["arrays"]) >= len(odd), "odd names are listed")
            for name in odd:
                array_name = f"/{name}"
                face = web.json("array", path="odd.h5", array=array_name)
                equal(face["shape"], [20, 30, 40], f"the shape of {name}")
                equal(web.slice("odd.h5", array_name, [3, 0, 0], (1, 0, 30, 1), (2, 0, 40, 1)).shape, (30, 40), f"a slice of {name}")
            gaps = web.slice("odd.h5", "/gaps", [3, 0, 0], (1, 0, 40, 1), (2, 0, 40, 1))
            check(np.isnan(gaps).any() and np.nanmin(gaps) > 0, "missing values are NaN")
            equal(web.json("level", path="f4.npy", array="", bound="rel:1e-9")["kept"], False, "a bound that is not kept")
            found = web.json("level", path="f4.npy", array="", bound="rel:10")
            stated = web.json("file", path="f4.npy")["arrays"][0]["max_error"]
            equal((found["level"], found["max_error"]), (3, stated[3]), "the level of a loose bound")
            listed = web.json("list")["entries"]
            bad = next(one for one in listed if one["name"].startswith("bad"))
            inner = json.loads(web.get(f"/api/list?path={bad['key']}")[2])["entries"][0]
            status, _, body = web.get(f"/api/array?path={bad['key']}%2F{inner['key']}&array=")
            equal((status, json.loads(body)["shape"]), (200, [20, 30, 40]), "names that are no text")
            coded = web.slice("f4.npy", "", [7, 0, 0], (1, 0, 65, 1), (2, 0, 66, 1), type="u16").astype("f8")
            exact = web.slice("f4.npy", "", [7, 0, 0], (1, 0, 65, 1), (2, 0, 66, 1))
            span = exact.max() - exact.min()
            check(np.abs(exact.min() + coded * span / 65532 - exact).max() <= span / 131063, "16 bits a value")
            coded = web.slice("nan.npy", "", [7, 0, 0], (1, 0, 65, 1), (2, 0, 66, 1), type="u16")
            check(((coded == 65535) == np.isnan(views[0]["nan"][7])).all(), "missing ones in 16 bits")


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x10]))


def scenario_damage(m):
    """A damaged record is an error with its place, and never wrong numbers; all else is still shown."""
    m.bound("rel:1e-4")
    noise = np.random.default_rng(3).normal(size=(128, 256, 256)).astype("f4")
    np.save(m.root / "a.npy", noise)
    wanted = np.load(m.root / "a.npy")
    m.stop()
    pack = max((m.store / "packs").iterdir(), key=lambda path: path.stat().st_size)
    for offset in range(pack.stat().st_size // 16, pack.stat().st_size, pack.stat().st_size // 8):
        flip(pack, offset)
    for place in (m.store, m.root):
        if place == m.root:
            m.start()
        with Web(place) as web:
            outcomes = []
            for z in range(0, 128, 9):
                status, _, body = web.get("/api/slice", path="a.npy", array="", at=f"{z},0,0", rows="1:0:256:1", columns="2:0:256:1", type="f32")
                outcomes.append(status)
                if status == 200:
                    check(np.frombuffer(body, "<f4").tobytes() == wanted[z].tobytes(), f"plane {z} is whole and right")
                else:
                    said = json.loads(body)["error"]
                    check(status == 500 and ("scrub" in said or "log" in said), f"plane {z}: {said[:150]}")
            check(500 in outcomes, "damage is told")
            boxes = [web.get("/api/slice", path="a.npy", array="", at="0,0,0", rows=f"1:{y}:{y + 8}:1", columns=f"2:{x}:{x + 8}:1", type="f32")[0]
                     for y in range(0, 256, 64) for x in range(0, 256, 64)]
            check(200 in boxes, "other bricks are shown")


def scenario_changes(m):
    """A mount that is written meanwhile: new files, rewritten ones, one that is open for writing."""
    with Web(m.root) as web:
        equal(web.json("list")["entries"], [], "an empty mount")
        np.save(m.root / "a.npy", smooth((40, 50, 60)))
        equal(web.json("array", path="a.npy", array="")["shape"], [40, 50, 60], "a new file")
        for edge in range(20, 40):
            array = smooth((edge, 30, 30), seed=edge)
            np.save(m.root / "a.npy", array)
            equal(web.json("array", path="a.npy", array="")["shape"], [edge, 30, 30], "a rewritten one")
            equal(web.slice("a.npy", "", [3, 0, 0], (1, 0, 30, 1), (2, 0, 30, 1)).tobytes(), array[3].astype("f8").tobytes(), "its values")
        with open(m.root / "b.npy", "wb") as file:
            np.save(file, smooth((40, 50, 60)))
            file.flush()
            check(web.json("file", path="b.npy")["state"] in ("staged", "empty"), "one that is being written")
            check("being written" in web.json("array", 404, path="b.npy", array="")["error"], "has no arrays yet")
        equal(web.json("array", path="b.npy", array="")["shape"], [40, 50, 60], "and then has")
        (m.root / "a.npy").unlink()
        web.json("array", 404, path="a.npy", array="")


def scenario_clients(m):
    """Clients that send nothing, take nothing, or leave; many at once. Nobody else waits for them."""
    m.bound("rel:1e-3")
    array = smooth((64, 512, 512))
    np.save(m.root / "a.npy", array)
    with Web(m.root) as web:
        silent = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(150)]
        silent[0].sendall(b"GET / HTTP/1.1\r\n")
        begin = time.monotonic()
        equal(web.get("/api/list")[0], 200, "beside 150 silent connections")
        check(time.monotonic() - begin < 5, "at once")
        slow = []
        for _ in range(12):  # ask for much and take nothing
            one = socket.create_connection(("127.0.0.1", web.port))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(f"GET /api/slice?path=a.npy&array=&at=0,0,0&rows=1:0:512:1&columns=2:0:512:1&type=f64 HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\n"
                        f"Authorization: Bearer {web.token}\r\n\r\n".encode())
            slow.append(one)
        time.sleep(0.5)
        for one in slow:
            one.close()
        begin = time.monotonic()
        equal(web.get("/api/list")[0], 200, "after 12 that left in the middle of an answer")
        check(time.monotonic() - begin < 5, "at once")
        for one in silent:
            one.close()
        wanted = [np.load(m.root / "a.npy", mmap_mode="r")[z, ::4, ::4].astype("f8") for z in range(64)]

        def ask(z):
            return np.array_equal(web.slice("a.npy", "", [z % 64, 0, 0], (1, 0, 512, 4), (2, 0, 512, 4)), wanted[z % 64])

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            check(all(pool.map(ask, range(400))), "400 slices by 32 clients at once")
        first = socket.create_connection(("127.0.0.1", web.port))
        first.sendall(b"GET / HTTP/1.1\r\nHo")
        first.settimeout(30)
        check(first.recv(100).startswith(b"HTTP/1.1 408 "), "half a head gets 408 after a while")
        held = wait_until(lambda: len(os.listdir(f"/proc/{web.process.pid}/fd")) < 60)
        check(held, "descriptors of clients that left are closed")
    with Web(m.root) as web:
        open_one = socket.create_connection(("127.0.0.1", web.port))
        web.process.send_signal(2)
        equal(web.process.wait(timeout=20), 0, "it ends by SIGINT while a client is there")
        open_one.close()


def scenario_large(m):
    """512^3 float32 in a store: the first coarse slice comes soon, from few records, in bounded memory."""
    m.bound("rel:1e-3")
    with h5py.File(m.root / "a.h5", "w") as file:
        dataset = file.create_dataset("u", (512, 512, 512), "f4")
        plane = smooth((512, 512))
        for z in range(512):
            dataset[z] = plane * np.float32(np.sin(z / 30) + 2)
    m.stop()
    with Web(m.store, "--cache", "64M") as web:
        begin = time.monotonic()
        web.slice("a.h5", "/u", [257, 0, 0], (1, 0, 512, 8), (2, 0, 512, 8), level=3, type="f32")
        seconds = time.monotonic() - begin
        check(seconds < 2, f"the first coarse slice after {seconds:.2f} s")
        for axis in range(3):
            rows, columns = [other for other in range(3) if other != axis]
            for level in reversed(LEVELS):
                begin = time.monotonic()
                for index in (1, 130, 257, 400, 511):
                    at = [index] * 3
                    web.slice("a.h5", "/u", at, (rows, 0, 512, 1 << level), (columns, 0, 512, 1 << level), level=level, type="f32")
                print(f"  axis {axis}, level {level}: {(time.monotonic() - begin) / 5:.3f} s a slice", flush=True)
        memory = web.memory() >> 20
        check(memory < 600, f"{memory} MiB of memory")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
