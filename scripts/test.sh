#!/bin/sh
# Runs the tests of build/ (or of the directory named first) with CTest on every processor; further
# arguments go to ctest. The results also stand in test-results.xml (JUnit) beside the build.
set -eu
cd "$(dirname "$0")/.."
directory=build
case "${1:-}" in
  "" | -*) ;;
  *) directory=$1; shift ;;
esac
jobs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
exec ctest --test-dir "$directory" --output-on-failure --parallel "$jobs" \
  --output-junit test-results.xml "$@"
