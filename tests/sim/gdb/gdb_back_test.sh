#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Going back to an earlier step, and traps (gdb_back.py): the same run, and the same trace hash at its
# end. And ten thousand tasks are looked at in seconds.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_back.py 'went back' \
	run all_reduce --machine a100-4nic --hosts 2 --gpus 1 -b 8K -e 8K --place in --seed 3

# Processor time, because others may be at work here. 10,000 tasks take 10 s or less; what looks at
# each task by way of all others takes hundreds.
tasks=1000
cat >"$work/many.py" <<'P'
import time
import gdb
start, text = time.process_time(), gdb.execute("task apply all bt 3", to_string=True)
print("apply: %d tasks %d frames %.3f s" % (text.count("\nTask "), text.count(" bench_"),
                                            time.process_time() - start))
P
doppel_gdb -ex 'break bench_here' -ex run -x "$work/many.py" --args "$1/tests/gdb_tasks_bench" $tasks >"$work/many" 2>&1 || true
read -r _ seen _ shown _ seconds _ < <(grep '^apply:' "$work/many") || { tail -20 "$work/many"; exit 1; }
[ "$seen" = $((tasks + 1)) ] && [ "$shown" = $((3 * tasks + 2)) ] ||
	{ echo "$seen tasks and $shown frames of $tasks tasks"; exit 1; }
awk -v s="$seconds" -v n=$tasks 'BEGIN {exit !(s * 10000 / n < 100)}' ||
	{ echo "task apply all bt 3: $seconds s for $tasks tasks"; exit 1; }
echo "task apply all bt 3: $seconds s of processor time for $tasks tasks"
