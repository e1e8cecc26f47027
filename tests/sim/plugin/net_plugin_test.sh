#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Net plugins (net_plugin.h) of each version carry every collective between two hosts. Broken ones
# are an error that names the plugin, its function, and the connection; none is a hang.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
folder=$(realpath "$1")/tests runtime=$(realpath "$1")/libdoppel-rt.so
test_begin "$1"
fail_shows=(log)
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH
newest=$folder/libnet_plugin_12.so
small=(all_reduce --hosts 2 --gpus 2 -b 64K -e 64K)

# run WHAT EXPECTED_CODE PLUGIN ARGS...: the log goes to `log`
run() {
	local what=$1 code=$2 rc=0
	NCCL_NET_PLUGIN=$3 "$doppel" run "${@:4}" >log 2>&1 || rc=$?
	[ $rc = "$code" ] || fail "$what: exit code $rc, expected $code"
}

# fault FAULT EXPECTED_CODE PATTERN [ARGS...]: in both engines
fault() {
	local engine
	for engine in sim threads; do
		PLUG_FAULT=$1 run "$1, $engine" "$2" "$newest" "${small[@]}" --engine $engine "${@:4}"
		logged "$1, $engine" "$3"
	done
}

# logged WHAT PATTERN [TIMES]: that many lines match
logged() {
	local n
	n=$(grep -cE -- "$2" log)
	[ "$n" = "${3:-$n}" ] && [ "$n" -gt 0 ] || fail "$1: $n lines match '$2', expected ${3:-some}"
}

# ---- each version, and the newest of several

for version in 8 9 10 11 12; do
	run "version $version" 0 "$folder/libnet_plugin_$version.so" "${small[@]}" --engine threads
	logged "version $version" "NET/Plugin: rank 0 uses plug \(version $version\)"
	run "version $version" 0 "$folder/libnet_plugin_$version.so" "${small[@]}"
	logged "version $version" "NET/Plugin: rank . uses plug \(version $version\)" 4
	logged "version $version" 'via NET/plug'
	# one for each process up to version 10, one for each communicator from 11 on: here the same
	logged "version $version" "plug init: version $version" 4
	[ $version -lt 11 ] || logged "version $version" 'plug finalize' 4
	grep 'trace hash' log >>hashes
done
[ "$(sort -u hashes | wc -l)" = 1 ] || fail "runs of the versions differ: $(cat hashes)"
run 'two versions' 0 "$folder/libnet_plugin_8_10.so" "${small[@]}"
logged 'two versions' 'uses other \(version 10\)' 4

# ---- every collective, receives of one buffer and of several, calls that return nothing

for collective in all_reduce all_gather reduce_scatter broadcast reduce all_to_all send_recv gather scatter \
	hypercube; do
	for engine in sim threads; do
		run "$collective, $engine" 0 "$newest" $collective --hosts 2 --gpus 2 -b 8 -e 256K -f 32 \
			--engine $engine
		PLUG_RECVS=8 PLUG_FAULT=late run "$collective, $engine, several buffers" 0 "$newest" \
			$collective --hosts 2 --gpus 2 -b 8 -e 256K -f 32 --engine $engine
	done
done
PLUG_DEVICES=8 run 'eight devices' 0 "$newest" all_to_all --hosts 2 --gpus 8 -b 64K -e 64K
logged 'eight devices' 'on plug[1-7]$'
PLUG_DEVICES=8 PLUG_FAULT=onename run 'one name' 0 "$newest" all_to_all --hosts 2 --gpus 8 -b 64K -e 64K
logged 'one name' 'on plug0#[1-7]$'
export PLUG_DEVICES=2 PLUG_SAME_CARD=1 PLUG_PCI=/sys/devices/pci0000:16/0000:16:01.0/0000:18:00.0
run 'two ports' 0 "$newest" "${small[@]}"
logged 'two ports' 'plug merges 2 devices, the last is 1'
logged 'two ports' 'NET/Plugin: plug merges 2 devices, the first of them plug0$'
logged 'two ports' 'rank . -> rank . channel .: plug on plug[2-9]$'
PLUG_FAULT=merge run 'ports apart' 0 "$newest" "${small[@]}"
logged 'ports apart' 'does not merge 2 devices, the first of them plug0, which is used alone: makeVDevice'
run 'version 8' 0 "$folder/libnet_plugin_8.so" "${small[@]}"
! grep -q 'plug merges' log || fail 'version 8: devices are merged, which it cannot'
unset PLUG_DEVICES PLUG_SAME_CARD PLUG_PCI

