#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# INFO lines as engineers read NCCL's: each call with its buffers, types and operation by name, communicator
# and stream; what is chosen for it; bus ids at init; and each subsystem of NCCL_DEBUG_SUBSYS logs something,
# or a line reports that it does not. Settings that cannot be used get a WARN line each.
#	log_lines_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"

# logs SUBSYS ARGS...: the log of two ranks
logs() {
	local subsys=$1
	shift
	"$doppel" run "$@" -b 1K -e 1K --place out --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS="$subsys" >out 2>err ||
		fail "$subsys, $*: exit code $?"
	cat out err >all
}
# has TIMES PATTERN: so many lines of the log
has() {
	local n
	n=$(grep -cE -- "$2" all)
	[ "$n" = "$1" ] || { fail "$n lines have '$2', expected $1:"; grep NCCL all | head -5; }
}

p='0x[0-9a-f]+'
logs COLL all_reduce --gpus 2
has 2 "ncclAllReduce: opCount 0 sendbuff $p recvbuff $p count 256 datatype float op sum root -1 comm $p \[nranks=2\] stream $p rank [01]$"
has 2 "ncclAllReduce: opCount 0: 1024 Bytes, 256 of float, op sum -> Algo [A-Z_]+ proto [A-Z0-9]+ channel\{Lo\.\.Hi\}=\{0\.\.[0-9]+\}$"
logs COLL broadcast --gpus 2 -d bfloat16 -r 1
has 2 "ncclBroadcast: opCount 0 sendbuff $p recvbuff $p count 512 datatype bfloat16 op none root 1 comm $p"
logs COLL all_reduce --gpus 2 -o mulsum
has 2 "ncclAllReduce: .* op premul_sum root -1 "
logs COLL send_recv --gpus 1 --hosts 2
has 2 "ncclSend: opCount 0 sendbuff $p recvbuff \(nil\) count 256 datatype float op none peer [01] comm $p \[nranks=2\] stream $p rank [01]$"
has 2 "ncclRecv: opCount 0 sendbuff \(nil\) recvbuff $p count 256 datatype float op none peer [01] comm $p"
logs COLL all_to_all --gpus 2
has 2 "ncclAlltoAll: opCount 0 sendbuff $p recvbuff $p count 128 "
logs NET all_reduce --gpus 1 --hosts 2 --env NCCL_IB_HCA=mlx5_0,mlx5_2
has 2 'NCCL INFO NET/IB : Using \[0\]mlx5_0:1/(RoCE|IB) \[1\]mlx5_2:1/(RoCE|IB)$'
logs NET all_reduce --gpus 1 --hosts 2 --env NCCL_IB_DISABLE=1
has 2 'NCCL INFO NET/IB : No device found: rank [01], [0-9]+ HCAs on this host$'
logs INIT all_reduce --gpus 2
has 4 'cudaDev [01] busId 0000:(17|3a):00.0 commId 0x[0-9a-f]+ - Init (START|COMPLETE)$'
has 2 'cudaDev [01] busId 0000:(17|3a):00.0 - Destroy COMPLETE$'
"$doppel" run all_reduce --gpus 2 --transient 3 -b 1K -e 64K --env NCCL_DEBUG=INFO >all 2>&1 || fail "exit code $?"
grep -q "busId 0000:[0-9a-f:.]* - Abort COMPLETE$" all || fail "an abort has no line"

for engine in sim threads; do
	logs ENV all_reduce --gpus 2 --engine $engine --env NCCL_IB_TIMEOUT=18
	has 2 'NCCL_IB_TIMEOUT set by environment to 18\.$'
	logs CALL all_reduce --gpus 2 --engine $engine -m 2
	for call in CommInitRank: GroupStart: AllReduce: GroupEnd: CommDestroy:; do
		grep -q "nccl$call" all || fail "CALL: no nccl$call"
	done
	logs ALLOC all_reduce --gpus 2 --engine $engine
	grep -qE "Cuda Alloc Size [0-9]+ pointer $p: " all || fail "ALLOC: no line"
	[ "$(grep -c 'Cuda Host Alloc' all)" = "$(grep -c 'Cuda Host Free' all)" ] || fail 'ALLOC: not all is freed'
	logs PROFILE all_reduce --gpus 2 --engine $engine
	has 2 'Init timings - ncclCommInitRank: rank [01] nranks 2 total [0-9.]+ s \(bootstrap '
	logs RAS,NVLS all_reduce --gpus 2 --engine $engine
	has 2 'NCCL_DEBUG_SUBSYS: no messages of NVLS: not built$'
done
logs '^COLL' all_reduce --gpus 2
has 0 'no messages of'
# the level changes no run
hash_of() { "$doppel" run all_reduce --gpus 2 -b 1K -e 1K "$@" 2>&1 | grep '^# trace hash'; }
[ "$(hash_of)" = "$(hash_of --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=ALL)" ] || fail 'the log changes the run'

# warns NAME=VALUE PATTERN: one line for each process
warns() {
	"$doppel" run all_reduce --gpus 1 --hosts 2 -b 64 -e 64 --env "$1" >out 2>err || fail "$1: exit code $?"
	[ "$(grep -cE "NCCL WARN $2" err)" = 2 ] || { fail "$1: no '$2' for each process"; cat err; }
}
warns NCCL_NTHREADS=7 'NCCL_NTHREADS is 7, expected a multiple of 32 from 32 to 512; 32 are used$'
warns NCCL_NTHREADS=1024 'NCCL_NTHREADS is 1024, expected a multiple of 32 from 32 to 512; 512 are used$'
warns NCCL_BUFFSIZE=1 'NCCL_BUFFSIZE is 1, expected [0-9]+ to [0-9]+ bytes; [0-9]+ are used$'
warns NCCL_LL_BUFFSIZE=2G 'NCCL_LL_BUFFSIZE is 2147483648, expected '
warns NCCL_IB_HCA=nosuch 'NET/IB: NCCL_IB_HCA=nosuch matches no port of the 8 HCAs of this host: mlx5_0, mlx5_1, '
for good in NCCL_NTHREADS=64 NCCL_BUFFSIZE=4096 NCCL_IB_HCA=mlx5_1 NCCL_IB_HCA=^mlx5_1; do
	"$doppel" run all_reduce --gpus 1 --hosts 2 -b 64 -e 64 --env $good 2>&1 | grep WARN && fail "$good: a warning"
done
exit $bad
