#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures how time and memory of one process grow with the number of ranks: hosts of 8 GPUs, one
# channel, one warp of width 1 per block. First init and teardown alone (a collective of 0 bytes),
# then an all-reduce of 1 MiB, checked.
# Usage: scale.sh BUILD_DIR [HOSTS...]      (default 8 16 32 64 128; "512:init": without the 1 MiB)
set -euo pipefail
doppel=$1/doppel
shift
[ $# != 0 ] || set -- 8 16 32 64 128

measure() { # measure HOSTS BYTES -> "seconds MiB #wrong"
	local out
	out=$({ /usr/bin/time -f 'took %e %M' "$doppel" run all_reduce --hosts "$1" --gpus 8 -b "$2" -e "$2" \
		--place out --strategy fifo --env NCCL_MAX_NCHANNELS=1 --env NCCL_NTHREADS=32; } 2>&1) ||
		{ tail -3 <<<"$out" >&2; echo "- - failed"; return; }
	awk '$1 == "took" {s = $2; m = int($3 / 1024)}
	     $3 == "float" {w = $NF}
	     END {print s, m, w}' <<<"$out"
}

echo "# $(uname -m), $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-), one channel, one warp of width 1 per block"
printf '%8s %10s %10s %12s %10s %8s\n' ranks 'init s' MiB '1 MiB, s' MiB wrong
for hosts in "$@"; do
	init_only=${hosts#*:} hosts=${hosts%:*}
	read -r init_s init_m init_wrong < <(measure "$hosts" 0)
	if [ "$init_only" = init ]; then
		printf '%8d %10s %10s %12s %10s %8s\n' $((hosts * 8)) "$init_s" "$init_m" - - "$init_wrong"
		continue
	fi
	read -r s m wrong < <(measure "$hosts" 1M)
	printf '%8d %10s %10s %12s %10s %8s\n' $((hosts * 8)) "$init_s" "$init_m" "$s" "$m" "$wrong"
done
