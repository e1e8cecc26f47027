# SPDX-License-Identifier: BSD-3-Clause
"""gdb commands for Doppel: every task of the simulator, seen and walked like a thread.

A suspended task is one word, its stack pointer; gdb's own unwinder does the rest, because the
switch carries CFI (sim/engine/base/fiber_*.S). Nothing here changes the program: looking at a task does
not disturb the run, and the trace hash stays the same.

  info tasks [FILTER...]    tasks, grouped by where they stand and what they wait for
                            FILTER: rank N, host N, kind host|warp, state NAME, name TEXT, all
                            (`all`: one line a task instead of groups)
  task N | task off         focus on task N: bt, up, frame, info locals act there; off: back.
                            next and step with a focus first run on until task N runs there again
  task apply all|N,N..|rank N CMD   run CMD in each of these tasks
  info waits [FILTER...] [--dot]    what each waiting task waits for: has, wants, why, from whom;
                            --dot: as a graph for Graphviz
  info ranks                one line a rank: process, host, tasks
  info qps                  the queue pairs of every HCA double
  info proxies              proxy tasks and what they wait for
  info ras                  why ranks wait for others, communicators, pending operations: DUMP of RAS
  sim step [N]              run N steps of the simulator (choices and events), then stop
  sim until TIME            run until virtual time TIME (ns, or with us, ms, s)
  sim trap CONDITION...     run until a step that fulfils all of: rank=N, task=N, step>=N,
                            trace=NAME, call=FUNCTION
  sim trap names            every NAME
  sim back [N]              go back N steps: the same run again, to that step
  sim goto STEP             to that step, forward or back
  info sim, sim info        seed, step, virtual time, strategy, hash, task
  p WORK, p CONN, p PLAN    struct dev_work, dev_conn, conn and plan on one line, with names;
                            p/r prints all members

Convenience variables, set at every stop: $rank, $task, $step, $vtime. In the condition of a
breakpoint they are of the moment at which it is evaluated ($sim_rank(), ...).
Works on a live process and on the core file that a failing run leaves.

Depends on: sim/engine/base/gdb_hooks.h, struct sim_task (sim/engine/sim.h), struct wait
(core/base/wait.h), the tables of waits.c and label.c, struct fakeverbs_view (backends/fakeverbs).
The commands are in doppel_gdb/: state.py reads the engine, names.py has names, frames.py walks stacks, tasks.py, info.py,
ras.py and run.py are the commands, printers.py prints structs.
"""
import os
import sys

import gdb


def doppel_load():
    """In a function: what a script defines later has the names of its choice."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.split(".")[0] == "doppel_gdb"]:
        del sys.modules[name]  # sourced again: as it is now
    from doppel_gdb import frames, info, names, printers, ras, run, tasks
    for module in (tasks, info, ras, run):
        for command in module.COMMANDS:
            command()
    printers.register()
    names.register()
    for name in ("next", "step"):
        gdb.execute("define hook-%s\nsim run-to-focus\nend" % name)
    gdb.execute("set breakpoint pending on")
    gdb.execute("skip function site_", to_string=True)  # core/os/site.h: the record of a site
    run.set_convenience()
    frames.name_threads()
    gdb.events.new_objfile.connect(lambda event: frames.name_threads())


doppel_load()
