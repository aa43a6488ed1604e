"""What the tests of the package share: arrays, the promise of a bound, and skipping aloud."""

import sys
import unittest

import numpy as np

FLOATS = ["f2", "f4", "f8"]
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]


def field(shape, dtype="f4", seed=0):
    """Smooth waves with a little noise; in integers, as large as the type likes them."""
    random = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 3 + i, n) for i, n in enumerate(shape)), indexing="ij")
    waves = sum((np.sin(axis + i) for i, axis in enumerate(axes)), np.zeros(shape)) + 2
    waves = waves + 0.01 * random.standard_normal(shape)
    dtype = np.dtype(dtype)
    return (waves * (20 if dtype.itemsize == 1 else 1000 if dtype.kind in "iu" else 1)).astype(dtype)


def greatest_error(left, right):
    """Over elements that are finite in the left one; the others must be the same bits."""
    left, right = (np.ascontiguousarray(a, a.dtype.newbyteorder("=")) for a in (left, right))
    finite = np.isfinite(left)
    bits = f"u{left.dtype.itemsize}"
    assert np.array_equal(left.view(bits)[~finite], right.view(bits)[~finite]), "what is not finite has other bits"
    difference = left[finite].astype("g") - right[finite].astype("g")
    return float(np.max(np.abs(difference), initial=0))


def spread(array):
    finite = array[np.isfinite(array)].astype("g")
    return float(finite.max() - finite.min())


def main():
    """unittest's main, with 77 where all that there was had to be skipped."""
    result = unittest.main(exit=False, verbosity=2).result
    if result.skipped:
        print(f"SKIPPED {len(result.skipped)}: " + "; ".join(sorted({reason for _, reason in result.skipped})))
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)
