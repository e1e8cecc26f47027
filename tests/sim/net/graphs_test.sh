#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Collectives in CUDA graphs (-G): results, the same trace for the same seed, registered buffers that a graph keeps,
# captured launches in runs whose works would go through a small FIFO, and a launch that fails.
#	graphs_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)

# graphs OPTION...: the run passes, and out has its figures
graphs() {
	timeout 200 "$doppel" run "$@" >out 2>err || fail "$*: exit code $?"
	grep -q 'Out of bounds values : 0 OK' out || fail "$*: wrong results"
	grep -qE ' graph: [1-9]' out || fail "$*: no graph"
}

for where in '--hosts 1 --gpus 4' '--hosts 2 --gpus 2'; do
	for collective in all_reduce all_gather reduce_scatter broadcast sendrecv alltoall; do
		# shellcheck disable=SC2086 # words
		graphs "$collective" $where -b 4K -e 64K -n 3 -G 3
	done
done
graphs all_reduce --hosts 2 --gpus 2 -b 4K -e 64K -n 4 -m 2 -G 2 --ranks-per-process 2
graphs all_reduce --hosts 1 --gpus 2 -b 4K -e 64K -n 3 -G 2 --engine threads
graphs alltoall --hosts 2 --gpus 2 -b 4K -e 4K -n 2 -G 2 --warp 32

# branches of a graph are streams of the seeded scheduler. In seed 5, works go through a FIFO that wraps soon
for seed in 5 6; do
	graphs all_reduce --hosts 2 --gpus 2 -b 1K -e 16K -n 3 -G 2 --streams 2 --seed $seed
	hash=$(grep 'trace hash' out)
	graphs all_reduce --hosts 2 --gpus 2 -b 1K -e 16K -n 3 -G 2 --streams 2 --seed $seed
	[ "$(grep 'trace hash' out)" = "$hash" ] || fail "seed $seed: two runs differ: $hash"
done

NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=REG NCCL_ALGO=Ring NCCL_PROTO=Simple \
	graphs all_gather --hosts 1 --gpus 2 -b 512K -e 1M -R 3 -n 30 -G 2 -N 2
cat out err >log
for words in 'a CUDA graph keeps a registered buffer open' 'no CUDA graph uses a buffer any longer'; do
	for rank in 0 1; do
		grep -q "rank $rank: .*$words" log || fail "registered buffers: rank $rank does not log '$words'"
	done
done

echo 'cuda.graph_launch nth=2 fail' >plan
timeout 200 "$doppel" run all_reduce --gpus 2 -b 4K -e 4K -G 3 --faults plan >out 2>err
[ $? = 2 ] || fail 'a launch that fails: expected exit code 2'
grep -q 'cudaGraphLaunch fails with cudaErrorMemoryAllocation by the fault plan' err || fail 'a launch that fails: no report'
exit "$bad"
