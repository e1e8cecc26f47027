#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A deadline puts an event before each launch. The kernels are still known as those of the calls that own
# the buffers: a launch that the double takes for a program's kernel is reported as one that uses them without order.
# Arguments: build folder, source folder.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
for collective in all_to_all all_reduce send_recv; do
	for seed in 1 2 3; do
		"$doppel" run "$collective" --hosts 1 --gpus 2 --ranks-per-process 2 -b 64 -e 64 -n 1 -w 0 \
			--env NCCL_ALGO=OneShot --env DOPPEL_TIMEOUT_MS=280000 --seed $seed >out 2>&1 && continue
		echo "$collective, seed $seed:"
		tail -20 out
		exit 1
	done
done
echo "9 runs with a deadline: each kernel was that of its calls"
