"""varve.compress, varve.decompress and what is between."""

import errno
import itertools
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import varve
from support import FLOATS, INTEGERS, field, greatest_error, main, spread

SHAPES = [(), (5000,), (70, 90), (20, 30, 25), (3, 4, 20, 20)]
TREE = pathlib.Path(__file__).resolve().parents[2]


class RoundTrip(unittest.TestCase):
    def test_floats_keep_their_bound(self):
        for dtype, order, shape in itertools.product(FLOATS, "<>", SHAPES):
            array = field(shape, order + dtype)
            with self.subTest(array.dtype.str, shape=shape):
                back = varve.decompress(varve.compress(array, "rel:1e-2"))
                self.assertEqual((back.shape, back.dtype), (shape, np.dtype(dtype)))
                self.assertLessEqual(greatest_error(array, back), 1e-2 * spread(array))

    def test_without_a_bound_all_bits_return(self):
        for dtype, order, shape in itertools.product(FLOATS + INTEGERS, "<>", SHAPES):
            array = field(shape, order + dtype)
            with self.subTest(array.dtype.str, shape=shape):
                np.testing.assert_array_equal(varve.decompress(varve.compress(array)), array)

    def test_a_bound_pays(self):
        array = field((40, 50, 60))
        self.assertLess(10 * len(varve.compress(array, "rel:1e-1")), array.nbytes)

    def test_strides_do_not_matter(self):
        array = field((40, 50, 60))
        for view in (array.T, array[::2, ::-1, 3:], np.asfortranarray(array)):
            np.testing.assert_array_equal(varve.decompress(varve.compress(view)), view)

    def test_missing_values_and_nan_are_exact(self):
        array = field((70, 90))
        array[10:20, 5:50] = 1e30
        array[40, 40] = np.nan
        back = varve.decompress(varve.compress(array, "rel:1e-3", missing=[1e30]))
        there = (array != np.float32(1e30)) & np.isfinite(array)
        self.assertTrue(np.all(back[10:20, 5:50] == np.float32(1e30)))
        self.assertTrue(np.isnan(back[40, 40]))
        self.assertLessEqual(greatest_error(array[there], back[there]), 1e-3 * spread(array[there]))

    def test_what_would_be_lost_is_refused(self):
        array = field((70, 90))
        self.assertEqual(varve.compress(array, None), varve.compress(array))
        for bad in (np.ma.masked_greater(array, 0), array.astype("c8"), array.astype(object)):
            with self.assertRaises(TypeError) as caught:
                varve.compress(bad)
            self.assertGreater(len(str(caught.exception)), 40)

    def test_bfloat16(self):
        bits = (field((70, 90)).view("u4") >> 16).astype("u2")
        back = varve.decompress(varve.compress(bits, "rel:1e-1", bfloat16=True))
        values, decoded = ((a.astype("u4") << 16).view("f4") for a in (bits, back))
        self.assertEqual(back.dtype, np.dtype("u2"))
        self.assertLessEqual(greatest_error(values, decoded), 1e-1 * spread(values))

    def test_threads_do_not_change_bytes(self):
        array = field((40, 50, 60))
        self.assertEqual(varve.compress(array, "abs:1e-2", threads=1), varve.compress(array, "abs:1e-2", threads=4))


