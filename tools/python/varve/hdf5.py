"""The codec as a filter of HDF5, for h5py and other programs, without a mount.

    import h5py, varve.hdf5
    with h5py.File("run.h5", "w") as f:
        f.create_dataset("u", data=u, chunks=(64, 64, 64), **varve.hdf5.filter("rel:1e-3"))

Each chunk keeps the bound by itself: rel, psnr and ratio are about the chunk's range. Integers stay exact unless
filter() is told otherwise. Other programs (h5dump, h5repack) find the filter when HDF5_PLUGIN_PATH has plugin_path().
"""

import os
import pathlib
import struct

FILTER_NUMBER = 421
_MODES = {"lossless": 0, "abs": 1, "rel": 2, "pwrel": 3, "psnr": 4, "ratio": 6, "bits": 7}
_INTEGERS = 256


def plugin_path():
    """The folder with libh5varve.so, for HDF5_PLUGIN_PATH."""
    here = pathlib.Path(__file__).resolve().parent
    candidates = [here / "hdf5_plugins", here.parents[2] / "build" / "release" / "tools" / "hdf5" / "plugins"]
    candidates += [pathlib.Path(prefix) / "varve" / "hdf5" for prefix in ("/usr/local/lib", "/usr/lib")]
    if os.environ.get("VARVE_HDF5_PLUGINS"):
        candidates = [pathlib.Path(os.environ["VARVE_HDF5_PLUGINS"])]
    for candidate in candidates:
        if (candidate / "libh5varve.so").is_file():
            return str(candidate)
    raise FileNotFoundError("libh5varve.so was not found; set VARVE_HDF5_PLUGINS to its folder")


def parameters(bound="lossless", *, integers=False):
    """The filter's parameters for a bound, as HDF5 takes them: a tuple of 32-bit numbers.

    integers: the bound is for integers, too.
    """
    parts = dict(part.split(":", 1) if ":" in part else (part, "0") for part in bound.split("+"))
    names = list(parts)
    if len(names) == 2 and set(names) == {"abs", "rel"}:
        mode, values = 5, [parts["abs"], parts["rel"]]
    elif len(names) == 1 and names[0] in _MODES:
        mode, values = _MODES[names[0]], [] if bound == "lossless" else [parts[names[0]]]
    else:
        raise ValueError(f"{bound!r} is no bound: lossless, abs:V, rel:V, pwrel:V, psnr:V, abs:V+rel:V, ratio:V, bits:V are")
    numbers = struct.unpack(f"<{2 * len(values)}I", struct.pack(f"<{len(values)}d", *map(float, values)))
    return (mode | (_INTEGERS if integers else 0), *numbers)


def filter(bound="lossless", *, integers=False):
    """Arguments for h5py's create_dataset; makes the filter known to h5py's HDF5."""
    enable()
    return {"compression": FILTER_NUMBER, "compression_opts": parameters(bound, integers=integers)}


def enable():
    """Makes h5py find the filter, for reading, too. Called on import where there is h5py."""
    import h5py

    path = plugin_path().encode()
    if path not in [h5py.h5pl.get(i) for i in range(h5py.h5pl.size())]:
        h5py.h5pl.prepend(path)


try:
    enable()
except (ImportError, FileNotFoundError):
    pass  # filter() says what is missing
