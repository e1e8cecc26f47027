#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All four pairs of backends compile without warnings: the default is built by whoever runs this;
# soft-roce always; gpu and hardware where there is nvcc (else that half is skipped, and says so).
# What a build with real GPUs chooses (algorithm, protocol, channels, threads) is what the default build chooses:
# machines, hosts, collectives and sizes of `doppel tune`, which each pair has but cuda:verbs. sim.choices_test
# compares the runs of the doubles with it.
# Usage: pairs_test.sh BUILD_DIR SOURCE_DIR [GPU:RDMA...]
set -euo pipefail
build_dir=$1 source_dir=$2
shift 2
[ $# != 0 ] || set -- fakecuda:verbs cuda:fakeverbs cuda:verbs
built=0

# choices FOLDER: of a build, one line for each machine and number of hosts; one GPU alone runs no program
choices() {
	local machine hosts
	for machine in "$source_dir"/sim/world/machines/*.xml; do
		for hosts in 1 2 4 32; do
			echo "${machine##*/} $hosts $("$1/doppel" tune --json --machine "$machine" --hosts $hosts -b 8 -e 1G -f 4 2>&1)"
		done
	done
}

for pair in "$@"; do
	options=() program=doppel-cli
	case $pair in
	cuda:*)
		if ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; then
			echo "$pair: skipped: no nvcc"
			continue
		fi
		;;&
	cuda:verbs) # both halves have been through the optimiser in the other pairs
		options=(-DCMAKE_BUILD_TYPE=None -DDOPPEL_CUDA_ARCH=90-virtual) program=''
		;;
	esac
	dir=$build_dir/pairs/${pair/:/-}
	mkdir -p "$dir"
	if ! { cmake -S "$source_dir" -B "$dir" -DDOPPEL_GPU="${pair%%:*}" -DDOPPEL_RDMA="${pair##*:}" \
		"${options[@]}" &&
		cmake --build "$dir" -j "$(nproc)" --target doppel nccl $program; } >"$dir.log" 2>&1; then
		echo "$pair does not build:"
		grep -E 'error|warning' -A3 "$dir.log" | head -20
		exit 1
	fi
	if grep -q 'warning:' "$dir.log"; then
		grep 'warning:' "$dir.log" | head
		exit 1
	fi
	echo "$pair: libdoppel.so and libnccl.so.2 build without warnings"
	built=$((built + 1))
	[ -n "$program" ] || continue
	choices "$build_dir" >"$dir.default"
	choices "$dir" >"$dir.choices"
	if ! cmp -s "$dir.default" "$dir.choices" || ! grep -q '"choice"' "$dir.choices"; then
		echo "$pair chooses otherwise than $build_dir, or predicts nothing:"
		diff "$dir.default" "$dir.choices" | cut -c1-200 | head -4
		exit 1
	fi
	echo "$pair: doppel tune chooses what that of $build_dir chooses"
done
[ $built != 0 ] || exit 77
