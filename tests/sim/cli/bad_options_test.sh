#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Options that exclude each other, have no effect alone, or have a value that nothing can be done
# with: one clear error each, instead of a run that leaves them out.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
# shellcheck source=tests/sim/cli/expect_usage.sh
. "$2/tests/sim/cli/expect_usage.sh"
test_begin "$1"
all=(all_reduce --gpus 2 -e 64)

expect 'an empty device' "--devices '': expected a number" run all_reduce --devices 0,,1
expect 'a comma more' "--devices '': expected a number" run all_reduce --devices 0,1,
expect 'too long a list' '--devices: longer than [0-9]+ characters' \
	run all_reduce --devices "$(seq -s, 0 1000)"
expect 'gpus of three hosts' '--gpus with 2 numbers, --hosts 3: expected one' run all_reduce --gpus 4,2 --hosts 3
expect 'gpus, one missing' "--gpus '': expected a number" run all_reduce --gpus 4,,2
expect 'gpus of processes' '--gpus G0,G1,... excludes --processes' run all_reduce --gpus 4,2 --processes 2
expect 'map by core' '--map-by core: expected slot, node or seed' run all_reduce --map-by core
expect 'drive by thread' '--drive thread: expected rank or process' run all_reduce --drive thread
expect 'nine that come and go' '--transient 9: expected a number from 0 to 8' run "${all[@]}" --transient 9
expect 'devices and gpus' '--devices excludes --gpus' run all_reduce --devices 0,1 --gpus 4
expect 'two ways from size to size' '-f excludes -i' run "${all[@]}" -f 2 -i 8
expect 'a number that looks octal is decimal' '--hosts 0777777: expected' run "${all[@]}" --hosts 0777777
expect 'a root rank that is none' '-r one: expected a rank, or all' run "${all[@]}" -r one
expect 'a root of a collective that has none' '-r: all_reduce has no root' run "${all[@]}" -r 0
expect 'an operation of a collective that has none' '-o: all_gather has no operation; expected one of .*: all_reduce.*, reduce_scatter' \
	run all_gather -o max
expect 'two collectives in a run' 'one collective at a time; expected one of: all_reduce' run "${all[@]}" all_gather
expect 'ranks that one task initialises' '-p 0: ranks that one task .* expected 1' run "${all[@]}" -p 0
expect 'CUDA graphs without a number' '-G one: expected' run "${all[@]}" -G one
expect 'a collective twice' 'collective all_reduce appears twice' run "${all[@]}" all_reduce
expect 'a root without a port' '--root garbage: expected HOST:PORT' run "${all[@]}" --root garbage
expect 'a port that is none' '--root h:70000: expected HOST:PORT' run "${all[@]}" --root h:70000
expect 'a root without a rank' '--root has no effect alone; expected --rank' run "${all[@]}" --root h:1
expect 'ranks alone' '--ranks has no effect alone' run "${all[@]}" --ranks 2
expect 'a limit of what' '--limit has no effect alone; expected --rank or --processes' run "${all[@]}" --limit 3
expect 'processes on two hosts' '--processes excludes --hosts' run "${all[@]}" --processes 1 --hosts 2
expect 'workers of fibers' '--workers has no effect alone; expected --engine threads' run "${all[@]}" --workers 2
for o in '--strategy pct' '--memory-order off' --races '--record r' '--replay r'; do
	# shellcheck disable=SC2086 # words
	expect "threads and $o" "--engine threads excludes ${o%% *}" run "${all[@]}" --engine threads $o
done
expect 'recover from nothing' '--recover has no effect alone; expected --faults' run "${all[@]}" --recover
expect 'quiet without faults' '--quiet-rank has no effect alone; expected --faults' run "${all[@]}" --quiet-rank 1

for o in --gdb '--trace t' '--trace-detail t' '--record r' '--replay r' '--seed 3' '--engine threads' '--processes 1' '--rank 0 --ranks 1'; do
	# shellcheck disable=SC2086
	expect "sweep $o" "doppel sweep: (${o%% *}|--engine threads)(:| has| excludes)" sweep "${all[@]}" $o
