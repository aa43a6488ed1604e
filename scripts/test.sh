#!/usr/bin/env bash
# Builds and runs the tests.
#   scripts/test.sh                        everything, release build
#   scripts/test.sh -L codec               what the arguments tell ctest: a label (codec, index, fs, tools, clients, ...),
#   scripts/test.sh -R hdf5                or names
#   scripts/test.sh --preset asan -L fs    another preset: debug, asan (address and undefined behaviour), tsan
# Tests that need data find it through VARVE_TEST_DATA, or in ../shared/data.tar.zst beside the repository; without
# either they are skipped, and say so. The last lines are ctest's and so is the exit status.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."

preset=release
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name: release, debug, asan or tsan}; shift 2 ;;
    --preset=*) preset=${1#*=}; shift ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) arguments+=("$1"); shift ;;
  esac
done

scripts/packages.sh --browser
build=build/$preset
jobs=$(nproc)
cmake --preset "$preset" >/dev/null
ninja -C "$build" -j "$jobs" --quiet

data=$(scripts/test_data.sh "$build/test-data")
if [ -n "$data" ]; then
  export VARVE_TEST_DATA=$data
else
  echo "test.sh: no test data (set VARVE_TEST_DATA to its folder): tests that need it will be skipped"
fi
exec ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" "${arguments[@]}"
