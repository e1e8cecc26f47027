# SPDX-License-Identifier: BSD-3-Clause
"""Walks the life of messages between two ranks of one process in gdb; run by gdb_message_walk_test.sh, which looks
for its last line. The receiver offers its buffer, the sender takes the address and writes there (docs/device.md).
"""
import os
import re
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gdb_check import check, passed, run  # noqa: E402


def value(expression):
    return int(gdb.parse_and_eval(expression))


def go(function, condition="1"):
    """Runs on to the function; true when it is there."""
    stop = gdb.Breakpoint(function, temporary=True)
    stop.silent = True
    stop.condition = "sim_task_current && (%s)" % condition
    run("continue")
    check("%s is reached" % function, gdb.selected_inferior().pid and not stop.is_valid() and
          gdb.selected_frame().name() in (function, "p" + function),
          run("bt 1") if gdb.selected_inferior().pid else "the end of the program")


def frames(command, *patterns):
    text, at = run(command), 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, at)
        check("%s shows %s" % (command, pattern), found, text)
        at = found.end()


run("set breakpoint pending on")
run("set confirm off")
run("tbreak sim_run")
gdb.execute("run")
go("ncclAlltoAll")
rank = value("$rank")
mine = "sim_task_current->self.rank == %d" % rank
output = value("recvbuff")
for function in ("plan_enqueue_message", "plan_messages_launch", "plan_run_add", "cudaLaunchKernelExC",
                 "dev_messages"):
    go(function, mine)
# A receiving end of this rank, and then the sending end of the other one.
go("prim_put_offer", mine)
frames("bt", "#0 .*prim_put_offer", "prim_put_recv", "send_recv_recv", "dev_run_pair", "dev_messages",
       "task_entry")
buffer, channel = value("p->output"), value("p->recv->channel")
check("the buffer that is offered is the program's", output <= buffer < output + (1 << 20),
      hex(buffer))
sender = "sim_task_current->self.rank == %d && p->send->channel == %d" % (1 - rank, channel)
go("prim_put_take", sender)
frames("bt", "#0 .*prim_put_take", "prim_put_send", "send_recv_send", "dev_run_pair")
run("finish")
check("the address that the sender takes is the one that was offered",
      re.search(r"= %d\b" % buffer, run("p $")), run("p $"))
go("prim_post", sender)
check("the tail is posted over the same connection", value("p->send->put") == 1, run("p *p->send"))
go("prim_check_recv", "%s && p->recv->channel == %d" % (mine, channel))
frames("bt", "#0 .*prim_check_recv", "prim_put_wait_data", "prim_put_recv")
run("delete")
gdb.execute("continue")  # to the end: the hash is checked by the caller
print("walked: %d checks" % len(passed))
