#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Exit codes: one for each verdict, and none that a shell gives a meaning of its own. A crash ends by
# its signal, an interrupted command by SIGINT. Codes 13 (leak) and 14 (misuse) need a mutant, and
# are expected in tests/mutants/*.run.
#	exit_codes_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)

# ends HOW COMMAND...: HOW is an exit code, or the name of a signal
ends() {
	local how=$1 want got
	shift
	want=$how
	[[ $how == [0-9]* ]] || want=-$(kill -l "$how")
	# python: a shell shows an end by a signal and an exit code above 128 as the same
	got=$(python3 -c 'import subprocess, sys
print(subprocess.call(sys.argv[1:], stdout=open("out", "w"), stderr=open("err", "w")))' "$@")
	[ "$got" = "$want" ] || fail "$*: ended with $got, expected $want ($how)"
}
small=(all_reduce --machine pcie-4gpu --gpus 2 -b 64 -e 64 --place out)

ends 0 "$doppel" run "${small[@]}"
ends 1 "$doppel" run "${small[@]}" --gpus x
echo 'cuda.malloc nth=1 fail' >error
ends 2 "$doppel" run all_reduce --hosts 2 --gpus 2 -b 64 -e 64 --faults error
# what an error leaves open is no leak, though under threads nothing waits until it ends by itself
for engine in sim threads; do
	ends 2 "$doppel" run "${small[@]}" --engine $engine --env NCCL_NET=nosuch
done
echo 'fabric.packet prob=1/1 drop' >lost
ends 10 "$doppel" run all_reduce --hosts 2 --gpus 2 -b 64 -e 64 --faults lost \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --fail-dir fail
dir=$(echo fail/1-*)
grep -qx 'found-code 10' "$dir/config" || fail "the folder records another code: $(grep found-code "$dir/config")"
ends 10 "$doppel" replay -q "$dir"

# planted failures: odd steps are wrong results, even ones crashes
planted() { sed -e "s/^canary-step .*/canary-step $1/" -e '/^found/d' "$dir/config" >"planted.$1"; }
planted 401
ends 11 "$doppel" replay -q planted.401
planted 400
ends ABRT "$doppel" replay -q planted.400
grep -qE '^#[0-9]+ +(lab_rank_main|task_entry|sched_sim_run|fail_run_as|replay_run)\+0x' err ||
	fail "the stack of a crash names no static function: $(grep '^#' err)"
sed 's/^found-step .*/found-step 1/' "$dir/config" >other
ends 12 "$doppel" replay -q other

# a sweep ends as its worst seed did
ends 10 "$doppel" sweep all_reduce --hosts 2 --gpus 2 -b 64 -e 64 --faults lost --seeds 1..1 --twice 0 \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --fail-dir swept --json swept.json
grep -q '^{.*"signal":0,"code":10,' swept.json || fail "the JSON has another code: $(grep -o '"code":[0-9]*' swept.json)"

# interrupted: by the signal, in both engines
for engine in sim threads; do
	got=$(python3 - "$doppel" $engine <<'PY'
import signal, subprocess, sys
p = subprocess.Popen([sys.argv[1], "run", "all_reduce", "-b", "8", "-e", "1M", "-n", "1000000", "--engine", sys.argv[2]],
                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
p.stdout.readline() # it has started
p.send_signal(signal.SIGINT)
p.stdout.read()
print(p.wait())
PY
	)
	[ "$got" = -2 ] || fail "interrupted, engine $engine: ended with $got, expected an end by SIGINT"
done
exit $bad
