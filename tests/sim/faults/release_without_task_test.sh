#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A rank cannot start the task that releases a communicator, and another rank of the host comes late
# to its own end. The stack then keeps the communicator with its memory, its tasks and its plugins
# (core/comm/close.c). That is no failure of the run: the tasks end with their process. Arguments:
# build folder, source folder.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
fail_shows=(out)

# kept WHAT NTHS SEEDS ARGS...: all of these runs pass, and a communicator is kept in some
kept() {
	local what=$1 nth seed rc reached=0
	for nth in $2; do
		echo "os.thread rank=0 nth=$nth fail" >plan
		for seed in $3; do
			rc=0
			NCCL_DEBUG=WARN timeout 100 "$doppel" run all_reduce -b 4096 -e 4096 --comms 2 --hasty \
				--ends each --pauses 16 --env NCCL_P2P_DISABLE=1 --faults plan --seed "$seed" \
				"${@:4}" >out 2>&1 || rc=$?
			[ $rc = 0 ] || [ $rc = 2 ] || # 2: a call has returned the error
				fail "$what, nth $nth, seed $seed: exit code $rc, expected 0 or 2"
			! grep -qE 'not finalized|crash' out || fail "$what, nth $nth, seed $seed"
			! grep -q "the communicator's memory is kept" out || reached=$((reached + 1))
		done
	done
	[ $reached -gt 0 ] || fail "$what: no run keeps a communicator"
	echo "$what: $reached runs keep a communicator"
}

kept "plugins" "4 6" "1 2 6 8" --hosts 1 --gpus 3 --plugins tuner,profiler
kept "tasks of the proxy" "8" "5 6 7 8" --hosts 2 --gpus 2
[ $bad = 0 ]
