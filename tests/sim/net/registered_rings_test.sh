#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Results of rings straight into registered outputs, where the rank before a rank is another one on each channel: more of
# them than a work has addresses for (DEV_WORK_RANKS).
#	registered_rings_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
fail_shows=(out err)

# Six rings of eight GPUs, in which GPU 0 comes after GPUs 7, 5, 3, 1, 4 and 6.
rings=('0 1 2 3 4 5 6 7' '0 3 6 1 4 7 2 5' '0 5 2 7 4 1 6 3' '0 7 6 5 4 3 2 1' '0 2 1 3 5 7 6 4' '0 4 5 1 3 7 2 6')
"$doppel" topo search h100-8nic >found.xml || fail 'topo search'
{
	echo '<graphs version="1">'
	for id in 0 1; do
		grep "<graph id=\"$id\"" found.xml | sed 's/nchannels="[0-9]*"/nchannels="6"/'
		for ring in "${rings[@]}"; do
			echo '<channel>'
			for gpu in $ring; do echo "<gpu dev=\"$gpu\"/>"; done
			echo '</channel>'
		done
		echo '</graph>'
	done
	echo '</graphs>'
} >rings.xml

for collective in all_gather all_reduce; do
	for seed in 1 2 3; do
		NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH,REG NCCL_PROTO=Simple NCCL_ALGO=Ring NCCL_GRAPH_FILE=$PWD/rings.xml \
			timeout 200 "$doppel" run "$collective" --machine h100-8nic --hosts 1 -R 1 -n 4 -b 256K -e 256K \
			--seed "$seed" >out 2>err || fail "$collective, seed $seed: exit code $?"
		grep -q 'Out of bounds values : 0 OK' out || fail "$collective, seed $seed: wrong results"
		# all ranks before rank 0 but those that have no number; memory of input and output is one allocation
		n=$(cat out err | grep -c 'rank 0: rank [0-9] has mapped a registered buffer')
		[ "$n" = 4 ] || fail "$collective, seed $seed: $n ranks have mapped the output of rank 0, expected 4"
	done
done
grep -q 'Channel 05/[0-9]* : 0 4 5 1 3 7 2 6$' out err || fail 'other rings'
exit "$bad"
