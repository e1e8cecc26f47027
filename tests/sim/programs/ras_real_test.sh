#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# RAS of a real job: doppel ras over real sockets, a signal for the log, and a process that is killed.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
port_take
fail_shows=(log out)

"$doppel" run all_reduce -b 8 -e 64K -f 8 -n 1000000 --limit 300 --processes 2 --gpus 2 --env NCCL_RAS_ENABLE=1 \
	--env NCCL_RAS_ADDR="127.0.0.1:$port" --env DOPPEL_RAS_SIGNAL=10 --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=RAS \
	>table 2>log &
launcher=$!
trap 'kill $launcher 2>/dev/null || true; rm -rf "$work"' EXIT
answers() { "$doppel" ras "127.0.0.1:$port" "$@" >out 2>&1; }
runs() { answers && grep -q '   RUNNING  ' out; }
until_true 120 runs
grep -Eq '^ {6}1 {10}2 {12}2 {10}2 {8}4$' out || fail "STATUS: no summary of 2 processes with 2 GPUs"
grep -q 'RAS client listening socket at' log || fail "no process logs the client port"

answers --dump || fail "DUMP fails"
[ "$(grep -c ' rank [0-3] of 4: ' out)" = 4 ] || fail "DUMP: 4 ranks expected"
answers --json || fail "JSON fails"
python3 -c 'import json, sys; assert json.load(sys.stdin)["communicators"][0]["size"] == 4' <out ||
	fail "JSON cannot be read"
port_free=$((port == 1 ? 2 : 1))
"$doppel" ras "127.0.0.1:$port_free" >out 2>&1 && fail "a port without a job gives a report"
grep -q 'cannot connect: Connection refused' out || fail "a refused connection is not explained"
groups=$(printf 'trace,%.0s' {1..60})all
"$doppel" ras "127.0.0.1:$port_free" --monitor="$groups" >out 2>&1 && fail "a long list of groups is accepted"
grep -q 'expected a list of lifecycle, trace or all, of at most 64 letters' out || fail "a long list is not explained"

# the first process that runs logs the report at the signal
pid_of() { grep -a -o "^# process $1: pid [0-9]*" table | grep -o '[0-9]*$'; }
kill -USR1 "$(pid_of 0)"
until_true 60 grep -q '^Pending operations$' log

# the process without the client port is killed
owner=$(grep -a 'RAS client listening socket at' log | head -1 | cut -d: -f2)
victim=$(pid_of 0)
[ "$victim" != "$owner" ] || victim=$(pid_of 1)
kill -9 "$victim"
dead() { answers && grep -q '^DEAD$' out && grep -q "Process $victim on node" out; }
# the survivor ends too, soon after: either the report names the dead process, or the job is over
ended() { ! kill -0 "$owner" 2>/dev/null; }
either() { dead || ended; }
until_true 60 either
wait $launcher && fail "the launcher succeeds"
exit "$bad"
