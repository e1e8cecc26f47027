#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A run whose rank is killed fails, as under mpirun or torchrun: exit code 2, a line that names the rank
# and what it was in, the plan with its counts, the FAIL line, the replay hint. With --recover the death
# is what the run is about. A fault that never fires is reported.
#	killed_rank_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)
run() { # run CODE ARGS...
	local code=$1 rc=0
	shift
	timeout 120 "$doppel" run all_reduce --hosts 2 --gpus 2 -e 64 "$@" >out 2>err || rc=$?
	[ $rc = "$code" ] || fail "$*: exit code $rc, expected $code"
}
has() { grep -qE -- "$1" err || fail "no '$1' on stderr"; }

for nth in 1 5 100 1000; do
	echo "os.task rank=1 nth=$nth kill" >plan
	for engine in sim threads; do
		# the threads engine has fewer entry points before the end
		[ $engine = sim ] || [ $nth -lt 100 ] || continue
		run 2 --faults plan --engine $engine
		has '^doppel: rank 1 was killed in '
		has "^fault os.task rank=1 nth=$nth kill   # matched $nth, fired 1\$"
		has '^FAIL killed rank=1 step='
		has '^replay: '
		! grep -q 'Out of bounds' out || fail "nth=$nth, $engine: the table has a footer"
	done
done

# a folder, and a replay that ends in the same way
run 2 --faults plan --fail-dir fail
rc=0
"$doppel" replay -q fail/1-* >out 2>err || rc=$?
[ $rc = 2 ] && grep -q '^# same failure: killed at step ' out || fail "the replay ended with $rc"

# an error that the plan causes, in the same form
echo 'cuda.malloc rank=1 nth=1 fail' >plan
run 2 --faults plan --fail-dir error
has '^FAIL error rank=1 '
has '^fault cuda.malloc .*# matched [0-9]+, fired 1$'
has '^replay: doppel replay error/1-'
rc=0
"$doppel" replay -q error/1-* >out 2>err || rc=$?
[ $rc = 2 ] && grep -q '^# same failure: error at step ' out || fail "the replay ended with $rc"

# survival is expected: a death is no failure
echo 'os.task rank=1 nth=100 kill' >plan
run 0 --faults plan --recover
grep -q '^# the survivors made a second communicator; ranks killed: 1$' out || fail "no line of the recovery"

# nothing matched; one of two did not
echo 'os.task rank=17 kill' >plan
run 0 --faults plan
has '^plan:1: this fault never fired \(matched 0 times\): os.task rank=17 kill$'
printf '# two\nfabric.link host=0 down for=1us\nfabric.link host=77 down\n' >plan
run 0 --faults plan
has '^plan:3: this fault never fired '
! grep -q '^plan:2' err || fail "a fault that fired is reported"

# of a sweep: in no seed
unfired='^doppel sweep: no fault of plan fired in any of 3 seeds$'
for site in 'cuda.malloc rank=77' 'cuda.malloc'; do
	echo "$site fail" >plan
	timeout 120 "$doppel" sweep all_reduce --gpus 2 -e 64 --seeds 1..3 --faults plan >out 2>err || fail "a sweep: exit code $?"
	case $site in
	*77) has "$unfired" ;;
	*) ! grep -q "$unfired" err || fail "a sweep reports no fault where some fired" ;;
	esac
done
# a sweep, where a death is allowed, counts them
echo 'os.task rank=1 nth=1 kill' >plan
timeout 120 "$doppel" sweep all_reduce --gpus 2 -e 64 --seeds 1..3 --faults plan --json s.json >out 2>err || fail "a sweep with deaths: exit code $?"
grep -qx '3 seeds had a process killed by the plan' out || fail "a sweep does not count deaths"
grep -q '"killed":3,' s.json || fail "nor does its JSON"
timeout 120 "$doppel" sweep all_reduce --gpus 2 -e 64 --seeds 1..3 >out 2>err || fail "a sweep: exit code $?"
! grep -q 'killed by the plan' out || fail "deaths where none was"
exit $bad
