#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Who watches the watchman: planted failures are found, all of them and nothing else; a crash and a
# hang cost their seed only; JSON; exit codes.
#	sweep_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
small=(all_reduce --machine pcie-4gpu --gpus 2 -b 64 -e 64 --place out)

# 300 seeds, about 3 of them canaries; half of them crash their worker
rc=0
"$doppel" sweep "${small[@]}" --seeds 1..300 --canary -j 2 >canary 2>canary.err || rc=$?
[ $rc = 0 ] || { fail "the canary sweep ended with $rc"; tail -5 canary; }
planted=$(sed -n 's/^canaries: \([0-9]*\) planted, \([0-9]*\) found$/\1 \2/p' canary)
set -- $planted
[ "${1:-0}" -ge 1 ] && [ "$1" = "${2:-}" ] || fail "canaries planted and found: '$planted'"
[ "$(grep -c '^seed .*(canary)' canary)" = "${1:-0}" ] || fail "the list of canaries is not whole"
grep -q '^300 seeds: ' canary || fail "not every seed ran"

# the same seeds without: nothing
rc=0
"$doppel" sweep "${small[@]}" --seeds 1..60 -j 2 --json out.json >plain 2>plain.err || rc=$?
[ $rc = 0 ] || { fail "the plain sweep ended with $rc"; tail -5 plain; }
grep -q '^60 seeds: 60 passed$' plain || fail "60 seeds did not pass"
grep -q '; 3 seeds run twice' plain || fail "3 seeds of 60 are run twice"
[ ! -e fail ] || fail "a sweep without failures left a folder"
python3 - <<'PY' || fail "the JSON is not as expected"
import json
r = json.load(open("out.json"))
assert r["seeds"] == r["passed"] == 60 and r["failures"] == [] and r["code"] == 0, r
PY

# drawn plans get around: most sites fire, most probes are reached; what is called idle is idle
rc=0
"$doppel" sweep --swarm-faults always --seeds 1..300 --twice 0 --json swarm.json >swarm 2>swarm.err || rc=$?
[ $rc = 0 ] || { fail "the sweep with faults ended with $rc"; tail -5 swarm; }
"$doppel" faults --json >faults.json
python3 - <<'PY' || fail "drawn plans leave too much out"
import json
r, catalogue = json.load(open("swarm.json")), json.load(open("faults.json"))
idle = {s["name"] for l in catalogue["layers"] for s in l["sites"] if "idle" in s}
come_by = sorted(s for s in idle if r["faults"][s][0])
assert not come_by, "called idle, but come by: %s" % come_by
fired = [s for s, (visits, fires) in r["faults"].items() if fires]
assert len(fired) > 24, fired
probes = [p for p, (_, hits) in r["probes"].items() if hits]
assert len(probes) > 16, sorted(set(r["probes"]) - set(probes))
PY

# a seed that holds its worker for too long is one failing seed, no more
rc=0
"$doppel" sweep all_reduce --hosts 2 -b 1M -e 64M -n 100 --seeds 1..2 --seed-limit 1 -j 1 \
	--fail-dir hung0.d >hung 2>hung.err || rc=$?
[ $rc = 10 ] || fail "two hung seeds end with $rc, expected 10"
[ "$(grep -c '^seed .* hung ' hung)" = 2 ] || fail "two hung seeds are not listed"

# recorded it is still one that hung, with what it printed; a replay ends after the same time
rc=0
"$doppel" sweep all_reduce --hosts 2 -b 1M -e 64M -n 100 --seeds 1..1 --seed-limit 1 -j 1 \
	--fail-dir hung.d >hung 2>hung.err || rc=$?
[ $rc = 10 ] || fail "a hung seed ends with $rc, expected 10"
dir=$(echo hung.d/1-*)
grep -q '^FAIL hung ' hung.err || fail "the last lines do not say that it hung: $(tail -4 hung.err)"
grep -qx 'found hung' "$dir/config" && grep -qx 'found-seconds 1' "$dir/config" ||
	fail "its config: $(grep found "$dir/config")"
[ -s "$dir/log" ] || fail "what it printed is not kept"
[ "$(stat -c %s "$dir/trace.json")" -lt 200000000 ] || fail "its trace is $(stat -c %s "$dir/trace.json") bytes"
rc=0
timeout 600 "$doppel" replay "$dir" -q >o 2>e || rc=$?
[ $rc = 10 ] && grep -q '^# same failure: hung$' o || fail "its replay ends with $rc: $(tail -n 2 o) $(tail -n 2 e)"

# bad input
for args in "--seeds 5" "--seeds 5..1" "--time x" "--swarm other" "--seed-from 12345x" "--engine threads"; do
	rc=0
	"$doppel" sweep $args >/dev/null 2>&1 || rc=$?
	[ $rc = 1 ] || fail "sweep $args: exit code $rc, expected 1"
done
exit $bad
