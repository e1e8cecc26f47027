#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The failing-seed contract: the last lines, the files, and a replay that fails at the same step
# with the same hash, with gdb and without; refused when it is of another build.
#	replay_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"

# Every packet is lost: the run makes no progress within the budget.
echo 'fabric.packet prob=1/1 drop' >plan
rc=0
"$doppel" run all_reduce --hosts 2 --gpus 2 -b 64K -e 64K --seed 7 --faults plan \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --fail-dir fail >out 2>err || rc=$?
[ $rc = 10 ] || { fail "the run ended with $rc, expected 10"; tail -3 err; }
dir=$(echo fail/7-*)

# the last four lines
tail -4 err >last
sed -n 1p last | grep -qE '^FAIL [a-z-]+ rank=-?[0-9]+ step=[0-9]+ vtime=[0-9.]+[num]?s seed=0x7 commit=[^ ]+ cfg=options:[0-9a-f]{8} hash=[0-9a-f]{16}$' ||
	fail "line 1 of the contract: $(sed -n 1p last)"
sed -n 2p last | grep -qx "replay: doppel replay $dir" || fail "line 2: $(sed -n 2p last)"
sed -n 3p last | grep -qE "^gdb:    doppel replay $dir --gdb --until [0-9]+$" || fail "line 3: $(sed -n 3p last)"
sed -n 4p last | grep -qxF "files:  $dir/{config,choices,trace.json,tasks.core,explain.txt}" ||
	fail "line 4: $(sed -n 4p last)"
for f in config choices trace.json tasks.core explain.txt; do
	[ -s "$dir/$f" ] || fail "$dir/$f is missing"
done
until=$(sed -n '3s/.*--until //p' last)

again() { # again NAME ARGS...: the same failure, the same last line
	local name=$1 rc=0
	shift
	"$doppel" replay "$dir" -q "$@" >"$name.out" 2>"$name.err" || rc=$?
	[ $rc = 10 ] || fail "$name: exit code $rc, expected 10"
	grep -q '^# same failure: ' "$name.out" || { fail "$name: not the same failure"; cat "$name.err" | tail -5; }
}
again recorded
again traced --trace t.json
again from_seed --strategy seed

rc=0
"$doppel" replay "$dir" -q --until "$until" >until.out 2>until.err || rc=$?
[ $rc = 0 ] || fail "--until: exit code $rc"
grep -qx "# stopped at step $until, hash [0-9a-f]*" until.out || fail "--until stopped elsewhere: $(tail -1 until.out)"
! grep -q strayed until.err || fail "--until: $(grep strayed until.err)"
rc=0
"$doppel" replay "$dir" -q --until "$until" --trace /dev/full >until.out 2>until.err || rc=$?
[ $rc = 1 ] && grep -qx 'trace: cannot write /dev/full: No space left on device' until.err ||
	fail "--until with a trace that is lost: exit code $rc, expected 1"
"$doppel" replay "$dir" -q --until 99999999 >until.out 2>until.err || true
grep -q -- '--until 99999999: the run ended before that step' until.err || fail "--until beyond the end: $(tail -1 until.err)"

if grep -qE 'lib[at]san' <<<"$(readelf -d "$1/libdoppel-rt.so")"; then
	echo "without gdb: sanitizer presets have line numbers only"
elif command -v gdb >/dev/null; then
	# stops before the failure, goes on, and it is the same
	printf 'continue\nquit\n' | timeout 600 "$doppel" replay "$dir" -q --gdb --until "$until" \
		>gdb.out 2>&1
	grep -q "^\[sim seed 7 step $until " gdb.out || fail "gdb did not stop at the step"
	grep -q '^# same failure: ' gdb.out || { fail "another failure under gdb"; tail -5 gdb.out; }
	[ "$(grep '^# same failure' gdb.out)" = "$(cat recorded.out)" ] || fail "gdb changed step or hash"
fi

# another build, another version, another end
sed 's/^build .*/build 0123456789abcdef/' "$dir/config" >other
rc=0
"$doppel" replay other >o 2>&1 || rc=$?
[ $rc = 1 ] && grep -q 'build  *0123456789abcdef; here' o || fail "another build is not refused ($rc)"
sed 's/^doppel-config 1/doppel-config 9/' "$dir/config" >other
"$doppel" replay other >o 2>&1 && fail "another version is not refused"
grep -q 'other:1:15: expected version 1' o || fail "another version is not named: $(cat o)"
sed 's/^found-step .*/found-step 1/' "$dir/config" >other
rc=0
"$doppel" replay -q other >o 2>&1 || rc=$?
[ $rc = 12 ] || fail "another step ends with $rc, expected 12"

# another machine file of that name, a machine that is not there
sed 's/^machine-digest .*/machine-digest 0123456789abcdef/' "$dir/config" >other
rc=0
"$doppel" replay other >o 2>&1 || rc=$?
[ $rc = 1 ] && grep -q 'machine file  *0123456789abcdef; here' o || fail "another machine file is not refused ($rc): $(cat o)"
sed 's/^machine .*/machine no-such/' "$dir/config" >other
rc=0
"$doppel" replay other >o 2>&1 || rc=$?
[ $rc = 1 ] && grep -q 'no-such' o || fail "a missing machine is not refused ($rc): $(cat o)"
# choices of another format
cp -r "$dir" format
sed '1s/[0-9][0-9]*/9/' "$dir/choices" >format/choices
rc=0
"$doppel" replay -q format >o 2>&1 || rc=$?
[ $rc = 1 ] && grep -qE '^choices: format/choices:1:' o || fail "choices of another format ($rc): $(head -2 o)"

# choices that are broken: line and column
cp -r "$dir" broken
sed '5s/:/x/' "$dir/choices" >broken/choices
rc=0
"$doppel" replay -q broken >o 2>&1 || rc=$?
[ $rc = 1 ] && grep -qE '^choices: broken/choices:5:[0-9]+: site ' o || fail "broken choices ($rc): $(head -2 o)"

# a crash keeps the contract too
sed -e 's/^canary-step .*/canary-step 400/' -e '/^found/d' "$dir/config" >crash
rc=0
"$doppel" replay -q crash >o 2>e || rc=$?
[ $rc = $((128 + $(kill -l ABRT))) ] || fail "a crash ends with $rc, expected an end by SIGABRT"
tail -4 e | head -1 | grep -q '^FAIL crash ' || fail "a crash has other last lines: $(tail -4 e)"
exit $bad
