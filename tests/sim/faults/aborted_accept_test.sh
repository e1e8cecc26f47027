#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A connection that its peer aborts before the accept fails no rank: neither in the bootstrap nor in the set-up of
# either network. Arguments: build folder, source folder.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
fired=0
for net in IB Socket; do
	for nth in $(seq 1 12); do
		echo "os.accept rank=1 nth=$nth fail errno=ECONNABORTED" >plan
		rc=0
		NCCL_NET=$net "$doppel" run all_reduce --hosts 2 --gpus 1 -e 8 --faults plan >out 2>&1 || rc=$?
		[ $rc = 0 ] || { echo "NET/$net, accept $nth: ended with $rc" && grep WARN out && bad=1; }
		grep -q 'this fault never fired' out || fired=$((fired + 1))
	done
done
[ $fired -ge 10 ] || { echo "only $fired of 24 runs have an aborted connection" && bad=1; }
[ $bad = 0 ] && echo "$fired runs have an aborted connection"
exit $bad
