#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --per-iteration: a line for each iteration of both places, and lists in --json whose mean is the row's time.
# A replay makes the same run.
set -euo pipefail
doppel=$(cd "$1" && pwd)/doppel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "$1"; cat out; exit 1; }

for engine in sim threads; do
	"$doppel" run all_reduce --hosts 2 --gpus 1 -b 1K -e 2K -f 2 -n 3 --per-iteration --engine $engine \
		--json rows.json >out 2>&1 || die "$engine: the run ended with $?"
	[ "$(grep -c '^#.* iteration ' out)" = 12 ] || die "$engine: $(grep -c ' iteration ' out) lines, expected 12"
	python3 - $engine <<'PY' || die "$engine: the lists"
import json, sys
for row in json.load(open("rows.json"))["rows"]:
    each = row["iterations_us"]
    mean = sum(each) / len(each)
    assert len(each) == 3 and min(each) >= 0, row
    assert abs(mean - row["time_us"]) <= 0.01 * row["time_us"] + 0.01, row
PY
done
"$doppel" run all_reduce --hosts 2 --gpus 1 -b 1K -e 1K -n 3 --json rows.json >out 2>&1
! grep -q 'iteration' out rows.json || die "a run without the option has iterations"
for other in '--streams 2' '-m 4'; do
	rc=0
	# shellcheck disable=SC2086 # an option and its value
	"$doppel" run all_reduce --gpus 1 --per-iteration $other >out 2>&1 || rc=$?
	[ $rc = 1 ] || die "--per-iteration $other: exit code $rc, expected 1"
done

echo 'cuda.malloc nth=1 fail' >plan
"$doppel" run all_reduce --gpus 2 -b 1K -e 1K --per-iteration --faults plan --fail-dir fail >out 2>&1 || true
grep -qx 'per-iteration 1' fail/*/config || die "the config has no per-iteration"
"$doppel" replay -q fail/* >out 2>&1 || true
grep -q '^# same failure' out || die "the replay differs"
