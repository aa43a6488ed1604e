#!/usr/bin/env bash
# Prints the folder of test data, or nothing when there is none: $VARVE_TEST_DATA if set; else the archive
# ../shared/data.tar.zst beside the repository, unpacked into the folder named by the one argument (once; again when the
# archive has changed).
set -euo pipefail

if [ -n "${VARVE_TEST_DATA:-}" ]; then
  realpath "$VARVE_TEST_DATA"
  exit 0
fi
target=${1:?usage: test_data.sh FOLDER}
archive=$(dirname "$(dirname "$(realpath "$0")")")/../shared/data.tar.zst
[ -r "$archive" ] || exit 0

stamp=$(stat -c '%s %Y' "$archive")
if [ "$(cat "$target/.stamp" 2>/dev/null || true)" != "$stamp" ]; then
  rm -rf "$target"
  mkdir -p "$target"
  tar -x --zstd -f "$archive" -C "$target" --no-same-owner
  echo "$stamp" >"$target/.stamp"
fi
manifest=$(find "$target" -maxdepth 2 -name MANIFEST.tsv -print -quit)
realpath "$(dirname "${manifest:-$target/MANIFEST.tsv}")"
