#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Merged NICs: what the log names, that each device carries its part, which device's failure is named, and runs
# on everything that a connection can be.
#	merged_nics_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need python3
need_doubles "$1"
source_dir=$(cd "$2" && pwd)
test_begin "$1"
# The messages and the numbers of calls below are those of rings in SIMPLE.
export NCCL_ALGO=Ring NCCL_PROTO=Simple
fail_shows=(out err)
run() { # run CODE COLLECTIVE ARGS...
	local code=$1 rc=0
	shift
	timeout 200 "$doppel" run "$1" --machine a100-2port --hosts 2 --env NCCL_DEBUG=INFO \
		--env NCCL_DEBUG_SUBSYS=INIT,NET "${@:2}" >out 2>err || rc=$?
	[ $rc = "$code" ] || fail "$*: exit code $rc, expected $code"
}

# both cards of a host are a NIC each
run 0 all_reduce -b 8 -e 1M -f 16
for nic in mlx5_0+mlx5_1 mlx5_2+mlx5_3; do
	grep -qF "NET/IB : Made virtual device [" err || fail "no virtual device"
	grep -qF "name=$nic speed=200000 ndevs=2" err || fail "$nic is not in the log"
	grep -qF ": $nic qp " err || fail "no connection over $nic"
done
! grep -qE ': mlx5_[0-9] qp ' err || fail "a connection over one device"

# bytes that leave each port: the two of a card alike, and as many in all as without merging
ports() { # ports ARGS...
	run 0 "$@" --trace trace.json
	python3 - <<'P'
import json
track, total = {}, {}
for e in json.load(open("trace.json")):
    name = e.get("args", {}).get("name", "")
    if e["ph"] == "M" and name.endswith(" out"):
        track[e["pid"], e["tid"]] = name[:-4]
    if e["ph"] == "X" and "bytes" in e.get("args", {}) and (e["pid"], e["tid"]) in track:
        port = track[e["pid"], e["tid"]]
        total[port] = total.get(port, 0) + e["args"]["bytes"]
for port in sorted(total):
    print(port, total[port])
P
}
for collective in all_reduce all_to_all; do
	ports $collective -b 1M -e 1M --env NCCL_PROTO=Simple >carried
	[ "$(wc -l <carried)" -ge 4 ] || fail "$collective: ports that carry nothing: $(cat carried)"
	awk '{ if (NR % 2) { port = $0; before = $NF } else if ($NF < 0.9 * before || $NF > 1.1 * before) { print port " and " $0; exit 1 } }' \
		carried || fail "$collective: the ports of a card differ"
	ports $collective -b 1M -e 1M --env NCCL_PROTO=Simple --env NCCL_NET_MERGE_LEVEL=LOC >apart
	merged=$(awk '{ n += $NF } END { print n }' carried)
	[ "$merged" -gt 2000000 ] || fail "$collective: $merged bytes in all"
	[ -s apart ] || fail "$collective: nothing without merging"
done

# as each of the ways of a connection
for args in "--env NCCL_IB_QPS_PER_CONNECTION=2" \
	"--env NCCL_IB_QPS_PER_CONNECTION=2 --env NCCL_IB_SPLIT_DATA_ON_QPS=1" \
	"--env NCCL_IB_ADAPTIVE_ROUTING=1 --env NCCL_IB_AR_THRESHOLD=1000" \
	"--env NCCL_NET_GDR_LEVEL=LOC" "--env DOPPEL_GPU_RDMA=none" "--env NCCL_PROTO=LL" \
	"--env NCCL_PROTO=LL128" "--env NCCL_ALGO=Tree" "--env NCCL_TOPO_FILE=" \
	"--env DOPPEL_TOPO_NETWORK=1" "--env NCCL_NET_MERGE_LEVEL=SYS" "--engine threads --env NCCL_MAX_NCHANNELS=32" "--races"; do
	# shellcheck disable=SC2086
	run 0 all_reduce -b 8 -e 256K -f 32 $args
	grep -qE ': mlx5_[0-9](\+mlx5_[0-9])+ qp ' err || fail "$args: nothing is merged"
	# shellcheck disable=SC2086
	run 0 all_to_all -b 8 -e 256K -f 32 $args
