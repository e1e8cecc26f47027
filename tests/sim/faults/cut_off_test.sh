#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A farewell of rank 0 fails, and rank 15 treats the end of rank 0 as a failure. The failure goes round the ring up to a
# host whose ranks have left in order. The ranks of the host after it cannot learn of the failure: no rule of the lab is
# broken (sim/lab/program/survive.c). Arguments: build folder, source folder.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
for caller in 110 111 112; do
	printf 'os.any rank=0 caller=%d fail errno=ENOMEM\nheal after=1s\n' $caller >plan
	rc=0
	"$doppel" run gather --machine h100-2nic --hosts 4 --gpus 4 --ranks-per-process 4 --drive process -b 0 -e 0 -n 1 \
		--place both --polls --hasty --group 4 --pauses 128 --retries --ras 2 --faults plan --seed 0x1329a2c \
		--env NCCL_MIN_NCHANNELS=1 --env NCCL_MAX_NCHANNELS=7 --env NCCL_P2P_DISABLE=1 --env NCCL_PROTO=Simple \
		--env DOPPEL_RESULT_BYTES=4096 --env NCCL_CUMEM_HOST_ENABLE=1 --env NCCL_IB_ADAPTIVE_ROUTING=1 \
		--env DOPPEL_HCA_ORDER=draw --env NCCL_IB_TIMEOUT=14 --env NCCL_IB_RETRY_CNT=0 --env NCCL_RAS_ENABLE=1 \
		--env NCCL_COMM_ID=10.0.0.1:5461 >log 2>&1 || rc=$?
	[ $rc = 0 ] || [ $rc = 2 ] || fail "caller $caller ended with $rc: $(grep FAIL log)"
done
exit $bad
