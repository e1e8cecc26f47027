#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs on windows: they are chosen for calls on windows and for no others, and their results are
# right back to back, in CUDA graphs, on several streams, in groups, with late ranks, for several
# ranks of a process, and where flags wrap.
set -euo pipefail
doppel=$1/doppel
here=$(cd "$(dirname "$0")" && pwd)
bad=0

# run ARGS...: its exit code; what it prints is in $said
run() {
	local rc=0
	said=$("$doppel" run "$@" 2>&1) || rc=$?
	return $rc
}

# passes ARGS...
passes() {
	run "$@" || { echo "$*: exit code $?: $(tail -5 <<<"$said")"; bad=1; }
}

# names TEXT ARGS...: the log names the kernel
names() {
	local text=$1
	shift
	NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL passes "$@"
	grep -q "Algo SYMMETRIC.*Symmetric $text" <<<"$said" || { echo "$*: no kernel $text"; bad=1; }
}

names AllReduce_AGxLL_R all_reduce --gpus 2 -R 2 -b 8 -e 8
names AllReduce_RSxLD_AGxST all_reduce --gpus 2 -R 2 -b 4M -e 4M -n 1
names AllGather_LL all_gather --gpus 2 -R 2 -b 1K -e 1K
names ReduceScatter_LL reduce_scatter --gpus 2 -R 2 -b 1K -e 1K
names AllGather_ST all_gather --gpus 3 -R 2 -b 1K -e 1K --env NCCL_PROTO=Simple
names AlltoAll_LL all_to_all --gpus 2 -R 2 -b 1K -e 1K
names AlltoAll_ST all_to_all --gpus 3 -R 2 -b 3K -e 3K --env NCCL_PROTO=Simple
names AlltoAll_ST all_to_all --gpus 2 -R 2 -b 4M -e 4M -n 1 --place out
names ReduceScatter_LD reduce_scatter --gpus 3 -R 2 -b 1K -e 1K --env NCCL_PROTO=Simple

# without windows, and over several hosts
for args in '--gpus 2' '--gpus 2 -R 1' '--hosts 2 --gpus 2 -R 2'; do
	# shellcheck disable=SC2086
	NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL passes all_reduce $args -b 8 -e 8
	! grep -q SYMMETRIC <<<"$said" || { echo "$args: a program on windows"; bad=1; }
done
# an all-to-all consists of messages if no program on windows can run it
for args in '--gpus 2' '--gpus 2 -R 1' '--hosts 2 --gpus 2 -R 2' '--gpus 2 -R 2 --place in --env NCCL_PROTO=Simple' \
	'--gpus 2 -R 2 --env NCCL_ALGO=^Symmetric' '--gpus 2 -R 2 --env NCCL_ALGO=Ring;alltoall:^Symmetric' '--gpus 1 -R 2'; do
	# shellcheck disable=SC2086
	NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL passes all_to_all $args -b 1K -e 1K
	! grep -q SYMMETRIC <<<"$said" || { echo "all_to_all $args: a program on windows"; bad=1; }
done
rc=0
run all_reduce --gpus 2 -b 8 -e 8 --env NCCL_ALGO=Symmetric || rc=$?
[ $rc = 2 ] && grep -q 'expected both buffers in windows with NCCL_WIN_COLL_SYMMETRIC' <<<"$said" ||
	{ echo "NCCL_ALGO=Symmetric without windows: exit code $rc: $said"; bad=1; }

for proto in LL Simple; do
	for collective in all_reduce all_gather reduce_scatter all_to_all; do
		on=("$collective" -R 2 --env NCCL_ALGO=Symmetric --env "NCCL_PROTO=$proto")
		passes "${on[@]}" --gpus 8 -b 8 -e 512 -f 8 -n 2
		passes "${on[@]}" --gpus 3 -b 4000 -e 70000 -f 4 -n 4 --memory-order on --seed 3
		passes "${on[@]}" --gpus 2 -b 1K -e 1K -G 2 -n 3
		passes "${on[@]}" --gpus 3 -b 1K -e 1K --streams 3 --group 2 -n 3
		passes "${on[@]}" --gpus 2 -b 1K -e 1K --ranks-per-process 2 --late 1
		passes "${on[@]}" --gpus 2 -b 64 -e 4K -f 8 --warp 32 --races
		# a rank whose stream, kernel or warps are late, and ranks that overtake it
		for plan in stream_late warps_late; do
			passes "${on[@]}" --gpus 3 -b 24 -e 12K -f 512 -n 3 \
				--faults "$here/$plan.plan" --faults-must-fire
		done
	done
done
passes all_gather --gpus 3 -R 2 --env NCCL_ALGO=Symmetric --env NCCL_PROTO=LL \
	--env DOPPEL_FIRST_STEP=2147483632 -n 8 -b 8 -e 4096
# lines of 2^32 steps ago, which have the flags of the last eight sizes
passes all_gather --gpus 3 -R 2 --env NCCL_ALGO=Symmetric --env NCCL_PROTO=LL \
	--env NCCL_MAX_CTAS=1 --env DOPPEL_FIRST_STEP=2147483640 --warp 32 --place out \
	-b 24 -e 2904 -i 192
passes all_reduce --gpus 2 -R 2 --env NCCL_ALGO=Symmetric --env NCCL_PROTO=LL \
	--env DOPPEL_FIRST_STEP=4294967280 -n 8 -b 8 -e 4096
# pthreads and real time
for proto in LL Simple; do
	for collective in all_reduce all_gather reduce_scatter all_to_all; do
		passes "$collective" --engine threads --gpus 3 -R 2 --env NCCL_ALGO=Symmetric \
			--env "NCCL_PROTO=$proto" -b 24 -e 12K -f 512 -n 2
	done
done
passes all_to_all --gpus 3 -R 2 --env NCCL_PROTO=LL -d all -b 384 -e 384
passes all_to_all --gpus 3 -R 2 --env NCCL_PROTO=Simple -d all -b 384 -e 384 --place out
passes all_reduce --gpus 3 -R 2 --env NCCL_ALGO=Symmetric -o avg -d all -b 256 -e 256
exit $bad
