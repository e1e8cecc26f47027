#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Which ranks of a host reach each other through a segment of /dev/shm or of cuMem, and what comes of it: the log's
# line per connection, NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_SHM_DISABLE, NCCL_CUMEM_HOST_ENABLE, and killed ranks, of
# which no segment is left.
#	shm_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)
run() { # run CODE ARGS...
	local code=$1 rc=0
	shift
	timeout 200 "$doppel" run all_reduce --hosts 1 -e 64K -f 16 --env NCCL_DEBUG=INFO \
		--env NCCL_DEBUG_SUBSYS=INIT,SHM "$@" >out 2>err || rc=$?
	[ $rc = "$code" ] || fail "$*: exit code $rc, expected $code"
}
# only TRANSPORT ARGS...: all connections are that one's
only() {
	local via=$1
	shift
	run 0 "$@"
	grep -q "via $via\$" err || fail "$*: no connection via $via"
	! grep ' via ' err | grep -qv "via $via\$" || fail "$*: a connection that is not via $via"
}
off=(--env NCCL_P2P_DISABLE=1)

p2p='P2P/\(CUMEM\|IPC\|direct pointer\)'
only "$p2p" --machine h100-8nic --gpus 2
for per_process in 1 2 4; do
	for engine in sim threads; do
		only SHM/direct/direct --machine h100-8nic --gpus 4 "${off[@]}" --engine $engine --env NCCL_MAX_NCHANNELS=32 \
			--ranks-per-process $per_process
	done
done
run 0 --machine h100-8nic --gpus 2 "${off[@]}"
grep -qE 'Channel 00/0 : 0\[0\] -> 1\[1\] via SHM/direct/direct$' err || fail "the line per connection"
# a file per peer, direction and index, whatever the number of channels
[ "$(grep -c ' made /dev/shm/nccl-[0-9a-f]*, [0-9]* bytes, for rank ' err)" = 4 ] || fail "4 segments expected"

# segments of cuMem, in every program and protocol, and beside pinned memory
cumem=("${off[@]}" --env NCCL_CUMEM_HOST_ENABLE=1)
for engine in sim threads; do
	only SHM/direct/direct/CUMEM --machine h100-8nic --gpus 4 "${cumem[@]}" --engine $engine --env NCCL_MAX_NCHANNELS=32
	only SHM/direct/direct --machine h100-8nic --gpus 4 "${cumem[@]}" --engine $engine --ranks-per-process 4
	run 0 --machine h100-8nic --gpus 4 "${cumem[@]}" --engine $engine --ranks-per-process 2
	grep -q 'via SHM/direct/direct/CUMEM$' err && grep -q 'via SHM/direct/direct$' err || fail "$engine: both kinds expected"
done
run 0 --machine h100-8nic --gpus 2 "${cumem[@]}"
[ "$(grep -c ' made host memory of cuMem, [0-9]* bytes, for rank ' err)" = 4 ] || fail "4 segments expected"
! grep -q ' made /dev/shm' err || fail "a file beside segments of cuMem"
for collective in all_reduce all_gather reduce_scatter all_to_all; do
	for protocol in Simple LL LL128; do
		timeout 200 "$doppel" run $collective --hosts 1 --machine a100-4nic --gpus 4 -b 8 -e 300K -f 47 --warp 32 --races \
			--memory-order=on "${cumem[@]}" --env NCCL_PROTO=$protocol >out 2>err || fail "$collective $protocol: exit code $?"
	done
done
for value in 0 -1; do
	only SHM/direct/direct --machine h100-8nic --gpus 2 "${off[@]}" --env NCCL_CUMEM_HOST_ENABLE=$value
done
only SHM/direct/direct --machine h100-8nic --gpus 2 "${cumem[@]}" --env NCCL_CUMEM_ENABLE=0
only NET/IB --machine h100-8nic --gpus 2 "${cumem[@]}" --env NCCL_SHM_DISABLE=1

# no direct access by topology: two GPUs below different root ports
run 0 --machine pcie-4gpu --gpus 4
grep -q "via $p2p\$" err && grep -q 'via SHM/direct/direct$' err || fail "pcie-4gpu: P2P and SHM expected"
only "$p2p" --machine pcie-4gpu --gpus 4 --env NCCL_P2P_LEVEL=SYS
only "$p2p" --machine pcie-4gpu --gpus 4 --env NCCL_P2P_LEVEL=9
only SHM/direct/direct --machine pcie-4gpu --gpus 4 --env NCCL_P2P_LEVEL=LOC
only SHM/direct/direct --machine workstation-2gpu --gpus 2 "${off[@]}"

# NVLink in one direction only: both ends agree which lines of LL128 arrive whole
grep -v 'target="0000:31:00.0"' "$2/sim/world/machines/a100-2port.xml" >oneway.xml
for collective in all_reduce broadcast send_recv; do
	"$doppel" run $collective --machine oneway.xml --gpus 2 -b 13 -e 64K -f 8 -d int8 --env NCCL_PROTO=LL128 >out 2>&1 ||
		{ fail "NVLink in one direction, $collective: exit code $?"; tail -3 out; }
done

# neither of both
only NET/IB --machine h100-8nic --gpus 2 "${off[@]}" --env NCCL_SHM_DISABLE=1
only NET/Socket --machine workstation-2gpu --gpus 2 "${off[@]}" --env NCCL_SHM_DISABLE=1

# a killed rank leaves no segment (13), wherever it is; most of these are between create and unlink
for nth in 40 80 95 100 105 110 115 120 125 130 135 140 150 200; do
	echo "os.task rank=1 nth=$nth kill" >plan
	run 2 --machine h100-8nic --gpus 3 "${off[@]}" --faults plan
	run 2 --machine h100-8nic --gpus 3 "${cumem[@]}" --faults plan
done
for nth in 5 10 15 20 25 30; do
	echo "os.task rank=1 nth=$nth kill" >plan
	run 2 --machine h100-8nic --gpus 3 "${off[@]}" --faults plan --engine threads
	run 2 --machine h100-8nic --gpus 3 "${cumem[@]}" --faults plan --engine threads
done

# a call that fails ends the run with its name
for site in create map set_access export import address_reserve; do
	echo "cuda.cu_mem_$site nth=1 fail" >plan
	run 2 --machine h100-8nic --gpus 2 "${cumem[@]}" --faults plan
	grep -q 'NCCL WARN cuMem[A-Za-z]* of .*shm connection memory' err || fail "$site: no line names the call"
done
exit $bad
