#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# libnccl-net-doppel.so, our networks as a net plugin, carries every collective between two hosts: over verbs
# with receives of several buffers, merged NICs and GPU memory, and over sockets. The stack loads it as it
# loads any plugin. Other versions than the newest one are chosen by hiding the newer tables.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
plugin=$(realpath "$1")/libnccl-net-doppel.so
test_begin "$1"
fail_shows=(log)
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH

# run WHAT EXPECTED_CODE ARGS...: the log goes to `log`
run() {
	local what=$1 code=$2 rc=0
	NCCL_NET_PLUGIN=$plugin "$doppel" run "${@:3}" >log 2>&1 || rc=$?
	[ $rc = "$code" ] || fail "$what: exit code $rc, expected $code"
}
logged() { grep -qE -- "$2" log || fail "$1: no line matches '$2'"; }

for engine in sim threads; do
	for net in 0 1; do
		export NCCL_IB_DISABLE=$net
		name=$([ $net = 1 ] && echo Socket || echo IB)
		for collective in all_reduce all_gather reduce_scatter broadcast reduce all_to_all send_recv gather scatter; do
			run "$collective, $engine, $name" 0 $collective --hosts 2 --gpus 2 -b 8 -e 256K -f 32 --engine $engine
		done
		logged "$engine $name" "NET/Plugin: rank . uses Doppel \(version 12\)"
		logged "$engine $name" "NET/Doppel: $name, [1-9][0-9]* devices"
		logged "$engine $name" 'via NET/Doppel'
	done
done
unset NCCL_IB_DISABLE

run 'two ports' 0 all_to_all --hosts 2 --gpus 2 --machine a100-2port -b 64K -e 64K
logged 'two ports' 'Doppel merges 2 devices'
echo 'fabric.link host=1 nth=3 down' >plan
run 'a link goes down' 2 all_reduce --hosts 2 --gpus 2 -b 1M -e 1M --faults plan
logged 'a link goes down' 'NCCL WARN NET/IB: rank 0'
exit $bad
