#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# NCCL_ALGO and NCCL_PROTO, lists in NCCL's form, and NCCL_NET, one name: with what leaves the only
# algorithm, protocol and network there is, it runs; with what does not, init says so.
set -euo pipefail
doppel=$1/doppel
bad=0

# run SETTING: its exit code; what it says is in $said
run() {
	local rc=0
	said=$(env "$1" "$doppel" run all_reduce --gpus 2 -b 8 -e 8 --place in 2>&1) || rc=$?
	return $rc
}

# refused SETTING TEXT: init fails, and says this
refused() {
	local rc=0
	run "$1" || rc=$?
	[ $rc != 2 ] || ! grep -qF "$2" <<<"$said" || return 0
	echo "$1: exit code $rc: $said"
	bad=1
}

for setting in NCCL_ALGO= NCCL_ALGO=^ NCCL_ALGO=Ring NCCL_ALGO=tree,ring NCCL_ALGO=^Tree,NVLS \
	'NCCL_ALGO=broadcast:tree' 'NCCL_ALGO=tree;allreduce:ring' 'NCCL_ALGO=allreduce:^tree;reduce:tree' \
	NCCL_PROTO=simple NCCL_PROTO=LL,LL128,Simple NCCL_PROTO=^LL NCCL_NET=IB NCCL_NET=ib; do
	run "$setting" || { echo "$setting: exit code $?: $said"; bad=1; }
done
for setting in NCCL_ALGO=Tree NCCL_ALGO=rin NCCL_ALGO=rings NCCL_ALGO=^ring 'NCCL_ALGO=allreduce:tree' \
	'NCCL_ALGO=ring;allreduce:tree' 'NCCL_ALGO=;' NCCL_PROTO=LL128 NCCL_PROTO=^simple,LL; do
	refused "$setting" "$setting leaves nothing: "
done
for name in Socket ^Socket IB,Socket; do
	refused NCCL_NET=$name "config: NCCL_NET is '$name', which is not a network; expected one of: IB"
done
exit $bad
