#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The folders of failing runs: a place that they cannot be written to is an error at the start; a disk
# that fills up in the middle is one, too, and changes no verdict; they are written as failures
# happen, and an interrupted sweep leaves them and its summary.
#	sweep_folders_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
# shellcheck source=tests/sim/cli/expect_usage.sh
. "$2/tests/sim/cli/expect_usage.sh"
test_begin "$1"
mounted=()
clean() {
	local m
	for m in ${mounted[@]+"${mounted[@]}"}; do umount "$m"; done
	rm -rf "$work"
}
trap clean EXIT

# every seed makes no progress: nothing arrives
echo 'fabric.packet prob=1/1 drop' >lost.plan
lost=(all_reduce --hosts 2 --gpus 1 -b 64 -e 64 --place out --faults lost.plan --env NCCL_IB_TIMEOUT=22
	--budget-time 1 -j 1)

# refused NAME DIR PATTERN: by sweep and by run, before a seed runs
refused() {
	expect "sweep: $1" "--fail-dir $2: $3; expected a folder" sweep "${lost[@]}" --seeds 1..3 --fail-dir "$2"
	expect "run: $1" "--fail-dir $2: $3; expected a folder" run all_reduce --gpus 2 -e 8 --fail-dir "$2"
}
refused 'a folder in one that is missing' none/such 'No such file or directory'
refused 'a file' lost.plan 'Not a directory'
"$doppel" sweep all_reduce --gpus 2 -e 8 --seeds 1..2 --fail-dir fresh >/dev/null 2>&1 || fail "a sweep that passes: $?"
[ ! -e fresh ] || fail "a sweep that passes leaves its folder"

# as they happen, and Ctrl-C
"$doppel" sweep "${lost[@]}" --seeds 1..100000 --max-failures 0 --fail-dir live --json live.json >live.out 2>live.err &
sweep=$!
two_folders() { [ "$(find live -name explain.txt 2>/dev/null | wc -l)" -ge 2 ]; }
until_true 60 two_folders || fail "no folder while the sweep runs"
kill -0 $sweep 2>/dev/null || fail "the sweep has ended already"
kill -INT $sweep
rc=0
wait $sweep || rc=$?
[ $rc = 130 ] || { fail "an interrupted sweep ends with $rc, expected 130, as of SIGINT"; tail -3 live.err; }
grep -q '^interrupted (Interrupt); what has ended so far:$' live.out || fail "no word of the interruption"
grep -Eq '^[0-9]+ seeds: 0 passed, [0-9]+ (livelock|deadlock)' live.out || { fail "no summary"; tail -5 live.out; }
grep -q nondeterminism live.out && fail "an interruption changes verdicts"
python3 -c 'import json; assert json.load(open("live.json"))["signal"] == 2' || fail "the JSON of an interrupted sweep"
n=0
for config in live/*/config; do
	n=$((n + 1))
	grep -q '^found ' "$config" || fail "$config does not name what was found"
done
[ "$(sed -n 's/^\([0-9]*\) seeds: .*/\1/p' live.out)" = $n ] || fail "$n folders, but $(grep ' seeds: ' live.out)"

# disks: of our own, in a folder of our own
disk() { # disk DIR SIZE OPTIONS
	mkdir -p "$1" && mount -t tmpfs -o "size=$2${3:+,$3}" tmpfs "$1" 2>/dev/null && mounted+=("$PWD/$1")
}
if ! disk readonly 1m; then
	[ $bad = 0 ] || exit 1
	echo "skipped: disks that are full or read-only; this user cannot mount"
	exit 77
fi
mount -o remount,ro readonly
refused 'a read-only disk' readonly 'Read-only file system'
disk full 16k
head -c 64K /dev/zero >full/zero 2>/dev/null
refused 'a full disk' full 'No space left on device'

# the first folder fits, a later one does not
one=$(du -sk live/* | sort -n | tail -1 | cut -f1)
disk small "$((one * 5 / 2 + 200))k"
rc=0
"$doppel" sweep "${lost[@]}" --seeds 1..6 --fail-dir small >small.out 2>small.err || rc=$?
[ $rc = 10 ] || { fail "a disk that fills up: exit code $rc, expected 10"; tail -3 small.err; }
[ "$(grep -c 'sweep: no room for the files of seed 0x.* in small: No space left on device' small.err)" = 1 ] ||
	{ fail "a disk that fills up is not one error"; cat small.err; }
grep -Eq '^not recorded, for want of room in small: [1-5] failures$' small.out || { fail "no count of what is not recorded"; cat small.out; }
grep -Eq '^6 seeds: 0 passed' small.out || { fail "not all seeds ran"; cat small.out; }
grep -q nondeterminism small.out && fail "a full disk changes verdicts"
[ -n "$(ls small)" ] || fail "what fitted is gone"
for d in small/*; do
	"$doppel" replay "$d" -q >replay.out 2>&1
	grep -q '^# same failure' replay.out || fail "$d is there, and cannot be replayed: $(tail -1 replay.out)"
done
[ $bad = 0 ] && echo "$cases refusals; folders as failures happen; a full disk changes nothing"
exit $bad
