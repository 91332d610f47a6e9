#!/bin/sh
# What a plain Makefile would do: build.sh COMPILER SOURCE PROGRAM
set -eu
# shellcheck disable=SC2046  # a list of options
"$1" -std=c++20 "$2" $(pkg-config --cflags --libs tapehead) -o "$3"
