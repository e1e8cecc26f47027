# SPDX-License-Identifier: BSD-3-Clause
"""Reads a GPU's memory in a world of many GPUs in gdb; run by gdb_alone_test.sh, which looks for its last line.

The memory is private there and has no view of the program. gdb alone cannot read it; Doppel's commands read the alias.
"""
import os
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gdb_check import check, go, passed, value, whole  # noqa: E402
from doppel_gdb import state  # noqa: E402


def readable(address):
    try:
        gdb.selected_inferior().read_memory(address, 8)
        return True
    except gdb.MemoryError:
        return False


def walk():
    go("ncclAllReduce", "sim_task_current->self.rank == 0")
    buffer = value("(unsigned long)sendbuff")
    go("plan_enqueue", "sim_task_current->self.rank == 0")
    check("the program's view is not there", not readable(buffer), hex(buffer))
    check("the alias is", readable(state.alias(buffer)), hex(state.alias(buffer)))
    raw = state.read(buffer, 64)
    check("the input is read, and is not zero", raw and any(raw), raw)
    mapped, home = (value("vmm_spaces->maps->%s" % field) for field in ("base", "home"))
    check("a mapping of cuMem has no view", not readable(mapped), hex(mapped))
    check("its alias is its home's", state.alias(mapped + 8) == state.alias(home + 8), hex(state.alias(mapped)))
    check("it is read", state.read(mapped, 64) is not None, hex(mapped))
    host = value("(unsigned long)&eng")
    check("host memory has no alias", state.alias(host) == host, hex(host))


whole(walk)
print("read: %d checks" % len(passed))
