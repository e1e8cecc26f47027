#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The hang explainer: two planted bugs and two faults, and the lines that it must come to, in order.
# Usage: explain_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
# shellcheck source=tests/mutants/mutant.sh
. "$2/tests/mutants/mutant.sh"
mutant_init "$1" "$2"
# The lines below are those of rings in SIMPLE.
export NCCL_ALGO=Ring NCCL_PROTO=Simple
bad=0
dir=$work/explain
rm -rf "$dir"
mkdir -p "$dir"

# expect WHAT LINE...: the explanation in $dir/out has a line for each pattern, in this order, and
# the list of tasks comes after all of them.
expect() {
	local what=$1 at=0 line
	shift
	sed -n '/why nothing moves/,/tasks are alive at step/p' "$dir/out" >"$dir/why"
	for pattern in "why nothing moves, the innermost cause last:" "$@" "tasks are alive at step"; do
		line=$(tail -n +$((at + 1)) "$dir/why" | grep -m1 -nE "$pattern" | cut -d: -f1 || true)
		if [ -z "$line" ]; then
			echo "$what: no line behind line $at matches: $pattern"
			cat "$dir/why"
			bad=1
			return
		fi
		at=$((at + line))
	done
	echo "$what: explained in $((at - 2)) lines"
}

run() { # run ARGUMENT...
	"$build_dir/doppel" run all_reduce "$@" >"$dir/out" 2>&1 && { echo "no failure: $*"; bad=1; } || true
}

for name in flag_reset_too_early recv_credit_too_late; do
	mutant_build "$name" || exit 1
done
mutant_seed flag_reset_too_early 1
cp "$work/flag_reset_too_early/out" "$dir/out"
expect "a slot's flag reset too early" \
	'rank [0-9] kernel [0-9]+ channel [01] step [0-9]+ waits for "ring (recv|send)' \
	'<- rank [0-9] proxy progress channel [01] step [0-9]+ waits for "the kernel to write a slot.s size"'
mutant_seed recv_credit_too_late 1
cp "$work/recv_credit_too_late/out" "$dir/out"
expect "a credit given too late" \
	'"the kernel to take a slot" at proxy recv head of rank [0-9] peer [0-9] channel [01]: is 24, wants >= 26' \
	', as above: a cycle$'
grep -qE '"ring recv: data in slot" at proxy recv tail .*: is 24, wants >= 26' "$dir/why" ||
	{ echo "no kernel waits for the slot that it must take"; bad=1; }

echo 'fabric.link host=1 after=500us down' >"$dir/link.plan"
run --hosts 2 --gpus 2 -b 64K -e 64K --env NCCL_MAX_CTAS=2 --env NCCL_IB_TIMEOUT=22 --budget-time 1 \
	--strategy fifo --faults "$dir/link.plan" --fail-dir "$dir/fail"
expect "a link that is down" \
	'^  all_reduce #0: rank [0-9] kernel 1 channel [01] step [0-9]+ waits for "ring (recv|send)' \
	'<- rank [0-9] proxy progress channel [01] step [0-9]+ waits for .* at cq [0-9]+ of rank' \
	'<- host [01] mlx5_[01] qp 0x[0-9a-f]+ RTS, to host [01] mlx5_[01] qp 0x[0-9a-f]+: [0-9]+ sends and [0-9]+ receives under way.*; link of host 1 mlx5_[01] down since [0-9.]+m?s$'
json=$(find "$dir/fail" -name waits.json | head -1)
grep -q '"cause":{"end":"object","rank":-1,"again":-1,"summary":"rank .* waits for .*","hops":\[{"task":[0-9]*,"rank":' "$json" ||
	{ echo "waits.json has no cause: $(tail -c 200 "$json")"; bad=1; }

echo 'fabric.packet host=1 after=500us count=1000000 drop' >"$dir/drop.plan"
run --hosts 2 --gpus 2 -b 64K -e 64K --env NCCL_MAX_CTAS=2 --env NCCL_IB_TIMEOUT=17 --budget-time 1 \
	--strategy fifo --faults "$dir/drop.plan"
expect "packets that are lost" \
	'^  all_reduce #0: rank [0-9] kernel 1 channel [01] step [0-9]+ waits for "ring (recv|send)' \
	'<- rank [0-9] proxy progress channel [01] step [0-9]+ waits for .* at cq [0-9]+ of rank' \
	'<- host 1 mlx5_[01] qp 0x[0-9a-f]+ RTS, to host 0 .* sends and .*; [1-7] of 7 retries spent, [0-9]+ packets resent$'
rm -rf "$dir" "$work/flag_reset_too_early" "$work/recv_credit_too_late"
exit $bad
