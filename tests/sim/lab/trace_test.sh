#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The trace file is one that people can look at: slices of calls, kernels and collectives with named
# arguments, arrows from send to receive, a counter of throughput, few tracks, few bytes; and it changes nothing of the run.
# trace_check.py reads it by the rules of Perfetto's importer.
# Usage: trace_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
doppel=$1/doppel
# Rings in SIMPLE: their slots go from kernel to kernel, one after the other.
export NCCL_ALGO=Ring NCCL_PROTO=Simple
check="$2/tests/sim/lab/trace_check.py"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rc=0
fail() { echo "FAIL $*"; rc=1; }
run() { "$doppel" run all_reduce --hosts 2 "$@"; }
small=(--gpus 2 -b 1K -e 1M -f 8)

# looks NAME CHECKS... -- OPTIONS...: what a run with these options leaves
looks() {
	local name=$1 checks=()
	shift
	while [ "$1" != -- ]; do
		checks+=("$1")
		shift
	done
	shift
	run "$@" >"$work/out" 2>&1 || { fail "$name: the run:"; cat "$work/out"; }
	python3 "$check" "$work/trace.json" "${checks[@]}" || fail "$name"
}

# the default run: 18 sizes, out of place and in place
run >"$work/plain"
run --trace "$work/trace.json" >"$work/traced"
cmp "$work/plain" "$work/traced" || fail "--trace changes what a run prints"
python3 "$check" "$work/trace.json" ranks=16 calls=36 kernels=36 tracks=8 bytes=10500000 messages ||
	fail "the default run"

looks "a group, streams" messages tracks=12 -- "${small[@]}" --group 3 --streams 2 --trace "$work/trace.json"
looks "communicators" messages -- "${small[@]}" --comms 2 --trace "$work/trace.json"
looks "real time" ranks=4 calls=8 kernels=8 messages tracks=8 real -- \
	"${small[@]}" --engine threads --trace "$work/trace.json"
printf 'fabric.packet after=1ms count=3 drop\n' >"$work/plan"
looks "packets that are sent again" messages -- "${small[@]}" --faults "$work/plan" --trace "$work/trace.json"
grep -q '"ph":"i".*"name":"fault injected"' "$work/trace.json" || fail "no fault in the trace"

# every record and every warp: the same run
run "${small[@]}" >"$work/plain"
looks "detail" ranks=4 calls=8 kernels=8 messages -- "${small[@]}" --trace-detail "$work/trace.json"
cmp "$work/plain" "$work/out" || fail "--trace-detail changes what a run prints"
grep -q '"name":"ring recv: data in slot"' "$work/trace.json" || fail "no warp waits in a detailed trace"

# what the checker is for: it refuses each of these
run "${small[@]}" --trace "$work/good.json" >/dev/null
refuses() { # refuses WHAT PYTHON: a change of `events`
	python3 -c 'import json, sys
events = json.load(open(sys.argv[1]))
exec(sys.argv[3])
json.dump(events, open(sys.argv[2], "w"))' "$work/good.json" "$work/bad.json" "$2"
	if python3 "$check" "$work/bad.json" ranks=4 calls=8 kernels=8 tracks=8 messages >"$work/why"; then
		fail "trace_check.py accepts $1"
	fi
}
named() { echo "[e for e in events if e['name'] == '$1']"; }
refuses "a track without a name" "events = [e for e in events if e['name'] != 'thread_name']"
refuses "a slice that overlaps another" "kernel = $(named dev_collective_simple)[0]
events.append(dict(kernel, ph='X', name='copy', ts=kernel['ts'] - 0.1, dur=0.2))"
refuses "a kernel that does not end" "events.remove(next(e for e in events if e['ph'] == 'E' and e['name'] == 'dev_collective_simple'))"
refuses "a call too few" "pid = $(named ncclAllReduce)[0]['pid']
events = [e for e in events if e['name'] != 'ncclAllReduce' or e['pid'] != pid]"
refuses "a message that is not received" "events.remove($(named received)[0])"
refuses "a message that no HCA sends" "events.remove(next(e for e in $(named write) if 'bind_id' in e))"
refuses "a message received before it is sent" "$(named received)[-1]['ts'] = 0"
refuses "a flow to another rank" "$(named received)[0]['args']['from'] = 77"
refuses "a slot that no rank fills" "events.remove($(named "first slot filled")[0])"
refuses "a kernel without its throughput" "events.remove(next(e for e in events if e['ph'] == 'C' and e['args']['GB/s']))"
refuses "a throughput that does not end" "events.remove(next(e for e in events if e['ph'] == 'C' and not e['args']['GB/s']))"
refuses "arguments without names" "events.append(dict(events[-1], args={'a': 1}))"
exit $rc
