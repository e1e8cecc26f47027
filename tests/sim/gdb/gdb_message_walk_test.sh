#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The life of messages within one process, walked in gdb (gdb_message_walk.py), leaves the trace hash as it is.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_message_walk.py walked \
	run all_to_all --machine h100-8nic --gpus 2 --ranks-per-process 2 -b 1M -e 1M --place out --seed 1 \
	--env NCCL_PROTO=Simple
