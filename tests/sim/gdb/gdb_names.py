# SPDX-License-Identifier: BSD-3-Clause
"""Names in gdb: refused where nothing has them, and $rank in conditions."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gdb_check as walk  # noqa: E402
from gdb_check import check, gdb, run, value  # noqa: E402


def refused(command, *words):
    try:
        text = run(command)
    except gdb.error as error:
        check("%s is refused with %s" % (command, words), all(w in str(error) for w in words), str(error))
        return
    check("%s is refused" % command, False, text)


def rank_now():
    return value("sim_task_current->self.rank")


def condition_holds_of_the_task_that_runs():
    """From a stop in one rank to the other ranks, by both kinds of breakpoint."""
    walk.go("ncclAllReduce")
    first = rank_now()
    others = [r for r in range(4) if r != first][:2]
    for rank in others:
        run("tbreak ncclAllReduce if $rank == %d" % rank)
    for _ in range(2):
        run("continue")
        check("ncclAllReduce of one of ranks %s" % others, rank_now() in others, run("bt 1"))
        others.remove(rank_now())
    run("break prim_chunk if $rank == %d && $step > 100" % first)
    check("the condition that gdb has", "$sim_rank() == %d" % first in run("info breakpoints"),
          run("info breakpoints"))
    run("continue")
    check("prim_chunk of rank %d" % first, rank_now() == first, run("bt 1"))
    run("delete")


def names():
    refused("sim trap trace=nosuchname", "no such name", "nearest")
    refused("sim trap trace=proxy.sand", "proxy.send")
    refused("sim trap rank=1 trace=cqe", "a device traces it")
    refused("sim trap call=proxy_no_such_function", "no such function")
    text = run("sim trap names")
    check("sim trap names", all(n in text for n in ("proxy.flushed", "engine.spurious",
                                                    "proxy.wake_early")), text)
    condition_holds_of_the_task_that_runs()
    for name in ("proxy.flushed", "proxy.transmitted", "proxy.done", "proxy.sent"):
        text = run("sim trap trace=" + name)
        check("a trap at " + name, "proxy progress" in text, text)
    run("sim trap trace=cqe")
    refused("sim step 0", "expected a number of steps")


walk.whole(names)
refused("info sim", "has ended")
refused("sim trap trace=cqe", "not running")
