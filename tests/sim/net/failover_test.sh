#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Failover between the rails of merged NICs, and their recovery, under collectives and messages: links, queue pairs
# and devices fail at moments of the first calls. Results are right while a rail is left. Without one, every rank has
# an error within a bound.
#	failover_test.sh BUILD_DIR SOURCE_DIR [MICROSECONDS...]    the moments, after the first launch
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
shift 2
moments=("$@")
[ $# != 0 ] || moments=(0 60 200 600)
fail_shows=(out err plan)
option=NCCL_IB_RESILIENCY_PORT
short=(--env NCCL_IB_TIMEOUT=12 --env NCCL_IB_RETRY_CNT=2)
recover=(--env ${option}_RECOVERY=1 --env ${option}_RECOVERY_START_DELAY=1
	--env ${option}_RECOVERY_ALIVE_MSG_BATCH_INTERVAL=5)

retries=("${short[@]}")
run() { # run CODE PLAN COLLECTIVE ARGS...
	local code=$1 rc=0
	echo "$2" >plan
	timeout 200 "$doppel" run "$3" --machine a100-2port --hosts 2 --env NCCL_DEBUG=WARN "${retries[@]}" \
		--env ${option}_FAILOVER=1 --faults plan "${@:4}" >out 2>err || rc=$?
	[ $rc = "$code" ] || fail "$*: exit code $rc, expected $code"
}

# relays (PXN) with three GPUs of a host, receives of several messages in all_to_all and sendrecv, four rails
for at in "${moments[@]}"; do
	for fault in "fabric.link host=0 port=1 after=collective+${at}us down" \
		"fabric.link host=1 port=0 after=collective+${at}us flap times=3 each=100ms" \
		"verbs.cqe rank=0 after=collective+${at}us error status=RETRY_EXC_ERR" \
		"verbs.qp rank=1 after=collective+${at}us fatal"; do
		run 0 "$fault" all_reduce --gpus 3 -b 64K -e 64K "${recover[@]}"
		run 0 "$fault" all_to_all --gpus 3 -b 256K -e 256K
		run 0 "$fault" sendrecv --gpus 2 -b 1M -e 1M --env NCCL_NET_MERGE_LEVEL=SYS "${recover[@]}"
		run 0 "$fault" all_reduce --gpus 2 -b 64K -e 64K --races --env NCCL_NET_MERGE_LEVEL=SYS
	done
	run 0 "verbs.device host=0 port=1 after=collective+${at}us fatal" all_reduce --gpus 1 -b 64K -e 64K
done

# The last acknowledgements of both directions are lost: both ends have what they wait for, and wait for a report. The
# receiving end reports its end before its connection closes.
retries=()
for nth in 20 22; do
	run 0 "fabric.link host=0 port=1 nth=$nth down" all_reduce --gpus 1 -b 64K -e 64K --seed 1 \
		--env NCCL_ALGO=Ring --env NCCL_PROTO=Simple
done
# The peer's end is read while a rail is down, as the reports about rails are: the last sends are done then.
run 0 "fabric.link host=0 port=0 after=collective+1us down for=215ms gid=1
fabric.link host=0 port=1 after=collective+600ms down
heal after=300s" all_reduce --gpus 2 --ranks-per-process 2 --drive process -b 150 -e 150 -d uint64 -o min --any-numbers \
	-n 64 --place out --pauses 128 "${recover[@]}" --env NCCL_IB_TIMEOUT=11 --env NCCL_IB_RETRY_CNT=2 \
	--env NCCL_MAX_NCHANNELS=4 --seed 0x132dab2
# A device is lost when data has come over it that is not flushed yet: another device flushes.
retries=(--env NCCL_IB_TIMEOUT=10 --env NCCL_IB_RETRY_CNT=7)
run 0 'verbs.device host=1 port=1 after=collective+11us fatal' all_reduce --gpus 1 -b 146312 -e 146312 --place in \
	-n 2 -d uint32 -o mulsum --any-numbers --seed 1 --env NCCL_PROTO=LL128 --env NCCL_MAX_NCHANNELS=4 \
	--env NCCL_IB_ADAPTIVE_ROUTING=0 --budget-events 200000
# A rail comes back while parts that were written again are on the other one.
retries=(--env NCCL_IB_TIMEOUT=11 --env NCCL_IB_RETRY_CNT=1)
run 0 "fabric.path host=1 port=1 after=collective+1us clog for=1520us
verbs.start host=1 port=0 after=collective+1us error status=RETRY_EXC_ERR" all_reduce --gpus 1 -b 68043 -e 68043 -n 3 \
	-d uint8 --seed 3 --env NCCL_PROTO=Simple --env NCCL_MAX_NCHANNELS=1 "${recover[@]}"
retries=("${short[@]}")

# the lines at both ends
run 0 "fabric.link host=0 port=1 after=collective+50us down" all_reduce --gpus 1 -b 64K -e 64K
grep -qE 'rank 0 -> rank 1 channel . *: rail 1 \(mlx5_1, peer mlx5_1\) failed: .*its traffic goes over mlx5_0$' err ||
	fail "the failed rail is not named at the sending end"
grep -qE 'rank 1 <- rank 0 channel . *: rail 1 .* failed: the peer reports: .*RETRY_EXC_ERR' err ||
	fail "the failed rail is not named at the receiving end"

# the port comes up with another GID, which recovery chooses; both ends use the rail again
run 0 "fabric.link host=0 port=1 after=collective+50us down for=30ms gid=1" all_reduce --gpus 1 -b 256K -e 256K \
	-n 200 "${recover[@]}" --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=NET
grep -qF 'Got async event : GID table change' err || fail "no event of the GID table"
grep -qF 'mlx5_1 port 1 uses GID 1: ::ffff:172.17.0.2' err || fail "the new GID is not chosen"
for end in '0 -> rank 1' '1 <- rank 0' '1 -> rank 0' '0 <- rank 1'; do
	grep -qE "rank $end channel . *: rail 1 .* is used again" err || fail "rank $end does not use the rail again"
done

# no rail is left: every rank has an error, in less than a second
run 2 "fabric.link host=0 after=collective+50us count=100 down" all_reduce --gpus 3 -b 64K -e 64K
grep -qE 'no rail is left: rail 0 \(mlx5_[0-9], .*\): .*RETRY_EXC_ERR.*; rail 1 \(mlx5_[0-9]' err ||
	fail "no line names all rails"
[ "$(grep -c '^doppel: rank [0-5]: ncclCommGetAsyncError' err)" = 6 ] || fail "a rank has no error"
grep -qE '^FAIL error .* vtime=[0-9.]+ms' err || fail "not within a second"

# without the option the same fault is an error
rc=0
echo "fabric.link host=0 port=1 after=collective+50us down" >plan
"$doppel" run all_reduce --machine a100-2port --hosts 2 --gpus 1 -b 64K -e 64K --faults plan "${short[@]}" \
	>out 2>err || rc=$?
[ $rc = 2 ] || fail "without the option: exit code $rc, expected 2"
exit $bad
