#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# gdb stops in a kernel at a line of its CUDA source, and the stack has the kernel's name.
set -euo pipefail
build_dir=$(realpath "$1") source_dir=$(realpath "$2")
doppel=$build_dir/doppel
[ -x "$doppel" ] && [ -e "$build_dir/libfakecuda.so" ] || { echo "skipped: no GPU double in $build_dir"; exit 77; }
command -v clang++-19 >/dev/null || { echo "skipped: no clang++-19 (apt-get install clang-19)"; exit 77; }
command -v gdb >/dev/null || { echo "skipped: no gdb (apt-get install gdb)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME=$dir/cache
cd "$dir"
line=$(grep -n 'c\[i\] = a\[i\] + b\[i\]' "$source_dir/tests/conformance/source/vadd.cu" | cut -d: -f1)
"$doppel" cc -g -O0 "$source_dir/tests/conformance/source/vadd.cu" -o vadd
printf 'break vadd.cu:%s\nrun\nbt 3\nkill\n' "$line" >commands
"$doppel" exec --gdb ./vadd <commands >out 2>&1 || true
stop=$(tr '\n' ' ' <out)
[[ $stop =~ Breakpoint\ 1[.0-9]*,\ vadd\ \(.*vadd.cu:$line ]] || { cat out; echo "gdb does not stop at vadd.cu:$line"; exit 1; }
[[ $stop =~ \#0\ +vadd\ \( ]] || { cat out; echo "the stack does not begin with the kernel"; exit 1; }
echo "gdb stops at vadd.cu:$line"
