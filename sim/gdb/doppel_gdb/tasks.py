# SPDX-License-Identifier: BSD-3-Clause
"""info tasks, task, task apply."""
import gdb

from doppel_gdb import frames
from doppel_gdb.frames import Focus, focused, select_place, selected_task, thread_of, unwinder, where
from doppel_gdb.state import (KINDS, STATES, find_task, symbol, task_reason, task_reason_full,
                              tasks)


def filter_of(key, value):
    if key in ("rank", "host") and not value.lstrip("-").isdigit():
        raise gdb.GdbError("%s %s: expected a number" % (key, value))
    for name, known in (("kind", KINDS), ("state", STATES)):
        if key == name and value not in known:
            raise gdb.GdbError("%s %s: expected one of %s" % (key, value, ", ".join(known)))
    return {
        "rank": lambda t: t.rank == int(value),
        "host": lambda t: t.host() == int(value),
        "kind": lambda t: t.kind == value,
        "state": lambda t: t.state == value,
        "name": lambda t: value in t.name,
    }[key]


def parse_filter(arg, *flags):
    """A predicate, and the flags among the words."""
    words, keep, given = gdb.string_to_argv(arg), [], set()
    while words:
        key = words.pop(0)
        if key in flags:
            given.add(key)
        elif words and key in ("rank", "host", "kind", "state", "name"):
            keep.append(filter_of(key, words.pop(0)))
        else:
            raise gdb.GdbError("expected: rank N, host N, kind host|warp, state NAME, name TEXT%s; "
                               "got '%s'" % ("".join(", " + f for f in flags), key))
    return (lambda t: all(k(t) for k in keep)), given


def ranges(numbers):
    """[1,2,3,7] -> "1-3,7"; cut short where nobody reads on."""
    out = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    text = ",".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in out[:12])
    return text + (",..." if len(out) > 12 else "")


class InfoTasks(gdb.Command):
    """info tasks [rank N] [host N] [kind host|warp] [state NAME] [name TEXT] [all]
Tasks of the simulator, grouped by where they stand and what they wait for; `all`: one a line."""

    def __init__(self):
        super().__init__("info tasks", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        keep, given = parse_filter(arg, "all")
        chosen = [t for t in tasks() if keep(t)]
        if "all" in given:
            self.one_by_one(chosen)
        else:
            self.grouped(chosen)

    @staticmethod
    def one_by_one(chosen):
        now, here = int(symbol("sim_task_current")), selected_task()
        print("  %5s %-26s %-8s %-32s %s" % ("id", "name", "state", "where", "waits for"))
        for t in chosen:
            mark = "*" if now == t.address else ">" if here == t.id else " "
            print("%s %5d %-26s %-8s %-32s %s" % (mark, t.id, t.name, t.state, where(t),
                                                 task_reason_full(t)))

    @staticmethod
    def grouped(chosen):
        groups = {}
        for t in chosen:
            groups.setdefault((t.kind, where(t), task_reason(t)), []).append(t)
        print("%5s %-4s  %-32s %-40s %s" % ("tasks", "kind", "where", "waits for", "ranks; ids"))
        order = sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))
        for (kind, place, reason), members in order:
            print("%5d %-4s  %-32s %-40s %s; %s" % (
                len(members), kind, place, reason, ranges({t.rank for t in members}),
                ranges([t.id for t in members])))


class TaskFocus(gdb.Command):
    """task N | task off | task
Focus on task N: bt, up, down, frame and info locals act on it, until the program runs on."""

    def __init__(self):
        super().__init__("task", gdb.COMMAND_STACK, prefix=True)

    def invoke(self, arg, from_tty):
        if arg == "off":
            focused[0] = None
            unwinder.focus(None)
            return
        if not arg:
            number = selected_task()
            if number is None:
                print("[no task: the engine's loop]")
            else:
                t = find_task(number)
                print("[task %d \"%s\", %s]" % (number, t.name, t.state))
            return
        if not arg.isdigit():
            raise gdb.GdbError("task %s: expected a number or off" % arg)
        self.switch(find_task(int(arg)))

    @staticmethod
    def switch(t):
        thread = thread_of(t) if t.has_frames() else None
        focused[0] = t.id if thread is None and t.has_frames() else None
        unwinder.focus(t if focused[0] is not None else None)
        print("[Switching to task %d \"%s\", %s: %s]" % (t.id, t.name, t.state,
                                                        task_reason_full(t)))
        set_convenience_of(t)
        if not t.has_frames():
            return
        if thread is not None:
            thread.switch()
        select_place()
        gdb.execute("frame")


def set_convenience_of(t):
    gdb.set_convenience_variable("rank", -1 if t is None else t.rank)
    gdb.set_convenience_variable("task", -1 if t is None else t.id)


class TaskApply(gdb.Command):
    """task apply all|N,N-N..|rank N COMMAND
Runs COMMAND in each of these tasks."""

    def __init__(self):
        super().__init__("task apply", gdb.COMMAND_STACK)

    def invoke(self, arg, from_tty):
        chosen, command = self.parse(arg)
        count = frames.bt_count(command)
        if count is None or not frames.is_live():
            for t in chosen:
                self.apply(t, command)
            return
        with frames.Backtraces() as backtraces:
            for t in chosen:
                if not t.suspended():
                    self.apply(t, command)
                    continue
                self.head(t)
                backtraces.show(t, count)

    @staticmethod
    def head(t):
        print("\nTask %d \"%s\" (%s: %s):" % (t.id, t.name, t.state, task_reason_full(t)))

    def apply(self, t, command):
        self.head(t)
        if t.has_frames():
            with Focus(t):
                gdb.execute(command)

    def parse(self, arg):
        words = arg.split(None, 1)
        rank = None
        if len(words) == 2 and words[0] == "rank":
            words = words[1].split(None, 1)
            rank = words[0]
        if len(words) != 2:
            raise gdb.GdbError("expected: task apply all|N,N-N..|rank N COMMAND")
        if rank is not None:
            if not rank.isdigit():
                raise gdb.GdbError("task apply rank %s: expected a number" % rank)
            return [t for t in tasks() if t.rank == int(rank)], words[1]
        wanted = None if words[0] == "all" else self.listed(words[0])
        return [t for t in tasks() if wanted is None or t.id in wanted], words[1]

    @staticmethod
    def listed(text):
        wanted = set()
        for part in text.split(","):
            low, _, high = part.partition("-")
            if not low.isdigit() or (high and not high.isdigit()):
                raise gdb.GdbError("task apply %s: expected numbers such as 3,5-8" % text)
            wanted.update(range(int(low), int(high or low) + 1))
        return wanted


COMMANDS = (InfoTasks, TaskFocus, TaskApply)
