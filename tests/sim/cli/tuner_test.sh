#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A tuner plugin (tuner_plugin.c) is loaded by NCCL_TUNER_PLUGIN, is shown ranks, hosts, constants and
# times, and decides program and channels within what the communicator can; what it cannot is refused.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
folder=$(realpath "$1")/tests runtime=$(realpath "$1")/libdoppel-rt.so
plugin=$folder/libtuner_plugin_5.so
test_begin "$1"
fail_shows=(log)
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL,TUNING

# run WHAT EXPECTED_CODE PLUGIN ARGS...: the log goes to `log`
run() {
	local what=$1 code=$2 rc=0
	TUNER_TEST=$what NCCL_TUNER_PLUGIN=$3 "$doppel" run "${@:4}" --place in >log 2>&1 || rc=$?
	[ $rc = "$code" ] || fail "$what: exit code $rc, expected $code"
}

# logged WHAT PATTERN [TIMES]: that many lines match
logged() {
	local n
	n=$(grep -cE -- "$2" log)
	[ "$n" = "${3:-$n}" ] && [ "$n" -gt 0 ] || fail "$1: $n lines match '$2', expected ${3:-some}"
}
big=(all_reduce --gpus 2 -b 1M -e 1M)

run '' 0 "$plugin" "${big[@]}"
logged 'init' 'tuner test init: 2 ranks, 1 hosts, 1 domains of 2 to 2; Ring/LL 6\.6 \+ 0\.6 us' 2
logged 'a call' 'tuner test call: function 4, 1048576 bytes, Ring/Simple [0-9]' 2
logged 'finalize' 'tuner test finalize' 2
without=$(grep -oE '=\{0\.\.[0-9]+\}' log | head -1)
[ "$without" != '={0..1}' ] || fail "without a wish: $without"

run channels 0 "$plugin" "${big[@]}"
logged 'channels' ' -> Algo .*=\{0\.\.1\}' 2
run wild 0 "$plugin" "${big[@]}"
logged 'wild' ' -> Algo .*=\{0\.\.([3-9]|[123][0-9])\}' 2
run error 0 "$plugin" "${big[@]}"
logged 'an error' " -> Algo .*${without//[{\}]/.}" 2
# number 3 * algorithm + protocol of the cost table
run last 0 "$plugin" all_gather --hosts 2 --gpus 2 -b 1K -e 1K
logged 'hosts' 'tuner test init: 4 ranks, 2 hosts, 2 domains of 2 to 2' 4
names=(LL LL128 SIMPLE)
last=$(grep -oE 'tuner test last: [0-9]+' log | head -1 | grep -oE '[0-9]+$')
logged 'the last' "ncclAllGather: .* Algo RING proto ${names[$((last % 3))]} " 4
[ "$((last / 3))" = 1 ] || fail "the last is of algorithm $((last / 3)), expected 1, Ring"

run uneven 2 "$plugin" "${big[@]}"
logged 'ranks that differ' 'ranks . and . disagree on operation 0 .* program=Ring/[A-Za-z0-9]+ channels=[12]'

run '' 0 none "${big[@]}"
! grep -q 'tuner test' log || fail 'none: a plugin is used'
run '' 0 "$plugin" all_reduce --gpus 1 -b 8 -e 8 # one rank chooses nothing
! grep -q 'tuner test' log || fail 'one rank: a plugin is used'

run fail 2 "$plugin" "${big[@]}"
logged 'init fails' 'WARN rank 0: the tuner plugin test fails in init with ncclSystemError'
run constants 2 "$plugin" "${big[@]}"
logged 'constants' 'the tuner plugin test changes the constants of the model, which is not built'
logged 'constants' 'tuner test finalize' "$(grep -c 'tuner test init' log)"
run '' 2 nosuch "${big[@]}"
logged 'no file' 'NCCL_TUNER_PLUGIN=nosuch: libnccl-tuner-nosuch.so cannot be used: '
run '' 2 "$runtime" "${big[@]}"
logged 'no plugin' 'it has no complete ncclTunerPlugin_v2 to _v6, expected a tuner plugin of one of these versions'

# ---- each version

for version in 2 3 4 5 6; do
	run '' 0 "$folder/libtuner_plugin_$version.so" "${big[@]}"
	logged "version $version" "rank [01]: tuner plugin test \(version $version\) of " 2
	logged "version $version" 'tuner test init: 2 ranks, 1 hosts' 2
	logged "version $version" 'tuner test call: function 4, 1048576 bytes' 2
	logged "version $version" 'tuner test finalize' 2
	run channels 0 "$folder/libtuner_plugin_$version.so" "${big[@]}"
	logged "version $version, channels" ' -> Algo .*=\{0\.\.1\}' 2
	run fail 2 "$folder/libtuner_plugin_$version.so" "${big[@]}"
	logged "version $version, init" 'the tuner plugin test fails in init with ncclSystemError'
	[ $version -lt 3 ] || continue
	run '' 0 "$folder/libtuner_plugin_$version.so" "${big[@]}"
	logged "version $version" ' -> Algo RING proto SIMPLE ' 2
	logged "version $version" 'collnet 0, nvls 0' 2
	run wild 0 "$folder/libtuner_plugin_$version.so" "${big[@]}"
	logged "version $version, wild" ' -> Algo ' 2
done

# ---- chunks: more and smaller ones, and one that is too large

ring=(all_reduce --hosts 2 --gpus 2 -b 1M -e 1M --env NCCL_ALGO=ring --env NCCL_PROTO=simple)
run '' 0 "$folder/libtuner_plugin_6.so" "${ring[@]}"
logged 'chunks' 'tuner test chunk: function 4, 1048576 bytes, algo 1, proto 2, [0-9]+ channels, chunk [0-9]+' 4
whole=$(grep -oE 'steps=?[0-9]+|trace hash .*' log | head -1)
TUNER_CHUNK=16384 run '' 0 "$folder/libtuner_plugin_6.so" "${ring[@]}"
[ "$(grep -oE 'trace hash .*' log | head -1)" != "$whole" ] || fail 'chunks: a smaller size changes nothing'
TUNER_CHUNK=1000000000 run '' 0 "$folder/libtuner_plugin_6.so" "${ring[@]}"
logged 'chunks' 'chunks of 1000000000 bytes, which the tuner plugin wants, are cut to [0-9]+' 4
[ "$(grep -oE 'trace hash .*' log | head -1)" = "$whole" ] || fail 'chunks: one that is cut differs from the largest'
TUNER_CHUNK=0 run '' 0 "$folder/libtuner_plugin_6.so" "${ring[@]}"
for algo in ring tree oneshot twoshot pat doubling; do
	for proto in simple ll ll128; do
		for collective in all_reduce all_gather reduce_scatter broadcast; do
			TUNER_CHUNK=4100 run '' "0" "$folder/libtuner_plugin_6.so" $collective --hosts 2 --gpus 1 \
				-b 100K -e 100K --env "NCCL_ALGO=$algo,ring" --env "NCCL_PROTO=$proto,simple"
		done
	done
done
exit $bad
