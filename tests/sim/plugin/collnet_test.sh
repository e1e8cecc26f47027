#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All-reduces over collective networks of a net plugin (collnet_plugin.h): each version, shapes of hosts, types
# and operations. Plugins that are broken or slow leave all ranks without CollNet; errors of running plugins are
# errors of the communicator, and none is a hang.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
folder=$(realpath "$1")/tests
test_begin "$1"
fail_shows=(log)
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,COLL,TUNING NCCL_COLLNET_ENABLE=1
newest=$folder/libcollnet_plugin_12.so
small=(all_reduce --hosts 2 --gpus 2 -b 64K -e 64K)
chain=(--env NCCL_ALGO='allreduce:CollNetChain')

# run WHAT EXPECTED_CODE PLUGIN ARGS...: the log goes to `log`
run() {
	local what=$1 code=$2 rc=0
	NCCL_NET_PLUGIN=$3 timeout 200 "$doppel" run "${@:4}" >log 2>&1 || rc=$?
	[ $rc = "$code" ] || fail "$what: exit code $rc, expected $code"
}

# logged WHAT PATTERN [TIMES]: that many lines match
logged() {
	local n
	n=$(grep -cE -- "$2" log)
	[ "$n" = "${3:-$n}" ] && [ "$n" -gt 0 ] || fail "$1: $n lines match '$2', expected ${3:-some}"
}

# without FAULT PATTERN: all ranks run without CollNet, and the pattern is logged
without() {
	local engine
	for engine in sim threads; do
		COLL_FAULT=$1 run "$1, $engine" 0 "$newest" "${small[@]}" --engine $engine
		logged "$1, $engine" "$2"
		! grep -q 'Connected Collnet Chains' log || fail "$1, $engine: a rank has CollNet"
	done
}

# fault FAULT EXPECTED_CODE PATTERN [ARGS...]: a running plugin fails
fault() {
	local engine
	for engine in sim threads; do
		COLL_FAULT=$1 run "$1, $engine" "$2" "$newest" "${small[@]}" "${chain[@]}" --engine $engine "${@:4}"
		logged "$1, $engine" "$3"
	done
}

# ---- each version

for version in 8 9 10 11 12; do
	run "version $version" 0 "$folder/libcollnet_plugin_$version.so" "${small[@]}" "${chain[@]}"
	logged "version $version" "NET/CollNet: rank . uses collplug \(version $version\)" 4
	logged "version $version" "collnet plug init: version $version"
	logged "version $version" 'CollNet 00/6 : [0-9] \[(send|receive)\] via COLLNET/collplug/0' 4
	logged "version $version" 'Connected Collnet Chains \[0\]' 4
	logged "version $version" 'AllReduce.*CollnetChain|CollnetChain/Simple|COLLNET_CHAIN'
	[ $version -lt 11 ] || logged "version $version" 'collnet plug finalize' 4
	grep 'trace hash' log >>hashes
done
[ "$(sort -u hashes | wc -l)" = 1 ] || fail "runs of the versions differ: $(cat hashes)"

# ---- shapes, sizes, in place and not, types, operations; answers that come late and out of order

for shape in '2 1' '3 1' '4 1' '2 2' '3 2' '2 3' '4 3'; do
	run "shape $shape" 0 "$newest" all_reduce --hosts "${shape% *}" --gpus "${shape#* }" -b 4 -e 4M -f 8 "${chain[@]}"
	logged "shape $shape" 'Connected Collnet Chains'
done
# chains whose links go over the ordinary network: its ranks reach each other by no other way
for engine in sim threads; do
	run "chain over the network, $engine" 0 "$newest" all_reduce --hosts 2 --gpus 3 -b 4 -e 1M -f 64 "${chain[@]}" \
		--env NCCL_SHM_DISABLE=1 --env NCCL_P2P_DISABLE=1 --engine $engine
	logged "chain over the network, $engine" 'Channel 00/6 : 1\[1\] -> 0\[0\] via NET/plug'
	logged "chain over the network, $engine" 'CollNet 00/6 : [0-9] \[(send|receive)\] via COLLNET/collplug' 4
