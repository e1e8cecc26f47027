#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A tuner plugin (tuner_plugin.c) is loaded by NCCL_TUNER_PLUGIN, is shown ranks, hosts, constants and
# times, and decides program and channels within what the communicator can; what it cannot is refused.
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
plugin=$(realpath "$1")/tests/libtuner_plugin.so runtime=$(realpath "$1")/libdoppel-rt.so
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
logged 'init fails' 'WARN rank 0: the tuner plugin test fails in init with 2'
run constants 2 "$plugin" "${big[@]}"
logged 'constants' 'the tuner plugin test changes the constants of the model, which is not built'
logged 'constants' 'tuner test finalize' "$(grep -c 'tuner test init' log)"
run '' 2 nosuch "${big[@]}"
logged 'no file' 'NCCL_TUNER_PLUGIN=nosuch: libnccl-tuner-nosuch.so cannot be loaded: '
run '' 2 "$runtime" "${big[@]}"
logged 'no plugin' 'has no complete ncclTunerPlugin_v5, expected a tuner plugin of version 5'
exit $bad
