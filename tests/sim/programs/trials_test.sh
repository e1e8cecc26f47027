#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that use the library as programs of others do, on the doubles: guest/trial_*.c, each of which has
# several kinds. One row below is one kind: how it ends, in both engines, on one host and on two.
# Arguments: build folder, source folder.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
need_plain "$build_dir"
test_begin "$build_dir"
for source in "$source_dir"/tests/sim/guest/trial_*.c; do
	cc -g -Wall -Wextra -Werror -o "$work/$(basename "$source" .c)" "$source" -I"$source_dir/core/include" \
		-I"$source_dir/backends/fakecuda/include" -L"$build_dir" -lnccl -lcudart -pthread
done
both="sim threads"
NO_PROGRESS=10 LEAK=13

# trial CODE "ENGINES" "OPTIONS" "PROGRAM KIND..." PATTERN...: `doppel exec` ends with CODE, and prints each
# pattern (grep -E); one that begins with ! must not be there. A program that does not end fails the row.
checks=0
trial() {
	local code=$1 engines=$2 options=$3 program=$4 engine pattern rc
	shift 4
	for engine in $engines; do
		rc=0
		# shellcheck disable=SC2086 # words
		{ timeout 120 "$doppel" exec --engine "$engine" $options "$work"/$program >"$work/out" 2>&1 || rc=$?; } 2>/dev/null
		checks=$((checks + 1))
		[ $rc = "$code" ] || row_failed "ended with $rc, expected $code"
		for pattern in "$@"; do
			case $pattern in
			!*) ! grep -qE -- "${pattern#!}" "$work/out" || row_failed "expected no '${pattern#!}'" ;;
			*) grep -qE -- "$pattern" "$work/out" || row_failed "expected '$pattern'" ;;
			esac
		done
	done
}
row_failed() {
	echo "$program, engine $engine${options:+, $options}: $1 in"
	sed 's/^/    /' "$work/out"
	bad=1
}

# ---- loops of queries
trial 0 "$both" "" "trial_waits health" healthy
trial 0 threads "" "trial_waits cost" cheap
trial 0 "$both" "" "trial_waits several" 'all ready'
trial 0 "$both" "" "trial_waits limit_count" 'gave up'
trial 0 "$both" "" "trial_waits limit_clock" 'gave up'
trial 0 "$both" "" "trial_waits limit_sleep" 'gave up'
trial 0 "$both" "" "trial_waits clocks" 'slept [2-9]'
trial 0 sim "" "trial_waits clocks" 'slept 2\.25[0-9] s'
trial 0 sim "--hosts 2" "trial_waits clocks" 'slept 2\.25[0-9] s'
trial 0 "$both" "--hosts 2" "trial_waits absent" 'gave up'
trial $NO_PROGRESS sim "" "trial_waits for_ever" 'polls in a row found nothing' 'polls "ncclCommGetAsyncError"'
trial 0 threads "" "trial_waits aborted" aborted
trial 1 sim "" "trial_waits aborted" 'a thread that the program started .* expected engine threads' '!deadlock'
trial $NO_PROGRESS sim "" "trial_waits blocked" 'deadlock: .* nothing is left'

# ---- deadlines
two="--processes-per-host 2"
for where in "$two" "--hosts 2" "--hosts 2 $two"; do
	limit="--env DOPPEL_TIMEOUT_MS=2000 $where"
	trial 0 "$both" "$limit" "trial_hangs absent" 'rank 0: the GPU waited for another rank longer' \
		'rank 1: the GPU waited for another rank longer' \
		'rank [0-9] has not called it \(its last call is 0, ncclAllReduce of 1000 float sum\)'
	for kind in slow idle; do trial 0 "$both" "$limit" "trial_hangs $kind" 'rank 0: no error' 'rank 1: no error'; done
	trial 0 "$both" "$limit" "trial_hangs init" 'rank [0-9] has not called ncclCommInitRank 2.000 s after the first rank'
done

# ---- groups and messages, in one process, two of a host, and of two hosts and three
for where in "" "$two" "--hosts 2"; do
	for kind in streams_after streams_before streams_messages; do
		for seed in 1 2; do trial 0 "$both" "--seed $seed $where" "trial_groups $kind" right '!wrong'; done
	done
	for kind in empty all_to_all_in_place two_comms; do trial 0 "$both" "$where" "trial_groups $kind" right; done
done
for where in "$two" "--hosts 2" "--hosts 3"; do trial 0 "$both" "$where" "trial_groups split" right; done
trial 0 "$both" "" "trial_groups to_oneself" right
for where in "$two" "--hosts 2"; do
	trial $NO_PROGRESS sim "$where" "trial_groups all_send" 'rank 0 and rank 1 both send; neither has called ncclRecv'
	trial 9 "$both" "$where" "trial_groups crossed" 'ranks disagree on the order of communicators'
