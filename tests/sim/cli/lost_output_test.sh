#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Output that is lost is no success: a sentence that names file and reason, and exit code 1 where the
# command would end with 0. Other verdicts stay as they are. A file that cannot be written is noticed
# before the run. A trace that any signal cuts off is valid JSON.
#	lost_output_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(err)
small=(all_reduce --machine pcie-4gpu --gpus 2 -b 64 -e 64)
full='No space left on device' closed='Bad file descriptor'

commands=("run ${small[*]}" "sweep ${small[*]} --seeds 1..2 --twice 0" "exhaust shm --most 1 --rank 0"
	"topo show h100-8nic" "topo search h100-8nic" "tune -e 64"
	"tune all_gather -e 64 --json" faults "faults --json" env
	--help --version "run --help" "sweep --help")
for command in "${commands[@]}"; do
	rc=0
	# shellcheck disable=SC2086 # the arguments are words
	"$doppel" $command >/dev/full 2>err || rc=$?
	[ $rc = 1 ] && grep -q "^doppel: cannot write standard output: $full\$" err || fail "$command >/dev/full: exit code $rc"
	rc=0
	# shellcheck disable=SC2086
	"$doppel" $command >&- 2>err || rc=$?
	[ $rc = 1 ] && grep -q "^doppel: cannot write standard output: $closed\$" err || fail "$command >&-: exit code $rc"
done

# a file that is opened does not take the place of a closed standard output
"$doppel" run "${small[@]}" --trace t.json >&- 2>err
python3 -c 'import json; json.load(open("t.json"))' || fail "the table went into the trace"

# a verdict that reports more stays
echo 'cuda.malloc nth=1 fail' >plan
rc=0
"$doppel" run "${small[@]}" --faults plan >/dev/full 2>err || rc=$?
[ $rc = 2 ] || fail "an error and lost output: exit code $rc, expected 2"

# files
lost() { # lost PATTERN ARGS...
	local pattern=$1 rc=0
	shift
	"$doppel" "$@" >out 2>err || rc=$?
	[ $rc = 1 ] && grep -qE "$pattern" err || fail "$*: exit code $rc"
}
lost "^trace: cannot write /dev/full: $full\$" run "${small[@]}" --trace /dev/full
"$doppel" run "${small[@]}" --trace /dev/null >/dev/null || fail "--trace /dev/null"
lost "^choices: cannot write /dev/full: $full\$" run "${small[@]}" --record /dev/full
lost "cannot write /dev/full: $full\$" sweep "${small[@]}" --seeds 1..2 --twice 0 --json /dev/full
for option in --trace --record; do
	lost "cannot write no/such/file: No such file or directory" run "${small[@]}" $option no/such/file
	[ ! -s out ] || fail "$option: noticed after the run"
done
# a program of its own: its libraries write the trace
if [ -e "$1/verbs/libibverbs.so.1" ]; then
	lost "^trace: cannot write no/such/file: No such file or directory\$" verbs-run --trace no/such/file true
	DOPPEL_TRACE=no/such/file lost "^trace: cannot write no/such/file: No such file or directory\$" verbs-run ls
	[ ! -s out ] || fail "verbs-run --trace: noticed after the start"
	if command -v ibv_devinfo >/dev/null; then
		lost "^trace: cannot write /dev/full: $full\$" verbs-run --trace /dev/full --bare ibv_devinfo
		grep -q hca_id out || fail "verbs-run --trace /dev/full: the program did not run"
		rc=0
		"$doppel" verbs-run --trace /dev/full --bare ibv_devinfo -d nosuch >out 2>err || rc=$?
		[ $rc = 255 ] || fail "a program that fails, and lost output: exit code $rc, expected 255"
	fi
fi
lost "cannot write no/such/file: No such file or directory" sweep "${small[@]}" --seeds 1..2 --json no/such/file
[ ! -s out ] || fail "--json: noticed after the sweep"
# a disk that fills up
if mkdir disk && mount -t tmpfs -o size=16k none disk 2>err; then
	trap 'umount disk; rm -rf "$work"' EXIT
	lost "^trace: cannot write disk/t.json: $full\$" run "${small[@]}" --trace disk/t.json
	rm -f disk/*
	lost "^choices: cannot write disk/choices: $full\$" run "${small[@]}" -n 20 --record disk/choices
else
	echo "no full disk: $(tail -n 1 err)"
fi

# cut off, whatever the moment
python3 - "$doppel" <<'PY' || fail "a trace that is cut off"
import json, os, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
    p = subprocess.Popen([sys.argv[1], "run", "all_reduce", "--hosts", "2", "--gpus", "2", "-n", "100000",
                          "--trace", "cut.json"], stdout=subprocess.DEVNULL)
    while p.poll() is None and not (os.path.exists("cut.json") and os.path.getsize("cut.json") > 1000000):
        time.sleep(0.01)
    p.send_signal(number)
    assert p.wait() == -number, (number, p.returncode)
    text = open("cut.json").read()
    if number == signal.SIGKILL and not text.endswith("]\n"):  # in the middle of a write
        text = text[: text.rindex(",\n")] + ',\n{"name": "cut off"}]'
    events = json.loads(text)
    assert len(events) > 1000 and events[-1]["name"] == "cut off", events[-1]
    os.remove("cut.json")
PY
exit $bad
