#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The life of one all-reduce, walked in gdb (gdb_walk.py), leaves the trace hash as it is.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_walk.py walked \
	run all_reduce --machine a100-4nic --hosts 2 --gpus 2 -b 64K -e 64K --place in --seed 3 \
	--env NCCL_ALGO=Ring --env NCCL_PROTO=Simple
