#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# By default the doubles choose what GPUs of that machine choose: over machines, hosts, collectives and sizes, each
# call of a run takes the algorithm, the protocol and the channels that `doppel tune` predicts. That program has no
# default of the doubles; its predictions in a build for real GPUs are compared by unit.pairs_test. What differs is in
# the table that `doppel env` prints, each row with its reason.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(err)

cat >check.py <<'PY'
import json, re, sys
tune = {c["collective"].replace("_", ""): {r["bytes"]: r for r in c["rows"]} for c in json.load(open("tune.json"))["collectives"]}
calls = re.findall(r"NCCL INFO nccl(\w+): opCount \w+: (\d+) Bytes, .* -> Algo (\w+) proto (\w+) "
                   r"channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}", open("log").read())
assert len(calls) == int(sys.argv[1]), (len(calls), "calls")
for call, size, algo, proto, first, last in calls:
    row = tune[call.lower()][int(size)]
    want = row["choice"].upper().replace("_", "")
    assert want == algo.replace("_", "") + "/" + proto, (call, size, want, algo, proto)
    # the last channels have no part where the count ends at a multiple of 16 bytes before them
    channels = int(last) - int(first) + 1
    assert row["channels"] - 2 <= channels <= row["channels"], (call, size, row["channels"], channels)
    assert channels == row["channels"] or int(size) >= 1 << 18, (call, size, row["channels"], channels)
PY

# chosen MACHINE HOSTS: five sizes of five collectives
chosen() {
	local collective
	"$doppel" tune --json --machine "$1" --hosts "$2" -b 64 -e 4M -f 16 >tune.json 2>err || fail "tune $*: exit code $?"
	rm -f log
	for collective in all_reduce all_gather reduce_scatter broadcast reduce; do
		NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL "$doppel" run "$collective" --place out --strategy fifo --machine "$1" \
			--hosts "$2" -b 64 -e 4M -f 16 >out 2>err || fail "run $collective $*: exit code $?"
		grep -h '^host0:.*\[0\] NCCL INFO nccl.* -> Algo ' out err >>log || fail "run $collective $*: no choice is logged"
	done
	python3 check.py 25 2>err || fail "$* does not choose what is predicted"
}
for machine in $("$doppel" tune --machine none 2>&1 | grep -oE '\b[a-z]+[0-9]*-[0-9][a-z]+\b' | sort -u); do
	[ "$machine" = workstation-2hca ] || chosen "$machine" 1 # one GPU
	chosen "$machine" 2
done

# the table of what differs: two rows, with their reasons
"$doppel" env >out 2>err || fail "env: exit code $?"
[ "$(grep -c '\[doubles: ' out)" = 2 ] || fail "doppel env does not print two defaults of the doubles: $(grep -c '\[doubles: ' out)"
grep -qE '^NCCL_NTHREADS .*\[doubles: 64, [a-z].* .*\]' out || fail "doppel env lacks the reason of NCCL_NTHREADS"
grep -qE '^NCCL_CHECK_POINTERS .*\[doubles: 1, [a-z].* .*\]' out || fail "doppel env lacks the reason of NCCL_CHECK_POINTERS"
