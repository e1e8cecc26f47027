#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A chunk that goes through a relay (PXN), walked in gdb (gdb_pxn.py), leaves the trace hash as it is.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_pxn.py walked \
	run all_reduce --machine h100-2nic --hosts 2 --gpus 2 -b 256K -e 256K --place in --seed 3 --env NCCL_ALGO=Ring --env NCCL_PROTO=Simple
