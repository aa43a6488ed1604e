#!/usr/bin/env bash
# From a fresh Debian 12 to compressed arrays: installs packages, builds Varve, mounts it, writes a simulation's field
# with h5py, copies in a NetCDF-4 and an npy file, unmounts, mounts again, reads everything back with the same programs
# and prints what it cost and what it saved.
#   scripts/quickstart.sh [FOLDER [BOUND]]     defaults: quickstart-out in the current directory, rel:1e-3
# All that it makes lies in FOLDER (build, store, and the same files on the plain disk). Safe to run again.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

sources=$(dirname "$(dirname "$(realpath "$0")")")
out=$(realpath -m "${1:-quickstart-out}")
bound=${2:-rel:1e-3}
marker=$out/.varve-quickstart
mount=$out/mount
varve=$out/build/tools/varve

fail() {
  echo "quickstart: $*" >&2
  exit 1
}

unmount() {
  if mountpoint -q "$mount" 2>/dev/null; then
    "$varve" umount "$mount"
  fi
}

clean_up() {
  status=$?
  trap - EXIT
  if ! unmount; then
    fusermount3 -u -z "$mount" || umount -l "$mount" || true
  fi
  exit "$status"
}

if [ -d "$out" ] && [ ! -e "$marker" ] && [ -n "$(ls -A "$out")" ]; then
  fail "$out has other things in it; name a new or an empty folder"
fi
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p "$out"
touch "$marker"
unmount || true
rm -rf "$out/store" "$out/plain"
mkdir -p "$mount" "$out/plain"

"$sources/scripts/packages.sh"
[ -c /dev/fuse ] || fail "there is no /dev/fuse here: load the module 'fuse', or start the container with" \
  "--device /dev/fuse --cap-add SYS_ADMIN"

# A compiler cache only where there is one already: nothing is left in the home directory.
[ -d "${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ccache}" ] || export CCACHE_DISABLE=1
echo "building in $out/build ..."
cmake -S "$sources" --preset release -B "$out/build" -DVARVE_TESTS=OFF -DVARVE_BENCHMARKS=OFF >"$out/build.log" 2>&1 ||
  { cat "$out/build.log" >&2; fail "cmake failed"; }
ninja -C "$out/build" varve >>"$out/build.log" 2>&1 ||
  { tail -n 60 "$out/build.log" >&2; fail "the build failed; all of its output is in $out/build.log"; }

data=$("$sources/scripts/test_data.sh" "$out/test-data")
demo() {
  PYTHONDONTWRITEBYTECODE=1 VARVE_TEST_DATA=$data /usr/bin/python3 "$sources/scripts/quickstart.py" "$1" "$out" "$bound"
}

echo "solving the wave equation on 256 x 256 x 256 points ..."
demo solve

echo "+ varve mount $out/store $mount"
"$varve" mount "$out/store" "$mount"
echo "+ setfattr -n user.varve.bound -v $bound $mount"
setfattr -n user.varve.bound -v "$bound" "$mount"
demo write
echo "+ varve umount $mount; varve mount $out/store $mount"
"$varve" umount "$mount"
"$varve" mount "$out/store" "$mount"
demo read
echo
echo "+ varve stat $mount/wave.h5"
"$varve" stat "$mount/wave.h5"
"$varve" umount "$mount"
echo
echo "The store is in $out/store; the program is $varve. Try:"
echo "  $varve mount $out/store $mount"
