#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What README and four of the pages show is what their commands print (docs/update runs them all, and
# writes the pages). And each command that `doppel` lists explains itself.
set -euo pipefail
build=$1 source=$2
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "the same hashes, in minutes"; exit 77 ;;
esac

# shellcheck source=tests/lib.sh
. "$source/tests/lib.sh"
need python3 patch
# frames in gdb are those of one compiler and of the preset fake
gdb=()
command -v gdb >/dev/null && [ "$(uname -m)" = x86_64 ] && grep -q '^DOPPEL_FLAVOUR:[A-Z]*=$' "$build/CMakeCache.txt" &&
	cat "$build"/CMakeFiles/*/CMakeCCompiler.cmake | grep -q 'COMPILER_VERSION "12\.' || gdb=(--no-gdb)
"$source/docs/update" --check ${gdb[@]+"${gdb[@]}"} --build "$build" README.md docs/testing.md docs/lab.md docs/debugging.md docs/faults.md ||
	{ echo "docs/update writes what is printed now"; exit 1; }

commands=0
for command in $("$build/doppel" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'); do
	usage=$("$build/doppel" "$command" --help) && [[ $usage == "Usage: doppel $command "* ]] ||
		{ echo "doppel $command --help: $usage" | head -3; exit 1; }
	commands=$((commands + 1))
done
[ $commands -ge 8 ] || { echo "only $commands commands in doppel --help"; exit 1; }
commit=$("$build/doppel" --version | sed -n 's/^doppel \([^ ]*\) (build [0-9a-f]\{16\};.*/\1/p')
[ -n "$commit" ] || { echo "no commit and build in doppel --version"; exit 1; }
echo "$commands commands with help; commit $commit"
