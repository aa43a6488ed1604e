#!/usr/bin/env bash
# Runs suites that others wrote on a mount, as root: suites.sh SUITES WORK [pjdfstest|fsx|fsstress]...
#
# SUITES has checkouts of github.com/pjd/pjdfstest and git.kernel.org's xfstests-dev (github.com/kdave/xfstests), in
# folders pjdfstest and xfstests. WORK is made or emptied; it should lie on ext4, where pjdfstest runs as well. Needs
# gcc and xfslibs-dev. VARVE_BIN: the program (default: build/release/tools/varve). SECONDS_EACH: how long each form of
# fsx and fsstress run (default 60). Exit status 1: something passes on the plain file system alone, or differs.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
varve=$(realpath "${VARVE_BIN:-$here/../../build/release/tools/varve}")
suites=$(realpath "${1:?usage: suites.sh SUITES WORK [pjdfstest|fsx|fsstress]...}")
mkdir -p "${2:?usage: suites.sh SUITES WORK [pjdfstest|fsx|fsstress]...}"
work=$(realpath "$2")
wanted=("${@:3}")
[ ${#wanted[@]} -gt 0 ] || wanted=(pjdfstest fsx fsstress)
seconds=${SECONDS_EACH:-60}
failed=0

mount_store() { "$varve" mount "$work/store" "$work/mnt" 2>>"$work/log"; }
unmount_store() { "$varve" umount "$work/mnt"; }
trap 'mountpoint -q "$work/mnt" && fusermount3 -u -z "$work/mnt"' EXIT

fail() {
  echo "FAILED: $*"
  failed=1
}

new_store() {
  ! mountpoint -q "$work/mnt" || unmount_store
  rm -rf "${work:?}/store" "$work/mnt" "$work/plain"
  mkdir -p "$work/bin" "$work/mnt" "$work/plain"
  mount_store
}

check_store() {
  unmount_store
  "$varve" fsck "$work/store" >"$work/fsck" 2>&1 || fail "$1: varve fsck: $(tail -n 3 "$work/fsck")"
  mount_store
}

# What its configure would find on a Linux of today, but for libraries.
build_pjdfstest() {
  local has=() feature
  for feature in FACCESSAT FCHMODAT FCHOWNAT FSTATAT LINKAT MKDIRAT MKFIFOAT MKNODAT OPENAT POSIX_FALLOCATE READLINKAT \
    RENAMEAT SYMLINKAT UNLINKAT UTIMENSAT SYS_SYSMACROS_H STRUCT_STAT_ST_ATIM STRUCT_STAT_ST_CTIM STRUCT_STAT_ST_MTIM; do
    has+=("-DHAVE_$feature")
  done
  rm -rf "$work/pjdfstest"
  cp -r "$suites/pjdfstest" "$work/pjdfstest"
  touch "$work/pjdfstest/config.h"
  gcc -w -O1 -D_GNU_SOURCE "${has[@]}" -I"$work/pjdfstest" -o "$work/pjdfstest/pjdfstest" "$work/pjdfstest/pjdfstest.c"
  echo fs=EXT4 >>"$work/pjdfstest/tests/conf" # what it asks of ext4 alone is asked of both
}

# run_pjdfstest FOLDER RESULTS: the results of all tests in a folder, one a line: FILE NUMBER ok|not [TODO].
run_pjdfstest() {
  rm -rf "$2.each"
  mkdir "$2.each"
  (
    cd "$1"
    export tests=$work/pjdfstest/tests each=$2.each
    find "$tests" -name '*.t' -printf '%P\n' | sort |
      xargs -P2 -I{} sh -c 'sh "$tests/{}" >"$each/$(echo {} | tr / _)" 2>/dev/null'
  )
  (cd "$2.each" && grep -E '^(not )?ok' -- *.t) |
    sed -E 's/^([^:]+):not ok ([0-9]+)( # TODO)?.*/\1 \2 not\3/;s/^([^:]+):ok ([0-9]+).*/\1 \2 ok/;s/# TODO/TODO/' |
    sort >"$2"
}

run_pjdfstest_on_both() {
  new_store
  build_pjdfstest
  run_pjdfstest "$work/plain" "$work/pjdfstest.plain"
  run_pjdfstest "$work/mnt" "$work/pjdfstest.varve"
  local name
  for name in plain varve; do
    awk -v name="$name" '{n[$3]++; todo += NF > 3} END {
      printf "pjdfstest, %s: %d tests, %d passed, %d failed, %d of them known to its authors\n", name, NR, n["ok"],
             n["not"], todo}' "$work/pjdfstest.$name"
  done
  comm -23 <(grep ' ok$' "$work/pjdfstest.plain") <(grep ' ok$' "$work/pjdfstest.varve") >"$work/pjdfstest.lost"
  [ ! -s "$work/pjdfstest.lost" ] || fail "these pass on the plain file system alone: $(cat "$work/pjdfstest.lost")"
  check_store pjdfstest
}

# fsx and fsstress, with what configure would find.
build_xfstests() {
  local has=() feature
  for feature in SYS_TYPES_H SYS_STAT_H SYS_STATVFS_H SYS_TIME_H SYS_IOCTL_H SYS_WAIT_H MALLOC_H DIRENT_H STDLIB_H \
    UNISTD_H ERRNO_H STRING_H STRINGS_H SYS_FCNTL_H SYS_PARAM_H LIBGEN_H ASSERT_H LINUX_FALLOC_H LINUX_FIEMAP_H \
    SYS_PRCTL_H SYS_MMAN_H ERR_H FALLOCATE RENAMEAT2 COPY_FILE_RANGE XFS_XFS_H; do
    has+=("-DHAVE_$feature")
  done
  touch "$work/bin/config.h"
  local program
  for program in fsx fsstress; do
    gcc -w -O1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DSTDC_HEADERS -DFALLOCATE "${has[@]}" -include getopt.h \
      -include time.h -I"$work/bin" -I"$suites/xfstests/src" -o "$work/bin/$program" \
      "$suites/xfstests/ltp/$program.c" -lm
  done
}

# fsx NAME FILE OPTIONS...: other options at most SECONDS_EACH.
run_fsx() {
  local name=$1 file=$2
  shift 2
  mkdir -p "$work/fsx"
  if "$work/bin/fsx" -q -S 0 -P "$work/fsx" "--duration=$seconds" "$@" "$work/mnt/$file" >"$work/fsx/$name.log" 2>&1; then
    echo "fsx, $name: $(grep -o 'All [0-9]* operations' "$work/fsx/$name.log" || echo "$seconds s") without a difference"
  else
    fail "fsx, $name: $(head -n 3 "$work/fsx/$name.log") ... $(tail -n 3 "$work/fsx/$name.log")"
  fi
}

run_all_fsx() {
  new_store
  build_xfstests
  run_fsx maps bytes
  run_fsx 'no maps' bytes.nomaps -R -W
  run_fsx reopened bytes.reopened -c 20
  run_fsx 'an array, reopened' array_64x64x16.f32 -c 20
  run_fsx 'direct' bytes.direct -Z -R -W -r 4096 -w 4096 -t 4096
  check_store fsx
}

run_fsstress() {
  new_store
  build_xfstests
  mkdir "$work/mnt/stress"
  "$work/bin/fsstress" -d "$work/mnt/stress" -p 6 -n 1000000 "--duration=$seconds" >"$work/fsstress.log" 2>&1 ||
    fail "fsstress: $(tail -n 3 "$work/fsstress.log")"
  python3 "$here/tree_sum.py" "$work/mnt" >"$work/tree.before"
  check_store fsstress
  python3 "$here/tree_sum.py" "$work/mnt" >"$work/tree.after"
  cmp "$work/tree.before" "$work/tree.after" || fail "fsstress: the tree is another after a new mount"
  echo "fsstress: 6 processes for $seconds s, $(wc -l <"$work/tree.after") names"
}

for suite in "${wanted[@]}"; do
  case $suite in
    pjdfstest) run_pjdfstest_on_both ;;
    fsx) run_all_fsx ;;
    fsstress) run_fsstress ;;
    *) fail "no such suite: $suite" ;;
  esac
done
unmount_store
grep -v ' info ' "$work/log" | tail -n 20 || true
exit $failed
