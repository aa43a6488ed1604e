"""The filter of HDF5, through h5py and HDF5's own programs."""

import itertools
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from support import FLOATS, INTEGERS, field, greatest_error, main, spread

try:
    import h5py
except ImportError:
    h5py = None

# Arrays and chunks: those that divide them and those that do not.
SHAPES = [((5000,), (1000,)), ((130, 90), (64, 64)), ((40, 50, 30), (16, 25, 30)), ((3, 5, 40, 33), (1, 2, 32, 32))]


@unittest.skipIf(h5py is None, "python3-h5py is not installed")
class Filter(unittest.TestCase):
    def setUp(self):
        import varve.hdf5

        self.hdf5 = varve.hdf5
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "a.h5"

    def write(self, array, chunks, bound="lossless", integers=False, **more):
        with h5py.File(self.path, "w") as file:
            options = self.hdf5.filter(bound, integers=integers)
            stored = file.create_dataset("d", data=array, chunks=chunks, **options, **more)
            return stored.id.get_storage_size()

    def read(self, path=None):
        with h5py.File(path or self.path, "r") as file:
            return file["d"][...]

    def chunk_place(self, index=0):
        with h5py.File(self.path, "r") as file:
            chunk = file["d"].id.get_chunk_info(index)
            return chunk.byte_offset, chunk.size

    def tool(self, *command, status=0):
        """One of HDF5's programs, in the test's folder, which finds the filter."""
        if shutil.which(command[0]) is None:
            self.skipTest("hdf5-tools is not installed")
        environment = {**os.environ, "HDF5_PLUGIN_PATH": self.hdf5.plugin_path()}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout[-1000:] + done.stderr[-1000:])
        return done.stdout

    def test_floats_keep_their_bound(self):
        for dtype, order, (shape, chunks) in itertools.product(FLOATS, "<>", SHAPES):
            array = field(shape, order + dtype)
            with self.subTest(array.dtype.str, shape=shape):
                self.write(array, chunks, "rel:1e-2")
                back = self.read()
                self.assertEqual(back.dtype, array.dtype)
                self.assertLessEqual(greatest_error(array, back), 1e-2 * spread(array))
                self.assertGreater(greatest_error(array, back), 0)

    def test_without_a_bound_all_bits_return(self):
        for dtype, order, (shape, chunks) in itertools.product(FLOATS + INTEGERS, "<>", SHAPES):
            array = field(shape, order + dtype)
            with self.subTest(array.dtype.str, shape=shape):
                self.write(array, chunks)
                np.testing.assert_array_equal(self.read(), array)

    def test_integers_move_only_when_told_to(self):
        array = field((130, 90), ">i4")
        exact = self.write(array, (64, 64), "abs:10")
        np.testing.assert_array_equal(self.read(), array)
        moved = self.write(array, (64, 64), "abs:10", integers=True)
        self.assertIn(np.abs(self.read() - array).max(), range(1, 11))
        self.assertLess(moved, exact)

    def test_padding_does_not_widen_a_relative_bound(self):
        array = 1000 + field((70, 70))  # far from the 0 that pads the last chunks
        self.write(array, (64, 64), "rel:1e-2")
        self.assertLessEqual(greatest_error(array, self.read()), 1e-2 * spread(array))

    def test_fill_values_and_what_is_not_finite_are_exact(self):
        for dtype in ("<f4", ">f8"):
            array = field((130, 90), dtype)
            array[20:60, 10:80] = -9e20
            array[3, 3], array[4, 4] = np.nan, -np.inf
            there = (array > -1e20) & np.isfinite(array)
            self.write(array, (64, 64), "rel:1e-2", fillvalue=-9e20)
            back = self.read()
            self.assertTrue(np.all(back[20:60, 10:80] == array[20:60, 10:80]))
            self.assertLessEqual(greatest_error(array[there], back[there]), 1e-2 * spread(array[there]))
            greatest_error(array, back)  # checks what is not finite

    def test_complex_booleans_arrays_and_later_growth(self):
        waves = field((130, 90), "f4")
        pairs = (waves + 1j * waves[::-1]).astype("c8")
        flags = waves > 2
        with h5py.File(self.path, "w") as file:
            options = self.hdf5.filter("abs:1e-2")
            file.create_dataset("pairs", data=pairs, chunks=(64, 64), **options)
            file.create_dataset("flags", data=flags, chunks=(64, 64), **options)
            file.create_dataset("inner", (130,), np.dtype(("f8", (90,))), chunks=(64,), **options)[...] = waves
            grown = file.create_dataset("grown", (100, 90), "f4", chunks=(64, 64), maxshape=(None, 90), **options)
            grown[:] = waves[:100]
            grown.resize(130, axis=0)
            grown[100:] = waves[100:]
        with h5py.File(self.path, "r") as file:
            np.testing.assert_array_equal(file["flags"], flags)
            for part in ("real", "imag"):
                self.assertLessEqual(greatest_error(getattr(pairs, part), getattr(file["pairs"][...], part)), 1e-2)
            self.assertLessEqual(greatest_error(waves.astype("f8"), file["inner"][...]), 1e-2)
            # chunks that were decoded before they grew were encoded twice
            self.assertLessEqual(greatest_error(waves, file["grown"][...]), 2e-2)

    def test_bfloat16(self):
        bits = (field((130, 90)).view("u4") >> 16).astype("u2")
        kind = h5py.h5t.IEEE_F32LE.copy()
        kind.set_fields(15, 7, 8, 0, 7)
        kind.set_size(2)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((64, 64))
        plist.set_filter(self.hdf5.FILTER_NUMBER, 0, self.hdf5.parameters("rel:1e-1"))
        with h5py.File(self.path, "w") as file:
            stored = h5py.h5d.create(file.id, b"d", kind, h5py.h5s.create_simple(bits.shape), plist)
            stored.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=kind)
            self.assertEqual(stored.get_create_plist().get_filter(0)[2][1], 12)
        back = np.empty_like(bits)
        with h5py.File(self.path, "r") as file:
            file["d"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, back, mtype=kind)
        values, decoded = ((a.astype("u4") << 16).view("f4") for a in (bits, back))
        self.assertIn(True, values != decoded)
        self.assertLessEqual(greatest_error(values, decoded), 1e-1 * spread(values))

    def test_wrong_parameters_are_an_error(self):
        good = self.hdf5.parameters("rel:1e-3")
        wrong = [(99,), (2, 0), (1, 0, 0x7FF80000), (1, 0, 0xBFF00000), (2, *good[1:], 7, 7, 7), (0x56480001,), (1,) * 40]
        wrong += [(0x56480001, 10, 2, *good[1:], 0, 0, 0, 33, *range(1, 34)), (0x56480001, *range(18))]
        for numbers in wrong:
            with self.subTest(numbers), h5py.File(self.path, "w") as file:
                with self.assertRaises((ValueError, OSError, RuntimeError)):
                    file.create_dataset(
                        "d", (100, 100), "f4", chunks=(50, 50), compression=self.hdf5.FILTER_NUMBER, compression_opts=numbers
                    )
        with h5py.File(self.path, "w") as file:
            for more in ({"shuffle": True}, {"fletcher32": True}):
                try:
                    made = file.create_dataset("x", (100, 100), "f4", chunks=(50, 50), **self.hdf5.filter("abs:1"), **more)
                except (ValueError, OSError):
                    continue
                plist = made.id.get_create_plist()  # h5py put it behind the filter
                self.assertEqual(plist.get_filter(0)[0], self.hdf5.FILTER_NUMBER)
                del file["x"]

    def test_parameters_of_a_file_that_lie_are_an_error(self):
        self.write(field((100, 100)), (50, 50), "rel:1e-3")
        with h5py.File(self.path, "r") as file:
            numbers = file["d"].id.get_create_plist().get_filter(0)[2]
        whole = self.path.read_bytes()
        stored = np.array(numbers, "<u4").tobytes()
        self.assertEqual(whole.count(stored), 1)
        place = whole.index(stored)
        for at, value in itertools.product(range(len(numbers)), (0, 5, 77, 2**32 - 1)):
            lie = list(numbers)
            lie[at] = value
            self.path.write_bytes(
                whole[:place] + np.array(lie, "<u4").tobytes() + whole[place + len(stored) :]
            )
            try:
                self.read()
            except OSError:
                continue
            self.assertIn(at, range(1, 10), lie)  # the order of bytes, and what only the encoder needs

    def test_damage_is_an_error(self):
        self.write(field((100, 100)), (50, 50), "rel:1e-3")
        whole = self.path.read_bytes()
        offset, size = self.chunk_place()
        for at in range(0, size, 37):
            damaged = bytearray(whole)
            damaged[offset + at] ^= 4
            self.path.write_bytes(damaged)
            with self.assertRaises(OSError):
                self.read()
            with h5py.File(self.path, "r") as file:
                file["d"][50:, 50:]  # another chunk

    def test_h5dump_shows_it(self):
        array = field((40, 50))
        self.write(array, (20, 20), "abs:1e-3")
        shown = self.tool("h5dump", "-y", "-m", "%.9g", "-d", "/d", "a.h5").split("DATA {")[1].split("}")[0]
        values = np.array([float(text) for text in shown.replace(",", " ").split()], "f4").reshape(40, 50)
        np.testing.assert_array_equal(values, self.read())

    def test_h5repack_brings_it_in_and_out(self):
        array = field((100, 90), ">f4")
        with h5py.File(self.path, "w") as file:
            file.create_dataset("d", data=array, chunks=(32, 32))
        numbers = self.hdf5.parameters("rel:1e-3")
        wish = f"UD={self.hdf5.FILTER_NUMBER},0,{len(numbers)},{','.join(map(str, numbers))}"
        self.tool("h5repack", "-f", wish, "a.h5", "b.h5")
        packed = self.read(self.folder / "b.h5")
        self.assertLessEqual(greatest_error(array, packed), 1e-3 * spread(array))
        self.assertLess(2 * os.path.getsize(self.folder / "b.h5"), os.path.getsize(self.path))
        self.tool("h5repack", "-l", "d:CHUNK=50x45", "b.h5", "c.h5")  # other chunks, encoded again
        with h5py.File(self.folder / "c.h5", "r") as file:
            self.assertEqual(file["d"].id.get_create_plist().get_filter(0)[2][-2:], (50, 45))
        self.assertLessEqual(greatest_error(packed, self.read(self.folder / "c.h5")), 1e-3 * spread(array))
        self.tool("h5repack", "-f", "NONE", "b.h5", "d.h5")
        np.testing.assert_array_equal(self.read(self.folder / "d.h5"), packed)
        self.tool("h5diff", "b.h5", "d.h5")


if __name__ == "__main__":
    main()
