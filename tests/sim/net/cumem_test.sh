#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Memory of p2p connections with NCCL_CUMEM_ENABLE=1: its lines per connection, within a process and between
# processes, under both engines; faults of its calls; killed ranks, of which no mailbox and no memory remains.
set -u
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)
run() { # run CODE ARGS...
	local code=$1 rc=0
	shift
	timeout 200 "$doppel" run all_reduce --hosts 1 --machine h100-8nic -e 64K -f 16 --env NCCL_DEBUG=INFO \
		--env NCCL_DEBUG_SUBSYS=INIT,P2P "$@" >out 2>err || rc=$?
	[ $rc = "$code" ] || fail "$*: exit code $rc, expected $code"
}
only() { # only TRANSPORT ARGS...: all connections are that one's
	local via=$1
	shift
	run 0 "$@"
	grep -q "via $via\$" err || fail "$*: no connection via $via"
	! grep ' via ' err | grep -qv "via $via\$" || fail "$*: a connection that is not via $via"
}
on=(--env NCCL_CUMEM_ENABLE=1)

for engine in sim threads; do
	only P2P/CUMEM --gpus 4 --ranks-per-process 1 --engine $engine "${on[@]}"
	only 'P2P/direct pointer' --gpus 4 --ranks-per-process 4 --engine $engine "${on[@]}"
	run 0 --gpus 4 --ranks-per-process 2 --engine $engine "${on[@]}"
	grep -q 'via P2P/CUMEM$' err && grep -q 'via P2P/direct pointer$' err || fail "$engine: both kinds expected"
done
only P2P/CUMEM --gpus 2 --ranks-per-process 1
only P2P/IPC --gpus 2 --ranks-per-process 1 --env NCCL_CUMEM_ENABLE=0

# a call that fails ends the run with its name
for site in create map set_access export import address_reserve; do
	echo "cuda.cu_mem_$site nth=1 fail" >plan
	run 2 --gpus 2 --ranks-per-process 1 "${on[@]}" --faults plan
	grep -q 'NCCL WARN cuMem[A-Za-z]* of .*p2p connection memory' err || fail "$site: no line names the call"
done
echo "os.mailbox nth=1 fail" >plan
run 2 --gpus 2 --ranks-per-process 1 "${on[@]}" --faults plan
grep -q 'NCCL WARN rank [01]: no mailbox nccl-' err || fail "no line names the mailbox"

# a rank that dies leaves nothing (13) and is named
for nth in 40 80 95 100 105 110 115 120 125 130 135 140 150 200; do
	echo "os.task rank=1 nth=$nth kill" >plan
	run 2 --gpus 3 --ranks-per-process 1 "${on[@]}" --faults plan
done
exit $bad
