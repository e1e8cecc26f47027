# SPDX-License-Identifier: BSD-3-Clause
"""sim step, until, trap, back, goto, info; what happens at each stop."""
import re

import gdb

from doppel_gdb import names, state
from doppel_gdb.frames import focused, is_live, select_place, unwinder
from doppel_gdb.state import current_task, engine, symbol, time_text
from doppel_gdb.tasks import set_convenience_of

passed = {}  # (which engine of the program, step) -> hash, of each stop between two steps


class Sim(gdb.Command):
    """sim step N | sim until TIME | sim trap CONDITION... | sim back N | sim goto STEP | sim info
Run the simulator by its own measures."""

    def __init__(self):
        super().__init__("sim", gdb.COMMAND_RUNNING, prefix=True)


def check_live():
    if not is_live():
        raise gdb.GdbError("the program is not running ('start' runs it to main)")


def check_run():
    """A process or a core file with an engine that was started."""
    if gdb.selected_inferior().pid == 0:
        raise gdb.GdbError("the program is not running, or has ended: 'run' starts it ('sim goto "
                           "STEP' runs it to a step)")
    if not int(symbol("sim_gdb_runs")):
        raise gdb.GdbError("no run of the simulator has begun yet ('tbreak sim_run', 'run')")


def set_variable(name, value):
    gdb.execute("set variable %s = %d" % (name, value))


def continue_to(function, accept=None):
    """Runs on until the function is entered (and accepts); false when something else stopped it."""
    class Stop(gdb.Breakpoint):
        entered = None  # where: inlined, it is in a frame of another name

        def stop(self):
            wanted = accept is None or accept()
            self.entered = gdb.newest_frame().pc() if wanted else None
            return wanted

    stop = Stop(function, internal=True)
    stop.silent = True
    try:
        gdb.execute("continue")
        return is_live() and stop.entered == gdb.newest_frame().pc()
    finally:
        stop.delete()


def run_to_limit(**variables):
    check_live()
    for name, value in variables.items():
        set_variable(name, value)
    reached = continue_to("sim_gdb_stop")
    if not is_live():
        return
    if not reached:
        print("[stopped before that]")
        for name in variables:
            set_variable(name, 0)
    elif current_task() is None:
        remember()
    SimInfo.show()
    if current_task() is not None:
        select_place()
        gdb.execute("frame")


def remember():
    """Between two steps: the hash here. Coming here again must give it again."""
    key = (int(symbol("sim_gdb_runs")), engine().steps)
    if passed.setdefault(key, engine().hash) != engine().hash:
        print("[NOT the same run: the trace hash at step %d was %016x, and is %016x now]" % (
            key[1], passed[key], engine().hash))


def number_of(command, arg, otherwise=None, what="a number of steps"):
    if not arg and otherwise is not None:
        return otherwise
    if not arg.isdigit() or not int(arg):
        raise gdb.GdbError("%s %s: expected %s" % (command, arg, what))
    return int(arg)


