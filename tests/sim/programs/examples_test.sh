#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The worked examples of docs/examples: their commands, as they stand there, find the planted bug, make
# it small, and lead gdb to it. Each line that matters must be in the page and in what comes out.
# Usage: examples_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/mutants/mutant.sh
. "$2/tests/mutants/mutant.sh"
mutant_init "$1" "$2"
gdb=1
[ "$(gdb -q -batch -ex 'python print(1)' 2>/dev/null)" = 1 ] || { echo "no gdb with python"; gdb=0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
ln -s "$source_dir/tests" tests
bad=0
fail() { echo "$page: $*"; bad=1; }

# must PATTERN FILE...: in each of the files, and on the page
must() {
	local pattern=$1 file
	shift
	for file in "$page" "$@"; do
		grep -qE -- "$pattern" "$file" && continue
		fail "no '$pattern' in $(basename "$file")"
		[ "$file" = "$page" ] || tail -25 "$file"
	done
}

# begin PAGE MUTANT CODE KIND: the page's sweep, and its first failure of that kind made small: $dir,
# $step of the choice
begin() {
	page=$source_dir/docs/examples/$1.md
	doppel=$work/$2/doppel
	local sweep rc=0
	rm -rf fail
	"$source_dir/tests/mutants/build.sh" "$2" "$build_dir" >built || { fail "no mutant $2"; return 1; }
	grep -qxF -- "\$ tests/mutants/build.sh $2" "$page" || fail "does not build $2"
	sweep=$(sed -n 's/^\$ doppel sweep //p' "$page" | head -1)
	# shellcheck disable=SC2086 # the arguments are words
	"$doppel" sweep $sweep >swept 2>swept.err || rc=$?
	dir=$(sed -n "s/^seed [^ ]* $4 .* \\(fail\/[^ ]*\\) .*/\\1/p" swept | head -1)
	[ $rc != 0 ] && [ -n "$dir" ] || { fail "doppel sweep $sweep ended with $rc"; cat swept; return 1; }
	"$doppel" shrink "$dir" --time 20s >shrunk 2>&1 || { fail "shrink ended with $?"; return 1; }
	rc=0
	"$doppel" replay -q "$dir-min" >replayed 2>&1 || rc=$?
	[ $rc = "$3" ] || fail "the replay ended with $rc"
	step=$(sed -n 's/^without choice .* at step \([0-9]*\) it does not fail$/\1/p' shrunk)
}
under_gdb() { timeout 600 "$doppel" replay -q "$dir-min" --gdb "$@" >gdb.out 2>&1 || true; }

if begin weak-cas weak_cas_by_value 10 deadlock; then
	must '<- rank [0-9]+ proxy service has nothing (to do: it waits for "requests from the main task"|under way)' "$dir/explain.txt"
	must '^  special choices  [0-9]+ -> 1$' shrunk
	must '^without choice [0-9]+ of engine.spurious \(0 of [0-9]+\) at step [0-9]+ it does not fail$' shrunk
	must 'proxy_posted_push .*core/proxy/proxy_ops.c:' shrunk
	if [ $gdb = 1 ]; then
		under_gdb <<-'G'
			set width 0
			sim goto 1
			sim trap trace=engine.spurious
			bt 3
			p list->head
			set $list = list
			finish
			p $list->head
			sim step
			sim back
		G
		must "^\(gdb\) .*proxy_posted_push|^#[0-9]+ +proxy_posted_push" gdb.out
		must '\{v_ = 0\}' gdb.out
		grep -q "^(gdb) \[sim seed .* step $step " gdb.out || { fail "no way back"; cat gdb.out; }
	fi
fi

if begin gpu-flush gpu_flush_removed 11 correctness; then
	must 'wrong result on rank [01], all_reduce, 8 B float sum' replayed
	must '^  ranks +8 \(2 hosts x 4\) -> 2 \(2 hosts x 1\)$' shrunk
	rank=$(sed -n 's/.*wrong result on rank \([0-9]*\),.*/\1/p' replayed | head -1)
	if [ $gdb = 1 ]; then
		under_gdb <<-G
			set width 0
			sim goto 1
			sim trap rank=$rank trace=proxy.received
			while fc.device[8 * $rank].pending == 0
			sim trap rank=$rank trace=proxy.received
			end
			set \$slot = (float *)fc.device[8 * $rank].pending.address
			printf "aside %g, seen %g\n", *(float *)fc.device[8 * $rank].pending.data, *\$slot
			p pc->flush
			sim trap rank=$rank call=dev_reduce_copy
			p srcs[nsrc - 1] == (void *)\$slot
			p *(float *)srcs[nsrc - 1]@2
			sim back
		G
		must '= true$' gdb.out
		must 'proxy_recv_receive .*gpu_flush_removed/core/proxy/recv.c' gdb.out
		must '= \{0, 0\}$' gdb.out
		grep -qE 'aside [1-9].*, seen 0$' gdb.out || { fail "nothing is kept aside"; cat gdb.out; }
	fi
fi

if begin recovery-skew recovery_skew 10 deadlock; then
	must 'waits for "the receiver to clear a send": is [0-9]+, wants == [0-9]+' "$dir/explain.txt" replayed
	must 'qp 0x[0-9a-f]+ RTS, to host .* receives under way' "$dir/explain.txt"
	must '^  ranks +8 \(2 hosts x 4\) -> 2 \(2 hosts x 1\)$' shrunk
	must 'fabric.link host=1 prob=1/20 count=1 down for=30us' "$dir-min/config"
	if [ $gdb = 1 ]; then
		under_gdb --until "${step:-1}" <<-'G'
			set width 0
			sim trap call=net_verbs_recover
			set $c = c
			set $before = $c->recvs
			info qps
			sim step
			printf "cleared %d, then %d\n", $before, $c->recvs
			sim back
		G
		must 'net_verbs_alive .*recovery_skew/core/transport/net_verbs/net_verbs_error.c' gdb.out
		grep -qE 'cleared [1-9][0-9]*, then [0-9]+$' gdb.out || { fail "no recovery"; cat gdb.out; }
	fi
fi
[ $bad = 0 ] && echo "three examples: swept, shrunk, replayed$([ $gdb = 1 ] && echo ', and looked at with gdb')"
exit $bad
