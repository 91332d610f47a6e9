#!/bin/sh
# Configures and builds in build/ with every processor:
#   scripts/build.sh [-DOPTION=VALUE ...] [argument of `cmake --build` ...]
# Tests and examples are left out until a -D switches them on; they stay on from then.
set -eu
cd "$(dirname "$0")/.."
# The options of a make above (-n, -k, a job server) are not for the build below.
unset MAKEFLAGS MFLAGS MAKELEVEL

options=""
while [ $# -gt 0 ]; do
  case "$1" in
    -D*) options="$options $1"; shift ;;
    *) break ;;
  esac
done
if [ ! -f build/CMakeCache.txt ]; then
  options="-DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF $options"
fi
jobs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# shellcheck disable=SC2086  # a list of options
cmake -S . -B build $options
cmake --build build --parallel "$jobs" "$@"
