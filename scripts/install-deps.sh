#!/bin/sh
# Installs what a part of Tapehead needs and this machine lacks:
#   scripts/install-deps.sh program|test|bench|lint|format
# On Debian and its relatives it installs through apt-get, as root or with sudo. Elsewhere it prints
# the command to run. It does nothing where everything is present.
set -eu
cd "$(dirname "$0")/.."

program="compiler make cmake openblas fmt cli11 json"
case "${1:-}" in
  program) items=$program ;;
  test) items="$program catch2 pkg-config" ;;
  bench) items="$program benchmark" ;;
  lint) items="$program catch2 clang-format clang-tidy cppcheck" ;;
  format) items="clang-format" ;;
  *) echo "usage: scripts/install-deps.sh program|test|bench|lint|format" >&2; exit 2 ;;
esac

# item: Debian, Fedora, Arch, Homebrew
package_names() {
  case "$1" in
    compiler) echo "g++ gcc-c++ gcc llvm" ;;
    make) echo "make make make make" ;;
    cmake) echo "cmake cmake cmake cmake" ;;
    openblas) echo "libopenblas-dev openblas-devel openblas openblas" ;;
    fmt) echo "libfmt-dev fmt-devel fmt fmt" ;;
    cli11) echo "libcli11-dev cli11-devel cli11 cli11" ;;
    json) echo "nlohmann-json3-dev json-devel nlohmann-json nlohmann-json" ;;
    catch2) echo "catch2 catch-devel catch2 catch2" ;;
    pkg-config) echo "pkg-config pkgconf-pkg-config pkgconf pkgconf" ;;
    benchmark) echo "libbenchmark-dev google-benchmark-devel benchmark google-benchmark" ;;
    clang-format) echo "clang-format clang-tools-extra clang clang-format" ;;
    clang-tidy) echo "clang-tidy clang-tools-extra clang llvm" ;;
    cppcheck) echo "cppcheck cppcheck cppcheck cppcheck" ;;
  esac
}

for_system() {  # for_system COLUMN ITEM...: the package names, each once
  column=$1
  shift
  for item in "$@"; do package_names "$item" | cut -d' ' -f"$column"; done | sort -u | tr '\n' ' '
}

# Programs and headers are tried rather than the package manager asked, so that what was built by
# hand, or another flavour of OpenBLAS, counts as present.
compiler=""
for candidate in ${CXX:-} c++ g++ clang++; do
  if command -v "$candidate" >/dev/null 2>&1; then
    compiler=$candidate
    break
  fi
done
search=""
for prefix in /opt/homebrew /opt/homebrew/opt/openblas /usr/local /usr/local/opt/openblas; do
  if [ -d "$prefix/include" ]; then search="$search -I$prefix/include -L$prefix/lib"; fi
done

has_header() {  # one of these
  [ -n "$compiler" ] || return 1
  for header in "$@"; do
    # shellcheck disable=SC2086  # $search is a list of options
    if printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$header" |
      "$compiler" $search -x c++ -E - >/dev/null 2>&1; then
      return 0
    fi
  done
  return 1
}

has_openblas() {
  has_header openblas/cblas.h openblas-pthread/cblas.h openblas-openmp/cblas.h \
    openblas-serial/cblas.h openblas_config.h || return 1
  for library in openblas openblasp; do
    # shellcheck disable=SC2086
    if echo 'int main() {}' |
      "$compiler" $search -x c++ - -l$library -o /dev/null >/dev/null 2>&1; then
      return 0
    fi
  done
  return 1
}

present() {
  case "$1" in
    compiler) [ -n "$compiler" ] && has_header vector ;;
    openblas) has_openblas ;;
    fmt) has_header fmt/format.h ;;
    cli11) has_header CLI/CLI.hpp ;;
    json) has_header nlohmann/json.hpp ;;
    catch2) has_header catch2/catch_test_macros.hpp catch2/catch.hpp ;;
    benchmark) has_header benchmark/benchmark.h ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

missing=""
for item in $items; do
  if ! present "$item"; then missing="$missing $item"; fi
done
if [ -z "$missing" ]; then exit 0; fi

if ! command -v apt-get >/dev/null 2>&1; then
  if command -v dnf >/dev/null 2>&1; then
    # shellcheck disable=SC2086  # $missing is a list of words, here and below
    command_line="sudo dnf install $(for_system 2 $missing)"
  elif command -v pacman >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    command_line="sudo pacman -S --needed $(for_system 3 $missing)"
  elif command -v brew >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    command_line="brew install $(for_system 4 $missing)"
  else
    echo "Tapehead needs:$missing; install them with this system's package manager." >&2
    exit 1
  fi
  echo "Tapehead needs:$missing. Install them with this command, then try again:" >&2
  echo "  $command_line" >&2
  echo "Tapehead is tested on Debian only, and so this command is not tested." >&2
  exit 1
fi

# shellcheck disable=SC2086
packages=$(for_system 1 $missing)
packages=${packages% }
if [ "$(id -u)" = 0 ]; then
  sudo=""
  how="apt-get"
elif command -v sudo >/dev/null 2>&1; then
  sudo=sudo
  how="sudo apt-get"
else
  echo "Tapehead needs these packages, which only root or sudo can install: $packages" >&2
  exit 1
fi

mkdir -p build
log=build/install-deps.log
: >"$log"
apt() {
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1
}
install() {
  # shellcheck disable=SC2086  # a list of packages
  apt install -y --no-install-recommends $packages
}

echo "Installing with $how what Tapehead needs and is not here yet: $packages"
echo "This takes a minute or so; what apt-get says goes to $log."
if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then apt update || true; fi
# The lists may be older than the packages on the server: then a fresh list helps.
if ! install; then
  apt update || true
  if ! install; then
    tail -n 15 "$log" >&2
    echo "apt-get could not install the packages above; see the last lines of $log." >&2
    exit 1
  fi
fi
echo "Installed."
