#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A rank opens no memory of a peer that leaves before it has acknowledged the rank's descriptions
# (core/transport/conn/connect.c). Rank 0's k-th accept fails, for each k in which ranks connect to it with
# their descriptions: it has sent its own, leaves, and frees its memory. Without the wait for the
# acknowledgement one seed in five opens memory that was freed. Arguments: build folder, source folder.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
runs=0 reached=0
for nth in 5 6; do
	echo "os.accept rank=0 nth=$nth fail" >plan
	for seed in $(seq 1 60); do
		rc=0
		NCCL_DEBUG=INFO "$doppel" run all_reduce --gpus 3 -e 8 --seed "$seed" --faults plan \
			>out 2>&1 || rc=$?
		runs=$((runs + 1))
		[ $rc = 0 ] || [ $rc = 2 ] || { echo "nth $nth, seed $seed: ended with $rc" && bad=1; }
		! grep -E 'was freed since|misuse' out || { echo "nth $nth, seed $seed" && bad=1; }
		! grep -q 'has not acknowledged: its memory stays closed' out || reached=$((reached + 1))
	done
done
[ $reached -ge 10 ] || { echo "only $reached of $runs runs wait for a rank that has left" && bad=1; }
[ $bad = 0 ] && echo "$runs runs; in $reached a rank waited for one that had left"
exit $bad
