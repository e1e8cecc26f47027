#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Profiler plugins (profiler_plugin.c) of each version receive every event once, in order and with a valid
# parent. Bytes of steps are those of the messages. Broken plugins are a WARN, and the run continues.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
folder=$(realpath "$1")/tests runtime=$(realpath "$1")/libdoppel-rt.so
chrome=$(realpath "$1")/libnccl-profiler-chrome.so
test_begin "$1"
fail_shows=(log)
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,PROFILE
newest=$folder/libprofiler_plugin_7.so
small=(all_reduce --hosts 2 --gpus 1 -b 64K -e 64K)

# run WHAT EXPECTED_CODE PLUGIN ARGS...: the log goes to `log`
run() {
	local what=$1 code=$2 rc=0
	NCCL_PROFILER_PLUGIN=$3 "$doppel" run "${@:4}" >log 2>&1 || rc=$?
	[ $rc = "$code" ] || fail "$what: exit code $rc, expected $code"
}

# logged WHAT PATTERN [TIMES]: that many lines match
logged() {
	local n
	n=$(grep -cE -- "$2" log)
	[ "$n" = "${3:-$n}" ] && [ "$n" -gt 0 ] || fail "$1: $n lines match '$2', expected ${3:-some}"
}

# clean WHAT [RANKS]: the plugin has found no fault, every event has ended, every rank called finalize
clean() {
	logged "$1" "^profiler v[1-7]:.* bad 0, open 0, cut 0, finalize ${2:-2} of ${2:-2}\$" 1
}

# number KIND: how many events of the kind there were
number() {
	grep '^profiler v' log | grep -oE " $1 [0-9]+" | grep -oE '[0-9]+$'
}

# equal WHAT GOT EXPECTED
equal() {
	[ "$2" = "$3" ] || fail "$1: $2, expected $3"
}

# ---- each version

for version in 1 2 3 4 5 6 7; do
	for engine in sim threads; do
		run "version $version" 0 "$folder/libprofiler_plugin_$version.so" "${small[@]}" --engine $engine
		clean "version $version, $engine"
		logged "version $version" "PROFILER/Plugin: rank . uses prof \(version $version\) of" 2
		logged "version $version" "^profiler v$version: group 4 coll 4 op [0-9]+ step [0-9]+ ctrl [0-9]+" 1
		[ $version -lt 3 ] || logged "version $version" ' kernel [0-9]+' 1
		[ $version -lt 4 ] || logged "version $version" 'profiler init: hash 1, 2 hosts, rank [01] of 2' 2
		[ $version -lt 5 ] || logged "version $version" ' group_api 4 coll_api 4 launch 4' 1
	done
done

# ---- bytes, kernels, masks

export NCCL_ALGO=ring NCCL_PROTO=simple
for engine in sim threads; do
	run "bytes, $engine" 0 "$newest" "${small[@]}" --engine $engine
	clean "bytes, $engine"
	# a ring of two ranks sends as much as a rank has, in each of the four calls of the two ranks
	logged "bytes, $engine" ", bytes sent $((4 * 65536)) received $((4 * 65536))," 1
done
unset NCCL_ALGO NCCL_PROTO
for collective in all_gather reduce_scatter broadcast reduce all_to_all send_recv gather scatter hypercube; do
	for engine in sim threads; do
		run "$collective, $engine" 0 "$newest" $collective --hosts 2 --gpus 2 -b 8 -e 256K -f 32 \
			--engine $engine
		clean "$collective, $engine" 4
		sent=$(grep -oE 'sent [0-9]+ received [0-9]+' log)
		[[ $sent =~ ^sent\ ([1-9][0-9]*)\ received\ ([0-9]+)$ && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]] ||
			fail "$collective, $engine: $sent, expected the same"
	done
