#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Machines that none of us wrote: each runs every collective, on one host, on two and on three, the protocols
# by turns; so do pairs of them, on two hosts and on three; a file that is no machine ends with an error that
# names the reason. Skipped without the folder of them.
# Usage: zoo_test.sh BUILD_DIR SOURCE_DIR [all]
#   all    every machine and 48 pairs, in place of two machines and a pair that the commit draws, and one file
#          that is no machine
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
zoo=$source_dir/../shared/zoo
[ -d "$zoo" ] || { echo "no folder $zoo"; exit 77; }

declare -A no_machine=( # and what its error says
	[aws-p5-template.xml]="no GPU in this topology"
)
collectives=(all_reduce all_gather reduce_scatter reduce broadcast all_to_all gather scatter)
protocols=(Simple LL LL128)
mapfile -t files < <(find "$zoo" -name '*.xml' ! -path '*/expected/*' | sort)
machines=() broken=()
for file in "${files[@]}"; do
	if [ -n "${no_machine[${file##*/}]:-}" ]; then broken+=("$file"); else machines+=("$file"); fi
done
pairs=() # each with one that is far from it in the list
for ((i = 0; i < ${#machines[@]}; i++)); do
	pairs+=("${machines[i]},${machines[(i + 17) % ${#machines[@]}]}")
done
if [ "${3:-}" != all ]; then
	mapfile -t machines < <(drawn 2 "${machines[@]}")
	mapfile -t pairs < <(drawn 1 "${pairs[@]}")
	mapfile -t broken < <(drawn 1 "${broken[@]}")
fi
test_begin "$build_dir"
runs=0

# Into the file `out`; the exit code.
run_machine() { # MACHINE HOSTS COLLECTIVE PROTOCOL [ARGS...]
	timeout 300 "$doppel" run "$3" --machine "$1" --hosts "$2" --env NCCL_PROTO="$4" -b 1001 -e 1001 \
		-d uint8 -n 1 -w 0 "${@:5}" >out 2>&1
}

fail_shows=(out)
every_collective() { # MACHINE HOSTS
	local collective protocol
	for collective in "${collectives[@]}"; do
		protocol=${protocols[runs++ % 3]}
		if ! run_machine "$1" "$2" "$collective" "$protocol" ||
			! grep -q 'Out of bounds values : 0 OK' out; then
			fail "$1, hosts: $2, $collective, $protocol"
		fi
	done
}
for file in "${machines[@]}"; do
	for hosts in 1 2 3; do every_collective "$file" $hosts; done
	# results straight into outputs, over the rings of the machine
	run_machine "$file" 1 all_gather Simple -n 4 -R 1 --env NCCL_ALGO=Ring || fail "$file, registered buffers"
done
for pair in "${pairs[@]}"; do
	for hosts in 2 3; do every_collective "$pair" $hosts; done
done
for file in "${broken[@]}"; do
	rc=0
	run_machine "$file" 1 all_reduce Simple || rc=$?
	[ $rc = 1 ] || [ $rc = 2 ] || fail "${file##*/}: exit code $rc"
	grep -qF "${no_machine[${file##*/}]}" out || fail "${file##*/}: the error does not say why"
done
echo "${#machines[@]} machines, ${#pairs[@]} pairs, $runs runs; ${#broken[@]} files that are no machines"
exit $bad
