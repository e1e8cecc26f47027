#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# PAT: where NCCL_ALGO names it, it runs anywhere; where other algorithms may be used too, on hosts of one rank alone,
# unless NCCL_PAT_ENABLE changes that; what it cannot do is refused by name. Few elements take log2(ranks) messages of each rank,
# many take as many as there are other ranks.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
fail_shows=(out)

# runs ALGORITHM ARGS...: every collective of the run has it
runs() {
	local algo=$1
	shift
	NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL "$doppel" run "$@" >out 2>&1 || fail "run $*: exit code $?"
	grep -q "# Out of bounds values : 0 OK" out || fail "run $*: wrong results"
	grep -q ' -> Algo '"$algo " out || fail "run $*: not with $algo"
	! grep ' -> Algo ' out | grep -qv " Algo $algo " || fail "run $*: not only with $algo"
}
for collective in all_gather reduce_scatter; do
	for world in '1 7' '2 1' '3 2' '16 1'; do
		runs PAT $collective --hosts "${world% *}" --gpus "${world#* }" --env NCCL_ALGO=PAT -b 4 -e 400K -f 50 --datatype half
	done
	runs PAT $collective --machine pcie-4gpu --gpus 4 --env NCCL_ALGO=PAT --env NCCL_BUFFSIZE=8192 -b 4 -e 400K -f 50 --datatype int8
	# hosts of one rank; where there are more the others, if it may be anywhere
	runs PAT $collective --hosts 4 --gpus 1 --env NCCL_ALGO=Ring,PAT --env NCCL_PROTO=Simple -b 4K -e 4K
	runs RING $collective --hosts 4 --gpus 1 --env NCCL_ALGO=Ring,PAT --env NCCL_PAT_ENABLE=0 --env NCCL_PROTO=Simple -b 4K -e 4K
	runs RING $collective --hosts 4 --gpus 2 --env NCCL_ALGO=Ring,PAT --env NCCL_PROTO=Simple -b 4K -e 4K
	runs PAT $collective --hosts 4 --gpus 2 --env NCCL_ALGO=Ring,PAT --env NCCL_PAT_ENABLE=1 --env NCCL_PROTO=Simple -b 4K -e 4K
	runs RING $collective --hosts 4 --gpus 1 -b 4K -e 4K
done

# refused TEXT ARGS...
refused() {
	local text=$1 rc=0
	shift
	"$doppel" run "$@" >out 2>&1 || rc=$?
	[ $rc = 2 ] && grep -qF -- "$text" out || fail "run $*: exit code $rc, expected 2 and '$text'"
}
refused 'NCCL_ALGO=PAT allows only PAT for all_gather, and NCCL_PAT_ENABLE=0 forbids it' \
	all_gather --hosts 2 --gpus 1 --env NCCL_ALGO=PAT --env NCCL_PAT_ENABLE=0
refused 'NCCL_ALGO=PAT allows no program for all_reduce; there are Ring/Simple' \
	all_reduce --hosts 2 --gpus 1 --env NCCL_ALGO=PAT
refused 'NCCL_ALGO=PAT and NCCL_PROTO=LL allow no program' \
	all_gather --hosts 2 --gpus 1 --env NCCL_ALGO=PAT --env NCCL_PROTO=LL

# messages N ARGS...: so many over the network
messages() {
	local want=$1 got
	shift
	"$doppel" run "$@" --place out --env NCCL_ALGO=PAT --env NCCL_MAX_CTAS=1 --trace trace.json >out 2>&1 ||
		fail "run $*: exit code $?"
	got=$(grep -c '"name":"send"' trace.json)
	[ "$got" = "$want" ] || fail "run $*: $got messages, expected $want"
}
for collective in all_gather reduce_scatter; do
	messages $((16 * 4)) $collective --hosts 16 --gpus 1 -b 16K -e 16K
	messages $((11 * 4)) $collective --hosts 11 --gpus 1 -b 11K -e 11K
	messages $((16 * 15)) $collective --hosts 16 --gpus 1 -b 1M -e 1M --env NCCL_BUFFSIZE=512K
	messages $((5 * 4 * 2)) $collective --hosts 5 --gpus 1 -b 600K -e 600K --env NCCL_BUFFSIZE=512K
done
exit $bad