done
COLL_POLLS=7 COLL_FAULT=late run 'late answers' 0 "$newest" all_reduce --hosts 3 --gpus 2 -b 1M -e 4M -f 4 \
	"${chain[@]}" --env NCCL_MIN_CTAS=4
COLL_POLLS=7 COLL_FAULT=late run 'late answers, threads' 0 "$newest" all_reduce --hosts 3 --gpus 2 -b 1M -e 4M \
	-f 4 "${chain[@]}" --env NCCL_MIN_CTAS=4 --engine threads
run 'unaligned' 0 "$newest" all_reduce --hosts 2 --gpus 3 -b 1000003 -e 1000003 -d int8 "${chain[@]}"
for type in int8 uint8 int32 uint32 int64 uint64 float double; do
	for op in sum prod max min avg; do
		run "$type $op" 0 "$newest" all_reduce --hosts 2 --gpus 2 -b 40000 -e 40000 -d $type -o $op "${chain[@]}"
	done
done

run 'other numbers of GPUs' 0 "$newest" all_reduce --hosts 3 --gpus 1,2,3 -b 4 -e 1M -f 16 "${chain[@]}" --warp 32
PLUG_DEVICES=8 run 'several heads' 0 "$newest" all_reduce --hosts 2 --gpus 8 -b 4 -e 4M -f 32 "${chain[@]}"
run 'several ranks in a process' 0 "$newest" all_reduce --hosts 2 --gpus 4 -b 1M -e 1M "${chain[@]}" --ranks-per-process 4

# ---- GPU memory

gpu=$folder/libcollnet_plugin_gpu.so
one=(all_reduce --hosts 2 --gpus 1 -b 1M -e 1M "${chain[@]}")
export PLUG_PCI=/sys/devices/pci0000:16/0000:16:01.0/0000:18:00.0
run 'GPU memory' 0 "$gpu" "${one[@]}"
logged 'GPU memory' 'via COLLNET/collplug/0/GDRDMA' 8
logged 'GPU memory' 'collnet plug finalize, flushes no' 2
PLUG_FLUSH=1 run 'forceFlush' 0 "$gpu" "${one[@]}"
logged 'forceFlush' 'collnet plug finalize, flushes yes' 2
PLUG_FLUSH=1 COLL_FAULT=iflush run 'iflush' 2 "$gpu" "${one[@]}"
logged 'iflush' 'WARN NET/CollNet: rank . channel . on plug0: collplug: iflush fails with ncclInternalError'
unset PLUG_PCI

# ---- what the plugin does not reduce runs over another algorithm, or is refused

run 'half' 0 "$newest" "${small[@]}" -d half
COLL_TYPES=int run 'integers only' 2 "$newest" "${small[@]}" "${chain[@]}"
logged 'integers only' 'expected several hosts, a net plugin with a collective network that reduces the type'
COLL_OPS=sum run 'sums only' 2 "$newest" "${small[@]}" "${chain[@]}" -o max
logged 'sums only' 'expected several hosts, a net plugin with a collective network that reduces the type'
COLL_OPS=sum run 'sums' 0 "$newest" "${small[@]}" "${chain[@]}" -o sum
COLL_TYPES=int run 'integers' 0 "$newest" "${small[@]}" "${chain[@]}" -d int32

# ---- off, thresholds, and ranks that differ

