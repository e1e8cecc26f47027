#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All four pairs of backends compile without warnings: the default is built by whoever runs this;
# soft-roce always; gpu and hardware where there is nvcc (else that half is skipped, and says so).
# Usage: pairs_test.sh BUILD_DIR SOURCE_DIR [GPU:RDMA...]
set -euo pipefail
build_dir=$1 source_dir=$2
shift 2
[ $# != 0 ] || set -- fakecuda:verbs cuda:fakeverbs cuda:verbs
built=0
for pair in "$@"; do
	options=()
	case $pair in
	cuda:*)
		if ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; then
			echo "$pair: skipped: no nvcc"
			continue
		fi
		;;&
	cuda:verbs) # both halves have been through the optimiser in the other pairs
		options=(-DCMAKE_BUILD_TYPE=None -DDOPPEL_CUDA_ARCH=90-virtual)
		;;
	esac
	dir=$build_dir/pairs/${pair/:/-}
	mkdir -p "$dir"
	if ! { cmake -S "$source_dir" -B "$dir" -DDOPPEL_GPU="${pair%%:*}" -DDOPPEL_RDMA="${pair##*:}" \
		"${options[@]}" &&
		cmake --build "$dir" -j "$(nproc)" --target doppel nccl; } >"$dir.log" 2>&1; then
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
done
[ $built != 0 ] || exit 77
