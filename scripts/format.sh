#!/bin/sh
# Formats every source file with clang-format; with --check it only says which ones it would change.
set -eu
cd "$(dirname "$0")/.."
mode="-i"
if [ "${1:-}" = --check ]; then mode="--dry-run -Werror"; fi
# shellcheck disable=SC2086  # two options
find include src examples tests bench scripts \( -name '*.cpp' -o -name '*.hpp' \) -print0 |
  xargs -0 clang-format $mode
