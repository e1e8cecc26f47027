# SPDX-License-Identifier: BSD-3-Clause
"""Goes back in a run, and traps; run by gdb_back_test.sh, which looks for its last line."""
import os
import re
import sys

import gdb

from doppel_gdb.state import engine, tasks

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gdb_check import check, passed, run  # noqa: E402


def place():
    """All that must be the same when one is at the same step again."""
    return (engine().steps, engine().now_ns, engine().hash,
            [(t.id, t.name, t.state, t.sp, t.wake_ns) for t in tasks()])


def walk_back():
    run("sim step 500")
    first = place()
    run("sim step 40")
    second = place()
    keep = gdb.Breakpoint("proxy_send_transmit")
    gone = gdb.Breakpoint("ncclAllReduce", temporary=True)
    text = run("sim back 40")
    check("sim back 40 says where it stands", "step %d " % first[0] in text, text)
    check("the same tasks at the same stack pointers", place() == first, str(place()))
    check("not another run", "NOT" not in text, text)
    check("breakpoints are kept", keep.is_valid() and keep.enabled and not keep.hit_count and
          gone.is_valid(), run("info breakpoints"))
    gone.delete()
    keep.enabled = False
    check("sim goto forward", "step %d " % second[0] in run("sim goto %d" % second[0]))
    check("the same there", place() == second, str(place()))
    run("sim goto %d" % (first[0] - 300))
    run("sim goto %d" % first[0])
    check("back and forward again", place() == first, str(place()))
    keep.enabled = True
    run("continue")
    check("the breakpoint stops", keep.hit_count == 1, run("info breakpoints"))
    keep.delete()
    for command, reason in (("sim back 99999999", "only [0-9]+ steps"), ("sim back x", "expected"),
                            ("sim goto 0", "expected"), ("sim trap", "expected"),
                            ("sim trap rank=x", "expected"), ("sim trap trace=a call=b", "expected")):
        try:
            check(command + " is refused", False, run(command))
        except gdb.error as error:
            check(command + " says why", re.search(reason, str(error)), str(error))


def walk_traps():
    text = run("sim trap rank=1")
    check("a task of rank 1", gdb.convenience_variable("rank") == 1, text)
    run("sim trap call=ncclAllReduce rank=1")
    check("where it is called", gdb.selected_frame().name() in ("ncclAllReduce", "pncclAllReduce") and
          gdb.convenience_variable("rank") == 1, run("bt 2"))
    number = int(gdb.convenience_variable("task"))
    run("sim trap task=%d" % number)
    check("that task", gdb.convenience_variable("task") == number, run("sim info"))
    step = engine().steps + 50
    run("sim trap rank=0 step>=%d" % step)
    check("not before that step", engine().steps >= step and
          gdb.convenience_variable("rank") == 0, run("sim info"))
    run("sim trap trace=proxy.sent")
    check("where it is traced", gdb.selected_frame().name().startswith("proxy_send"), run("bt"))


def walk_info():
    text = run("info sim")
    check("info sim", re.search(r"seed 3 step \d+ vtime \d+ ns.*\n\[strategy (portfolio:)?\w+, "
                                r"hash [0-9a-f]{16}, last progress", text), text)
    text = run("info waits --dot")
    edges = re.findall(r"^\tt(\d+) -> t(\d+) \[label=", text, re.M)
    nodes = re.findall(r"^\tt(\d+) \[label=", text, re.M)
    check("info waits --dot", text.startswith("digraph waits {") and edges and
          {n for e in edges for n in e} <= set(nodes), text)


run("set breakpoint pending on")
run("set confirm off")
run("tbreak sim_run")
gdb.execute("run")
walk_back()
walk_info()
run("sim goto 400")
walk_traps()
run("delete")
gdb.execute("continue")  # to the end: the hash is checked by the caller
print("went back: %d checks" % len(passed))
