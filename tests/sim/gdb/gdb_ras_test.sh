#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `info ras` in gdb: the causes of a hang are those that RAS answers to DUMP; the trace hash stays as it is; it works
# on a replay and on the core of a failing run. Arguments: build folder, source folder.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need gdb
need_doubles "$build_dir"
need_plain "$build_dir"
[ "$(gdb -q -batch -ex 'python print(1)' 2>/dev/null)" = 1 ] || { echo "gdb has no python: skipped"; exit 77; }
test_begin "$build_dir"
fail_shows=(dump gdb)
cc -g -Wall -Wextra -Werror -o absent "$source_dir/tests/sim/guest/trial_absent.c" -I"$source_dir/core/include" \
	-I"$source_dir/backends/fakecuda/include" -L"$build_dir" -lnccl -lcudart -pthread
job="exec --hosts 2 --processes-per-host 2"

doppel_gdb() { # doppel_gdb ARGS...: its output is in the file gdb
	timeout 600 gdb -q -batch -iex 'set debuginfod enabled off' -iex 'set width 0' -x "$source_dir/sim/gdb/doppel.py" \
		-ex 'set breakpoint pending on' -ex 'set confirm off' "$@" >gdb 2>&1 || true
}
causes() { sed -n '/^Causes$/,/^\(NCCL version\|Group \)/p' "$1" | grep -E '^(#|rank|\()' || true; }
dumped() { grep -qs '^NCCL version' dump || ! kill -0 $child 2>/dev/null; }

# ---- the same causes as DUMP has
for kind in collective all_to_all send_first receive split shrink suspend; do
	rm -f dump
	# shellcheck disable=SC2086 # words
	"$doppel" $job --ras-dump 2 ./absent $kind >dump 2>&1 &
	child=$!
	until_true 120 dumped
	{ kill $child && wait $child; } 2>/dev/null || true
	# shellcheck disable=SC2086 # words
	doppel_gdb -ex 'tbreak sim_run' -ex run -ex 'sim until 2s' -ex 'info ras' --args "$doppel" $job \
		--env NCCL_RAS_ENABLE=1 ./absent $kind
	[ -n "$(causes dump)" ] || fail "$kind: DUMP has no cause"
	[ "$(causes dump)" = "$(causes gdb)" ] || fail "$kind: gdb has '$(causes gdb)', DUMP has '$(causes dump)'"
done
grep -q '^    0         1         2         2         4         4   RUNNING  ' gdb || fail "no table of communicators"
grep -q '^Process 4 (host1/p1) on host 1$' gdb || fail "no pending operations of the last process"

# ---- without RAS: calls without their arguments
# shellcheck disable=SC2086 # words
doppel_gdb -ex 'tbreak sim_run' -ex run -ex 'sim until 2s' -ex 'info ras' --args "$doppel" $job ./absent collective
[[ $(causes gdb) == *': rank 3 has not called a collective (call 1); ranks 0-2 wait' ]] || fail "without RAS: $(causes gdb)"
doppel_gdb -ex 'help info ras'
grep -q 'NCCL_RAS_ENABLE=1 adds the arguments' gdb || fail "no help"

# ---- the hash
"$doppel" exec --hosts 2 ./absent leaves >dump 2>&1 || true
doppel_gdb -ex 'tbreak sim_run' -ex run -ex 'sim until 250ms' -ex 'info ras' -ex 'handle SIGABRT nostop' -ex continue \
	--args "$doppel" exec --hosts 2 ./absent leaves
hash_of() { sed -n 's/^# trace hash //p' "$1"; }
[ -n "$(hash_of dump)" ] && [ "$(hash_of dump)" = "$(hash_of gdb)" ] || fail "hash '$(hash_of dump)' and, in gdb, '$(hash_of gdb)'"

# ---- a core, and a replay
echo 'fabric.packet after=20ms count=1000000 drop' >plan
"$doppel" run all_reduce --hosts 2 --gpus 2 -b 64K -e 64K -n 1000 --seed 1 --faults plan --env NCCL_RAS_ENABLE=1 \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --fail-dir fails >dump 2>&1 || true
shows() {
	grep -q '^    0         1         2         2         4         4   RUNNING  ' gdb || fail "$1: no table"
	[ "$(grep -c ' rank [0-3] of 4: [0-9]* collectives launched; its kernels' gdb)" = 4 ] || fail "$1: 4 ranks expected"
	grep -qE ': all ranks have made the same calls; ranks .* in ncclAllReduce of 16384 ' gdb || fail "$1: no cause"
}
doppel_gdb -ex 'info ras' "$doppel" fails/*/tasks.core
shows core
step=$(sed -n 's/^gdb: .*--until \([0-9]*\)$/\1/p' dump)
timeout 600 "$doppel" replay fails/* --gdb --until "$((step - 1))" <<<'info ras' >gdb 2>&1 || true
shows replay
exit "$bad"
