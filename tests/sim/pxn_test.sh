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
run() { # run CODE ARGS...
	local code=$1 rc=0
	shift
	timeout 200 "$doppel" run all_reduce --hosts 2 -b 8 -e 64K -f 64 --env NCCL_DEBUG=INFO \
		--env NCCL_DEBUG_SUBSYS=INIT,NET "$@" >out 2>err || rc=$?
	[ $rc = "$code" ] || fail "$*: exit code $rc, expected $code"
}
relayed() { grep -cE " via NET/IB/[0-9]+\([0-9]+\)" err; }
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
		relays 16 "${few[@]}" --ranks-per-process $per_process --engine $engine
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

# a relay is killed: no segment is left
one=("${few[@]}" --gpus 2 --env NCCL_MAX_NCHANNELS=1)
for nth in 100 150 200 250 300 400 500 600 700 800; do
	echo "os.task rank=0 nth=$nth kill" >plan
	run 2 "${one[@]}" --faults plan
done
# and its peer names it, where bytes were on their way
named=0
for nth in 850 950 1100 1200; do
	echo "os.task rank=0 nth=$nth kill" >plan
	run 2 "${one[@]}" -b 1M -e 1M -n 5 --faults plan
	named=$((named + $(grep -cE 'rank 2 <- rank 1 channel 0 .* of relay 0\): the peer closed' err)))
done
[ $named -gt 0 ] || fail "the relay is not named"
for nth in 20 40 60 80; do
	echo "os.task rank=0 nth=$nth kill" >plan
	run 2 "${one[@]}" --faults plan --engine threads
done

# /dev/shm has no room for the area
echo 'os.shm rank=0 nth=1 fail' >plan
run 2 "${one[@]}" --faults plan
grep -q 'for rank 1 to send through this one: ' err || fail "no reason for the missing area"
exit $bad
