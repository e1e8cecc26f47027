#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What is seen at a terminal: a table of at most 100 columns, a progress line inside a row that takes
# long, which leaves the table whole and the trace hash as it is; help that lists the machines and, for
# each option with a value, its default.
#	terminal_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
export DOPPEL_MACHINE_DIR=

for engine in sim threads; do
	"$doppel" run all_reduce --machine workstation-2gpu -b 8 -e 1M -f 8 -d bfloat16 --engine $engine >table 2>err ||
		fail "engine $engine: $(tail -n 3 err)"
	! grep -v '^# Using devices' table | grep -E '^.{101}' || fail "engine $engine: wider than 100 columns"
done

# as many columns in each row as in the header
awk '/^# +size/ {want = NF - 1} /^ +[0-9]/ && NF != want {exit 1}' table || fail "a row has other columns: $(cat table)"

python3 - "$doppel" <<'PY' || fail "progress"
import os, pty, re, subprocess, sys
seen = re.compile(rb"\rall_reduce, 4194304 B float sum(?: in place)?: \d+ s[^\x1b]*\x1b\[K\r")
args = [sys.argv[1], "run", "all_reduce", "--hosts", "2", "--gpus", "2", "-b", "4M", "-e", "4M"]
def run(more, until=None):
    main, side = pty.openpty()
    p = subprocess.Popen(args + more, stdout=side, stderr=side)
    os.close(side)
    text = b""
    while not (until and until.search(text)):
        try:
            new = os.read(main, 65536)
        except OSError:
            break
        if not new:
            break
        text += new
    if until:
        p.terminate()
    assert (p.wait() == 0) == (until is None), text
    return text
# as long as it takes, and no longer
assert seen.search(run(["-n", "1000000", "--engine", "threads"], seen))
times = 8
while not seen.search(text := run(["-n", str(times)])):
    times *= 4
text = text.decode().replace("\r\n", "\n")
assert re.search(r"\x1b\[K   4194304 +1048576 +float +sum +-1( +[\d.]+){8}\n", text), text
quiet = subprocess.run(args + ["-n", str(times)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
assert not quiet.stderr, quiet.stderr
hashes = [re.search("# trace hash (.*)", t).group(1) for t in (text, quiet.stdout)]
assert hashes[0] == hashes[1], hashes
PY

# doppel exhaust: a series that takes longer than a second shows its run; its line stays whole
python3 - "$doppel" <<'PY' || fail "exhaust's progress"
import os, pty, re, subprocess, sys
main, side = pty.openpty()
p = subprocess.Popen([sys.argv[1], "exhaust", "alloc", "--site", "os.alloc.fail", "--once", "--exploring"], stdout=side, stderr=side)
os.close(side)
text, seen = b"", re.compile(rb"\ralloc os\.alloc\.fail once exploring rank -1: k \d+, \d+ runs, bad 0\x1b\[K\r")
while not seen.search(text):
    new = os.read(main, 65536)
    assert new, text
    text += new
p.terminate()
p.wait()
PY

machines=$(cd "$2/sim/world/machines" && ls -- *.xml | sed 's/\.xml$//')
# every command that has machines lists them
with=0
for command in topo $("$doppel" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'); do
	"$doppel" "$command" --help >help
	[ "$command" = topo ] || grep -q -- '--machine=' help || continue
	with=$((with + 1))
	for machine in $machines; do
		grep -q "$machine" help || fail "$command --help does not list $machine"
	done
done
[ $with -ge 5 ] || fail "only $with commands have machines"
python3 - "$doppel" <<'PY' || bad=1
import re, subprocess, sys
text = subprocess.run([sys.argv[1], "sweep", "--help"], stdout=subprocess.PIPE, text=True).stdout
options = re.split(r"\n(?=  +(?:-\w, )?--)", text)
without = [re.search(r"--([\w-]+)=", o).group(1) for o in options if re.match(r" +(?:-\w, +)?--[\w-]+=", o) and "default" not in o]
if without or len(options) < 30:
    sys.exit("sweep --help gives no default of: " + " ".join(without))
PY
exit $bad