done

# ranks send through other ranks (PXN) over merged NICs
run 0 all_reduce --gpus 3 -b 8 -e 1M -f 16
grep -qE ' via NET/IB/[0-9]+\([0-9]+\)' err || fail "no rank sends through another one"
grep -qE ': mlx5_2\+mlx5_3 qp ' err || fail "no connection over the second card"

# the groups of the user; one that cannot be
run 0 all_reduce -b 64K -e 64K --env NCCL_NET_FORCE_MERGE="mlx5_1,mlx5_0"
grep -qF ": mlx5_1+mlx5_0 qp " err || fail "the group is not merged in its order"
run 2 all_reduce -b 64K -e 64K --env NCCL_NET_FORCE_MERGE="mlx5_1,mlx5_2"
grep -qF "NCCL_NET_FORCE_MERGE names mlx5_1,mlx5_2: they are not below one CPU" err || fail "two CPUs"

# a dump that has the merged NICs alone, as NCCL writes it
python3 - "$source_dir/sim/world/machines/a100-2port.xml" <<'P'
import sys
import xml.etree.ElementTree as tree
machine = tree.parse(sys.argv[1])
for switch in machine.getroot().iter("pci"):
    for function in switch.findall("pci"):
        net = function.find("nic/net")
        if function.get("busid").endswith(".1"):
            switch.remove(function)
        elif net is not None:
            dev = int(net.get("dev"))
            net.set("name", "mlx5_%d+mlx5_%d" % (dev, dev + 1))
            net.set("speed", "200000")
machine.write("dump.xml")
P
run 0 all_reduce -b 64K -e 64K --machine dump.xml
grep -qF ": mlx5_2+mlx5_3 qp " err || fail "a dump's merged NIC is not over its devices"

# a host without merged NICs at the other end
run 0 all_reduce -b 8 -e 256K -f 32 --gpus 2 --machine a100-2port,pcie-4gpu
grep -qE ': mlx5_0 qp 0x[0-9a-f]+, peer mlx5_0\+mlx5_1 ' err || fail "no connection of one device with two"

# disabled
for off in NCCL_NET_MERGE_LEVEL=LOC NCCL_IB_MERGE_NICS=0 NCCL_NET=Socket; do
	run 0 all_reduce -b 64K -e 64K --env $off
	! grep -q "Made virtual device" err || fail "$off: merged"
done

# one device is not wanted: the other one is the NIC
run 0 all_reduce -b 64K -e 64K --env NCCL_IB_HCA=mlx5_0,mlx5_2,mlx5_3
grep -qF "NIC has 2 devices (mlx5_0+mlx5_1), the network has 1 of them" err || fail "the missing one is not named"
grep -qE ': mlx5_0 qp ' err || fail "no connection over what is left"

# a device that fails is named at both ends
echo 'fabric.link host=0 port=1 nth=3 down' >plan
run 2 all_reduce -b 64K -e 64K --gpus 1 --faults plan
grep -qE 'rank 0 -> rank 1 channel . qp 0x[0-9a-f]+ on mlx5_1 \(peer [0-9.]+ mlx5_1 .*RETRY_EXC_ERR' err ||
	fail "the device whose link is down is not named"
echo 'verbs.device host=0 port=1 after=collective+50us fatal' >plan
run 2 all_reduce -b 64K -e 64K --gpus 1 --faults plan
grep -qE 'mlx5_1:1 Got async event : local catastrophic error' err || fail "the event is not logged"
grep -qE 'rank 1 (->|<-) rank 0 .* on mlx5_1 \(peer [0-9.]+ mlx5_1 .*the peer reports' err ||
	fail "the other end does not name the device"
! grep -qE 'on mlx5_0 \(peer' err || fail "a device that did not fail is named"
exit $bad
