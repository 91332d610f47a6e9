#!/bin/sh
# clang-format, cppcheck and clang-tidy over the sources; needs build/compile_commands.json.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
status=0
echo "clang-format"
scripts/format.sh --check || status=1
echo "cppcheck"
cppcheck --quiet -j "$jobs" --std=c++20 --language=c++ --enable=warning,performance,portability \
  --inline-suppr --error-exitcode=1 -I include -I src include src || status=1
echo "clang-tidy"
find src examples -name '*.cpp' -print0 |
  xargs -0 -n 4 -P "$jobs" clang-tidy -p build --quiet --warnings-as-errors='*' || status=1
exit $status
