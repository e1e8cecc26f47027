#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The lines that ci/test prints while it runs: what is done and what is left, of tests and of stages, with the time. A
# stage that is not planned is an error, and the stages of ci/test are those of its plans.
set -euo pipefail
source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
test_begin "$1"
# shellcheck source=ci/progress.sh
. "$source_dir/ci/progress.sh"
# shellcheck disable=SC2034 # progress.sh reads it
progress_every=0.1

is() { # is EXPECTED
	local line
	line=$(progress_line 312)
	[ "$line" = "$1" ] || fail "expected '$1', got '$line'"
}
progress_begin demo "build (fake)" "tests (fake)" sweep "tests (asan)" >loop
[ -z "$(progress_line 1)" ] || fail "a line before the first stage"
progress_stage demo ""
is 'ci/test: 312 s: 1 of 5, demo; then: build (fake), tests (fake), sweep, tests (asan)'
progress_stage "build (fake)" "$work/log"
is 'ci/test: 312 s: 2 of 5, build (fake); then: tests (fake), sweep, tests (asan)'
printf -- '-- Configuring done\n[  0%%] Building\n[ 45%%] Building C object x.c.o\nno percent\n' >log
is 'ci/test: 312 s: 2 of 5, build (fake): 45 % built; then: tests (fake), sweep, tests (asan)'
progress_stage "tests (fake)" "$work/log"
printf '%s\n' '      Start  53: unit.a' '  9/365 Test  #53: unit.a .....   Passed    0.24 sec' \
	' 10/365 Test  #50: unit.b ......***Failed    1.00 sec' '100% tests' >log
is 'ci/test: 312 s: 3 of 5, tests (fake): 10 of 365 tests, 355 left; then: sweep, tests (asan)'
until_true 60 grep -q 'tests (fake): 10 of 365 tests, 355 left' loop || fail "no lines while a stage runs: $(tail -3 loop)"
! (progress_stage "tests (asan)" "") 2>err || fail "a stage out of turn is no error"
grep -q "stage 'tests (asan)' is not planned; expected 'sweep'" err || fail "a stage out of turn: $(cat err)"
progress_stage sweep ""
progress_stage "tests (asan)" ""
is 'ci/test: 312 s: 5 of 5, tests (asan)'
loop=$progress_pid
progress_end
until_true 60 gone "$loop" || fail "the loop goes on after the end"
wait "$loop" 2>/dev/null || true

# every stage of ci/test, in order: its functions with stages that print their names alone
names() { # names PLAN FUNCTION
	bash -c "set -euo pipefail
		drawn() { echo \"\$2\"; }
		$(sed -n '/^sanitizer=/p; /^plan_all=/,/^}/p; /^plan_hca=/,/^}/p; /^sanitize()/,/^}/p; /^soft_roce_end()/,/^}/p' "$source_dir/ci/test" | grep -v 'ci/setup soft-roce')
		stage() { echo \"\$1\"; }
		note_skipped() { :; }; soft_roce_begin() { :; }; wait() { :; }
		vm=1
		plan=\"$1[@]\"
		diff <(printf '%s\n' \"\${!plan}\") <($2)"
}
names plan_all all >differences || fail "the stages of ci/test are not those of plan_all: $(cat differences)"
names plan_hca hca >differences || fail "the stages of ci/test hca are not those of plan_hca: $(cat differences)"
exit $bad