# ---- real processes, between which the HCA double does not reach

NCCL_SHM_DISABLE=1 PLUG_PROCESSES=1 run 'processes' 0 "$newest" all_reduce --processes 2 --gpus 1 -b 64K -e 64K
logged 'processes' 'Using network plug' 2
logged 'processes' 'via NET/plug'

# ---- a thread of the plugin, which engine sim does not know

PLUG_FAULT=thread run 'a thread, threads' 0 "$newest" "${small[@]}" --engine threads
logged 'a thread, threads' 'NCCL INFO plug thread$' 4
PLUG_FAULT=thread run 'a thread, sim' 0 "$newest" "${small[@]}"
! grep -q 'plug thread' log || fail 'a thread, sim: it writes a line, of no process of the world'

# ---- GPU memory

gpu=$folder/libnet_plugin_gpu.so
one=(all_reduce --hosts 2 --gpus 1 -b 1M -e 1M)
export PLUG_PCI=/sys/devices/pci0000:16/0000:16:01.0/0000:18:00.0
run 'GPU memory' 0 "$gpu" "${one[@]}"
logged 'GPU memory' 'plug gpu: flushes no, regions yes, dma-bufs no' 2
PLUG_FLUSH=1 run 'forceFlush' 0 "$gpu" "${one[@]}"
logged 'forceFlush' 'plug gpu: flushes yes, regions yes, dma-bufs no' 2
PLUG_DMABUF=1 run 'dma-bufs' 0 "$gpu" "${one[@]}"
logged 'dma-bufs' 'plug gpu: flushes no, regions no, dma-bufs yes' 2
PLUG_DMABUF=1 PLUG_FAULT=nodmabuf run 'no dma-bufs' 0 "$gpu" "${one[@]}"
logged 'no dma-bufs' 'regMrDmaBuf of plug on plug0 returns ncclSystemError'
logged 'no dma-bufs' 'plug gpu: flushes no, regions yes, dma-bufs no' 2
PLUG_FAULT=nogpu run 'no GPU memory' 0 "$gpu" "${one[@]}"
logged 'no GPU memory' 'regMr of plug on plug0 returns ncclSystemError for GPU memory'
logged 'no GPU memory' 'the buffer is in host memory'
PLUG_PCI=/sys/devices/pci0000:1d/0000:1d:01.0/0000:1e:00.0 run 'flushes' 0 "$gpu" "${one[@]}" \
	--machine a100-4nic
logged 'flushes' 'plug gpu: flushes yes, regions yes, dma-bufs no' 2
unset PLUG_PCI
run 'a far device' 0 "$gpu" "${one[@]}"
logged 'a far device' 'NIC plug0 is not in it: put below the first CPU'
logged 'a far device' 'plug gpu: flushes no, regions no, dma-bufs no' 2

# ---- a plugin that fails

at='WARN NET/Plugin: rank . (->|<-) rank . channel . on plug0: plug:'
as="WARN rank .: NCCL_NET_PLUGIN=$newest:"
fault init 2 "$as init fails with ncclSystemError"
fault devices 2 "$as devices fails with ncclInternalError"
fault count=100000 2 "$as devices returns a count of 100000, expected 0 to 1024"
fault noname 2 "$as invalid properties of device 0: no name"
fault norecvs 2 "$as invalid properties of device 0: maxRecvs is less than 1"
fault offload 2 "$as invalid properties of device 0: transfers that kernels start, which is not built"
fault listen 2 "$at listen fails with ncclSystemError \(2\)"
fault nolisten 2 "$at listen returns no object and no error"
fault connect 2 "$at connect fails with ncclRemoteError \(6\)"
fault both 2 "$at connect fails with ncclSystemError \(2\)"
fault accept 2 "$at accept fails with ncclSystemError \(2\)"
fault regmr 2 "$at regMr of host memory fails with ncclSystemError \(2\)"
fault irecv 2 "$at irecv fails with ncclInvalidArgument \(4\)"
fault test 2 "$at test fails with ncclInternalError \(3\)"
fault isend=20 2 "$at isend fails with ncclRemoteError \(6\)"
fault size 2 "$at test reports a message of 1073741824 bytes in a receive of [0-9]+"
fault short 2 "$at a message of [0-9]+ bytes, more than its longest one, 4096: NCCL_BUFFSIZE"
PLUG_FAULT=never run 'a receive that never ends' 10 "$newest" "${small[@]}" --budget-time 1
logged 'a receive that never ends' 'livelock: no progress'
logged 'a receive that never ends' 'waits .*for "data from the peer"|"data from the peer" at'

