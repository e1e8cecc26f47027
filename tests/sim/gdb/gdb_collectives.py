# SPDX-License-Identifier: BSD-3-Clause
"""Walks one call of a collective in gdb, the first one that `doppel run` makes: from the program's call over the plan
to the kernel, and over the network; run by gdb_collectives_test.sh, which looks for its last line. In the build with
-O0 (preset debug) nothing that is printed is optimized out. gdb_walk.py asks more, of all-reduce.
"""
import os
import sys

import gdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gdb_check import check, frames, go, passed, run, value  # noqa: E402

# The program's call, and the function of core/device that is its own.
RING = {"all_reduce": ("ncclAllReduce", "all_reduce_ring"),
        "all_gather": ("ncclAllGather", "all_gather_ring"),
        "reduce_scatter": ("ncclReduceScatter", "reduce_scatter_ring"),
        "reduce": ("ncclReduce", "reduce_ring"),
        "broadcast": ("ncclBroadcast", "broadcast_ring")}
# Of the root, rank 0, and of another rank.
MESSAGES = {"all_to_all": ("ncclAlltoAll", "send_recv_send", "send_recv_send"),
            "gather": ("ncclGather", "send_recv_recv", "send_recv_send"),
            "scatter": ("ncclScatter", "send_recv_send", "send_recv_recv")}


def collective():
    """The word behind `run` of the program's command line."""
    words = run("show args").split('"')[1].split()
    return words[words.index("run") + 1]


def walk(name):
    messages = name in MESSAGES
    call, *own = (MESSAGES if messages else RING)[name]
    go(call)
    rank = value("$rank")
    own = own[min(rank, len(own) - 1)]
    mine = "sim_task_current->self.rank == %d" % rank
    frames("bt", r"#0 .*p?%s \(.*count=.*comm=" % call, "lab_rank_main", "task_entry")
    frames("info args", "comm = 0x")
    steps = ("plan_enqueue_message", "plan_launch", "plan_messages_launch", "plan_run_add") if messages \
        else ("plan_enqueue", "plan_launch", "plan_start")
    for function in steps + ("cudaLaunchKernelExC", own):
        go(function, mine)
    # the kernel: of messages, of all rings, or of one program, type and operation
    frames("bt", r"#0 .*%s \(p=.*0x\w+" % own, r"dev_\w+ \(d=", r"run_thread_main", r"task_entry \(arg=0x\w+")
    check("the kernel's task is a warp of the rank", "warp" in run("info tasks rank %d kind warp" % rank),
          run("info tasks"))
    frames("p *p", "proto = DEV_SIMPLE")


def walk_network():
    go("proxy_send_transmit")
    sender, receiver = value("pc->rank"), value("pc->peer")
    for function in ("net_verbs_isend", "ibv_post_send"):
        go(function, "sim_task_current->self.rank == %d" % sender)
    frames("bt", "net_verbs_post|hca_post_send|ibv_post_send", "proxy_progress_main", "task_entry")
    for function in ("proxy_recv_receive", "proxy_recv_transmit"):
        go(function, "sim_task_current->self.rank == %d" % receiver)
    frames("bt", "#0 .*proxy_recv_transmit", "proxy_progress_main", "task_entry")


run("set breakpoint pending on")
run("set confirm off")
walked = collective()
for part in (lambda: walk(walked), walk_network):
    if gdb.selected_inferior().pid:
        gdb.execute("kill")
    run("tbreak sim_run")
    gdb.execute("run")
    part()
run("delete")
gdb.execute("continue")  # to the end: the hash is checked by the caller
print("walked: %s, %d checks" % (walked, len(passed)))
