#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A read that flushes fails, with another rail left: the other HCA reads in its place. What the first one has
# written is in GPU memory, although no later read of it comes.
#	flush_read_fails_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)
fired=0
for rank in 0 2; do
	for nth in 1 2 3 4 5 6 7 8; do
		echo "verbs.response rank=$rank nth=$nth error status=RETRY_EXC_ERR" >plan
		rc=0
		timeout 60 "$doppel" run all_reduce --hosts 2 --gpus 2 --machine a100-2port -b 973 -e 973 -n 3 \
			--group 2 --env NCCL_NET_MERGE_LEVEL=SYS --env NCCL_PROTO=LL128 --env NCCL_IB_TIMEOUT=10 \
			--env NCCL_IB_RETRY_CNT=3 --env NCCL_IB_RESILIENCY_PORT_FAILOVER=1 --faults plan \
			--faults-must-fire >out 2>err || rc=$?
		case $rc in
		0) fired=$((fired + 1)) ;;
		1) grep -q 'never fired' out err || fail "rank $rank, nth=$nth: exit code 1, expected 0" ;;
		*) fail "rank $rank, nth=$nth: exit code $rc, expected 0" ;;
		esac
	done
done
[ $fired -ge 4 ] || fail "$fired of the plans have fired, expected 4 and more"
exit $bad
