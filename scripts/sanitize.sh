#!/usr/bin/env bash
# Builds the tests of the libraries under a sanitizer and runs them. ctest calls it: labels asan and tsan.
#   scripts/sanitize.sh asan     address and undefined behaviour
#   scripts/sanitize.sh tsan     data races
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."

case "${1:-}" in
  asan) programs=(codec_test cuda_test container_test index_store_test index_crash_test fs_structures_test fs_core_test
                  npy_test formats_test grids_test serialise_test hdf5_test recogniser_pool_test policy_test
                  device_seam_test fault_parsing_test simt_test recogniser_fuzz codec_fuzz) ;;
  tsan) programs=(index_threads_test fs_structures_test fs_core_test recogniser_pool_test) ;;
  *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
preset=$1
build=build/$preset
cmake --preset "$preset" >/dev/null
ninja -C "$build" -j "$(nproc)" --quiet "${programs[@]}"

# Mappings of a sanitizer's shadow clash with much randomness of addresses on some kernels.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# One program a core at a time; the output of each comes when it ends.
run_program() {
  path=$(find "$1/tests" -name "$2" -type f -executable)
  arguments=(--gtest_brief=1)
  if [[ $2 = *_fuzz ]]; then
    arguments=(5 "tests/fuzz/${2%_fuzz}/corpus")
  fi
  log=$(mktemp)
  start=$SECONDS
  outcome="passed"
  setarch -R "$path" "${arguments[@]}" >"$log" 2>&1 || outcome="FAILED"
  (flock 9; cat "$log"; echo "== $1: $2 $outcome after $((SECONDS - start)) s") 9<"$1"
  rm -f "$log"
  [ $outcome = passed ]
}
export -f run_program
for program in "${programs[@]}"; do
  parts=1
  [ "$program" = codec_test ] && parts=4  # the longest
  for ((part = 0; part < parts; part++)); do
    echo "$program" "$parts" "$part"
  done
done | xargs -P "$(nproc)" -L 1 bash -c 'GTEST_TOTAL_SHARDS=$3 GTEST_SHARD_INDEX=$4 run_program "$1" "$2"' _ "$build"
