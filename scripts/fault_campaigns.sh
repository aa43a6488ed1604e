#!/usr/bin/env bash
# Runs the example campaigns and the map of HDF5 metadata of tests/faults/examples, and keeps their reports.
#   scripts/fault_campaigns.sh                  1,000 runs of each of the 18 faults (hours), reports in docs/faults/
#   scripts/fault_campaigns.sh --runs 100       fewer runs
#   scripts/fault_campaigns.sh --results DIR    reports elsewhere
# Interrupted, the same command goes on where it was: what is not a report lies in build/release/campaigns/.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
runs=1000
reports=docs/faults
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=${2:?--runs needs a number}; shift 2 ;;
    --results) reports=${2:?--results needs a folder}; shift 2 ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
build=build/release
cmake --preset release >/dev/null
ninja -C "$build" --quiet varve example_halos example_mosaic example_particles
PATH=$PWD/$build/tests/faults/examples:$PATH
mkdir -p "$reports"
/usr/bin/python3 tests/faults/examples/hdf5_map.py "$build/tools/varve" "$build/tests/faults/examples/halos" "$reports"
for name in halos mosaic particles; do
  echo "$name"
  "$build/tools/varve" faults campaign "tests/faults/examples/$name.toml" --runs "$runs" \
    --results "$build/campaigns/$name" | tee "$reports/$name.txt"
  cp "$build/campaigns/$name/report.html" "$reports/$name.html"
done
