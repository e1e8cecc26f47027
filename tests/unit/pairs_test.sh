#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All four pairs of backends compile without warnings: the default is built by whoever runs this;
# soft-roce always; gpu and hardware where there is nvcc (else that half is skipped, and says so).
set -euo pipefail
build_dir=$1 source_dir=$2
pairs=(fakecuda:verbs)
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
	pairs+=(cuda:fakeverbs cuda:verbs)
else
	echo "no nvcc: gpu and hardware are not compiled"
fi
for pair in "${pairs[@]}"; do
	dir=$build_dir/pairs/${pair/:/-}
	mkdir -p "$dir"
	if ! { cmake -S "$source_dir" -B "$dir" -DDOPPEL_GPU="${pair%%:*}" -DDOPPEL_RDMA="${pair##*:}" &&
		cmake --build "$dir" -j "$(nproc)" --target doppel; } >"$dir.log" 2>&1; then
		echo "$pair does not build:"
		grep -E 'error|warning' -A3 "$dir.log" | head -20
		exit 1
	fi
	if grep -q 'warning:' "$dir.log"; then
		grep 'warning:' "$dir.log" | head
		exit 1
	fi
	echo "$pair: libdoppel.so builds without warnings"
done
