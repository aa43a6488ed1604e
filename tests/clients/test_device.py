"""`varve mount --device`: what a device encodes is what the CPU encodes, and a device that fails costs nothing. The
device is emulated (tests/codec/cuda/emulated_plugin.cpp)."""

import json
import os
import pathlib
import re

import numpy as np

import mounted
from mounted import BINARY, check, equal, run

PLUGIN = os.environ.get("VARVE_EMULATED_PLUGIN", "")


def field():
    """Of more elements than are encoded in one pass, in two tiles."""
    z, y, x = np.meshgrid(np.arange(70), np.arange(250), np.arange(250), indexing="ij", sparse=True)
    smooth = np.sin(z / 9) * np.cos(y / 17) + np.sin(x / 23)
    return (smooth + 1e-3 * np.random.default_rng(5).random((70, 250, 250))).astype("f4")


def start(m, *options, **environment):
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        m.start(*options)
    finally:
        os.environ.clear()
        os.environ.update(before)
    os.setxattr(m.root, "user.varve.bound", b"rel:1e-3")
    return m


def stored(m):
    """Writes the field; what is stored of it, and what it reads as."""
    np.save(m.root / "u.npy", field())
    run(BINARY, "sync", m.root)
    facts = json.loads((m.root / ".varve/stat/u.npy").read_text())
    error = os.getxattr(m.root / "u.npy", "user.varve.max_error")
    level = os.getxattr(m.root / ".varve/level/2/u.npy", "user.varve.max_error")
    return facts["stored"], error, level, np.load(m.root / "u.npy").tobytes()


def by_cpu(m):
    """The same of another mount, without a device."""
    other = mounted.Mount(m.folder / "other")
    start(other)
    found = stored(other)
    other.stop()
    return found


def tiles_of(log):
    return int(re.search(r"encoded (\d+) tiles", log).group(1))


def scenario_same_bytes(m):
    if not PLUGIN:
        raise mounted.Skip("no emulated plug-in (VARVE_EMULATED_PLUGIN)")
    m.stop()
    start(m, "--device", "cuda", VARVE_CUDA_PLUGIN=PLUGIN)
    found = stored(m)
    m.stop()
    check("threads as fibers encodes what it can" in m.log(), "the device is in the log")
    check(tiles_of(m.log()) > 0, f"the device encoded {tiles_of(m.log())} tiles")
    equal(found == by_cpu(m), True, "what is stored, its errors and its bytes are those of the CPU")


def scenario_a_device_fails(m):
    if not PLUGIN:
        raise mounted.Skip("no emulated plug-in (VARVE_EMULATED_PLUGIN)")
    m.stop()
    # The self-test takes 24 launches; the first tile has one of two.
    start(m, "--device", "cuda:0", VARVE_CUDA_PLUGIN=PLUGIN, VARVE_EMULATED_LAUNCHES="25")
    found = stored(m)
    m.stop()
    check("is not used any more, the CPU goes on: the emulated device was to fail here" in m.log(), "the log says so")
    equal(tiles_of(m.log()), 0, "tiles by the device")
    equal(found == by_cpu(m), True, "nothing else is different")


def scenario_the_self_test_fails(m):
    if not PLUGIN:
        raise mounted.Skip("no emulated plug-in (VARVE_EMULATED_PLUGIN)")
    m.stop()
    start(m, "--device", "auto", VARVE_CUDA_PLUGIN=PLUGIN, VARVE_EMULATED_LAUNCHES="3")
    (m.root / "note").write_text("served")
    m.stop()
    check("device: the CPU does all: the emulated device was to fail here" in m.log(), "the log says so")


def scenario_no_device(m):
    for choice, plugin in ("cuda", "/no/such/plugin"), ("cuda:7", PLUGIN or "/no/such/plugin"), ("auto", "/etc/passwd"):
        m.stop()
        start(m, "--device", choice, VARVE_CUDA_PLUGIN=plugin)
        (m.root / "note").write_text(choice)
        equal((m.root / "note").read_text(), choice, f"--device {choice} serves")
        check("the CPU does all" in m.log(), "the log says so")
    done = run(BINARY, "mount", "--device", "gpu", m.plain / "s", m.plain, status=None)
    check(done.returncode != 0 and "use auto, cpu, cuda or cuda:N" in done.stderr, "--device gpu is refused")
    check(not pathlib.Path(m.plain / "s").exists(), "and makes no store")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
