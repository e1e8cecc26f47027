#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# In gdb, names that nothing has are refused with the nearest ones, and $rank in a condition is that of the task
# that runs (gdb_names.py). The trace hash stays as it is.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_names.py walked \
	run all_reduce --machine a100-4nic --hosts 2 --gpus 2 -b 64K -e 64K --place in --seed 3 \
	--env NCCL_ALGO=Ring --env NCCL_PROTO=Simple
