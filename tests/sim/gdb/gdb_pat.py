# SPDX-License-Identifier: BSD-3-Clause
"""Walks one reduce-scatter of PAT in gdb; run by gdb_pat_test.sh, which looks for its last line.

From the call over the plan to the kernel and the primitive: at which offset the rank is, over which levels it receives,
and where it waits.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gdb_check import check, frames, go, run, value, whole  # noqa: E402


def walk():
    go("ncclReduceScatter")
    rank = value("$rank")
    mine = "sim_task_current->self.rank == %d" % rank
    for function in ("plan_enqueue", "plan_start"):
        go(function, mine)
    check("the plan names the program", "REDUCE_SCATTER_PAT_SIMPLE" in run("p *p"), run("p *p"))
    for function in ("cudaLaunchKernelExC", "dev_pat", "reduce_scatter_pat", "prim_pat_reduce"):
        go(function, mine)
    # of five ranks: offset 3 first, with offset 1 of all the levels that share a slot
    check("offsets 1 and 3 share the first slot, over level 0",
          [value("t->%s" % name) for name in ("first", "stride", "from", "to")] == [1, 2, 0, 1],
          run("p *t"))
    go("prim_pat_post", mine)
    check("the slot is level 0's, to the next rank",
          value("p->block->conn[1].peer") == (rank + 1) % 5, run("p p->block->conn[1]"))
    check("a connection is printed by its peer and steps",
          re.search(r"= {channel \d, peer \d.*: next step \d+, tail \d+, head \d+",
                    run("p p->block->conn[4]")), run("p p->block->conn[4]"))
    go("prim_wait_recv", mine)
    frames("bt", r"#0 .*prim_wait_recv \(p=", r"prim_pat_wait \(p=.*t=", r"prim_pat_reduce \(p=",
           r"reduce_scatter_pat_loop \(p=", r"dev_pat \(d=", "task_entry")


whole(walk)
