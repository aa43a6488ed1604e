"""libvarve.so through ctypes: codec/capi.h, line by line."""

import ctypes
import ctypes.util
import os
import pathlib

MAX_RANK = 32
LEVELS = 4

u32, u64, f64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_double, ctypes.c_void_p


class Error(OSError):
    """An errno and a sentence from the library."""


class Spec(ctypes.Structure):
    _fields_ = [
        ("dtype", u32),
        ("rank", u32),
        ("shape", ctypes.POINTER(u64)),
        ("bound", ctypes.c_char_p),
        ("fills", ctypes.POINTER(u64)),
        ("fill_count", u64),
        ("threads", u32),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("dtype", u32),
        ("rank", u32),
        ("shape", u64 * MAX_RANK),
        ("brick", u64 * MAX_RANK),
        ("size", u64),
        ("stored", u64),
        ("prefix", u64 * LEVELS),
        ("absolute_bound", f64),
        ("min", f64),
        ("max", f64),
        ("bound", ctypes.c_char * 96),
        ("method", ctypes.c_char * 160),
    ]


def _candidates():
    here = pathlib.Path(__file__).resolve().parent
    if os.environ.get("VARVE_LIBRARY"):
        yield os.environ["VARVE_LIBRARY"]
        return
    yield here / "libvarve.so"
    yield here.parents[2] / "build" / "release" / "codec" / "libvarve.so"
    yield "libvarve.so.0"


def _load():
    problems = []
    for candidate in _candidates():
        try:
            library = ctypes.CDLL(str(candidate))
        except OSError as problem:
            problems.append(str(problem))
            continue
        library.varve_version.restype = library.varve_last_error.restype = ctypes.c_char_p
        library.varve_compress.argtypes = [
            ctypes.POINTER(Spec), pointer, ctypes.POINTER(pointer), ctypes.POINTER(u64)
        ]  # fmt: skip
        library.varve_free.argtypes = library.varve_close.argtypes = library.varve_verify.argtypes = [pointer]
        library.varve_free.restype = library.varve_close.restype = None
        library.varve_open.argtypes = [pointer, u64, ctypes.POINTER(pointer)]
        library.varve_get_info.argtypes = [pointer, ctypes.POINTER(Info)]
        library.varve_decompress.argtypes = [pointer, u32, u32, pointer, u64]
        library.varve_decompress_box.argtypes = [
            pointer, ctypes.POINTER(u64), ctypes.POINTER(u64), u32, u32, pointer, u64
        ]  # fmt: skip
        return library
    raise ImportError("libvarve.so was not found; set VARVE_LIBRARY to it. Tried: " + "; ".join(problems))


library = _load()


def check(status):
    if status != 0:
        raise Error(status, library.varve_last_error().decode(errors="replace"))


def extents(numbers):
    return (u64 * max(1, len(numbers)))(*numbers)
