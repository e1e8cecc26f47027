#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds one planted bug beside a build folder of the doubles, and a `doppel` that runs with it:
# build/fake/mutants/NAME/{doppel,libdoppel.so} and the patched core/ for gdb.
# Usage: tests/mutants/build.sh NAME [BUILD_DIR]      (build/fake)
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
[ $# != 0 ] && [ -f "$source_dir/tests/mutants/$1.patch" ] ||
	{ echo "Usage: $0 NAME [BUILD_DIR]; NAME is that of a patch in tests/mutants" >&2; exit 1; }
# shellcheck source=tests/mutants/mutant.sh
. "$source_dir/tests/mutants/mutant.sh"
mutant_init "${2:-$source_dir/build/fake}" "$source_dir"
keep_source=1 mutant_build "$1"
cat >"$work/$1/doppel" <<W
#!/bin/sh
LD_LIBRARY_PATH=$work/$1 exec $build_dir/doppel "\$@"
W
chmod +x "$work/$1/doppel"
sed -n '/^# /s/^# //p;/^---/q' "$source_dir/tests/mutants/$1.patch"
realpath --relative-to=. "$work/$1/doppel"
