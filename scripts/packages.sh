#!/usr/bin/env bash
# Installs the Debian packages that the build, the tests and the quick start need. Does nothing, without asking for
# rights, when all of them are there. `scripts/packages.sh --list` only prints their names. With --browser also
# Chromium (131 MB to fetch, 440 MB installed), for the tests of `varve web`'s page; without it they are skipped.
set -euo pipefail

packages=(
  # build
  g++ make cmake ninja-build pkgconf pkg-config ccache git ca-certificates
  libfuse3-dev librocksdb-dev libhdf5-dev libzstd-dev zlib1g-dev libxxhash-dev libfmt-dev libcli11-dev
  libseccomp-dev libtomlplusplus-dev nlohmann-json3-dev libgtest-dev libbenchmark-dev libcairo2-dev fonts-dejavu-core
  # mount
  fuse3 attr
  # programs of the tests and the quick start
  python3 python3-astropy python3-dask python3-h5py python3-mrcfile python3-netcdf4 python3-nibabel python3-numpy
  python3-pip python3-venv python3-xarray python3-zstandard
  hdf5-tools netcdf-bin rsync sqlite3 zstd
)

if [ "${1:-}" = --list ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

find_missing() {
  missing=()
  for package in "$@"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
  done
}

if [ "${1:-}" = --browser ]; then
  "$0"
  find_missing chromium chromium-driver
  if [ ${#missing[@]} -gt 0 ]; then
    echo "installing ${missing[*]}"
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
      echo "packages.sh: ${missing[*]} could not be installed: tests of the page of varve web will be skipped" >&2
  fi
  exit 0
fi

find_missing "${packages[@]}"
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "packages.sh: these packages are missing and this is neither root nor a system with sudo;" >&2
    echo "as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1
}
if ! apt_get install --no-install-recommends "${missing[@]}"; then
  # The package lists may be old or absent: fetch them and try once more.
  if ! { apt_get update && apt_get install --no-install-recommends "${missing[@]}"; }; then
    tail -n 30 "$log" >&2
    echo "packages.sh: apt-get could not install ${missing[*]} (its last lines are above)" >&2
    exit 1
  fi
fi
