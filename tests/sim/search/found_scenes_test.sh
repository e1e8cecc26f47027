#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Scenes of worlds that a sweep has found to fail. The text of an error is that of the communicator's verdict, also
# where a connection to a rank that has ended is reported later. A field of a config is replaced in those processes
# alone whose environment has the variable. Calls with two roots leave data that end the next call of the other ranks.
# Arguments: build folder, source folder.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"

plays() { # COLLECTIVE OPTION...
	rc=0
	timeout 60 "$doppel" run "$@" -n 1 --place out >log 2>&1 || rc=$?
	[ $rc = 0 ] || fail "$* ended with $rc: $(grep FAIL log)"
}

for seed in 0x6ba266fc0efaaef 1 2; do
	plays send_recv --machine a100-2port --hosts 2 --gpus 2 -b 16384 -e 16384 --scenes 6 --uncompared \
		--env-odd NCCL_IB_DISABLE=1 --env DOPPEL_TIMEOUT_MS=1653 --env NCCL_MAX_NCHANNELS=1 \
		--env NCCL_SHM_DISABLE=1 --seed $seed
done
for seed in 0x89b204 1 2; do
	plays reduce --machine workstation-2hca --hosts 4 --gpus 1 --map-by seed -b 4 -e 4 --scenes 2 \
		--env-odd NCCL_MAX_CTAS=1 --seed $seed
done
for seed in 16 36 47; do
	plays all_reduce --machine a100-2port --hosts 1 --gpus 2 -b 16 -e 16 --scenes 8 --uncompared \
		--env DOPPEL_TIMEOUT_MS=1000 --env NCCL_ALGO=Ring --env NCCL_PROTO=LL --env NCCL_LL_BUFFSIZE=4096 \
		--env NCCL_MAX_NCHANNELS=1 --seed $seed
done
exit $bad
