#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# PXN: which ranks send through another rank of their host, by topology and by environment; what a killed relay
# leaves, and what the other ranks report of it.
#	pxn_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)
collective=all_reduce
run() { # run CODE ARGS...
	local code=$1 rc=0
	shift
	timeout 200 "$doppel" run $collective --hosts 2 -b 8 -e 64K -f 64 --env NCCL_DEBUG=INFO \
		--env NCCL_DEBUG_SUBSYS=INIT,NET "$@" >out 2>err || rc=$?
	[ $rc = "$code" ] || fail "$*: exit code $rc, expected $code"
}
relayed() { grep -cE "/$index : .* via NET/IB/[0-9]+\([0-9]+\)" err; }
index='[0-9]'
# relays N ARGS...: so many connections go through a relay
relays() {
	local n=$1
	shift
	run 0 "$@"
	[ "$(relayed)" = "$n" ] || fail "$*: $(relayed) connections through a relay, expected $n"
}
few=(--machine h100-2nic)

# 8 channels: each leaves each host once, from a GPU that is next to no NIC
for per_process in 1 2 4; do
	for engine in sim threads; do
		relays 16 "${few[@]}" --ranks-per-process $per_process --engine $engine --env NCCL_MAX_NCHANNELS=32
	done
done
relays 16 "${few[@]}" --ranks-per-process 4 --drive process
relays 8 "${few[@]}" --gpus 2 --races
for protocol in LL LL128 Simple; do
	relays 16 "${few[@]}" --env NCCL_PROTO=$protocol
done
# rank, relay and NIC; the slots are in the relay's GPU memory
run 0 "${few[@]}"
grep -qE 'Channel 00/0 : 1\[1\] -> 4\[0\] via NET/IB/0\(0\)/GDRDMA$' err || fail "the line per connection"
# the receiving end has no relay
! grep -E '<-.* via NET/IB/' err || fail "a receiving end with a relay"

# a tree whose children leave by the second GPU
"$doppel" topo search h100-2nic --hosts 2 2>/dev/null | sed 's/<graph id="1" pattern="3"/<graph id="1" pattern="1"/' >graph.xml
run 0 "${few[@]}" --hosts 3 --env NCCL_ALGO=Tree --env NCCL_GRAPH_FILE="$PWD/graph.xml"
[ "$(grep -c '/3 : .* via NET/IB/[0-9]([0-9]*)/GDRDMA$' err)" = 8 ] || fail "8 links of trees through a relay expected"

# without
relays 0 --machine h100-8nic                              # each GPU leaves by its own NIC
relays 16 --machine h100-8nic --gpus 2                    # a ring of two leaves by the NIC that it enters by
relays 0 "${few[@]}" --hosts 1
relays 0 "${few[@]}" --env NCCL_PXN_DISABLE=1
relays 0 "${few[@]}" --env NCCL_P2P_DISABLE=1             # the sender cannot write to the relay's memory
relays 0 "${few[@]}" --env NCCL_SHM_DISABLE=1             # nor share an area with another process
relays 16 "${few[@]}" --env NCCL_SHM_DISABLE=1 --ranks-per-process 4
relays 0 "${few[@]}" --env NCCL_NET_GDR_LEVEL=LOC         # the NIC does not reach the relay's memory
relays 0 "${few[@]}" --env NCCL_NET=Socket
# by registration the NIC does not reach it: the slots are in host memory, through the relay all the same
relays 16 "${few[@]}" --env DOPPEL_GPU_RDMA=none
! grep -q GDRDMA err || fail "GPU memory that no NIC can register"

# Messages: to a rank next to NIC k of its host they leave through the rank next to NIC k here. Hosts of two ranks: each
# has two channels to the other rank of each other host.
collective=all_to_all index=1
near=(--machine h100-8nic --gpus 2)
for per_process in 1 2; do
	for engine in sim threads; do
		relays 8 "${near[@]}" --ranks-per-process $per_process --engine $engine --env NCCL_MAX_NCHANNELS=32
	done
