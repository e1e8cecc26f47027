#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The life of one call of each collective, walked in gdb (gdb_collectives.py), leaves the trace hash as it is.
#	gdb_collectives_test.sh BUILD_DIR SOURCE_DIR [COLLECTIVE...]
. "$2/tests/sim/gdb/gdb_same_hash.sh"
shift 2
[ $# -gt 0 ] || set -- all_reduce all_gather reduce_scatter reduce broadcast all_to_all gather scatter
for collective; do
	echo "$collective:"
	gdb_same_hash gdb_collectives.py walked \
		run "$collective" --machine a100-4nic --hosts 2 --gpus 1 -b 64K -e 64K --place out --seed 3 --env NCCL_PROTO=Simple --env NCCL_ALGO=Ring
done
