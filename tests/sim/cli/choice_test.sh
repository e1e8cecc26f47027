#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# NCCL_ALGO and NCCL_PROTO, lists in NCCL's grammar, and NCCL_NET, one name: a run with what leaves a
# program and a network; an error of init, or of the call, with what does not.
set -euo pipefail
doppel=$1/doppel
bad=0

# run SETTING [COLLECTIVE]: its exit code; what it prints is in $said. On $hosts hosts, 1 without it
run() {
	local rc=0
	said=$(env "$1" "$doppel" run "${2:-all_reduce}" --hosts "${hosts:-1}" --gpus "${gpus:-2}" -b 8 -e 8 --place in 2>&1) || rc=$?
	return $rc
}

# refused SETTING TEXT [COLLECTIVE]: a call fails, and this is logged
refused() {
	local rc=0
	run "$1" "${3:-all_reduce}" || rc=$?
	[ $rc != 2 ] || ! grep -qF "$2" <<<"$said" || return 0
	echo "$1: exit code $rc: $said"
	bad=1
}

for setting in NCCL_ALGO= NCCL_ALGO=^ NCCL_ALGO=Ring NCCL_ALGO=tree,ring NCCL_ALGO=^Tree,NVLS \
	'NCCL_ALGO=tree;allreduce:ring' 'NCCL_ALGO=allreduce:^tree;reduce:ring' 'NCCL_ALGO=ALL_REDUCE:RING;' \
	NCCL_PROTO=simple NCCL_PROTO=LL,LL128,Simple NCCL_PROTO=^LL 'NCCL_PROTO=LL;AllReduce:simple' \
	NCCL_NET=IB NCCL_NET=ib NCCL_NET=Socket; do
	run "$setting" || { echo "$setting: exit code $?: $said"; bad=1; }
done

# no program is left: for any collective, or for one that has a list
for setting in NCCL_ALGO=NVLSTree NCCL_ALGO=^ring,Tree,NVLS,NVLSTree,pat,collnetdirect,collnetchain,oneshot,twoshot,doubling,symmetric; do
	refused "$setting" "$setting allows no program; there are Ring/"
done
for setting in 'NCCL_ALGO=allreduce:nvlstree' 'NCCL_ALGO=ring;allreduce:nvlstree'; do
	refused "$setting" "$setting allows no program for all_reduce; there are Ring/"
done
# of a collective that has no list of its own, the call fails
refused 'NCCL_ALGO=nvlstree;allreduce:ring' 'ncclBcast: rank 0: NCCL_ALGO=nvlstree' broadcast
refused 'NCCL_ALGO=nvlstree;allreduce:ring' 'allows no program for broadcast; there are Ring/' broadcast
# every two ranks are connected, of one host with p2p alone
for setting in NCCL_ALGO=OneShot NCCL_ALGO=two_shot 'NCCL_ALGO=ring;allreduce:oneshot,twoshot'; do
	run "$setting" || { echo "$setting: exit code $?: $said"; bad=1; }
done
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL run NCCL_ALGO=OneShot && grep -q 'Algo ONE_SHOT proto LL channel{Lo..Hi}={0..0}' <<<"$said" || {
	echo "NCCL_ALGO=OneShot ran otherwise: $said"
	bad=1
}
refused NCCL_ALGO=twoshot 'allows no program for broadcast; there are Ring/Simple, Ring/LL' broadcast
NCCL_P2P_DISABLE=1 refused NCCL_ALGO=OneShot 'expected 2 to 8 ranks of one host with p2p between all of them, there are 2 ranks on 1 hosts without p2p; Ring'
gpus=3 refused NCCL_ALGO=Doubling 'expected a power of two of ranks, there are 3 ranks on 1 hosts'
hosts=2 refused NCCL_ALGO=OneShot 'there are 4 ranks on 2 hosts; Ring connects any ranks'
NCCL_P2P_DISABLE=1 run NCCL_ALGO=OneShot,Ring || { echo "NCCL_ALGO=OneShot,Ring without p2p: exit code $?: $said"; bad=1; }
# what is not a list
refused NCCL_ALGO=rin "NCCL_ALGO=rin: unknown algorithm 'rin', nearest Ring; expected one of: Tree, Ring"
refused NCCL_ALGO=rings "unknown algorithm 'rings', nearest Ring"
refused NCCL_PROTO=^simpel,LL "unknown protocol 'simpel', nearest Simple; expected one of: LL, LL128"
refused 'NCCL_PROTO=allreduc:LL' "unknown collective 'allreduc', nearest all_reduce"
refused 'NCCL_ALGO=ring;tree' "'tree': expected a collective and a colon"
refused 'NCCL_ALGO=allreduce:' "'allreduce:': expected names with commas between"
refused 'NCCL_ALGO=;' "';': expected a list of names"

for name in Sockets ^Socket IB,Socket; do
	refused NCCL_NET=$name "config: NCCL_NET is '$name', which is not a network; expected one of: IB, Socket"
done
exit $bad
