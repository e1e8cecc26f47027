#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel report of failures that need a bug in the stack: a cycle of waits, a leak, a crash.
# Usage: report_mutants_test.sh BUILD_DIR SOURCE_DIR
set -u
# shellcheck source=tests/mutants/mutant.sh
. "$2/tests/mutants/mutant.sh"
mutant_init "$1" "$2"
need python3
check=$source_dir/tests/sim/report/report_page.py
bad=0

# planted NAME SEED KEY=REGEX...: the page of that mutant's run
planted() {
	local name=$1 seed=$2 dir
	shift 2
	mutant_build "$name" || { bad=1; return; }
	mutant_seed "$name" "$seed" --fail-dir "$work/$name/fail"
	dir=$(echo "$work/$name"/fail/*)
	# the replay needs the build that has failed
	LD_LIBRARY_PATH=$work/$name "$build_dir/doppel" report "$dir" -o "$work/$name/page.html" >"$work/$name/report.out" 2>&1 ||
		{ fail "$name: report: $(cat "$work/$name/report.out")"; tail -3 "$work/$name/out"; return; }
	python3 "$check" "$work/$name/page.html" "$@" || fail "$name: the page is wrong"
	rm -rf "${work:?}/$name"
}

export NCCL_ALGO=Ring NCCL_PROTO=Simple
planted recv_credit_too_late 1 'late=ranks that wait for one another: ' 'channel=^Channel [01]' 'peer=^Yes: rank' \
	'page=waits for "the kernel to take a slot"' 'page=cycle' 'hang=deadlock|No progress'
planted leak_gather_scratch 1 'hang=^Neither: .*"leak"' 'late=No rank is late' 'peer=.' 'link=.' 'progress=.'
planted message_credit_off_by_one 1 'hang=^Neither: .*"(crash|SIG[A-Z]*|assert[a-z]*|abort)"' 'gdb=--until [0-9]+$' 'late=.'
exit $bad
