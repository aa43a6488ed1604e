"""python3 -m varve filter BOUND: what other programs need to use the filter of HDF5."""

import sys

from . import hdf5


def main(arguments):
    if len(arguments) != 2 or arguments[0] != "filter":
        print("usage: python3 -m varve filter BOUND        (lossless, abs:0.5, rel:1e-3, ...)", file=sys.stderr)
        return 2
    numbers = hdf5.parameters(arguments[1])
    print(f"export HDF5_PLUGIN_PATH={hdf5.plugin_path()}")
    print(f"h5repack -f UD={hdf5.FILTER_NUMBER},0,{len(numbers)},{','.join(map(str, numbers))} IN.h5 OUT.h5")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
