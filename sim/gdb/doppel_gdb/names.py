# SPDX-License-Identifier: BSD-3-Clause
"""The names that `sim trap trace=` takes, and $rank, $task, $step, $vtime in conditions of breakpoints.

A condition is evaluated where the program stops for a moment, before gdb calls it a stop: a
convenience variable still has the value of the last one. So a condition that has $rank gets
$sim_rank() in its place, a function that looks then.
"""
import difflib
import re

import gdb

from doppel_gdb import state

# sites of choices that the engine and the doubles make (tests/unit/rules_trace_test.sh compares)
CHOICES = ("engine.event", "engine.factor", "engine.preempt", "engine.prio", "engine.run",
           "engine.sleep", "engine.spurious", "engine.tie", "fabric.corrupt", "hca.atomic_window",
           "hca.early", "hca.early_delay", "hca.early_end", "hca.early_from", "hca.early_units",
           "hca.route", "hca.route_later",
           "sock.recv.cut", "sock.send.cut", "store.delay", "store.piece", "store.range", "store.word")
# traced where an event of the world happens, which is outside of any task
EVENTS = ("atomic", "atomic.land", "cqe", "faults heal", "hca.early", "packet.lost", "port.down",
          "port.up", "qp.resend", "qp.rnr")


def traced():
    """The kinds of records, from the engine's own table."""
    return state.cache.of_code("traced", lambda: [
        row["kind"].string() for row in elements(state.symbol("timeline_kinds", static=True))])


def elements(array):
    first, last = array.type.range()
    return (array[i] for i in range(first, last + 1))


def rare_paths():
    """The names of OS_BUGGIFY, from the sections of the loaded libraries."""
    def make():
        found = []
        for library in elements(state.symbol("site_library", static=True)):
            at, end = library["first"], library["end"]
            while at != end:
                site = at.dereference().dereference()
                if int(site["kind"]) == 0:
                    found.append(site["name"].string())
                at += 1
        return sorted(set(found))
    return state.cache.of_code("rare paths", make)


def check_trace(name, of_task):
    """Refuses a name that nothing traces, and one that no task traces where a task is wanted."""
    known = traced() + list(CHOICES) + rare_paths()
    if name not in known:
        near = difflib.get_close_matches(name, known, 3) or ["none is near"]
        raise gdb.GdbError("sim trap trace=%s: no such name; nearest: %s ('sim trap names' lists "
                           "all)" % (name, ", ".join(near)))
    if of_task and name in EVENTS:
        raise gdb.GdbError("sim trap trace=%s: a device traces it, outside of any task; leave out "
                           "rank= and task=" % name)


def print_names():
    print("records: " + ", ".join(traced()))
    print("of these, devices trace (no rank=, no task=): " + ", ".join(EVENTS))
    print("choices that are not quiet: " + ", ".join(CHOICES))
    print("rare paths: " + ", ".join(rare_paths()))


# ---- conditions -----------------------------------------------------------------------------------


def of_task(field):
    t = state.current_task()
    return -1 if t is None else getattr(t, field)


MOMENTS = {"rank": lambda: of_task("rank"), "task": lambda: of_task("id"),
           "step": lambda: state.engine().steps, "vtime": lambda: state.engine().now_ns}


class Moment(gdb.Function):
    """$sim_rank(), $sim_task(), $sim_step(), $sim_vtime(): of this moment, in conditions too."""

    def __init__(self, name):
        super().__init__("sim_" + name)
        self.name = name

    def invoke(self):
        state.cache.forget()
        return MOMENTS[self.name]()


def condition_of_moment(breakpoint):
    """A new or changed condition: $rank becomes $sim_rank(), and so on."""
    old = breakpoint.condition
    if not old:
        return
    new = re.sub(r"\$(%s)\b(?!\s*\()" % "|".join(MOMENTS), r"$sim_\1()", old)
    if new != old:
        breakpoint.condition = new


def register():
    for name in MOMENTS:
        Moment(name)
    gdb.events.breakpoint_created.connect(condition_of_moment)
    gdb.events.breakpoint_modified.connect(condition_of_moment)
