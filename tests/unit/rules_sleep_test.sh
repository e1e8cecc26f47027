#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No sleep stands for a wait: on a busy machine the event comes after it. Scripts wait with until_true
# (tests/lib.sh); a program waits in a loop that looks at what it waits for. Each file that sleeps in
# real time is listed here with its number of sleeps and the reason. os_sleep_ns is the clock of the
# world, which is virtual under the engine `sim`, and is not looked at.
set -euo pipefail
source_dir=$2
cd "$source_dir"

allowed='
ci/progress.sh 1 the clock of the lines that ci/test prints
ci/loaded 1 the clock of what is printed each minute
tests/lib.sh 3 the loops of until_true and shm_left; pass_ms
dropin/tests/run/verbs_pair_test.sh 1 the subject: a server that listens late
dropin/tests/pyverbs/run.py 1 the loop that looks at its child processes
tests/conformance/verbs/harness/target_posix.c 1 the clock of the suite outside a world
dropin/tests/killed/kill_peer.c 1 the loop that waits for the other peer
dropin/tests/killed/kill_peers.c 6 loops with a condition; a random moment of death; a moment for the victim to go on
dropin/tests/library/rdmacm_test.c 1 the subject: a listener that comes after its client
dropin/tests/library/signal_test.c 2 a loop with a condition; a moment for a thread to block, though its cancellation may come before
dropin/tests/programs/pair.h 1 a step of loops with a condition
dropin/tests/library/reap_test.c 3 loops with a condition; a random moment of death
tests/conformance/cuda/processes/cuda_processes.h 1 the loop that waits for the turn of another process
tests/conformance/source/foreign/async.cu 1 a moment for threads to wait, though the end may come before
tests/conformance/graphs/graph_cases.h 2 a host function that takes its time, so that others could overtake it; a loop with a condition
tests/conformance/graphs/graph_nodes_test.c 2 moments for a destructor that must not run
tests/sim/programs/procs_kill.py 2 a random moment of death; the loop that looks at processes
tests/sim/guest/guest_job.c 2 the subject: a program that sleeps; a loop that looks for a file
tests/sim/guest/trial_absent.c 2 the subject: a rank that is absent for ever, and one that comes late
tests/sim/guest/trial_children.c 2 the subject: a process that hangs; a moment for other processes to have their results
tests/sim/guest/trial_hangs.c 4 the subject: ranks that are slow, idle or absent
tests/sim/guest/trial_life.c 2 the subject: a root that comes late, an abort while another thread waits
tests/sim/guest/trial_waits.c 7 the subject: sleeps and clocks of programs
tests/bench/nccl_compare_wait.h 1 the period of a watchdog
tests/sim/cli/lost_output_test.sh 1 the loop that waits for a trace to grow
tests/sim/lab/sweep_late_test.c 1 the loop that looks at a child process
'
sleeps='(sleep|usleep)( +["$0-9.i{]| *\()|(clock_)?nanosleep *\(|time\.sleep *\(|xargs +(-[^ ]+ +([0-9]+ +)?)*sleep|read +(-[a-z]+ +)*-r?t|poll *\( *(NULL|0) *,'

# counted FILE...: FILE NUMBER of those with sleeps, comments left out
counted() {
	grep -IHvE '^[[:space:]]*(#|//|/?\*)' "$@" | grep -E "^[^:]*:(.*[^a-zA-Z0-9_.])?($sleeps)" |
		cut -d: -f1 | LC_ALL=C sort | uniq -c | awk '{print $2, $1}'
}

# the check can fail
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
printf 'true &\nsleep 1\n\tsleep "$ms"\nwhile sleep 0.1; do :; done\n# sleep 1\nsleep .5\nsleep infinity &\nsleep {1,2}
echo 1 | xargs sleep\necho 1 | xargs -n 1 sleep\nread -t 1 x\nread -rt 1 x\nread -r -t "$n" x\nread -r x\n' >"$planted/x.sh"
printf '\tusleep(100);\n\tnanosleep(&t, NULL);\n\tos_sleep_ns(1);\n\ttime.sleep(1)\n\tpoll(NULL, 0, 100);\n\tpoll(0, 0, 5);\n\tpoll(&fd, 1, 5);\n' >"$planted/x.c"
[ "$(cd "$planted" && counted x.sh x.c)" = 'x.c 5
x.sh 11' ] || {
	echo "the check finds in planted files: $(counted "$planted"/*)"
	exit 1
}

mapfile -t files < <(git ls-files 'ci/*' 'tests/*' 'dropin/tests/*' | grep -vE '\.(patch|run|xml|txt|md)$|rules_(sleep|shared)_test.sh$')
found=$(counted "${files[@]}")
expected=$(awk 'NF {print $1, $2}' <<<"$allowed" | LC_ALL=C sort)
[ "$found" = "$expected" ] || {
	echo "sleeps in ci/, tests/ and dropin/tests/ (<) and those that this test allows (>), with their number:"
	diff <(echo "$found") <(echo "$expected") | grep '^[<>]'
	echo "expected: until_true COMMAND, or a loop that looks at what it waits for, listed in $0"
	exit 1
}
echo "${#files[@]} files: no sleep stands for a wait"
