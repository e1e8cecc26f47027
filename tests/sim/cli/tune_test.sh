#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel tune: what it predicts is what a communicator of the same machines computes and chooses, with
# the same variables; its JSON has what its table has; what it cannot predict is an error.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(err)

# The model and the choices that the runs log, against the JSON.
cat >check.py <<'PY'
import json, re, sys
tune, log, sizes = json.load(open("tune.json")), open("log").read(), [int(s) for s in sys.argv[1:]]
model = {(c, p): (int(ns), int(mbps), not no) for c, p, ns, mbps, no in re.findall(
    r"INFO (\w+) (\w+/\w+): (\d+) ns \+ bytes / (\d+) MB/s(, not allowed)?", log)}
chosen = re.findall(r"INFO nccl(\w+): .* -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{0\.\.(\d+)\}", log)
assert model and chosen, "the log lacks the model or the choices"
seen = 0
for c in tune["collectives"]:
    for row in c["rows"]:
        for p in row["programs"]:
            ns, mbps, allowed = model[c["collective"], p["program"]]
            assert p["allowed"] == allowed, (c["collective"], p)
            if mbps == 0:
                assert p["time_us"] is None, p
                continue
            want = (ns + row["bytes"] * 1000 / mbps) / 1000
            least = 0.4 if p["program"].startswith("Tree") else 1 # what the table of corrections leaves
            plateau = (ns * 1.9 + row["bytes"] * 1000 / mbps / least) / 1000
            assert want - 0.01 <= p["time_us"] <= plateau + 0.01, (c["collective"], row["bytes"], p, want)
            seen += 1
rows = {r["bytes"]: r for c in tune["collectives"] if c["collective"] == "all_reduce" for r in c["rows"]}
for bytes, (_, algo, proto, last) in zip(sizes, chosen):
    row = rows[bytes]
    assert row["choice"].upper() == algo.replace("_", "") + "/" + proto, (bytes, row, algo, proto)
    assert int(last) + 1 <= row["channels"], (bytes, row, last)
assert len(chosen) == len(sizes), chosen
print(seen, "predictions")
PY

# agree OPTIONS...: rank 0 logs the model, and each of its calls
agree() {
	"$doppel" tune --json -b 64 -e 1M -f 128 "$@" >tune.json 2>err || fail "tune $*: exit code $?"
	NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING,COLL "$doppel" run all_reduce -b 64 -e 1M -f 128 --place in "$@" >out 2>err ||
		fail "run $*: exit code $?"
	grep -h '^host0:.*\[0\] NCCL INFO' out err | grep -E 'MB/s| -> Algo ' >log
	python3 check.py 64 8192 1048576 >/dev/null 2>err || fail "tune $* differs from a run"
}
agree --machine h100-8nic --gpus 4
agree --machine a100-4nic --hosts 2 --gpus 2
agree --machine pcie-4gpu
agree --machine h100-8nic --hosts 3 --gpus 1
NCCL_ALGO=Ring,Tree agree --machine h100-8nic --hosts 4 --gpus 2
NCCL_ALGO=Ring,Tree agree --machine h100-8nic --gpus 4
NCCL_ALGO=Tree agree --machine h100-8nic --gpus 4
NCCL_ALGO=Tree NCCL_PROTO=LL agree --machine pcie-4gpu --hosts 2
NCCL_ALGO=Ring,Tree,PAT agree --machine h100-8nic --hosts 4 --gpus 1
NCCL_ALGO=Ring,PAT agree --machine h100-8nic --hosts 2 --gpus 2
NCCL_ALGO=Ring,PAT NCCL_PAT_ENABLE=1 agree --machine h100-8nic --hosts 2 --gpus 2
NCCL_MAX_NCHANNELS=3 agree --machine h100-8nic --gpus 2
NCCL_MIN_NCHANNELS=5 agree --machine pcie-4gpu --gpus 2
NCCL_PROTO='^LL;broadcast:Simple' agree --machine h100-8nic --gpus 2

# the table: every size once for each collective, a choice, channels, threads
"$doppel" tune all_reduce broadcast --gpus 2 -b 8 -e 1K -f 2 >out 2>err || fail "tune: exit code $?"
[ "$(grep -cE '^ +[0-9]+ .* (Ring|Tree|PAT|OneShot|TwoShot)/[A-Za-z0-9]+ .* [0-9]+ +[0-9]+$' out)" = 16 ] || fail "not 16 rows: $(cat out)"
NCCL_ALGO='nvlstree;all_gather:ring' "$doppel" tune all_reduce --gpus 2 -b 8 -e 8 >out 2>err || fail "not allowed: exit code $?"
grep -qE '^ +8 .*\([0-9.]+\) .* none ' out || fail "what is not allowed: $(cat out)"

# --measure: the doubles' time of each program
NCCL_ALGO=Ring,PAT,OneShot,Symmetric NCCL_PAT_ENABLE=1 NCCL_PROTO=LL,LL128,Simple "$doppel" tune all_gather --gpus 2 -b 1K -e 4K -f 4 --measure --json >tune.json 2>err || fail "--measure: exit code $?"
python3 - 2>err <<'PY' || fail "--measure --json"
import json
programs = [p for c in json.load(open("tune.json"))["collectives"] for r in c["rows"] for p in r["programs"]]
assert len(programs) >= 2 and all(p["doubles_us"] > 1 for p in programs), programs
PY
"$doppel" tune reduce --gpus 2 -b 1K -e 1K --measure >out 2>err || fail "--measure: exit code $?"
grep -q 'not a GPU.s time' out && grep -q ' doubles ' out || fail "--measure does not name what it measures"

# refused TEXT ARGS...
refused() {
	local text=$1 rc=0
	shift
	"$doppel" tune "$@" >out 2>err || rc=$?
	[ $rc = 1 ] && grep -qF -- "$text" err || fail "tune $*: exit code $rc, expected 1 and '$text'"
}
refused "no program runs 'allreduce'; did you mean all_reduce? there are: all_reduce, " allreduce
refused 'collective reduce appears twice' reduce reduce
refused 'one rank runs no program' --gpus 1
refused 'has 4 GPUs' --machine pcie-4gpu --gpus 5
refused '-b 16 is larger than -e 8' -b 16 -e 8
refused '-f 1: expected a number from 2' -f 1
refused "machine 'nosuch' does not exist" --machine nosuch
NCCL_PROTO=simpel refused "NCCL_PROTO=simpel: unknown protocol 'simpel', nearest Simple"
exit $bad
