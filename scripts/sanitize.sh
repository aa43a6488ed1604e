#!/usr/bin/env bash
# Builds the tests of the libraries under a sanitizer and runs them. ctest calls it: labels asan and tsan.
#   scripts/sanitize.sh asan     address and undefined behaviour
#   scripts/sanitize.sh tsan     data races
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."

case "${1:-}" in
  asan) programs=(codec_test container_test index_store_test index_crash_test fs_structures_test fs_core_test npy_test
                  serialise_test hdf5_test recogniser_pool_test policy_test device_seam_test fault_parsing_test
                  simt_test cuda_test recogniser_fuzz codec_fuzz) ;;
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
failed=0
for program in "${programs[@]}"; do
  path=$(find "$build/tests" -name "$program" -type f -executable)
  echo "== $preset: $program"
  arguments=(--gtest_brief=1)
  if [[ $program = *_fuzz ]]; then
    arguments=(5 "tests/fuzz/${program%_fuzz}/corpus")
  fi
  if ! setarch -R "$path" "${arguments[@]}"; then
    echo "== $preset: $program FAILED"
    failed=1
  fi
done
exit $failed
