#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The memory of a GPU among 136 is read in gdb by Doppel's commands (gdb_alone.py), and the trace hash stays as it is.
. "$2/tests/sim/gdb/gdb_same_hash.sh"
gdb_same_hash gdb_alone.py read run all_reduce --hosts 17 --gpus 8 -b 1K -e 1K --strategy fifo
