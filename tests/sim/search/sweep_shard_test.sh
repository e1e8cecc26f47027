#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A sweep in N shards equals one sweep, seed by seed; a list of shards with a gap is refused and the gap named.
# Usage: sweep_shard_test.sh BUILD_DIR SOURCE_DIR
set -u
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need python3
need_doubles "$1"
test_begin "$1"

# an error, a wrong result or nothing, by the seed
printf 'verbs.reg_mr prob=1/40 fail\nfabric.packet prob=1/4 corrupt undetected=1\n' >plan
sweep=(sweep all_reduce all_gather --hosts 2 --gpus 1 -b 4K -e 4K --faults plan --seeds 100..149 -j 2 --max-failures 0
	--env NCCL_IB_TIMEOUT=14 --fail-dir fail)

"$doppel" "${sweep[@]}" --json one.json >one.out 2>one.err
one=$?
for k in 1 2 3 4 5 6 7; do
	"$doppel" "${sweep[@]}" --shard $k/7 --json $k.json >$k.out 2>$k.err
done
rc=0
"$doppel" sweep-merge 3.json 1.json 2.json 7.json 6.json 5.json 4.json --json all.json >all.out 2>all.err || rc=$?
[ $rc = $one ] || fail "the shards end with $rc, one sweep with $one: $(cat all.err)"
python3 - <<'P' || bad=1
import json, sys

one, all_ = json.load(open("one.json")), json.load(open("all.json"))
assert one["seeds"] == 50 and 3 < len(one["failures"]) < 47, one["passed"]
for of in (one, all_):
    for key in ("seconds", "campaign", "shard"):
        del of[key]
for key in one:
    if one[key] != all_[key]:
        sys.exit("%s differs:\n%s\n%s" % (key, one[key], all_[key]))
assert one.keys() == all_.keys()
shards = [json.load(open("%d.json" % k)) for k in range(1, 8)]
assert [s["seeds"] for s in shards] == [8, 7, 7, 7, 7, 7, 7], [s["seeds"] for s in shards]
P
# what is printed is the same, too, except the real time
diff <(grep -v 'seeds/s' one.out) <(grep -v 'seeds/s' all.out) || fail "the shards print something else"

# refuse WHAT TEXT FILE...
refuse() {
	local what=$1 text=$2 rc=0
	shift 2
	"$doppel" sweep-merge "$@" >bad.out 2>bad.err || rc=$?
	[ $rc = 1 ] && [ ! -s bad.out ] && grep -qF -- "$text" bad.err && [ "$(wc -l <bad.err)" = 1 ] ||
		fail "$what: exit code $rc, expected one line with $text: $(cat bad.err)"
}
refuse "a gap" "missing: shard 3, 6 of 7" 1.json 2.json 4.json 5.json 7.json
cp 2.json again.json
refuse "a shard twice" "shard 2/7 is in 2.json and in again.json" 1.json 2.json again.json
head -c 900 3.json >cut.json
refuse "a file that is cut off" "cut.json: expected JSON of a sweep" 1.json cut.json
refuse "no file" "none.json: No such file" none.json
echo '{"seeds":3}' >other.json
refuse "another JSON" "other.json: expected what \`doppel sweep --shard K/N --json FILE\` writes" other.json
sed 's/"seeds":7,/"seeds":5,/' 3.json >early.json
refuse "a shard that ended early" "shard 3/7 (early.json) ended after 5 of 7 seeds; run it again" 1.json early.json
sed 's/"build":"[0-9a-f]*/"build":"0123/' 3.json >build.json
refuse "another build" "build.json: expected the build of the first file" 1.json build.json
"$doppel" sweep all_reduce --hosts 2 --gpus 1 -e 8 --seeds 1..8 --shard 1/7 --json foreign.json >foreign.out 2>&1
refuse "another campaign" "foreign.json: expected the options and seeds of the first file" 1.json foreign.json

for shard in 0/3 4/3 1 1/ /3 x/y 1/99999; do
	"$doppel" sweep --seeds 1..8 --shard $shard >bad.out 2>&1 && fail "--shard $shard passes"
	grep -qF -- "--shard $shard: expected K/N" bad.out || fail "--shard $shard: $(head -1 bad.out)"
done
"$doppel" sweep --seeds 1..3 --shard 1/4 >bad.out 2>&1 && fail "fewer seeds than shards pass"
grep -q 'expected at least 4' bad.out || fail "fewer seeds than shards: $(cat bad.out)"
"$doppel" sweep --time 1 --shard 1/4 >bad.out 2>&1 && fail "a shard without a number of seeds passes"
exit $bad
