#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One queue pair fails, and communicators of 8 ranks end for it. Who learns of it from a connection that
# closes as a consequence names the queue pair that failed first, whose it is and towards whom. And whichever
# change of a queue pair fails while ranks connect, no run ends in a deadlock: one task may call both ends. And
# whichever cudaSetDevice of such a task fails, the communicators of its ranks are ended.
set -euo pipefail
doppel=$1/doppel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/plan" <<'P'
verbs.cqe rank=1 nth=32 error status=GENERAL_ERR
# The failure also goes around the bootstrap's ring, the other way; rank 0 is slow to pass it on.
os.task rank=0 after=1ms prob=1/2 starve by=10ms
P
far=0

for seed in {1..60}; do
	rc=0
	"$doppel" run all_reduce --hosts 4 --gpus 2 -b 64K -e 64K --seed "$seed" --faults "$work/plan" \
		>"$work/out" 2>&1 || rc=$?
	# rank 1 <- rank 0 channel 0 qp 0x105 on mlx5_0 (peer ...): RDMA_WRITE completed with ... vendor_err
	first=$(sed -n 's/.*: rank \([0-9]*\) [<>-]* rank \([0-9]*\) channel [0-9]* qp \(0x[0-9a-f]* on [a-z0-9_]*\) .*IBV_WC_GENERAL_ERR (21) vendor_err.*/qp \3 of rank \1 towards rank \2:/p' "$work/out")
	if [ $rc != 2 ] || [ "$(wc -l <<<"$first")" != 1 ] || [ -z "$first" ] ||
		grep "the peer gives up: " "$work/out" | grep -vF "the peer gives up: $first"; then
		echo "seed $seed: exit code $rc, failed first: '$first'"
		cat "$work/out"
		exit 1
	fi
	far=$((far + $(grep -c "the peer gives up: " "$work/out" || true)))
done
echo "$far connections told of another one's failure"
[ $far -gt 0 ]

# nth_fails SITE TIMES ARGUMENT...: the nth call of the site fails, each of so many
nth_fails() {
	local site=$1 times=$2 nth rc
	shift 2
	for ((nth = 1; nth <= times; nth++)); do
		rc=0
		echo "$site nth=$nth fail" >"$work/plan"
		"$doppel" run "$@" --faults "$work/plan" >"$work/out" 2>&1 || rc=$?
		[ $rc = 2 ] || [ $rc = 0 ] && continue # 0: one that closes, which nothing waits for
		echo "call $nth of $site fails: exit code $rc, expected 2 or 0"
		cat "$work/out"
		exit 1
	done
}
NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 nth_fails 'verbs.modify_qp rank=2' 27 scatter --hosts 2 --gpus 3 \
	--ranks-per-process 3 --drive process -b 3K -e 3K
nth_fails 'cuda.set_device rank=0' 22 reduce --hosts 2 --gpus 1 --drive process -b 48K -e 48K
