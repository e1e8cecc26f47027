#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel report: the page of each kind of failed run has the answers to the ten questions, and refuses folders that are
# none. Usage: report_test.sh BUILD_DIR SOURCE_DIR
set -u
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need python3
need_doubles "$1"
test_begin "$1"
check=$2/tests/sim/report/report_page.py

# failed NAME PLAN ARGUMENT...: a failed run with that plan of faults, in the folder $dir
failed() {
	local name=$1
	printf '%s\n' "$2" >"$name.plan"
	shift 2
	"$doppel" run all_reduce --faults "$name.plan" --fail-dir "$name" "$@" >"$name.out" 2>&1 &&
		fail "$name: the run passes"
	dir=$(echo "$name"/*)
	[ -f "$dir/config" ] || fail "$name: no folder"
}

# page NAME KEY=REGEX...: the page of $dir, and its answers
page() {
	local name=$1 out
	shift
	out=$("$doppel" report "$dir" -o "$name.html" 2>"$name.err") || fail "$name: report: $(cat "$name.err")"
	[ "$out" = "$name.html" ] || fail "$name: report prints: $out"
	python3 "$check" "$name.html" "$@" || fail "$name: the page is wrong"
}

# ---- a link that is down: no progress
failed link 'fabric.link host=1 after=500us down' --hosts 2 --gpus 2 -b 64K -e 64K --env NCCL_MAX_CTAS=2 \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --strategy fifo --env NCCL_ALGO=Ring
step=$(sed -n 's/^found-before //p' "$dir/config")
page link 'late=^rank 3 .*where the chain of waits ends.*All 4 ranks have begun 1 calls' \
	'call=^rank 3: ncclAllReduce \(.*bytes 65536.*kernel dev_all_reduce_ring_.* has not ended' \
	'channel=^Channel 1, from rank 0' 'peer=^Yes: rank 0 \(host0/p0\) has [0-9]+ tasks alive' \
	'qp=qp 0x[0-9a-f]+ RTS -> h0 mlx5_1 qp 0x[0-9a-f]+: 6 sends' \
	'fault=^At [0-9.]+ms \([0-9]+ ns\), by the line "fabric.link host=1 after=500us down"' \
	'link=^The link of host 1 mlx5_1 down since .* messages were lost' \
	'hang=^No progress: .*It is not slow' 'progress=^rank [0-3]: .*before the failure' \
	"gdb=^doppel replay $dir --gdb --until $step\$" 'page=NCCL WARN NET/IB : mlx5_1:1 Got async event'
[ "$(ls "$dir")" = "$(printf '%s\n' choices config explain.txt tasks.core trace.json waits.json)" ] ||
	fail "a report left files in the folder: $(ls "$dir")"
"$doppel" report "$dir" >again.out 2>&1 || fail "without -o: $(cat again.out)"
python3 "$check" "$dir/report.html" 'late=^rank 3' || fail "the page in the folder is another one"
grep -q "$(basename "$dir")/{config,choices" "$dir/report.html" && ! grep -q doppel-report- "$dir/report.html" ||
	fail "the output of the replay names a folder that is gone"
rm "$dir/report.html"

# ---- the page of a folder of another build has no log, and names the reason
cp -r link other
dir=$(echo other/*)
sed -i 's/^build .*/build 0123456789abcdef/' "$dir/config"
page other 'page=Another build or machine file recorded the run' 'late=^rank 3' 'page=It is not recorded'
# ---- files that are missing come from a replay
cp -r link fresh
dir=$(echo fresh/*)
rm "$dir"/{trace.json,waits.json,explain.txt}
page fresh 'late=^rank 3' 'progress=before the failure' 'qp=RTS'
for key in late call channel peer fault link progress; do
	grep -o "<tr id=\"q-$key\">.*" link.html >link.$key
	grep -o "<tr id=\"q-$key\">.*" fresh.html | cmp -s - link.$key || fail "a replay gives another answer: $key"
done

# ---- a wrong result, on a link that is slow
failed wrong $'fabric.packet host=0 nth=5 corrupt undetected=1\nfabric.link host=1 nth=1 slow factor=1000' --hosts 2 \
	--gpus 1 -b 64K -e 64K --env NCCL_PROTO=Simple --env NCCL_MAX_CTAS=1 --strategy fifo
page wrong 'late=The failure is that of rank [01]' 'hang=^Neither: .*"correctness"' \
	'link=^host1 mlx5_0 out is slow: 0\.0[0-9] GB/s' 'fault=^At ' 'call=ncclAllReduce' \
	'channel=uses 1 channels' 'qp=RTS'

# ---- a call that takes for ever, before any kernel
failed late $'os.task rank=1 nth=1 starve by=600s\nheal after=50us' --hosts 2 --gpus 2 -b 4K -e 4K --seed 3
page late 'late=^rank 1 ' 'hang=^A call takes longer than any call may' 'fault=os.task rank=1' \
	'peer=^Yes: rank 1' 'progress=.' 'qp=made no queue pair' 'link=No message of a queue pair has crossed'

# ---- a call that returns an error
failed error 'verbs.reg_mr rank=1 nth=1 fail' --hosts 2 --gpus 2 -b 4K -e 4K --seed 3
page error 'late=The failure is that of rank 1' 'call=^rank 1: init' 'hang=^Neither: .*"error"' \
	'fault=verbs.reg_mr rank=1 nth=1 fail' 'page=NCCL WARN'

# ---- a process that is killed
failed killed 'os.task rank=1 nth=300 kill' --hosts 2 --gpus 2 -b 4K -e 4K --seed 3
page killed 'peer=proc.kill|process [0-9]+ failed|proc.exit' 'fault=os.task rank=1 nth=300 kill'

# ---- run --report: the page of a run that fails, with the run's exit status; none of one that passes
rc=0
"$doppel" run all_reduce --hosts 2 --gpus 2 -b 4K -e 4K --seed 3 --faults error.plan --fail-dir direct \
	--report direct.html >direct.out 2>&1 || rc=$?
[ $rc = 2 ] || fail "run --report: exit code $rc, expected 2"
python3 "$check" direct.html 'late=The failure is that of rank 1' || fail "run --report: the page is wrong"
"$doppel" run all_reduce --gpus 2 -e 64 --fail-dir direct --report none.html >direct.out 2>&1 || fail "a run that passes: $?"
[ ! -e none.html ] || fail "a run that passes has a page"

# ---- bad folders: one sentence, exit 1
# refuse WHAT DIR TEXT
refuse() {
	local rc=0
	"$doppel" report "$2" -o bad.html >bad.out 2>bad.err || rc=$?
	[ $rc = 1 ] && [ ! -s bad.out ] && [ ! -e bad.html ] || fail "$1: exit $rc, $(cat bad.out)"
	grep -qF -- "$3" bad.err && [ "$(wc -l <bad.err)" = 1 ] || fail "$1: expected one line with $3: $(cat bad.err)"
	rm -f bad.html
}
from=$(echo link/*)
bad_copy() { rm -rf bad && cp -r "$from" bad; }
mkdir empty
refuse "no such folder" none "none is not a folder; expected the folder of a failed run"
refuse "a file" link.plan "link.plan is not a folder"
refuse "an empty folder" empty "empty has no file config"
bad_copy && sed -i '1s/.*/doppel-config 2/' bad/config
refuse "another version" bad 'expected version 1, got "2"'
bad_copy && sed -i '/^found/d' bad/config
refuse "a run that passed" bad 'has no failure'
bad_copy && head -c 70 "$from/config" >bad/config
refuse "a config that is cut off" bad 'bad/config'
bad_copy && head -c 5000 "$from/waits.json" >bad/waits.json
refuse "waits that are cut off" bad "bad/waits.json:"
bad_copy && head -c 20000 "$from/trace.json" >bad/trace.json
refuse "a trace that is cut off" bad "bad/trace.json:"
bad_copy && : >bad/trace.json
refuse "an empty trace" bad "bad/trace.json:0: expected"
bad_copy && printf '[\n{"ph":"X","tid":-3}\n]\n' >bad/trace.json
refuse "a record without a track" bad "bad/trace.json:2: expected the number of a track"
bad_copy && rm bad/waits.json && mkdir bad/waits.json
refuse "a folder for a file" bad "bad/waits.json"
"$doppel" report "$from" -o no/such/folder.html >bad.out 2>&1 && fail "a page that cannot be written passes"
grep -q 'no/such/folder.html' bad.out || fail "a page that cannot be written is not named"

# ---- hostile names, in each file and in the folder's own name
evil="</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
nasty='x"><script>alert(3)<'
cp -r "$from" "$nasty"
(
	cd "$nasty" || exit 1
	EVIL=$evil python3 - <<'P'
import json, os, re

evil = os.environ["EVIL"]
quoted = json.dumps(evil)[1:-1]
for name in ("waits.json", "trace.json"):
    text = open(name).read()
    text = text.replace('"rank0 main"', '"rank0 %s"' % quoted).replace("data from the peer", quoted)
    text = text.replace('"ncclAllReduce"', '"nccl%s"' % quoted).replace("RING", quoted)
    open(name, "w").write(text.replace("mlx5_1", "mlx5_" + quoted))
text = open("explain.txt").read()
open("explain.txt", "w").write(text.replace("mlx5_1", evil).replace("rank 0", evil))
text = open("config").read()
text = re.sub(r"^found-message .*", "found-message " + evil, text, flags=re.M)
open("config", "w").write(text.replace("env NCCL_DEBUG=WARN", "env NCCL_HOSTID=" + evil))
open("log", "wb").write(b"host1:1:1 NCCL WARN " + evil.encode() + b"\xff\xfe\x01\x00 end\n")
P
) || fail "the hostile folder"
dir=$nasty
page evil 'page=alert\(1\)' 'page=NCCL WARN </script><script>' "gdb=^doppel replay '.*' --gdb"
exit $bad