NCCL_COLLNET_ENABLE=0 run 'off' 0 "$newest" "${small[@]}"
! grep -q 'NET/CollNet' log || fail 'off: CollNet is used'
NCCL_COLLNET_NODE_THRESHOLD=3 run 'threshold' 0 "$newest" "${small[@]}"
logged 'threshold' 'Communicator has 2 nodes which is less than CollNet node threshold 3, disabling CollNet'
run 'one rank without' 0 "$newest" "${small[@]}" --env-odd NCCL_COLLNET_ENABLE=0
logged 'one rank without' 'CollNet is not used, because rank [0-9] does not enable it'
run 'a host without' 0 "$newest" "${small[@]}" --env-odd "NCCL_NET_PLUGIN=$folder/libnet_plugin_12.so"
logged 'a host without' 'CollNet is not used, because rank [0-9] has none'
logged 'a host without' 'NET/CollNet: rank [0-9]: .* has no collective network: it has none of ncclCollNetPlugin_v8'
NCCL_NET=IB run 'no plugin' 0 "$newest" "${small[@]}"
logged 'no plugin' 'has no collective network: its network IB is not that of a plugin'
COLL_DEVICE=other run 'another device' 0 "$newest" "${small[@]}"
logged 'another device' 'no NIC of the host is a device of collplug'
run 'no test' 0 "$folder/libcollnet_plugin_lame.so" "${small[@]}"
logged 'no test' 'the table ncclCollNetPlugin_v12 has no test, expected all functions of the version'

# ---- a plugin that fails before the ranks have agreed

as="WARN NET/CollNet: rank . does not use the collective network of $newest:"
at='WARN NET/CollNet: rank . channel . on plug0: collplug:'
given='WARN Cannot initialize CollNet, using point-to-point network instead'
without init "$as init fails with ncclSystemError"
without devices "$as devices fails with ncclInternalError"
without count=100000 "$as devices returns a count of 100000, expected 0 to 64"
without count=0 'NET/CollNet: rank .: .* has no collective network: collplug has no device'
without props "$as getProperties fails for device 0 with ncclSystemError"
without short "$as device 0 reduces at most 4096 bytes, expected [0-9]+ or more: NCCL_BUFFSIZE must be lower"
without support "$as reduceSupport fails with ncclInternalError"
without listen "$at listen fails with ncclSystemError \(2\)"
without nolisten "$at listen returns no object and no error"
without connect "$at connect fails with ncclRemoteError \(6\)"
without both "$at connect fails with ncclSystemError \(2\)"
without closelisten "$at closeListen fails with ncclInternalError \(3\)"
without regmr "$at regMr of host memory fails with ncclSystemError \(2\)"
without dereg "$at deregMr fails with ncclInternalError \(3\)"
COLL_MEMBER=1 without connect "$given"
COLL_MEMBER=1 without regmr "$given"
COLL_FAULT=slow run 'slow' 0 "$newest" "${small[@]}" "${chain[@]}"
logged 'slow' 'Connected Collnet Chains' 4
COLL_FAULT=lost run 'lost' 0 "$newest" "${small[@]}"
logged 'lost' 'the plugin collplug has not connected the heads of all hosts in 16 s'
logged 'lost' "$given" 2

# ---- one that fails later

fault reduce=3 2 "$at iallreduce fails with ncclRemoteError \(6\)"
fault test 2 "$at test fails with ncclInternalError \(3\)"
fault size 2 "$at test reports 1073741824 bytes of a reduction of [0-9]+"
fault closecoll 0 "$at closeColl fails with ncclSystemError \(2\)"
fault finalize 0 'WARN NET/CollNet: finalize of collplug fails with ncclInternalError'
COLL_FAULT=never COLL_MEMBER=1 run 'a reduction that never ends' 10 "$newest" "${small[@]}" "${chain[@]}" --budget-time 1
logged 'a reduction that never ends' 'the reduction of all hosts'

# ---- a rank is killed, a head or not, before and while the network reduces

for rank in 0 1 2; do
	for nth in 300 800 1200; do
		echo "os.task rank=$rank nth=$nth kill" >plan
		run "killed: rank $rank, $nth" 2 "$newest" all_reduce --hosts 2 --gpus 2 -b 1M -e 4M "${chain[@]}" --faults plan
		logged "killed: rank $rank, $nth" "FAIL killed rank=$rank"
	done
done
exit $bad
