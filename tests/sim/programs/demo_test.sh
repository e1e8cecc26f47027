#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The demo, shortened: 2 hosts x 8 GPUs in sim, and a machine that none of us wrote. Under the
# preset asan this is AddressSanitizer's and UBSan's run.
set -euo pipefail
build_dir=$1 source_dir=$2
export ASAN_OPTIONS="detect_leaks=1 ${ASAN_OPTIONS:-}" UBSAN_OPTIONS="print_stacktrace=1 ${UBSAN_OPTIONS:-}"
check() {
	local out
	out=$("$build_dir/doppel" run all_reduce --hosts 2 "$@" 2>&1) || { tail -40 <<<"$out"; exit 1; }
	grep -q 'Out of bounds values : 0 OK' <<<"$out"
	grep -qE '^# trace hash 0x[0-9a-f]{16}$' <<<"$out"
}
check --machine h100-8nic -b 8 -e 256K -f 16
check --machine a100-4nic -b 100 -e 100K -i 33300 -d all -o avg
check --machine pcie-4gpu --gpus 2 -b 8 -e 4K -f 8 --warp 32
zoo=$source_dir/../shared/zoo/8xa100-4xcx6.xml
[ ! -e "$zoo" ] || check --machine "$zoo" -b 8 -e 64K -f 32
echo "2 hosts x 8 GPUs: correct, nothing leaks"
