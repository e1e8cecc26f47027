#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel run --procs and doppel exec --procs: ranks of one world of doubles in real processes. GPU memory by
# IPC, segments without files, HCAs of one fabric. Deaths at chosen moments, and what is refused.
# Arguments: build folder, source folder.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
test_begin "$build_dir"
fail_shows=("$work/out" "$work/err")
shm=$(shm_list)

# run_is CODE ARGUMENTS...: doppel run --procs ends with that code
run_is() {
	local code=$1 rc=0
	shift
	timeout 240 "$doppel" run "$@" >"$work/out" 2>"$work/err" || rc=$?
	[ $rc = "$code" ] || fail "doppel run $*: ended with $rc, expected $code"
}
# has PATTERN FILE, has_not PATTERN FILE
has() { grep -qE -- "$1" "$work/$2" || fail "expected '$1' in $2"; }
has_not() { ! grep -qE -- "$1" "$work/$2" || fail "unexpected '$1' in $2"; }

# ---- results, and the transports that carry them
log=(--env NCCL_DEBUG=INFO --env "NCCL_DEBUG_SUBSYS=INIT,SHM,NET,GRAPH" --env "NCCL_DEBUG_FILE=$work/log.%p")
for shape in "--gpus 4" "--hosts 2 --gpus 2" "--hosts 2 --gpus 2 --ranks-per-process 2" "--hosts 3 -t 2"; do
	for collective in all_reduce all_to_all; do
		rm -f "$work"/log.*
		# shellcheck disable=SC2086 # the shape is words
		run_is 0 $collective --procs $shape -b 8 -e 256K -f 32 "${log[@]}"
		has '^# Out of bounds values : 0 OK$' out
		[ "$(grep -c '^# process ' "$work/out")" -ge 3 ] || [ "$shape" = "--hosts 2 --gpus 2 --ranks-per-process 2" ] ||
			fail "$shape: too few processes"
	done
done
# each case: a variable that selects a transport, and its name in the log
while read -r variable shape name; do
	rm -f "$work"/log.*
	# shellcheck disable=SC2086
	run_is 0 all_reduce --procs ${shape//,/ } -b 64K -e 64K --env "$variable" "${log[@]}"
	has '0 OK$' out
	grep -qh "via $name" "$work"/log.* || fail "$variable, $shape: not via $name"
done <<-'CASES'
	NCCL_CUMEM_ENABLE=1 --gpus,2 P2P/CUMEM
	NCCL_CUMEM_ENABLE=0 --gpus,2 P2P/IPC
	NCCL_P2P_DISABLE=1 --gpus,2 SHM/direct/direct
	NCCL_P2P_DISABLE=0 --hosts,2,--gpus,1 NET/IB
	NCCL_NET=Socket --hosts,2,--gpus,1 NET/Socket
CASES
run_is 0 all_reduce --procs --machine a100-4nic --hosts 2 --gpus 2 -b 8 -e 256K -f 32 -d all -o all
has '0 OK$' out

# ---- deaths: the survivors end with an error, and the launcher like the killed process
killed=$((128 + $(kill -l KILL)))
process() { sed -n "s/^# process $1: pid \([0-9]*\).*/\1/p" "$work/out"; }
# starts ARGUMENTS...: a job that does not end by itself
starts() {
	rm -f "$work/out" "$work/err"
	DOPPEL_TIMEOUT_MS=3000 timeout 120 "$doppel" run all_reduce --procs "$@" -b 64K -e 64K -f 2 -n 10000000 \
		>"$work/out" 2>"$work/err" &
	launcher=$!
	until_true 60 grep -qs '^# process 1: pid' "$work/out" || fail "no process 1"
}
# ends CODE: the job ends so
ends() {
	local rc=0
	wait $launcher || rc=$?
	[ $rc = "$1" ] || fail "the launcher ended with $rc, expected $1"
}
starts --hosts 2 --gpus 1
until_true 60 grep -qs 'size     count' "$work/out" || true
pass_ms 300
kill -9 "$(process 1)"
ends $killed
has 'process 1 \(rank 1, pid [0-9]*\) was ended by signal 9' err
has 'process 0 \(rank 0, pid [0-9]*\) ended with 2' err
has '^doppel: rank 0: nccl' err
has_not 'it is killed' err
# a process that never starts: only the deadline ends the others
starts --gpus 3
kill -9 "$(process 0)"
ends $killed
has 'process 2 \(rank 2, pid [0-9]*\) ended with 2' err
# the launcher: its processes end with it
starts --hosts 2 --gpus 2
pids=$(sed -n 's/^# process [0-9]*: pid \([0-9]*\).*/\1/p' "$work/out")
# timeout(1) is the job of this shell, the launcher its child
kill -9 "$(pgrep -P $launcher)"
wait $launcher || true
for pid in $pids; do
	until_true 20 gone "$pid" || fail "process $pid outlives its launcher"
done

# ---- doppel exec
flags=(-Wall -Wextra -Werror -I"$source_dir/core/include" -I"$source_dir/backends/fakecuda/include")
if ! grep -q fsanitize "$build_dir/compile_commands.json"; then
	cc "${flags[@]}" -o "$work/hosts" "$source_dir/examples/hosts.c" -L"$build_dir" -lnccl -lcudart
	exec_is() {
		local code=$1 rc=0
		shift
		timeout 120 "$doppel" exec "$@" >"$work/out" 2>"$work/err" || rc=$?
		[ $rc = "$code" ] || fail "doppel exec $*: ended with $rc, expected $code"
	}
	exec_is 0 --procs 4 --hosts 2 "$work/hosts" 100000 2
	[ "$(grep -c '^process [0-3] of 4: 2 GPUs, 25000 floats each, 0 wrong$' "$work/out")" = 4 ] || fail "exec: no sums"
	has_not 'leak:' err
	exec_is 3 --procs 2 sh -c 'exit 3'
	has 'process 1 \(pid [0-9]*\) ended with 3' err
	exec_is 127 --procs 2 "$work/none"
	# shellcheck disable=SC2016 # the child's variables
	exec_is $killed --procs 3 --hosts 3 sh -c '[ $RANK = 1 ] && kill -9 $$; exec "$0" 1000 1' "$work/hosts"
	has 'process 1 \(pid [0-9]*\) was ended by signal 9' err
	has_not 'it is killed' err
fi

# ---- refusals
while IFS='|' read -r arguments text; do
	# shellcheck disable=SC2086
	run_is 1 all_reduce $arguments
	has "$text" err
done <<-'CASES'
	--procs --gpus 4 --ranks-per-process 3|4 ranks per host in processes of 3: expected a divisor
	--procs --processes 2|--procs excludes --processes
	--procs --engine sim|--procs excludes --engine sim
	--procs --trace trace.json|--procs excludes --trace
	--procs --hosts 64 --gpus 8|512 processes, expected at most 256
	--procs --hosts 2 --job-place 0/1/1/odd|1 processes on 2 hosts: expected a multiple
CASES
[ -z "$(shm_left "$shm")" ] || fail "left in /dev/shm: $(shm_left "$shm")"
exit $bad