# ---- names

run 'no device' 0 "$newest" "${small[@]}"
PLUG_FAULT=count=0 run 'no device' 0 "$newest" "${small[@]}"
logged 'no device' "NET/Plugin: rank 0 does not use $newest: plug has no device"
logged 'no device' 'Using network IB'
run none 0 none "${small[@]}"
! grep -q 'NET/Plugin' log || fail 'none: a plugin is used'
run 'a list' 0 "nosuch,$newest" "${small[@]}"
logged 'a list' 'NET/Plugin: rank 0 does not use nosuch: libnccl-net-nosuch.so cannot be loaded'
logged 'a list' 'Using network plug' 4
run 'no file' 2 nosuch "${small[@]}"
logged 'no file' 'WARN rank .: NCCL_NET_PLUGIN=nosuch: libnccl-net-nosuch.so cannot be loaded: '
run 'no file' 2 ./libnosuch.so "${small[@]}"
logged 'no file' 'NCCL_NET_PLUGIN=./libnosuch.so: ./libnosuch.so cannot be loaded: '
run 'no plugin' 2 "$runtime" "${small[@]}"
logged 'no plugin' 'has none of ncclNetPlugin_v8 to _v12, expected a net plugin of one of these'
run 'no test' 2 "$folder/libnet_plugin_lame.so" "${small[@]}"
logged 'no test' 'the table ncclNetPlugin_v12 has no test, expected all functions of the version'

cp "$newest" libnccl-net-mine.so
cp "$folder/libnet_plugin_9.so" libnccl-net.so
export LD_LIBRARY_PATH=$PWD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
run 'a short name' 0 mine "${small[@]}"
logged 'a short name' 'uses plug \(version 12\) of libnccl-net-mine.so' 4
run 'the usual file' 0 libnccl-net.so "${small[@]}"
logged 'the usual file' 'uses plug \(version 9\) of libnccl-net.so' 4
"$doppel" run "${small[@]}" >log 2>&1 || fail 'without the variable: it fails'
! grep -q 'NET/Plugin' log || fail 'without the variable: a world uses a library of the real machine'

NCCL_NET=PLUG run 'NCCL_NET' 0 "$newest" "${small[@]}"
logged 'NCCL_NET' 'Using network plug' 4
NCCL_NET=Socket run 'NCCL_NET' 0 "$newest" "${small[@]}"
! grep -q 'NET/Plugin' log || fail 'NCCL_NET=Socket: a plugin is used'
NCCL_NET=other run 'NCCL_NET' 2 "$newest" "${small[@]}"
logged 'NCCL_NET' 'the network other, which NCCL_NET names, is not one of IB, Socket, and no net plugin of'
NCCL_NET=other run 'NCCL_NET' 2 none "${small[@]}"
logged 'NCCL_NET' "NCCL_NET is 'other', which is not a network; expected one of: IB, Socket"

# ---- ranks that differ

run 'two plugins' 2 "$newest" "${small[@]}" --env-odd "NCCL_NET_PLUGIN=$folder/libnet_plugin_8_10.so"
logged 'two plugins' 'WARN rank .: its network is (plug|other) of a plugin, and rank . has another one: NCCL_NET_PLUGIN'
run 'a plugin on some ranks' 0 "$newest" "${small[@]}" --env-odd NCCL_NET_PLUGIN=none
logged 'a plugin on some ranks' 'rank [02]: uses the network IB, because rank . does not have plug' 2
logged 'a plugin on some ranks' 'Using network IB'
logged 'a plugin on some ranks' 'plug finalize' 2
exit $bad
