#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A queue pair cannot be made, also that for flushes, which the channels that share a connection of the
# network try again: all ranks end with an error, and no object of the HCA is left.
#	flush_fails_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)
for nth in 1 2 3 4 5 6 7 8 9; do
	echo "verbs.create_qp rank=3 nth=$nth fail" >plan
	rc=0
	timeout 60 "$doppel" run all_to_all --hosts 2 --gpus 3 --machine a100-4nic,pcie-4gpu --map-by node \
		--ranks-per-process 1 -b 810 -e 810 -n 2 --env NCCL_PROTO=Simple --env NCCL_NCHANNELS_PER_NET_PEER=6 \
		--env NCCL_MIN_NCHANNELS=7 --env NCCL_MAX_NCHANNELS=7 --faults plan >out 2>err || rc=$?
	[ $rc = 2 ] || fail "nth=$nth: exit code $rc, expected 2"
	grep -q "ibv_create_qp on device .* failed" err || fail "nth=$nth: no line names the queue pair"
done
exit $bad
