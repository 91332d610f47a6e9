#!/bin/sh
# A compiler launcher that saves minutes: an object of the library that the build under test has
# already made (TAPEHEAD_OBJECTS) is copied from there. core/gemm.cpp, which needs every include
# directory there is, and the consumer itself are compiled.
set -eu
object=""
for argument; do
  case "$argument" in
    *tapehead.dir/*.o) object=$argument ;;
  esac
done
made="$TAPEHEAD_OBJECTS/${object#*tapehead.dir/}"
case "$object" in
  "" | */core/gemm.cpp.o) exec "$@" ;;
esac
if [ -f "$made" ]; then exec cp "$made" "$object"; fi
exec "$@"
