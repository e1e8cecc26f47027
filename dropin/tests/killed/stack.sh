#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Doppel's stack, built for rdma-core (preset soft-roce), on the drop-in between two processes. An
# all-reduce of every size is right. If either process is killed at a random moment, the other ends
# by itself with an error, and the next run succeeds.
# Usage: stack.sh BUILD_DIR SOFT_ROCE_BUILD_DIR [KILLS [SEED]]
set -euo pipefail
launcher=$1/doppel stack=$2/doppel kills=${3:-5}
RANDOM=${4:-1}
for file in "$launcher" "$stack" "$1/verbs/libibverbs.so.1"; do
	[ -e "$file" ] || { echo "no $file: skipped"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../../../tests/lib.sh"
shm=$(shm_list)
limit=40 # seconds: NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT below give up after two
export NCCL_IB_TIMEOUT=14 NCCL_IB_RETRY_CNT=6

run() { timeout $((3 * limit)) "$launcher" verbs-run --fabric "stack-$$" \
	"$stack" run all_reduce --processes 2 --limit $limit "$@"; }
check() {
	run -b 8 -e 4M >"$dir/out" 2>&1 && grep -q '^# Out of bounds values : 0 OK' "$dir/out" && return
	tail -20 "$dir/out"
	echo "$1"
	exit 1
}
check "the all-reduce between two processes failed"
errors=0 over=0 unborn=0
for ((i = 1; i <= kills; i++)); do
	rc=0
	rm -f "$dir/out" && touch "$dir/out" # not the last one's
	run -b 64K -e 64K -n 60000 >"$dir/out" 2>&1 &
	job=$!
	ms=$((RANDOM % 1200)) victim=$((RANDOM % 2))
	until_true $limit grep -q "^# process $victim: pid" "$dir/out" || true
	pass_ms $ms
	pid=$(sed -n "s/^# process $victim: pid \([0-9]*\),.*/\1/p" "$dir/out")
	[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
	wait $job 2>/dev/null || rc=$?
	if [ $rc = 124 ] || { [ -n "$pid" ] && [ $rc = 0 ]; }; then
		tail -20 "$dir/out"
		echo "kill $i: process $victim after $ms ms, and the run ended with $rc"
		exit 1
	fi
	if grep -q '^doppel: process . .* ended with 10$' "$dir/out"; then
		# A rank was killed before it checked in at the root: no other rank can detect that,
		# as in NCCL.
		grep -q 'to check in at the root' "$dir/out" || { tail -20 "$dir/out"; exit 1; }
		unborn=$((unborn + 1))
	elif [ -n "$pid" ]; then errors=$((errors + 1)); else over=$((over + 1)); fi
	left=$(shm_left "$shm")
	[ -z "$left" ] || { echo "left in /dev/shm: $left"; exit 1; }
done
check "the all-reduce after the kills failed"
echo "right before and after; $errors killed peers, each an error at the other; $unborn killed before" \
	"they came to the root (the other waits, and reports for which rank); $over before they began"
