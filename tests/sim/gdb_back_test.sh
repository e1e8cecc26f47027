#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Going back to an earlier step, and traps (gdb_back.py): the same run, and the same trace hash at its
# end. And ten thousand tasks are looked at in seconds.
set -euo pipefail
doppel=$1/doppel source_dir=$2
command -v gdb >/dev/null || { echo "no gdb: skipped"; exit 77; }
gdb -q -batch -ex 'python print(1)' 2>/dev/null | grep -q 1 || { echo "gdb has no python: skipped"; exit 77; }
args=(run all_reduce --machine a100-4nic --hosts 2 --gpus 1 -b 8K -e 8K --place in --seed 3)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

hash_of() { sed -n 's/^# trace hash //p' "$1"; }
"$doppel" "${args[@]}" >"$work/plain"
rc=0
timeout 120 gdb -q -batch -iex 'set debuginfod enabled off' -x "$source_dir/sim/gdb/doppel.py" \
	-x "$source_dir/tests/sim/gdb_back.py" --args "$doppel" "${args[@]}" >"$work/gdb" 2>&1 || rc=$?
if [ $rc != 0 ] || ! grep -q '^went back: ' "$work/gdb"; then
	tail -40 "$work/gdb"
	echo "it ended with $rc"
	exit 1
fi
if [ -z "$(hash_of "$work/plain")" ] || [ "$(hash_of "$work/plain")" != "$(hash_of "$work/gdb")" ]; then
	echo "trace hash '$(hash_of "$work/plain")' and, with going back, '$(hash_of "$work/gdb")'"
	exit 1
fi
grep '^went back: ' "$work/gdb"
echo "trace hash $(hash_of "$work/plain") with and without"

# Processor time, because others may be at work here: 10,000 tasks have a budget of 10 s.
tasks=1000
cat >"$work/many.py" <<'P'
import time
import gdb
start, text = time.process_time(), gdb.execute("task apply all bt 3", to_string=True)
print("apply: %d tasks %d frames %.3f s" % (text.count("\nTask "), text.count(" bench_"),
                                            time.process_time() - start))
P
gdb -q -batch -iex 'set debuginfod enabled off' -x "$source_dir/sim/gdb/doppel.py" -ex 'break bench_here' -ex run \
	-x "$work/many.py" --args "$1/tests/gdb_tasks_bench" $tasks >"$work/many" 2>&1 || true
read -r _ seen _ shown _ seconds _ < <(grep '^apply:' "$work/many") || { tail -20 "$work/many"; exit 1; }
[ "$seen" = $((tasks + 1)) ] && [ "$shown" = $((3 * tasks + 2)) ] ||
	{ echo "$seen tasks and $shown frames of $tasks tasks"; exit 1; }
awk -v s="$seconds" -v n=$tasks 'BEGIN {exit !(s * 10000 / n < 25)}' ||
	{ echo "task apply all bt 3: $seconds s for $tasks tasks"; exit 1; }
echo "task apply all bt 3: $seconds s of processor time for $tasks tasks"
