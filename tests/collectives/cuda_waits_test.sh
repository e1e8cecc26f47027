#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No call of the stack that may wait for kernels waits for one that needs the stack to go on: with
# DOPPEL_CUDA_WAITS=1 each such call waits in every run, and all collectives, with connections that are made
# late, still end. (tests/conformance/cuda/cuda_waits_test.c has what happens otherwise.)
# Arguments: build folder, source folder.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
collectives=$({ "$doppel" run no-such-collective 2>&1 || true; } | sed -n 's/.*there are: //p' | tr -d ,)
[ -n "$collectives" ] || { echo "doppel lists no collective" && exit 1; }
export DOPPEL_CUDA_WAITS=1
runs=0
for collective in $collectives; do
	for form in "--hosts 1 --gpus 3" "--hosts 2 --gpus 2" "--hosts 2 --gpus 2 --ranks-per-process 2"; do
		[[ $collective != hypercube || $form != *"--gpus 3"* ]] || continue # for powers of two
		runs=$((runs + 1))
		# shellcheck disable=SC2086 # words
		"$doppel" run "$collective" $form -e 64K --seed $runs >out 2>&1 && continue
		echo "doppel run $collective $form -e 64K --seed $runs:"
		tail -40 out
		exit 1
	done
done
echo "$runs runs: no call waited for a kernel that waited for it"