done
run 'one host' 0 "$newest" all_reduce --gpus 4 -b 4M -e 4M --warp 32
clean 'one host' 4
[ "$(number kernel)" -ge 16 ] || fail "one host: $(number kernel) events of kernels, expected some for each channel"
equal 'one host: operations of the proxy' "$(number op)" ''
run 'groups' 0 "$newest" all_reduce --hosts 2 --gpus 1 -b 64K -e 64K -m 100
clean 'groups'
equal 'groups: collectives' "$(number coll)" "$(number coll_api)"
[ "$(number group_api)" -lt "$(number coll_api)" ] || fail 'groups: each call has a group'
run 'one rank' 0 "$newest" all_reduce --gpus 1 -b 64K -e 64K
clean 'one rank' 1
equal 'one rank: collectives' "$(number coll)" ''
[ "$(number coll_api)" -gt 0 ] || fail 'one rank: no API event'
PROF_MASK=0 run 'no events' 0 "$newest" "${small[@]}"
logged 'no events' '^profiler v7:, bytes sent 0'
PROF_MASK=2 run 'collectives' 0 "$newest" "${small[@]}"
# parents of a collective are started, too
logged 'collectives' '^profiler v7: group 4 coll 4 group_api 4 coll_api 4, '
PROF_MASK=16 run 'steps' 0 "$newest" "${small[@]}"
logged 'steps' '^profiler v7: group 4 coll 4 op [0-9]+ step [0-9]+ group_api 4 coll_api 4, '
PROF_MASK=0xf000 run 'what is not built' 0 "$newest" "${small[@]}"
logged 'what is not built' 'no event is sent for mask 0x7000: there are no collectives of copy engines' 2
logged 'what is not built' 'no event is sent for mask 0x8000: there are no phases of symmetric kernels' 2
logged 'what is not built' '^profiler v7:, '
PROF_FAULT=once run 'a mask at the first init only' 0 "$newest" "${small[@]}"
logged 'a mask at the first init only' '^profiler v7: group 4 coll 4 ' 1
PROF_TAG=77 run 'a tag' 0 "$newest" "${small[@]}"
logged 'a tag' 'profiler bad: coll: tag 0' # the runner sets none: the check sees it

# an all-to-all is a collective on windows
for version in 1 2 3 4 5 6 7; do
	run "to all, version $version" 0 "$folder/libprofiler_plugin_$version.so" all_to_all --gpus 2 -R 2 -b 8 -e 8
	clean "to all, version $version"
	[ "$(number coll)" -gt 0 ] && [ -z "$(number p2p)" ] || fail "to all, version $version: no collective, or messages"
done

# ---- messages through another rank have their events where they are sent, with that rank's process

run 'PXN' 0 "$newest" all_to_all --hosts 2 --gpus 8 -b 64K -e 64K
clean 'PXN' 16

# ---- failures: events of what is dropped end

for seed in 9 23 33; do
	NCCL_PROFILER_PLUGIN=$newest "$doppel" run all_reduce --hosts 2 --gpus 2 -b 8 -e 64K -f 8 --seed $seed \
		--faults random >log 2>&1
	logged "faults, seed $seed" '^profiler v7:.* bad 0, open 0, .* finalize 4 of 4$' 1
done

# ---- a run without events has the steps of one without a plugin, but for those that load it

"$doppel" run "${small[@]}" >log 2>&1
without=$(grep 'trace hash' log)
run none 0 none "${small[@]}"
equal 'none' "$(grep 'trace hash' log)" "$without"
run 'the same seed' 0 "$newest" "${small[@]}"
once=$(grep -E 'trace hash|^profiler v' log)
run 'the same seed' 0 "$newest" "${small[@]}"
equal 'the same seed' "$(grep -E 'trace hash|^profiler v' log)" "$once"

# ---- plugins that fail

for engine in sim threads; do
	PROF_FAULT=init run "init, $engine" 0 "$newest" "${small[@]}" --engine $engine
	logged "init, $engine" "WARN rank .: the profiler plugin prof of $newest fails in init with ncclSystemError; the communicator continues without a profiler" 2
	# with threads both ranks may have it at the same time: then it is unloaded once
	if [ $engine = sim ]; then
		logged "init, $engine" '^profiler v7:, .* finalize 0 of 1$' 2
	else
		grep -qE '^profiler v7:, .* finalize 0 of [12]$' log || fail "init, $engine: no line at the plugin's end"
	fi
	PROF_FAULT=start run "start, $engine" 0 "$newest" "${small[@]}" --engine $engine
	logged "start, $engine" 'WARN rank .: the profiler plugin prof: startEvent fails with ncclInternalError; the event is not recorded' 2
	PROF_FAULT=garbage run "garbage, $engine" 0 "$newest" "${small[@]}" --engine $engine
	PROF_FAULT=none run "no handles, $engine" 0 "$newest" "${small[@]}" --engine $engine
	clean "no handles, $engine"
