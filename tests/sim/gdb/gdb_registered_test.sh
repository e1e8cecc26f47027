#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Results of an all-gather in a registered output of another process, walked in gdb (gdb_registered.py), leave the trace
# hash as it is.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_registered.py walked \
	run all_gather --machine h100-8nic --gpus 2 -R 1 -n 12 -b 64K -e 64K --place out --env NCCL_ALGO=Ring --env NCCL_PROTO=Simple --env DOPPEL_RESULT_BYTES=1 \
	--env NCCL_PROTO=Simple --env NCCL_ALGO=Ring