done
relays 24 "${near[@]}" --hosts 3
relays 48 --machine h100-8nic --gpus 4 --ranks-per-process 2
relays 8 "${near[@]}" --ranks-per-process 2 --drive process
relays 8 "${near[@]}" --races
relays 8 "${near[@]}" --env NCCL_PROTO=LL
grep -qE 'Channel [0-9]+/1 : 1\[1\] -> 2\[0\] via NET/IB/0\(0\)/GDRDMA/Shared$' err || fail "the line of a message's connection"
relays 48 "${few[@]}"                     # all but those of the two ranks that are next to the rail's NIC
relays 36 --machine h100-8nic,h100-2nic --gpus 4
relays 24 --machine h100-8nic,pcie-4gpu --gpus 4 # what has no NVLink sends by itself
for other in gather scatter; do
	collective=$other
	run 0 "${near[@]}" --hosts 3
	[ "$(relayed)" -gt 0 ] || fail "$other: no connection through a relay"
done
collective=all_to_all
# levels: both GPUs of a100-4nic are near the first NIC, which belongs to one of them
for level in 0:0 1:0 2:8; do
	relays ${level#*:} --machine a100-4nic --gpus 2 --env NCCL_P2P_PXN_LEVEL=${level%:*}
done
relays 16 --machine a100-4nic --gpus 3 --env NCCL_P2P_PXN_LEVEL=1
for off in NCCL_P2P_PXN_LEVEL=0 NCCL_PXN_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NET_GDR_LEVEL=LOC \
	NCCL_NET=Socket DOPPEL_PXN_CONNECTIONS=1; do
	relays 0 "${near[@]}" --env $off
done
relays 8 "${near[@]}" --env DOPPEL_GPU_RDMA=none # the slots are in host memory
! grep -E '/1 : .*GDRDMA' err || fail "GPU memory that no NIC can register"
# room for one of two ranks: all channels to the other go by the sender's proxy
relays 12 "${near[@]}" --hosts 3 --env DOPPEL_PXN_CONNECTIONS=3
grep -qE 'rank [0-9]: messages to rank [0-9] do not go through rank [0-9], which has room for 1 of 2 connections more' err ||
	fail "the reason why messages do not go through the relay"
# a relay is killed: the others report it, and no segment is left
reported=0
for nth in $(seq 100 100 2600); do
	echo "os.task rank=0 nth=$nth kill" >plan
	run 2 "${near[@]}" -b 1M -e 1M -n 5 --faults plan
	reported=$((reported + $(grep -cE 'rank 2 <- rank 1 channel . .* of relay 0\): the peer closed' err)))
done
[ $reported -gt 0 ] || fail "the relay of messages is not named"
# the ranks that send through a relay that fails have a line in their own process
echo "verbs.qp nth=20 fatal" >plan
for seed in 1 2 3; do
	run 2 "${few[@]}" -n 4 --leaves destroy --polls --faults plan --seed $seed
	! grep -q 'FAIL error-class' out err || fail "an error without a line"
done
collective=all_reduce index='[0-9]'

# a relay is killed: no segment is left
one=("${few[@]}" --gpus 2 --env NCCL_MAX_NCHANNELS=1)
for nth in 100 150 200 250 300 400 500 600 700 800; do
	echo "os.task rank=0 nth=$nth kill" >plan
	run 2 "${one[@]}" --faults plan
done
# and its peer names it, where bytes were on their way
named=0
for nth in $(seq 850 60 1450); do
	echo "os.task rank=0 nth=$nth kill" >plan
	run 2 "${one[@]}" -b 1M -e 1M -n 5 --faults plan
	named=$((named + $(grep -cE 'rank 2 <- rank 1 channel 0 .* of relay 0\): the peer closed' err)))
done
[ $named -gt 0 ] || fail "the relay is not named"
for nth in 20 40 60 80; do
	echo "os.task rank=0 nth=$nth kill" >plan
	run 2 "${one[@]}" --faults plan --engine threads
done

# a rank whose proxy cannot use its GPU reports that in its init, although no rank sends through it
for nth in 1 2 3 4; do
	echo "cuda.set_device rank=1 nth=$nth fail" >plan
	run 2 --gpus 2 --ranks-per-process 2 --env NCCL_MAX_NCHANNELS=1 --faults plan
	grep -q 'FAIL error rank=1' out err || fail "cudaSetDevice $nth fails: $(grep -h FAIL out err)"
done

# /dev/shm has no room for the board or the area
for nth in 1 2; do
	echo "os.shm rank=0 nth=$nth fail" >plan
	run 2 "${one[@]}" --faults plan
	grep -q 'for ranks of the host to send through each other: ' err || fail "no reason for the missing segment"
done
exit $bad
