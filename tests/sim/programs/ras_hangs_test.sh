#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Hangs whose cause DUMP of RAS names first: guest/trial_absent.c. A row is one hang, in a world of both
# engines (doppel exec --ras-dump) and in real processes (doppel exec --procs, doppel ras --dump).
# Arguments: build folder, source folder.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
need_plain "$build_dir"
test_begin "$build_dir"
fail_shows=(out causes)
cc -g -Wall -Wextra -Werror -o absent "$source_dir/tests/sim/guest/trial_absent.c" -I"$source_dir/core/include" \
	-I"$source_dir/backends/fakecuda/include" -L"$build_dir" -lnccl -lcudart -pthread
place="--hosts 2"
group="--processes-per-host 2"
job=

end_job() {
	[ -z "$job" ] || { kill $job && wait $job; } 2>/dev/null || true
	job=
}
trap 'end_job; rm -rf "$work"' EXIT

# The lines between the title of the causes and the status, from a file
causes() { sed -n '/^Causes$/,/^NCCL version/p' "$1" | grep -vE '^(Causes|=*|NCCL version.*)$' >causes || true; }
answered_or_gone() { grep -qs '^NCCL version' out || ! kill -0 $job 2>/dev/null; }

# in_world ENGINE KIND PATTERN: engine threads has real time, so a slow machine gets more of it
in_world() {
	local seconds
	for seconds in 2 20; do
		rm -f out
		# shellcheck disable=SC2086 # words
		"$doppel" exec --engine "$1" --ras-dump $seconds $place $group ./absent "$2" >out 2>&1 &
		job=$!
		until_true 120 answered_or_gone
		end_job
		causes out
		grep -qE -- "$3" causes && return
		[ "$1" = threads ] || break
	done
	fail "$2, engine $1: no cause '$3'"
}

# asked PATTERN: doppel ras gives an answer with it
asked() {
	timeout 60 "$doppel" ras "127.0.0.1:$port" --dump >dump 2>&1 || return 1
	causes dump
	grep -qE -- "$1" causes
}

# begin_procs KIND HANGING: starts real processes, and waits until that many of them hang
begin_procs() {
	port_take
	rm -f out
	# shellcheck disable=SC2086 # words
	"$doppel" exec --procs 4 $place --env NCCL_RAS_ENABLE=1 --env NCCL_RAS_ADDR="127.0.0.1:$port" \
		--env DOPPEL_TIMEOUT_MS=0 ./absent "$1" >out 2>&1 &
	job=$!
	until_true 120 test_hangs "$2"
}
test_hangs() { [ "$(grep -cs ' hangs$' out)" -ge "$1" ]; } 2>/dev/null

in_procs() {
	begin_procs "$1" "${3:-4}"
	until_true 60 asked "$2" || fail "$1 in real processes: no cause '$2'"
	end_job
}

# hang KIND PATTERN [HANGING]
hang() {
	in_world sim "$1" "$2"
	in_world threads "$1" "$2"
	in_procs "$1" "$2" "${3:-4}"
}

sum='ncclAllReduce of 100000 float sum'
hang collective "^#0-0 .*: rank 3 has not called $sum \(call 1\); ranks 0-2 wait\$"
hang all_to_all ': rank 3 has not called ncclAlltoAll; ranks 0-2 wait$'
hang send_first ': rank 3 has not called ncclRecv from rank 0 \(message 0\); rank 0 waits in ncclSend of 100000 float to rank 3$'
hang send_more ': rank 3 has not called ncclRecv from rank 0 \(message 1\); rank 0 waits in ncclSend to rank 3$'
hang receive ': rank 0 has not called ncclSend to rank 3 \(message 0\); rank 3 waits in ncclRecv of 100000 float from rank 0$'
hang split ': rank 3 has not called ncclCommSplit; ranks 0-2 wait$'
hang shrink ': rank 0 has not called ncclCommShrink; rank 1 waits$'
hang suspend ': rank 3 has not called ncclCommSuspend; rank 2 waits$'
hang init ': rank 3 has not called ncclCommInitRank of 4 ranks; ranks 0-2 wait$'
hang init_root ': rank 0 has not called ncclCommInitRank of 4 ranks: no process listens at NCCL_COMM_ID; rank [1-3] waits$'
hang leaves ": rank 3 gives no answer: process [0-9]+ on node [0-9.]+ has ended; ranks 0-2 wait in $sum \(call 1\)\$" 3

# a world refuses other orders of communicators when they are launched, so only real processes hang
in_procs order "^ranks launch calls of two communicators in different orders: rank 0 $sum \(call 1\) of #0-[01] \([0-9a-f]+\) before $sum \(call 0\) of #0-[01] \([0-9a-f]+\); rank 3 in the other order\$"

# a process that is stopped: the one of the client port, and another one
begin_procs runs 4
pid_of() { sed -n "s/^# process $1: pid //p" out; }
owner() { # prints the process that listens at the port
	local inode pid
	inode=$(awk -v port="$(printf %04X "$port")" '$4 == "0A" && $2 ~ ":" port "$" { print $10 }' /proc/net/tcp)
	for pid in $(pid_of 0) $(pid_of 1) $(pid_of 2) $(pid_of 3); do
		! find "/proc/$pid/fd" -lname "socket:\[$inode\]" 2>/dev/null | grep -q . || echo "$pid"
	done
}
until_true 60 asked 'rank'
owns=$(owner)
for rank in 3 2; do [ "$(pid_of $rank)" = "$owns" ] || break; done
kill -STOP "$(pid_of $rank)"
until_true 60 asked ": rank $rank gives no answer: process $(pid_of $rank) on node [0-9.]+ is stopped, or cannot be reached; ranks .* wait in $sum \(call [0-9]+\)\$" ||
	fail "a stopped process: no cause"
kill -CONT "$(pid_of $rank)"
kill -STOP "$owns"
timeout 60 "$doppel" ras "127.0.0.1:$port" --dump >dump 2>&1 && fail "a stopped process answers"
grep -q 'no answer: the process that listens there is stopped' dump || fail "$(cat dump)"
kill -CONT "$owns"
end_job
exit "$bad"