done
expect 'seeds and count' '--seeds excludes --count' sweep --seeds 1..3 --count 3
expect 'seeds and a first seed' '--seeds excludes --seed-from' sweep --seeds 1..3 --seed-from 3
expect 'no time' '--time 0: expected a time of at least a second' sweep --time 0
expect 'a time with a unit that is none' '--time 1x: expected a time' sweep --time 1x
expect 'too long a time' '--time 99999999999h: expected a time' sweep --time 99999999999h
expect 'no time for a seed' '--seed-limit 0: expected a time' sweep --seed-limit 0
expect 'no seeds' '--count 0: expected a number from 1' sweep --count 0
expect 'no jobs' '-j 0: expected a number from 1' sweep -j 0
expect 'a swarm of one kind' '--swarm excludes a collective' sweep all_reduce --swarm default
expect 'faults of no swarm' '--swarm-faults excludes a collective' sweep all_reduce --swarm-faults always
for o in --hasty '--before reduce' '--streams 2' '--group 2' '--comms 2' '--faults random'; do
	# shellcheck disable=SC2086
	expect "swarm and $o" "${o} has no effect alone|${o%% *} has no effect alone" sweep --count 1 $o
done

expect 'a collective that is none' "--collective: unknown collective 'allgather'; did you mean all_gather" exhaust --collective allgather
expect 'exhaust from 0' '--k 0: expected a number from 1' exhaust --k 0
expect 'exhaust once, and by steps' '--k excludes --stride' exhaust kill --k 3 --stride 2
expect 'a class, then none' "'foo': expected alloc" exhaust alloc foo
expect 'a rank of another world' '--rank 63: expected a rank from 0 to 3' exhaust kill --rank 63
expect 'a site that is none' "no site or action 'nosuch'" exhaust alloc --site nosuch --most 1
for c in kill abort 'cuda --site cuda.malloc.sticky' '--site os.task'; do
	# shellcheck disable=SC2086 # words
	expect "for ever: $c" '--for-ever has no effect on kill, abort and sticky actions.*expected --once' \
		exhaust $c --for-ever --most 1
done
expect 'a task of no class' '--task has no effect without the class abort' exhaust kill --task 'rank0 main'
expect 'a task that is none' "--task 'rank0 mian': no task of that name; there are 'main', 'rank0 main'" exhaust abort --task 'rank0 mian'
expect 'more machines than hosts' '--machine with 3 machines, --hosts 2: expected at most one for each host' \
	run all_reduce --machine h100-8nic,a100-4nic,pcie-4gpu --hosts 2
expect 'a machine of a list that is none' "machine 'nosuch' does not exist" run all_reduce --machine pcie-4gpu,nosuch
expect 'more ranks than the second host has GPUs' '4 ranks per host, but machine .*workstation-2gpu.xml has 2 GPUs' \
	run all_reduce --machine pcie-4gpu,workstation-2gpu --gpus 4
expect 'a list of machines for processes' '--machine A,B,... excludes --processes' \
	run all_reduce --machine pcie-4gpu,a100-4nic --processes 2 --gpus 1
expect 'a matrix of a search' '--compact: has no effect on search; expected show' topo search h100-8nic --compact
expect 'a file of a check' '--output: has no effect on check; expected plot' topo check h100-8nic -o x
expect 'hosts of DOT' '--hosts: has no effect with --dot' topo plot h100-8nic --dot --hosts 2
expect 'a pattern of DOT' '--pattern: has no effect with --dot' topo plot h100-8nic --dot --pattern tree
expect 'a pattern of a search' '--pattern: has no effect on search; expected plot' topo search h100-8nic --pattern tree
expect 'a pattern that is not drawn' '--pattern star: expected ring or tree' topo plot h100-8nic --pattern star
expect 'hosts of what is shown' '--hosts: has no effect on show' topo show h100-8nic --hosts 2
expect 'a budget that is none' '--time 0: expected a time' shrink --time 0 x
expect 'two folders' "'y' is too much" replay x y

if "$doppel" verbs-run --help >/dev/null 2>&1; then
	expect 'a host that is none' '--host 4: expected a number from 0 to 3' verbs-run --host 4 true
	expect 'a machine that is none' "machine 'nosuch' does not exist; expected" verbs-run --machine nosuch true
	expect 'a seed that is none' '--seed x: expected a number' verbs-run --seed x true
	expect 'a fabric that is a path' "--fabric 'a/b': expected a name" verbs-run --fabric a/b true
	expect 'a seed beyond the variable' '--seed 9223372036854775808: expected a number' \
		verbs-run --seed 9223372036854775808 true
	expect 'a plan that is a folder' '--faults /: Is a directory' verbs-run --faults / true
	expect 'a plan that is not there' '--faults nowhere: No such file' verbs-run --faults nowhere true
fi
expect 'help of a help' "unexpected argument 'me'" help me
expect 'a version of a version' "unexpected argument '2'" --version 2

left=$(find . -mindepth 1)
[ -z "$left" ] || { echo "left behind: $left"; bad=1; }
[ $bad = 0 ] && echo "$cases cases, one clear error each"
exit $bad
