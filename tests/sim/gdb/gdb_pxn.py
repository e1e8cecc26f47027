# SPDX-License-Identifier: BSD-3-Clause
"""Walks a chunk that goes through a relay (PXN) in gdb; run by gdb_pxn_test.sh, which looks for its last line.

Rank 1 has its operations in the area of rank 0, its kernel fills a slot in the memory of rank 0's GPU, and rank 0's
proxy hands the slot to the network. `info relays` shows how far each of them is.
"""
import os
import re
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gdb_check import check, frames, go, passed, run, value  # noqa: E402

USER = "sim_task_current->self.rank == 1"


def relayed():
    """The lines of `info relays` for the ranks of the first host."""
    text = run("info relays")
    found = re.search(r"^rank 0 for rank 1: .*\n((?: +{.*\n)*)", text, re.M)
    check("rank 0 is rank 1's relay", found, text)
    return found.group(0)


def counts(text):
    """Of the connection with an operation: filled, transmitted, done."""
    found = re.search(r"channel 0, rank 1 -> rank 2 through rank 0, NIC 0, READY: opCount 0, SIMPLE, steps 0 to \d+, "
                      r"filled to (\d+), transmitted to (\d+), done to (\d+); slots of \d+ bytes in GPU memory at "
                      r"0x(\w+)}", text)
    check("a connection through the relay has an operation", found, text)
    return [int(found.group(i)) for i in (1, 2, 3)] + [int(found.group(4), 16)]


run("set breakpoint pending on")
run("set confirm off")
run("tbreak sim_run")
gdb.execute("run")
check("no relay before init", "no rank sends through another one" in run("info relays"), run("info relays"))
go("ncclAllReduce", USER)
go("relay_op_put", USER)
check("the operation is for the connection of the relay", value("op->conn->use->rank") == 0,
      run("p *op->conn"))
go("prim_send", USER + " && p->send->channel == 0")
kernel = value("p->send->buffer[DEV_SIMPLE]")
go("proxy_trace_send_begins", "pc->proxy->relay && pc->comm->rank == 0 && pc->channel == 0")
check("the proxy of rank 0 sends for rank 1",
      re.search(r"= {channel 0, rank 1 -> rank 2 through rank 0, ", run("p *pc")), run("p *pc"))
frames("bt", "#0 .*proxy_trace_send_begins", "proxy_progress_main", "task_entry")
filled, transmitted, done, slots = counts(relayed())
check("a slot is filled, and not transmitted yet", filled > transmitted >= done, run("info relays"))
check("the slots are those of the kernel", slots == kernel, hex(kernel))
check("all that was appended was taken",
      re.search(r"(\d+) of \1 requests answered, (\d+) of \2 operations taken", relayed()), relayed())
go("net_verbs_isend")
check("what is sent is that slot", slots <= value("b->data") < slots + (8 << 20), run("info args"))
run("delete")
gdb.execute("continue")  # to the end: the hash is checked by the caller
print("walked: %d checks" % len(passed))