done

# ---- how communicators begin and end
for where in "$two" "--hosts 2" "--hosts 2 $two"; do
	trial 0 "$both" "$where" "trial_life destroy_order" ended
	trial 0 "$both" "$where" "trial_life destroy_before_use" ended
done
trial 0 "$both" "--hosts 2" "trial_life destroy_finalized" ended
trial 0 sim "$two" "trial_life destroy_finalized" ended
for where in "" "--hosts 2"; do
	for kind in group_destroy group_finalize group_destroy_nonblocking group_finalize_nonblocking; do
		trial 0 "$both" "$where" "trial_life $kind" ended
	done
	for kind in config_2_14 config_2_18 capped; do trial 0 "$both" "$where" "trial_life $kind" 'no error' '!WARN'; done
done
trial 0 threads "" "trial_life aborted" ended
trial 0 "$both" "--env NCCL_MIN_NCHANNELS=32" "trial_life few_channels" 'no error'
for where in "$two" "--hosts 2"; do
	trial 0 "$both" "$where" "trial_life refused_config" 'rank 0: another rank failed.*NoSuchNet' 'rank 1: invalid argument'
	trial 0 "$both" "$where" "trial_life refused_environment" "rank 0: another rank failed.*NCCL_ALGO=bogus" 'rank 1: invalid usage'
done
trial 0 "$both" "--hosts 2" "trial_life late_root" 'rank 0: ended' 'rank 1: ended'

# ---- communicators that are made from others
for where in "--hosts 4" "--hosts 2 $two"; do
	for kind in halves revoked; do trial 0 "$both" "$where" "trial_children $kind" 'rank 0: [24] of 4' 'rank 3: [24] of 4'; done
	trial 0 "$both" "$where" "trial_children survivors" 'rank 0: 3 of 4' 'rank 2: 3 of 4' 'rank 3: 3 of 4'
done
trial 0 sim "--hosts 4" "trial_children survivors_of_a_hang" 'rank 0: 3 of 4' 'rank 2: 3 of 4' 'rank 3: 3 of 4'

# ---- configs, environment, limits
for kind in later_config all_block operations; do trial 0 "$both" "" "trial_configs $kind" 'no error'; done
for kind in environment all_block; do
	trial 0 "$both" "--env NCCL_COMM_BLOCKING=0" "trial_configs $kind" 'no error'
done

# ---- buffers
for where in "" "$two" "--hosts 2"; do
	for kind in pinned of_nccl of_no_size odd; do trial 0 "$both" "$where" "trial_buffers $kind" right; done
done
trial 0 "$both" "" "trial_buffers alone" right

# ---- ends without what should come before them
left='things left at the exit: [0-9]+ \(no failure'
trial 0 "$both" "" "trial_ends forgets" 'leak: memory .*communicator' "$left"
trial 0 "$both" "" "trial_ends forgets_memory" 'leak: device allocations 1 ' "$left"
trial $LEAK "$both" "--leaks error" "trial_ends forgets" 'FAIL leak'
trial $LEAK "$both" "--leaks error --hosts 2" "trial_ends forgets" 'FAIL leak'
trial 0 "$both" "--hosts 2" "trial_ends forgets" 'leak: queue pair' "$left"
trial 0 "$both" "" "trial_ends running" left '!FAIL'
trial 0 "$both" "" "trial_ends unused_id" '!FAIL'
trial 0 sim "--leaks error" "trial_ends unused_id" '!leak:'
gone='process host1/p0 exited with 0 without ncclCommDestroy'
trial 0 "$both" "--hosts 2" "trial_ends leaves" "$gone" 'rank 0: another rank failed'
trial $NO_PROGRESS sim "--hosts 2" "trial_ends leaves_waiters" "^$gone\$" 'FAIL deadlock'
trial 0 "$both" "" "trial_ends nothing" 'the program made no CUDA or NCCL call'
trial 0 "$both" "--hosts 2" "trial_ends nothing" 'the programs made no CUDA or NCCL call'
trial 8 "$both" "--env NCCL_DEBUG=INFO" "trial_ends no_such_kind"
trial 0 "$both" "--env NCCL_DEBUG=VERSION" "trial_ends forgets" 'NCCL version'
trial 0 "$both" "" "trial_ends forgets" '!NCCL version'

# ---- a CUDA runtime of its own: what the toolkit's static one contains
echo 'const char *names[] = {"libcuda.so.1", "cuGetProcAddress"}; int main(void) { return !names[0]; }' >"$work/own.c"
cc -o "$work/own_runtime" "$work/own.c"
trial 1 "$both" "" own_runtime 'own_runtime is linked with a CUDA runtime of its own'
trial 1 "$both" "--hosts 2" own_runtime 'own_runtime is linked with a CUDA runtime of its own'
[ $bad = 0 ] && echo "$checks runs as expected"
exit $bad
