#!/usr/bin/env bash
# Runs the example campaigns and the map of HDF5 metadata of tests/faults/examples, and keeps their reports.
#   scripts/fault_campaigns.sh                  1,000 runs of each of the 24 faults (some two hours on one core),
#                                               reports in docs/faults/
#   scripts/fault_campaigns.sh --runs 100       fewer runs
#   scripts/fault_campaigns.sh --results DIR    reports elsewhere
#   scripts/fault_campaigns.sh --workers N      so many runs at a time, instead of one a core
# Stores and mounts of runs are made in SCRATCH: /dev/shm, if that is there, or else TMPDIR.
# Interrupted, the same command goes on where it was: what is not a report lies in build/release/campaigns/.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
runs=1000
reports=docs/faults
workers=0
scratch=${SCRATCH:-/dev/shm}
[ -w "$scratch" ] || scratch=${TMPDIR:-/tmp}
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=${2:?--runs needs a number}; shift 2 ;;
    --workers) workers=${2:?--workers needs a number}; shift 2 ;;
    --results) reports=${2:?--results needs a folder}; shift 2 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
build=build/release
cmake --preset release >/dev/null
ninja -C "$build" --quiet varve example_halos example_mosaic example_particles
PATH=$PWD/$build/tests/faults/examples:$PATH
mkdir -p "$reports" "$build/campaigns"
/usr/bin/python3 tests/faults/examples/hdf5_map.py "$build/tools/varve" "$build/tests/faults/examples/halos" "$reports"
for name in halos mosaic particles unmount; do
  echo "$name"
  "$build/tools/varve" faults campaign "tests/faults/examples/$name.toml" --runs "$runs" \
    --results "$build/campaigns/$name" --scratch "$scratch" --workers "$workers" | tee "$build/campaigns/$name.txt"
  sed "s|$PWD/||g" "$build/campaigns/$name/report.html" >"$reports/$name.html"  # its commands are for this folder
  for kind in rates.csv rates.png sensitivity.png; do
    if [ -e "$build/campaigns/$name/$kind" ]; then  # one without faults at the app seam has no map of files
      cp "$build/campaigns/$name/$kind" "$reports/$name-$kind"
    fi
  done
done