class Parts(unittest.TestCase):
    def setUp(self):
        self.array = field((30, 70, 80))
        self.data = varve.compress(self.array, "rel:1e-4")
        self.opened = varve.open_compressed(self.data)

    def test_indexing_is_numpys(self):
        whole = varve.decompress(self.data)
        keys = [3, (2, 5, 7), np.s_[3:20, ::7, -5], np.s_[..., 3], np.s_[20:3:-4, :, 70:200], np.s_[5:5], ..., -1]
        keys += [np.s_[:, 4], np.s_[1, ..., ::-1], np.s_[29:, 69:, 79:], (whole[:, 0, 0] > 2,), np.s_[[1, 2]]]
        for key in keys:
            with self.subTest(str(key)):
                np.testing.assert_array_equal(self.opened[key], whole[key])
        for key in (30, (0, 0, 0, 0), np.s_[..., ...], (0, 70)):
            self.assertRaises(IndexError, lambda: self.opened[key])

    def test_levels_get_better_and_prefixes_suffice(self):
        errors = []
        for k in (3, 2, 1, 0):
            view = self.opened.level(k)[...]
            errors.append(np.abs(view - self.array).mean())
            front = self.data[: self.opened.prefix[k]]
            np.testing.assert_array_equal(varve.decompress(front, level=k), view)
            stored = np.s_[:: 2**k, :: 2**k, :: 2**k]  # points that the level has
            np.testing.assert_array_equal(view[stored], varve.decompress(self.data)[stored])
            np.testing.assert_array_equal(varve.decompress(self.data, level=k, box=np.s_[5:9, 60:, 3]), view[5:9, 60:, 3])
        self.assertEqual(errors, sorted(errors, reverse=True))
        self.assertLess(self.opened.prefix[3], len(self.data) / 20)

    def test_facts(self):
        self.assertEqual((self.opened.size, self.opened.stored), (self.array.nbytes, len(self.data)))
        self.assertEqual(float(self.opened.bound.removeprefix("rel:")), 1e-4)
        self.assertAlmostEqual(self.opened.absolute_bound / (1e-4 * spread(self.array)), 1, 5)


class Refusals(unittest.TestCase):
    def refused(self, number, action):
        with self.assertRaises(varve.Error) as caught:
            action()
        self.assertEqual(caught.exception.errno, number)
        self.assertGreater(len(caught.exception.strerror), 10)

    def test_what_makes_no_sense(self):
        array = field((10, 10))
        self.refused(errno.EINVAL, lambda: varve.compress(array, "rel:often"))
        self.assertRaises(TypeError, varve.compress, array.astype("c8"))
        self.assertRaises(TypeError, varve.compress, np.array(["a"]))
        self.assertRaises(TypeError, varve.compress, array, bfloat16=True)
        self.assertRaises(ValueError, varve.decompress, varve.compress(array), level=4)

    def test_damage(self):
        data = varve.compress(field((20, 20, 20)), "rel:1e-3")
        for at in range(0, len(data), 13):
            damaged = bytearray(data)
            damaged[at] ^= 16
            self.refused(errno.EBADMSG, lambda: varve.decompress(damaged))
        self.refused(errno.EBADMSG, lambda: varve.decompress(data[:-1]))
        self.refused(errno.EBADMSG, lambda: varve.decompress(b"PK" * 100))
        self.refused(errno.EBADMSG, lambda: varve.decompress(b"\0"))


class Installation(unittest.TestCase):
    def test_pip_installs_from_the_tree(self):
        try:
            import ensurepip  # noqa: F401
        except ImportError:
            self.skipTest("python3-venv is not installed")
        outside = {"PATH": "/usr/bin:/bin"}
        libraries = {k: os.environ[k] for k in ("VARVE_LIBRARY", "VARVE_HDF5_PLUGINS") if k in os.environ}
        with tempfile.TemporaryDirectory() as folder:

            def run(*command, **more):
                environment = {**outside, "HOME": folder, **more}
                return subprocess.run(
                    command, check=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
                ).stdout

            run("/usr/bin/python3", "-m", "venv", "--system-site-packages", "v")
            run("v/bin/pip", "install", "--no-index", "--quiet", str(TREE / "tools" / "python"), **libraries)
            code = """
import numpy as np, varve, varve.hdf5, importlib.metadata as m
a = np.arange(6000.).reshape(60, 100)
assert np.array_equal(varve.decompress(varve.compress(a)), a)
assert [p.value for p in m.entry_points(group="xarray.backends") if p.name == "varve"] == ["varve.xarray_backend:VarveBackend"]
print(varve.__file__, varve.hdf5.plugin_path())"""
            for place in run("v/bin/python", "-c", code).split():
                self.assertTrue(place.startswith(f"{folder}/v/"), place)


if __name__ == "__main__":
    main()
