#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A command line of nccl-tests: its options and names do in `doppel run` what they do there, or the error
# names the option that does.
#	nccl_tests_options_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
# shellcheck source=tests/sim/cli/expect_usage.sh
. "$2/tests/sim/cli/expect_usage.sh"
test_begin "$1"
sizes=(-b 1K -e 4K -f 4)

# runs PATTERN ARGS...: exit 0, no wrong element, and the output has the pattern
runs() {
	local pattern=$1
	shift
	"$doppel" run "$@" "${sizes[@]}" >out 2>err || { fail "$*: exit code $?"; head -3 err; }
	grep -q '^# Out of bounds values : 0 OK' out || fail "$*: wrong results"
	grep -qE -- "$pattern" out || { fail "$*: no '$pattern'"; head -20 out; }
}

# one process with all ranks, as there: driven by one task, or by one each
for o in -g -t; do
	runs '^#  Rank  3 on host0 process 0 device  3' all_reduce $o 4
	runs '^#  Rank  5 on host1 process 0 device  2' all_reduce $o 3 --hosts 2
done
runs '^#  Rank  3 on host0 process 0 device  3' all_reduce -t 1 -g 4
for engine in sim threads; do
	for hosts in 1 2; do
		for name in sendrecv alltoall alltoallv hypercube; do
			runs ' none ' $name --engine $engine --hosts $hosts --gpus 2
		done
	done
done
runs ' none .* 0$' sendrecv --gpus 3 --hosts 2 -n 3 -w 2
for type in fp8_e4m3 f8e4m3 fp8_e5m2 f8e5m2; do
	runs " f8e${type: -3} " all_reduce --gpus 2 -d $type
done
# each in a series whose results count
for o in '-m 4' '-z 1' '-z 2' '-u 1' '-u 3 -d int8' '-u 5 -d double' '-N 1' '-C 0' '-T 0' '-y 0'; do
	# shellcheck disable=SC2086 # words
	runs ' sum ' all_reduce --gpus 2 -n 2 $o
done
runs ' agg iters: 4$' all_reduce --gpus 2 -m 4
runs ' graph: 3$' all_reduce --gpus 2 -n 2 -G 3
runs ' cputime .* cputime ' all_reduce --gpus 2 -C 1
runs . all_reduce --gpus 2 -N 3
[ "$(grep -c '^ *1024 ' out)" = 3 ] || fail "-N 3: the row is there $(grep -c '^ *1024 ' out) times, expected 3"
# the buffers are windows, in place and out of place
for name in all_reduce all_gather broadcast reduce_scatter reduce alltoall alltoallv scatter gather sendrecv hypercube; do
	runs . $name --gpus 4 -R 2 -n 2
done
runs . alltoall --gpus 4 -R 2 -n 4 --env-odd NCCL_LOCAL_REGISTER=0 --env NCCL_PROTO=Simple
runs . all_reduce -g 4 -R 2 -n 2 --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=REG
own=' window: buffer .* flags 0x1; a team of 4 of 4 ranks' # not the stack's memory, which is a window without flags
[ "$(cat out err | grep -c "$own")" = 8 ] || fail '-R 2: expected two windows on each of four ranks'
# a wait after each collective takes longer than none, and a group of collectives less
time_of() {
	"$doppel" run all_reduce --gpus 2 -b 1K -e 1K --place out --strategy fifo "$@" | awk '$1 == 1024 { print $6 }'
}
single=$(time_of -n 8) waits=$(time_of -n 8 -z 1) grouped=$(time_of -n 2 -m 4)
awk "BEGIN { exit !($waits > $single && $grouped < $single) }" ||
	fail "time of a call: $single, with waits $waits, in groups of four $grouped"

expect 'threads and GPUs' '-t and -g above 1.*--gpus 8 --ranks-per-process 4 --drive process' run all_reduce -t 2 -g 4
expect 'GPUs twice' '-g excludes --gpus' run all_reduce -g 2 --gpus 2
expect 'a group in a group' '-m excludes --group' run all_reduce --gpus 2 -m 2 --group 2
expect 'for ever' '-N 0: expected a number from 1' run all_reduce -N 0
expect 'a timeout' '-T 5: .*--budget-time' run all_reduce -T 5
expect 'a negative number of graph launches' '-G -1: expected' run all_reduce -G -1
expect 'the default stream' '-y 1: .*not built' run all_reduce -y 1
expect 'a file' '-J f: expected --json FILE' run all_reduce -J f
expect 'three ranks of a cube' 'hypercube: 3 ranks; expected a power of two' run hypercube --gpus 3
expect 'a cube in a group' 'hypercube: .*not in a group' run hypercube -g 4
expect 'a cube after faults' 'hypercube: .*expected all_gather' run hypercube --gpus 2 --faults random --recover
exit $bad
