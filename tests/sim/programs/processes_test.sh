#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Ranks in real processes with GPU doubles, connected by real TCP sockets: right results with one socket
# and several per connection; a process that is killed ends the others with a named error.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
doppel=$1/doppel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

for settings in "" "NCCL_NSOCKS_PERTHREAD=4" "NCCL_SOCKET_NTHREADS=2 NCCL_NSOCKS_PERTHREAD=2" "NCCL_SOCKET_FAMILY=AF_INET"; do
	# shellcheck disable=SC2086 # the settings are words
	env NCCL_SHM_DISABLE=1 $settings timeout 120 "$doppel" run all_reduce --processes 2 --gpus 2 -b 0 -e 4M -f 32 >"$work/out" 2>&1
	rc=$?
	[ $rc = 0 ] && grep -q 'Out of bounds values : 0 OK' "$work/out" && continue
	echo "two processes, '$settings': exit code $rc"
	tail -20 "$work/out"
	bad=1
done

NCCL_SHM_DISABLE=1 timeout 120 "$doppel" run all_reduce --processes 2 -b 8 -e 1G -f 2 -n 5 >"$work/out" 2>&1 &
launcher=$!
until_true 100 grep -qE '^ +8 ' "$work/out" # a process that dies before it has connected is missed later
pid=$(sed -n 's/^# process 1: pid \([0-9]*\),.*/\1/p' "$work/out")
kill -9 "$pid"
wait $launcher 2>/dev/null
rc=$?
if [ $rc = 0 ] || ! grep -q "rank 1, pid $pid) was ended by signal 9" "$work/out" ||
	! grep -qE 'rank 0( |:).*(rank 1|another rank)' "$work/out"; then
	echo "a killed process: exit code $rc"
	tail -20 "$work/out"
	bad=1
fi
exit $bad
