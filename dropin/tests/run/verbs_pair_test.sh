#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel verbs-run --pair SERVER -- CLIENT. The client starts when the server listens, every time,
# by TCP and by the connection manager. The exit code is the client's, or the server's. No server
# remains, also if the client fails, if the server never ends, and if doppel itself is killed.
set -euo pipefail
build=$1
doppel=$build/doppel
[ -e "$build/verbs/libibverbs.so.1" ] || { echo "no drop-in in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need ibv_rc_pingpong rping pgrep
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rc=0
fail() {
	echo "$*"
	tail -5 "$dir/out"
	rc=1
}
fabric=pair-$$
port_take
# expect CODE WORDS SERVER... -- CLIENT...: checks the exit code and the output
expect() {
	local code=$1 words=$2 got=0
	shift 2
	timeout 300 "$doppel" verbs-run --fabric "$fabric" --pair "$@" >"$dir/out" 2>&1 || got=$?
	[ $got = "$code" ] || fail "$*: exit code $got, expected $code"
	grep -qE -- "$words" "$dir/out" || fail "$*: no '$words'"
	! pgrep -f -- "$mark" >/dev/null || fail "$*: a server is left"
}
mark="-p $port" # of this test's processes
pingpong=(ibv_rc_pingpong -g 3 -n 20 -p "$port")
for _ in 1 2 3 4 5 6; do
	expect 0 '^20 iters in' "${pingpong[@]}" -- "${pingpong[@]}" 127.0.0.1
done
expect 0 '^20 iters in' bash -c "sleep 0.$((RANDOM % 10)); ${pingpong[*]}; true" -- "${pingpong[@]}" 127.0.0.1
expect 3 'the server printed' "${pingpong[@]}" -- bash -c 'exit 3'
expect 5 'ended with 5 before it listened' bash -c 'echo why; exit 5' -- true
expect 127 'No such file' /no/such/server -- true
expect 127 'No such file' "${pingpong[@]}" -- /no/such/client
expect 0 'ping data: rdma-ping-4' rping -s -p "$port" -- rping -c -a 127.0.0.1 -p "$port" -C 5 -v
for bad in 'true' '-- true' 'true --'; do
	got=0
	# shellcheck disable=SC2086 # the words are arguments
	"$doppel" verbs-run --pair $bad >"$dir/out" 2>&1 || got=$?
	[ $got = 1 ] && grep -q 'expected SERVER .* -- CLIENT\|expected a program' "$dir/out" ||
		fail "--pair $bad: exit code $got"
done

# killed during the run: neither end remains
"$doppel" verbs-run --fabric "$fabric" --pair "${pingpong[@]}" -- tail -f /dev/null --pid=$$ >"$dir/out" 2>&1 &
pair=$!
until_true 60 listens "$port" || fail "the server does not listen"
until_true 60 pgrep -f -- "^tail -f /dev/null --pid=$$" >/dev/null || fail "no client"
kill -9 $pair
wait $pair 2>/dev/null || true
alone() { ! pgrep -f -- "$mark|^tail -f /dev/null --pid=$$" >/dev/null; }
until_true 20 alone || fail "killed: $(pgrep -af -- "$mark|--pid=$$") is left"
exit $rc
