#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One reduce-scatter of PAT, walked in gdb (gdb_pat.py), leaves the trace hash as it is.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_pat.py walked \
	run reduce_scatter --machine a100-4nic --hosts 5 --gpus 1 -b 20K -e 20K --place out --env NCCL_ALGO=PAT
