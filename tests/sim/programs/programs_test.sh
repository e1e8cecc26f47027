#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What programs do beside one series: groups of different calls, any floats, other tasks, other configs and
# environments, and a fabric in which packets overtake each other. Each runs, twice with the same hash; what is wrong
# is found.
# Usage: programs_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build_dir=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

run() { # ARGUMENT...
	"$build_dir/doppel" run "$@" >"$scratch/out" 2>&1 || {
		echo "doppel run $*: exit code $?" >&2
		tail -20 "$scratch/out" >&2
		exit 1
	}
	sed -n 's/^# trace hash //p' "$scratch/out"
}

again() { # ARGUMENT...: twice, the same hash
	local first second
	first=$(run "$@") second=$(run "$@")
	[ -n "$first" ] && [ "$first" = "$second" ] ||
		{ echo "doppel run $*: hashes '$first' and '$second'"; exit 1; }
}

# groups of different calls, on one host and two, in one task for all ranks of a process, in several communicators
for seed in 1 2 3; do
	again all_reduce --gpus 3 -b 1K -e 1K --mixed 4 --seed "$seed"
	run all_gather --hosts 2 --gpus 2 -b 1K -e 1K --mixed 4 --comms 2 --ends reversed --seed "$seed" >/dev/null
	run all_reduce --hosts 2 --gpus 2 -b 1K -e 1K --mixed 4 --ranks-per-process 2 --drive process \
		--any-numbers --seed "$seed" >/dev/null
done
# ranks of a host that destroy two communicators in different orders
for seed in 1 2 3 4 5 6; do
	run all_reduce --gpus 4 -b 1K -e 1K --comms 2 --ends each --seed "$seed" >/dev/null
done
# any floats, of each type and operation
again all_reduce --hosts 2 --gpus 2 -b 4K -e 4K -d all -o all --any-numbers
run reduce_scatter --gpus 3 -b 4K -e 4K -d all -o all --any-numbers >/dev/null
# other tasks of the program, an older config, communicators of one address
again all_reduce --hosts 2 --gpus 2 -b 1K -e 1K --polls --idle 3 --config-version 21800
run all_reduce --hosts 2 --gpus 1 -b 1K -e 1K --comms 3 --ends seed --env NCCL_COMM_ID=10.0.0.1:5555 >/dev/null
run all_to_all --gpus 2 -b 64K -e 64K -R 4 -n 3 >/dev/null
again all_to_all --hosts 2 --gpus 2 -b 4K -e 4K --env-odd NCCL_P2P_PXN_LEVEL=0
# packets that overtake, between ends that know of it and that do not
for routing in 0 1; do
	again all_reduce --hosts 2 --gpus 2 -b 64K -e 256K --env DOPPEL_HCA_ROUTING=adaptive \
		--env NCCL_IB_ADAPTIVE_ROUTING=$routing
done
"$build_dir/doppel" run all_to_all --hosts 2 --gpus 2 -b 256K -e 256K --env DOPPEL_HCA_ROUTING=adaptive \
	--trace-detail "$scratch/trace.json" >/dev/null
grep -q hca.overtakes "$scratch/trace.json" || { echo "no packet has overtaken another"; exit 1; }
# a bridge's address is the same on every host, a link that is down carries nothing, and all other interfaces serve
again all_reduce --hosts 2 --gpus 2 -b 64K -e 64K --env DOPPEL_INTERFACES=docker0,eth0,eth1 --env NCCL_NET=Socket \
	--env NCCL_DEBUG=INFO
grep -q "uses eth0 and 1 more" "$scratch/out" || { echo "not eth0 and eth1:"; grep uses "$scratch/out"; exit 1; }
again all_reduce --hosts 2 --gpus 2 -b 64K -e 64K --env DOPPEL_HCA_LINK=mlx5_0=down --env NCCL_DEBUG=INFO
grep -q "NET/IB : Using \[0\]mlx5_1" "$scratch/out" || { echo "not mlx5_1 first:"; grep Using "$scratch/out"; exit 1; }
for kind in "DOPPEL_INTERFACES=docker0,virbr0" "DOPPEL_HCA_LINK=down"; do
	again all_reduce --gpus 2 -b 4K -e 4K --env "$kind"
done
# programs that finalize, that end late, and that have a group refused
for seed in 1 2 3; do
	run all_reduce --hosts 2 --gpus 2 -b 4K -e 4K --finalize --late 20 --mixed 4 --seed "$seed" >/dev/null
done
# wrong calls, and inits that fail, in processes of one rank and of several; ranks that take their time
for seed in 1 2 3; do
	again all_reduce --gpus 3 -b 4K -e 4K --refused 20 --init-fails 4 --idle 3 --seed "$seed"
	run all_reduce --hosts 2 --gpus 2 --ranks-per-process 2 --drive process -b 4K -e 4K --finalize \
		--refused 8 --init-fails 4 --pauses 1000 --seed "$seed" >/dev/null
	run all_reduce --gpus 2 -b 4K -e 4K --init-fails 4 --comms 2 --env NCCL_COMM_ID=10.0.0.1:5555 \
		--seed "$seed" >/dev/null
done
# ranks that destroy after the death of another one, each in its way, while a watchdog polls
for nth in 500 900; do
	echo "os.task rank=1 nth=$nth kill" >"$scratch/plan"
	for leaves in destroy finalize each; do
		rc=0
		"$build_dir/doppel" run all_reduce --gpus 3 -b 64K -e 64K -n 4 --comms 2 --polls \
			--leaves $leaves --faults "$scratch/plan" >"$scratch/out" 2>&1 || rc=$?
		[ $rc = 2 ] || { echo "--leaves $leaves: exit code $rc"; tail -20 "$scratch/out"; exit 1; }
	done
done
# a fault keeps the task of several ranks from going back to the GPU of the first: another GPU's memory is not compared
echo "cuda.set_device rank=2 nth=2 after=collective+0us fail" >"$scratch/plan"
(cd "$scratch" && "$build_dir/doppel" sweep broadcast --machine h100-2nic --hosts 2 --gpus 2 --ranks-per-process 2 \
	--drive process -b 16K -e 16K --mixed 1 --polls --queries 6 --finalize --faults plan --faults-must-fire \
	--seeds 1..10 -j 1 --twice 0 >out 2>&1) || { echo "a device that is not set: exit code $?"; head "$scratch/out"; exit 1; }
# what is refused
for wrong in "--ends backwards" "--leaves each" "--pauses 6000" "--env-odd NCCL_DEBUG" "--mixed 5000" "--env DOPPEL_HCA_ROUTING=static" \
	"--env DOPPEL_INTERFACES=eth0,,eth1" "--env DOPPEL_HCA_LINK=off"; do
	# shellcheck disable=SC2086 # the arguments are words
	! "$build_dir/doppel" run $wrong >"$scratch/out" 2>&1 || { echo "$wrong is taken"; exit 1; }
done