class SimStep(gdb.Command):
    """sim step [N]: run N steps (choices and events; default 1), then stop."""

    def __init__(self):
        super().__init__("sim step", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        count = number_of("sim step", arg, 1)
        run_to_limit(sim_gdb_step_limit=engine().steps + count)


class SimUntil(gdb.Command):
    """sim until TIME: run until virtual time TIME: 1200, 1200ns, 3us, 1.5ms, 2s."""

    UNITS = {"": 1, "ns": 1, "us": 1000, "ms": 1000000, "s": 1000000000}

    def __init__(self):
        super().__init__("sim until", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        match = re.fullmatch(r"([0-9]+)(?:\.([0-9]{1,9}))?(ns|us|ms|s|)", arg.strip())
        if not match:
            raise gdb.GdbError("sim until %s: expected a time such as 1200, 3us, 1.5ms, 2s" % arg)
        unit, fraction = self.UNITS[match.group(3)], match.group(2) or ""
        ns = int(match.group(1)) * unit
        if fraction:
            ns += int(fraction) * unit // 10 ** len(fraction)
        now = engine().now_ns
        if ns <= now:
            raise gdb.GdbError("sim until %s: it is %s already" % (arg, time_text(now)))
        run_to_limit(sim_gdb_until_ns=ns)


class SimTrap(gdb.Command):
    """sim trap [rank=N] [task=N] [step>=N] [trace=NAME | call=FUNCTION], sim trap names
Run until all of that holds. rank, task, step: when such a task is about to run. trace: where a
record of that name is traced (proxy.send, cqe, ...), or a choice made at that site that is not
quiet (engine.spurious, ...); `sim trap names` lists them. What devices trace, outside of any task
(cqe, packet.lost, ...), has no rank. call: where FUNCTION is entered.
The program itself looks, so all but call= cost next to nothing."""

    NUMBERS = {"rank=": "sim_gdb_trap.rank", "task=": "sim_gdb_trap.task",
               "step>=": "sim_gdb_trap.step"}

    def __init__(self):
        super().__init__("sim trap", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        if arg.strip() == "names":
            names.print_names()
            return
        check_live()
        wanted, words = self.parse(arg)
        if "trace=" in words:
            names.check_trace(words["trace="], "rank=" in wanted or "task=" in wanted)
        elif "call=" in words:
            self.check_function(words["call="])
        if "call=" in words:
            self.call(words["call="], wanted)
            return
        for name, value in (("rank", -1), ("task", -1), ("step", 0)):
            set_variable("sim_gdb_trap." + name, value)
        for key, value in wanted.items():
            set_variable(self.NUMBERS[key], value)
        trap = symbol("sim_gdb_trap")
        gdb.selected_inferior().write_memory(int(trap["trace"].address),
                                             words.get("trace=", "").encode() + b"\0")
        run_to_limit(**{"sim_gdb_trap.set": 1})

    def parse(self, arg):
        wanted, words = {}, {}
        for word in arg.split():
            match = re.fullmatch(r"(rank=|task=|step>=)([0-9]+)|(trace=|call=)([\w. ]{1,47})", word)
            if not match:
                raise gdb.GdbError("sim trap %s: expected rank=N, task=N, step>=N, trace=NAME, "
                                   "call=FUNCTION" % word)
            if match.group(1):
                wanted[match.group(1)] = int(match.group(2))
            else:
                words[match.group(3)] = match.group(4)
        if not wanted and not words or len(words) > 1:
            raise gdb.GdbError("expected: sim trap [rank=N] [task=N] [step>=N] "
                               "[trace=NAME | call=FUNCTION]")
        return wanted, words

    @staticmethod
    def check_function(function):
        try:
            gdb.decode_line(function)
        except gdb.error:
            raise gdb.GdbError("sim trap call=%s: no such function is loaded" % function)

    @staticmethod
    def call(function, wanted):
        def accept():
            state.cache.forget()
            now = current_task()
            return (("rank=" not in wanted or (now and now.rank == wanted["rank="])) and
                    ("task=" not in wanted or (now and now.id == wanted["task="])) and
                    engine().steps >= wanted.get("step>=", 0))
        if not continue_to(function, accept) and is_live():
            print("[stopped before that]")
        if is_live():
            SimInfo.show()
            gdb.execute("frame")


class SimBack(gdb.Command):
    """sim back [N]: go back N steps (default 1).
The program is run again, which is the same run, to that step; breakpoints are kept, and are not
looked at on the way. What it prints on the way is printed again."""

    def __init__(self):
        super().__init__("sim back", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        check_live()
        count, steps = number_of("sim back", arg, 1), engine().steps
        if count >= steps:
            raise gdb.GdbError("sim back %d: only %d steps were made so far" % (count, steps))
        run_again(steps - count)


class SimGoto(gdb.Command):
    """sim goto STEP: run to that step, forward, or back as `sim back` does; from the start of a
program that does not run yet, to that step of its first run."""

    def __init__(self):
        super().__init__("sim goto", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        step = number_of("sim goto", arg, what="a step")
        if not is_live():
            run_again(step, first=True)
        elif step > engine().steps:
            run_to_limit(sim_gdb_step_limit=step)
        else:
            run_again(step)


class Undisturbed:
    """with Undisturbed(): the user's breakpoints and catchpoints are off, and gdb asks nothing."""

    def __enter__(self):
        self.off = [b for b in gdb.breakpoints() if b.enabled and b.visible]
        self.confirm = gdb.parameter("confirm")
        gdb.execute("set confirm off")
        for b in self.off:
            b.enabled = False

    def __exit__(self, *unused):
        for b in self.off:
            if b.is_valid():
                b.enabled = True
        gdb.execute("set confirm %s" % ("on" if self.confirm else "off"))


def run_again(step, first=False):
    """The same run from its start to that step of the engine that is running, or of the first."""
    which = 0 if first else int(symbol("sim_gdb_runs"))
    with Undisturbed():
        class Begin(gdb.Breakpoint):
            def stop(self):
                return first or int(symbol("sim_gdb_runs")) == which

        begin = Begin("sim_run", internal=True)
        begin.silent = True
        try:
            gdb.execute("run", to_string=True)
        finally:
            begin.delete()
        if not is_live():
            raise gdb.GdbError("the program ended before its run %d began" % which)
        run_to_limit(sim_gdb_step_limit=step)


class SimInfo(gdb.Command):
    """sim info, info sim: seed, step, virtual time, strategy, hash, and the task that runs."""

    def __init__(self):
        super().__init__("sim info", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        check_run()
        self.show()
        print("[strategy %s, hash %016x, %s]" % (strategy(), engine().hash, progress()))

    @staticmethod
    def show():
        now = current_task()
        print("[sim seed %d step %d vtime %d ns, %s]" % (
            engine().seed, engine().steps, engine().now_ns,
            "between tasks" if now is None else 'task %d "%s"' % (now.id, now.name)))


class InfoSim(gdb.Command):
    """info sim: seed, step, virtual time, strategy, hash, and the task that runs."""

    def __init__(self):
        super().__init__("info sim", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        gdb.execute("sim info")


def strategy():
    eng = symbol("eng")
    name = str(eng["strategy"]).replace("STRATEGY_", "").lower()
    return ("portfolio:" if eng["strategy_drawn"] else "") + name


def progress():
    eng = symbol("eng")
    return "last progress %d steps and %s ago" % (
        int(eng["steps"] - eng["progress_step"]), time_text(int(eng["now_ns"] - eng["progress_ns"])))


# ---- stops ----------------------------------------------------------------------------------------


def set_convenience(event=None):
    """At each stop: the focus is gone, and $rank, $task, $step, $vtime say where we are."""
    state.cache.forget()
    focused[0] = None
    unwinder.focus(None)
    try:
        set_convenience_of(current_task())
        gdb.set_convenience_variable("step", engine().steps)
        gdb.set_convenience_variable("vtime", engine().now_ns)
    except (gdb.GdbError, gdb.error):
        set_convenience_of(None)  # no engine in the program yet


class RunToFocus(gdb.Command):
    """Before next or step with a focus: runs on until that task comes back to the selected frame."""

    def __init__(self):
        super().__init__("sim run-to-focus", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        if focused[0] is None:
            return
        number, frame = focused[0], gdb.selected_frame()
        back = gdb.Breakpoint("*%d" % frame.pc(), internal=True, temporary=True)
        back.silent = True
        back.condition = ("(unsigned long)$sp == %d && sim_task_current && "
                          "sim_task_current->self.id == %d" % (frame.read_register("sp"), number))
        try:
            gdb.execute("continue")
        finally:
            reached = not back.is_valid()
            if not reached:
                back.delete()
        if not reached:
            raise gdb.GdbError("[stopped before task %d ran again]" % number)


def drop_focus(event):
    """The program runs on: frames are those of what runs."""
    focused[0] = None
    unwinder.focus(None)


gdb.events.stop.connect(set_convenience)
gdb.events.cont.connect(drop_focus)
COMMANDS = (Sim, SimStep, SimUntil, SimTrap, SimBack, SimGoto, SimInfo, InfoSim, RunToFocus)
