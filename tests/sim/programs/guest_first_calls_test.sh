#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs whose first calls of CUDA and NCCL come from many threads at one time (guest/first_calls.c), each in
# a process of its own. Arguments: build folder, source folder, number of programs.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd) programs=${3:-30}
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
sanitizer=$(grep -oE -m 1 -e '-fsanitize=(address|thread)' "$build_dir/compile_commands.json" | head -1 || true)
if [ "$sanitizer" = -fsanitize=thread ]; then
	echo "programs under ThreadSanitizer are not tested"
	exit 77
fi
test_begin "$build_dir"
export ASAN_OPTIONS=detect_leaks=0
cc ${sanitizer:+$sanitizer} -o "$work/first_calls" "$source_dir/tests/sim/guest/first_calls.c" \
	-I"$source_dir/core/include" -I"$source_dir/backends/fakecuda/include" -L"$build_dir" -lnccl -lcudart -pthread
for i in $(seq "$programs"); do
	rc=0
	# the end in the main thread, which made no call, is not judged: only the program's own status counts
	timeout 120 "$doppel" exec --engine threads "$work/first_calls" >"$work/out" 2>&1 || rc=$?
	if [ $rc != 0 ]; then
		echo "program $i of $programs ended with $rc"
		sed 's/^/    /' "$work/out"
		bad=1
	fi
done
[ "${bad:-0}" = 0 ] && echo "$programs programs, each with its first calls from 12 threads"
exit "${bad:-0}"
