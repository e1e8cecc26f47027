# SPDX-License-Identifier: BSD-3-Clause
"""Walks one result into a registered output of another process in gdb; run by gdb_registered_test.sh, which looks for
its last line.

From the question of the receiver (OPEN) and the answer of the sender (OPENED) to the kernels: the offer, the take, and
where the sender writes.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gdb_check import check, frames, go, run, value, whole  # noqa: E402


def walk():
    go("registered_open")  # before its first launch
    rank = value("comm->rank")
    mine, other = ("sim_task_current->self.rank == %d" % r for r in (rank, 1 - rank))
    frames("bt", r"#0 .*registered_open \(comm=", r"plan_task_ask \(", r"plan_registered_exchange")
    go("transport_memory_open", other)
    frames("bt", r"#0 .*transport_memory_open \(comm=", r"registered_import \(", r"transport_registered_take \(")
    go("registered_opened", mine)
    address, first = value("m->value"), value("m->op_count")
    check("the address is the other process' one", address != 0 and value("e->theirs") == 0, run("p *e"))
    go("transport_registered_results", mine + " && op_count >= %d" % first)
    frames("bt", r"#0 .*transport_registered_results \(", r"plan_output_offer \(", r"plan_task_register \(")
    go("prim_result_open", mine + " && w->mapped[b->channel.ring.prev_number] != 0")
    check("the work has the address", address <= value("w->mapped[b->channel.ring.prev_number]") and
          value("w->offers") == 1, run("p *w"))
    go("prim_result_take_word", other)
    frames("bt", r"#0 .*prim_result_take_word \(d=", r"all_gather_ring", r"task_entry")
    go("prim_send_to", other)
    check("the sender writes into the output", address <= value("p->block->result"), run("p *p->block"))


whole(walk)
