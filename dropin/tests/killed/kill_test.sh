#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Kills either process of a perftest with SIGKILL at random moments, from its start to its end. The
# survivor ends by itself: with an error if it had started, within the time of its retries. The next
# pair, on the same fabric, starts normally. No file remains in /dev/shm.
# Usage: kill_test.sh BUILD_DIR SOURCE_DIR [COUNT [SEED]]
set -euo pipefail
build=$1 count=${3:-6} seed=${4:-1}
doppel=$build/doppel
[ -e "$build/verbs/libibverbs.so.1" ] || { echo "no drop-in in this preset"; exit 77; }
command -v ib_write_bw >/dev/null || { echo "no perftest: skipped"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
dir=$(mktemp -d)
fabric=kill-$$
trap 'pkill -9 -f "ib_write_bw .*-b .*-p $port" 2>/dev/null || true; rm -rf "$dir"' EXIT
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
RANDOM=$seed port=none
limit=90   # seconds; its retries (-u 10) are 8 tries of 4.2 ms
longest=0  # ms
shm=$(shm_list)
retried=0
declare -A ended=([both]=0 [error]=0 [early]=0)

# Prints the PID of the program itself, not of the launcher around it; empty if it is not running.
pid_of() { pgrep -f "^ib_write_bw .*-p $port( |\$)$1" | head -1 || true; }

for ((i = 1; i <= count; i++)); do
	port_take
	# -b: both post, and detect the death by their queue pairs; a side that only answers detects
	# it by the socket
	args=(stdbuf -oL ib_write_bw -F -x 3 -s 65536 -D 1 -b -u 10 -p "$port")
	timeout $limit "$doppel" verbs-run --fabric "$fabric" "${args[@]}" >"$dir/server" 2>&1 &
	server=$!
	until_true 20 listens $port || true
	timeout $limit "$doppel" verbs-run --fabric "$fabric" "${args[@]}" 127.0.0.1 >"$dir/client" 2>&1 &
	client=$!
	ms=$((RANDOM % 1000))
	# two in three are killed while they transfer, the others at any time from their start
	((RANDOM % 3 == 0)) || until_true 20 grep -q '^ #bytes' "$dir/client" || true
	pass_ms $ms
	if ((RANDOM % 2)); then victim=client other=$server pattern='127'; else victim=server other=$client pattern='$'; fi
	pid=$(pid_of "$pattern")
	[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
	# a client that died before it connected: the server still waits for a client, as it should
	unmet=0
	if listens $port && [ $victim = client ]; then
		unmet=1
		kill -9 "$(pid_of '$')" 2>/dev/null || true
	fi
	start=$(date +%s%N)
	rc=0
	wait "$other" 2>/dev/null || rc=$?
	took=$((($(date +%s%N) - start) / 1000000))
	wait "$client" "$server" 2>/dev/null || true
	if [ $rc = 124 ]; then
		echo "kill $i (seed $seed): the $victim was killed after $ms ms, and the other still runs after $took ms"
		tail -n 5 "$dir/server" "$dir/client"
		exit 1
	fi
	if [ -z "$pid" ] || [ $unmet = 1 ]; then kind=both; elif [ $rc = 0 ]; then kind=early; else kind=error; fi
	ended[$kind]=$((ended[$kind] + 1))
	if grep -qE 'status 12|transport retry|Failed status 12' "$dir/server" "$dir/client"; then
		retried=$((retried + 1))
		[ $took -le $longest ] || longest=$took
	fi
	left=$(shm_left "$shm")
	[ -z "$left" ] || { echo "left in /dev/shm: $left"; exit 1; }
done
# the fabric still works
timeout $limit "$doppel" verbs-run --fabric "$fabric" ibv_devices >/dev/null
echo "$count pairs: ${ended[error]} survivors with an error ($retried of them by" \
	"their queue pair's retries, all within $longest ms and then gone), ${ended[early]} that had finished," \
	"${ended[both]} pairs that were over before the kill, or never met; nothing left"
