#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel run in real processes: real sockets, environment, files and memory, doubles of the GPUs
# only. Several processes share /dev/shm; the network between them needs a real HCA (ci/soft-roce).
set -euo pipefail
build_dir=$1
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
run() { timeout 400 "$build_dir/doppel" run all_reduce -b 8 -e 64K -f 8 --limit 300 "$@"; }

run --processes 1 --gpus 4 -d all -o sum >"$out/table"
grep -q '^# process 0: pid [0-9]*, ranks 0 to 3$' "$out/table"
grep -q '^#  Rank  3 on .* process [0-9]* device  3' "$out/table"
grep -q '^# Out of bounds values : 0 OK$' "$out/table"
[ "$(grep -c ' sum ' "$out/table")" = 60 ] || { echo "12 types of 5 sizes expected"; exit 1; }

# a soft limit of descriptors is raised to the hard one, as NCCL does
(ulimit -Sn 40 && run --processes 1 --gpus 8) >"$out/table"
grep -q '^# Out of bounds values : 0 OK$' "$out/table"

# several processes: each two ranks meet in a segment, of which no name is left
run --processes 2 --gpus 2 --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=INIT,SHM >"$out/two" 2>"$out/log"
grep -q '^# Out of bounds values : 0 OK$' "$out/two"
grep -q 'Channel 00/0 : .* via SHM/direct/direct$' "$out/log"
left() { # prints the segments of a log that exist
	grep -o '/dev/shm/nccl-[0-9a-f]*' "$1" | sort -u | xargs -r ls -d 2>/dev/null || true
}
grep -q ' made /dev/shm/nccl-' "$out/log" && [ -z "$(left "$out/log")" ] || { echo "left: $(left "$out/log")"; exit 1; }

# one of them is killed so long after both have checked in at the root (of a death before that only a
# launcher can know): the other one ends by itself, and no segment is left
killed=$((128 + $(kill -l KILL))) # the launcher ends as the process did
for after_ms in 0 10 20 30 40 60 80 100 200; do
	rc=0
	rm -f "$out/two" "$out/log"
	run --processes 2 -n 100000 --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=BOOTSTRAP,SHM >"$out/two" 2>"$out/log" &
	launcher=$!
	until_true 60 grep -qs '^# process 1: pid [0-9]*,' "$out/two"
	until_true 60 grep -qs 'root: done' "$out/log"
	pass_ms $after_ms
	kill -9 "$(sed -n 's/^# process 1: pid \([0-9]*\),.*/\1/p' "$out/two")"
	wait $launcher || rc=$?
	[ $rc = $killed ] || { echo "killed after $after_ms ms: exit code $rc" && cat "$out/log" && exit 1; }
	[ -z "$(left "$out/log")" ] || { echo "killed after $after_ms ms: $(left "$out/log")" && exit 1; }
done

# as a launcher of somebody else starts it
port_take
run --rank 0 --ranks 2 --gpus 2 --root 127.0.0.1:$port >"$out/rank"
grep -q '0 OK$' "$out/rank"

# a process that fails is told of, and its code is the launcher's
rc=0
NCCL_TOPO_FILE=/nowhere run --processes 1 --gpus 2 >"$out/none" 2>"$out/error" || rc=$?
[ $rc = 2 ] || { echo "exit code $rc, expected 2"; cat "$out/error"; exit 1; }
grep -q '/nowhere cannot be read' "$out/error"
grep -q 'process 0 (rank 0, pid [0-9]*) ended with 2' "$out/error"

# one rank alone needs nobody
rc=0
port_take
timeout 400 "$build_dir/doppel" run all_reduce --rank 0 --ranks 1 --root 127.0.0.1:$port \
	--limit 300 >"$out/alone" || rc=$?
[ $rc = 0 ] || { echo "one rank alone: exit code $rc"; exit 1; }
