#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The threads engine: 1 and 2 hosts x 1, 2, 4 GPUs, 8 B to 1 MiB, ranks in one process and in
# processes of their own. Under the preset tsan any race ends with ThreadSanitizer's exit code.
set -euo pipefail
doppel=$1/doppel
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 ${TSAN_OPTIONS:-}"
runs=0
for hosts in 1 2; do
	for gpus in 1 2 4; do
		for per_process in 1 "$gpus"; do
			[ "$per_process" = 1 ] && [ "$runs" -gt 0 ] && [ "$gpus" = 1 ] && [ "$hosts" = 1 ] && continue
			out=$("$doppel" run all_reduce --engine threads --machine a100-4nic --hosts $hosts \
				--env NCCL_MAX_NCHANNELS=32 --gpus $gpus --ranks-per-process "$per_process" -b 8 -e 1M -f 16 2>&1) || {
				rc=$?
				echo "hosts $hosts, gpus $gpus, $per_process a process: exit code $rc"
				tail -40 <<<"$out"
				exit 1
			}
			grep -q 'Out of bounds values : 0 OK' <<<"$out"
			runs=$((runs + 1))
		done
	done
done
echo "$runs runs on the threads engine, all correct"
