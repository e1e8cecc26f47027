#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The life of one all-reduce, walked in gdb (gdb_walk.py), leaves the trace hash as it is.
set -euo pipefail
doppel=$1/doppel source_dir=$2
command -v gdb >/dev/null || { echo "no gdb: skipped"; exit 77; }
gdb -q -batch -ex 'python print(1)' 2>/dev/null | grep -q 1 || { echo "gdb has no python: skipped"; exit 77; }
args=(run all_reduce --machine a100-4nic --hosts 2 --gpus 2 -b 64K -e 64K --place in --seed 3)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

hash_of() { sed -n 's/^# trace hash //p' "$1"; }
"$doppel" "${args[@]}" >"$work/plain"
rc=0
timeout 120 gdb -q -batch -iex 'set debuginfod enabled off' -x "$source_dir/sim/gdb/doppel.py" \
	-x "$source_dir/tests/sim/gdb_walk.py" --args "$doppel" "${args[@]}" >"$work/gdb" 2>&1 || rc=$?
if [ $rc != 0 ] || ! grep -q '^walked: ' "$work/gdb"; then
	tail -40 "$work/gdb"
	echo "the walk ended with $rc"
	exit 1
fi
if [ -z "$(hash_of "$work/plain")" ] || [ "$(hash_of "$work/plain")" != "$(hash_of "$work/gdb")" ]; then
	echo "trace hash '$(hash_of "$work/plain")' and, walked through, '$(hash_of "$work/gdb")'"
	exit 1
fi
grep '^walked: ' "$work/gdb"
echo "trace hash $(hash_of "$work/plain") with and without"
