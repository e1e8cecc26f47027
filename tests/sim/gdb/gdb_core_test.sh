#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A run that fails leaves a core file in which every task is a thread with a real backtrace, and on
# which the gdb commands work.
set -euo pipefail
doppel=$1/doppel source_dir=$2
command -v gdb >/dev/null || { echo "no gdb: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# Every packet is lost from the first all-reduce on, and the HCAs' patience is longer than ours.
echo 'fabric.packet after=20ms count=1000000 drop' >"$work/plan"
rc=0
"$doppel" run all_reduce --hosts 2 --gpus 2 -b 64K -e 64K -n 1000 --env NCCL_ALGO=Ring --env NCCL_PROTO=Simple --seed 1 --faults "$work/plan" \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --fail-dir "$work/fail" >"$work/out" 2>"$work/err" || rc=$?
[ $rc = 10 ] || { echo "the run ended with $rc, expected 10 (no progress)"; tail -5 "$work/err"; exit 1; }
tasks=$(sed -n 's/ tasks are alive at step.*//p' "$work/err")

in_gdb() { # in_gdb FILE ARGS...: output of gdb on the core
	local out=$1
	shift
	timeout 600 gdb -q -batch -iex 'set debuginfod enabled off' -iex 'set width 0' "$@" "$doppel" \
		"$work"/fail/*/tasks.core >"$work/$out" 2>&1 || { tail -20 "$work/$out"; exit 1; }
}
expect() { # expect FILE PATTERN [COUNT]: lines that match, at least COUNT
	local n
	n=$(grep -cE -- "$2" "$work/$1" || true)
	[ "$n" -ge "${3:-1}" ] || { echo "$1: $n lines match '$2', expected ${3:-1}"; bad=1; }
}

# without our commands
in_gdb threads -ex 'info threads'
expect threads ' fiber_switch ' "$tasks"
in_gdb frames -ex 'thread apply all bt'
expect frames '^#[0-9]+ .*task_entry' "$tasks"
expect frames '^#[0-9]+ .*proxy_progress_main \(arg=0x' 4
expect frames '^#[0-9]+ .*all_reduce_ring \(p=' 4
expect frames '^#0 .*sim_core_write \(path=.*tasks.core"' 1
if grep -E 'corrupt|previous frame|Backtrace stopped' "$work/frames"; then
	bad=1
fi

# with them
in_gdb commands -x "$source_dir/sim/gdb/doppel.py" -ex 'info threads' -ex 'info tasks all' -ex 'info ranks' \
	-ex 'info waits' -ex 'info qps' -ex 'sim info' -ex 'task apply all bt 2'
expect commands 'LWP.* "[0-9]+ rank[0-3] proxy progress"' 4
expect commands '^[ >] +[0-9]+ rank.* waiting +proxy_progress_wait:[0-9]+ +data from the peer'
expect commands '"ring recv: data in slot" at 0x2[0-9a-f]+: is [0-9]+, wants >= [0-9]+, from rank'
expect commands ' RTS +0x1[0-9]+ .* 7/7'
expect commands '^\[sim seed 1 step [0-9]+ vtime [0-9]+ ns, between tasks\]'
expect commands '^Task [0-9]+ ".*" \(.*\):' "$tasks"
if grep -n 'cannot be read' "$work/commands"; then
	bad=1
fi
[ $bad = 0 ] && echo "$tasks tasks, each a thread of the core with its backtrace"
exit $bad