done
PROF_FAULT=context run 'no context' 0 "$newest" "${small[@]}"
logged 'no context' '^profiler v7: group 4 .* finalize 0 of 2$'
PROF_FAULT=slow run 'a slow plugin' 0 "$newest" "${small[@]}" --engine threads
logged 'a slow plugin' 'WARN rank .: the profiler plugin prof: startEvent took [1-9][0-9]{3,} ms, and the rank or its proxy waited for it' 2
run 'no stop' 0 "$folder/libprofiler_plugin_lame.so" "${small[@]}"
logged 'no stop' 'WARN .*: its table ncclProfiler_v7 is not complete, expected name, init, startEvent, stopEvent, .*; continues without a profiler' 2
run 'no file' 0 nosuch "${small[@]}"
logged 'no file' 'WARN NCCL_PROFILER_PLUGIN=nosuch: libnccl-profiler-nosuch.so cannot be used: .*; continues without a profiler' 2
run 'no plugin' 0 "$runtime" "${small[@]}"
logged 'no plugin' 'WARN .* it has none of ncclProfiler_v1 to _v7, expected a profiler plugin of one of these versions' 2

# ---- names

cp "$newest" libnccl-profiler-mine.so
LD_LIBRARY_PATH=$PWD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} run 'a short name' 0 mine "${small[@]}"
clean 'a short name'
NCCL_NET_PLUGIN=$folder/libnet_plugin_12.so run 'a net plugin without a profiler' 0 nosuch "${small[@]}"
logged 'a net plugin without a profiler' 'cannot be used: .*; continues without a profiler' 2
! grep -q 'not a variable' log || fail 'a variable of a plugin is reported as unknown'

# ---- events of a net plugin

for engine in sim threads; do
	NCCL_NET_PLUGIN=$folder/libnet_plugin_12.so run "a net plugin, $engine" 0 "$newest" "${small[@]}" \
		--engine $engine
	clean "a net plugin, $engine"
	[ "$(number net)" -ge "$(number step)" ] || fail "a net plugin, $engine: fewer events than steps"
done

# ---- the timeline

export PROFILER_CHROME_FILE=$PWD/trace-%c-%r.json
run 'chrome' 0 "$chrome" "${small[@]}"
cat trace-*.json >first
[ "$(ls trace-*.json | wc -l)" = 2 ] || fail "chrome: $(ls trace-*.json), expected a file for each rank"
for file in trace-*.json; do
	python3 - "$file" <<'PY' || fail "chrome: $file is not as expected"
import json, sys
events = json.load(open(sys.argv[1]))
begun, names = {}, set()
for e in events:
    if e["ph"] == "b":
        assert e["id"] not in begun
        begun[e["id"]] = e["ts"]
        names.add(e["name"])
    elif e["ph"] == "e":
        assert e["ts"] >= begun.pop(e["id"]), e
    elif e["ph"] == "n":
        assert e["ts"] >= begun[e["id"]], e
assert not begun, begun
need = {"group API", "API AllReduce", "group", "AllReduce", "launch", "proxy send", "proxy receive", "step", "kernel"}
assert need <= names, need - names
PY
done
run 'chrome, the same seed' 0 "$chrome" "${small[@]}"
cat trace-*.json | cmp -s - first || fail 'chrome: the same seed gives another file'
PROFILER_CHROME_FILE=/nosuch/file run 'chrome, no folder' 0 "$chrome" "${small[@]}"
logged 'chrome, no folder' 'PROFILER_CHROME_FILE: /nosuch/file cannot be created: No such file or directory' 2
exit $bad
