# SPDX-License-Identifier: BSD-3-Clause
"""gdb commands for Doppel: every task of the simulator, seen and walked like a thread.

A suspended task is one word, its stack pointer; gdb's own unwinder does the rest, because the
switch carries CFI (sim/engine/fiber_*.S). Nothing here changes the program: looking at a task does
not disturb the run, and the trace hash stays the same.

  info tasks [FILTER...]    tasks, grouped by where they stand and what they wait for
                            FILTER: rank N, host N, kind host|warp, state NAME, name TEXT, all
                            (`all`: one line a task instead of groups)
  task N | task off         focus on task N: bt, up, frame, info locals act there; off: back
  task apply all|N,N..|rank N CMD   run CMD in each of these tasks
  info waits [rank N]       what each waiting task waits for: have, want, why, from whom
  info ranks                one line a rank: process, host, tasks
  info qps                  the queue pairs of every HCA double
  info proxies              proxy tasks and what they wait for
  sim step N                run N steps of the simulator (choices and events), then stop
  sim until TIME            run until virtual time TIME (ns, or with us, ms, s)
  sim info                  seed, step, virtual time, task

Convenience variables, set at every stop: $rank, $task, $step, $vtime.
Works on a live process and on the core file that a failing run leaves.
"""
import re

import gdb
import gdb.unwinder

STATES = ("new", "ready", "running", "waiting", "sleeping", "done", "killed")
KINDS = ("host", "warp")
WAIT_KINDS = ("==", "!=", ">=", "line16 flag ==", "changes from")
REGISTERS = {"i386:x86-64": ("rip", "rsp"), "aarch64": ("pc", "sp")}
# Frames of the machinery below what a task does: skipped when naming where it stands.
MACHINERY = re.compile(r"^(fiber_|sim_|sched_|os_|shared_|fakedev_|dev_wait|dev_load|dev_barrier|task_|world_wait|wait_)")


def void_pointer():
    return gdb.lookup_type("void").pointer()


def symbol(name):
    """The value of a global of the engine; a clear error when there is no engine yet."""
    try:
        return gdb.parse_and_eval(name)
    except gdb.error:
        raise gdb.GdbError("no %s: the simulator is not loaded yet (start the program first)" % name)


def tasks():
    task = symbol("sim_tasks_head")
    while int(task) != 0:
        yield task
        task = task["next"]


def task_id(task):
    return int(task["self"]["id"])


def task_rank(task):
    return int(task["self"]["rank"])


def task_name(task):
    return task["name"].string()


def task_state(task):
    return STATES[int(task["state"])]


def current_task():
    task = symbol("sim_task_current")
    return task if int(task) != 0 else None


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class TaskUnwinder(gdb.unwinder.Unwinder):
    """At level 0, pretends that the focused task's switch is the caller of what runs now."""

    def __init__(self):
        super().__init__("doppel-task")
        self.sp = None

    def focus(self, task):
        self.sp = None if task is None else task["sp"].cast(void_pointer())
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.sp is None or pending.level() != 0:
            return None
        arch = pending.architecture().name()
        if arch not in REGISTERS:
            return None
        pc_name, sp_name = REGISTERS[arch]
        pc = pending.read_register(pc_name)
        # The id's stack pointer must be inner to the task's stack: gdb stops otherwise.
        info = pending.create_unwind_info(FrameId(self.sp, pc))
        info.add_saved_register(sp_name, self.sp)
        info.add_saved_register(pc_name, gdb.parse_and_eval("(void *)&fiber_resume_pc"))
        return info


unwinder = TaskUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
focused = [None]


def suspended(task):
    return task_state(task) not in ("running", "done", "killed") and int(task["sp"]) != 0


class Focus:
    """with Focus(task): gdb's frames are the task's."""

    def __init__(self, task):
        self.task = task

    def __enter__(self):
        if suspended(self.task):
            unwinder.focus(self.task)
            frame = gdb.newest_frame().older()
            if frame is not None:
                frame.select()
        else:
            unwinder.focus(None)

    def __exit__(self, *unused):
        unwinder.focus(focused[0])


class TaskFrames:
    """Hides the made-up frame 0 and the switch from backtraces of a focused task."""

    def __init__(self):
        self.name, self.priority, self.enabled = "doppel-task", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        if unwinder.sp is None:
            return frames
        return (f for f in frames if f.inferior_frame().level() > 0 and
                (f.inferior_frame().name() or "") not in ("fiber_switch", "fiber_resume_pc"))


TaskFrames()


def where(task):
    """The innermost function of the task that is not machinery, as "function:line"."""
    if not suspended(task):
        return "(%s)" % task_state(task)
    with Focus(task):
        frame, last = gdb.newest_frame().older(), None
        for _ in range(40):
            if frame is None:
                break
            name = frame.name() or "?"
            last = name
            if not MACHINERY.match(name):
                return "%s:%d" % (name, frame.find_sal().line)
            frame = frame.older()
        return last or "?"


def string_or(value, otherwise=""):
    return value.string() if int(value) != 0 else otherwise


def task_waits(task):
    if task_state(task) != "waiting":
        return []
    return [task["wait"][i].dereference() for i in range(int(task["wait_n"]))]


def wait_from(wait):
    rank, channel, step = (int(wait["from"][k]) for k in ("rank", "channel", "step"))
    text = string_or(wait["from"]["object"])
    if rank >= 0:
        text = ("rank %d %s" % (rank, text)).rstrip()
    if channel >= 0:
        text += " channel %d" % channel
    if step >= 0:
        text += " step %d" % step
    return text or "-"


def wait_have(wait):
    """The word's value now. Device memory may be readable by the debugger only."""
    kind, size = int(wait["kind"]), int(wait["bytes"])
    if kind >= 3 or int(wait["on"]) == 0:
        return None
    try:
        raw = gdb.selected_inferior().read_memory(int(wait["on"]), size).tobytes()
    except gdb.MemoryError:
        return None
    return int.from_bytes(raw, "little") & int(wait["mask"]) & ((1 << (8 * size)) - 1)


def wait_text(wait):
    have = wait_have(wait)
    need = "%s %d" % (WAIT_KINDS[int(wait["kind"])], int(wait["want"]))
    return "%s: %s%s <- %s" % (string_or(wait["why"], "?"), need,
                               "" if have is None else " (is %d)" % have, wait_from(wait))


def task_reason(task):
    state = task_state(task)
    if state == "waiting":
        waits = task_waits(task)
        text = string_or(waits[0]["why"], "?") if waits else "abort"
        return text + (" (+%d more)" % (len(waits) - 1) if len(waits) > 1 else "")
    if state == "sleeping":
        return "until %d ns%s" % (int(task["wake_ns"]), " " + string_or(task["poll_why"]))
    return state


def parse_filter(words):
    """[(predicate)] and whether each task is wanted on a line of its own."""
    keep, each, i = [], False, 0
    while i < len(words):
        key = words[i]
        if key == "all":
            each, i = True, i + 1
            continue
        if i + 1 >= len(words) or key not in ("rank", "host", "kind", "state", "name"):
            raise gdb.GdbError("expected: rank N, host N, kind host|warp, state NAME, name TEXT, all; got '%s'" % key)
        value, i = words[i + 1], i + 2
        if key in ("rank", "host") and not value.lstrip("-").isdigit():
            raise gdb.GdbError("%s %s: expected a number" % (key, value))
        if key == "kind" and value not in KINDS:
            raise gdb.GdbError("kind %s: expected one of %s" % (value, ", ".join(KINDS)))
        if key == "state" and value not in STATES:
            raise gdb.GdbError("state %s: expected one of %s" % (value, ", ".join(STATES)))
        keep.append({
            "rank": lambda t, v=value: task_rank(t) == int(v),
            "host": lambda t, v=value: int(t["self"]["proc"]["host"]) == int(v),
            "kind": lambda t, v=value: KINDS[int(t["kind"])] == v,
            "state": lambda t, v=value: task_state(t) == v,
            "name": lambda t, v=value: v in task_name(t),
        }[key])
    return (lambda t: all(k(t) for k in keep)), each


def ranges(numbers):
    """[1,2,3,7] -> "1-3,7"."""
    out = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ",".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in out)


class InfoTasks(gdb.Command):
    """info tasks [rank N] [host N] [kind host|warp] [state NAME] [name TEXT] [all]
Tasks of the simulator, grouped by where they stand and what they wait for; `all`: one a line."""

    def __init__(self):
        super().__init__("info tasks", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        keep, each = parse_filter(gdb.string_to_argv(arg))
        chosen = [t for t in tasks() if keep(t)]
        if each:
            self.one_by_one(chosen)
        else:
            self.grouped(chosen)

    def one_by_one(self, chosen):
        now = current_task()
        for t in chosen:
            mark = "*" if now is not None and now == t else " "
            print("%s %5d %-28s %-8s %-32s %s" % (mark, task_id(t), task_name(t), task_state(t),
                                                  where(t), task_reason(t)))

    def grouped(self, chosen):
        groups = {}
        for t in chosen:
            key = (KINDS[int(t["kind"])], where(t), task_reason(t) if task_state(t) != "sleeping" else "sleeping")
            groups.setdefault(key, []).append(t)
        print("%5s %-5s %-36s %-44s %s" % ("tasks", "kind", "where", "waits for", "ranks; ids"))
        for (kind, place, reason), members in sorted(groups.items(), key=lambda g: -len(g[1])):
            print("%5d %-5s %-36s %-44s %s; %s" % (len(members), kind, place, reason,
                                                   ranges({task_rank(t) for t in members}),
                                                   ranges([task_id(t) for t in members])))


def find_task(number):
    for t in tasks():
        if task_id(t) == number:
            return t
    raise gdb.GdbError("there is no task %d ('info tasks all' lists them)" % number)


class Task(gdb.Command):
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
            t = focused[0] or current_task()
            print("no task" if t is None else "[task %d %s]" % (task_id(t), task_name(t)))
            return
        if not arg.isdigit():
            raise gdb.GdbError("task %s: expected a number or off" % arg)
        t = find_task(int(arg))
        focused[0] = t if suspended(t) else None
        unwinder.focus(focused[0])
        print("[Switching to task %d \"%s\", %s: %s]" % (task_id(t), task_name(t), task_state(t), task_reason(t)))
        if focused[0] is not None:
            frame = gdb.newest_frame().older()
            while frame is not None and MACHINERY.match(frame.name() or "?"):
                frame = frame.older()
            if frame is not None:
                frame.select()
                gdb.execute("frame")


class TaskApply(gdb.Command):
    """task apply all|N,N-N..|rank N COMMAND
Runs COMMAND in each of these tasks."""

    def __init__(self):
        super().__init__("task apply", gdb.COMMAND_STACK)

    def invoke(self, arg, from_tty):
        words = arg.split(None, 1)
        if len(words) == 2 and words[0] == "rank":
            rank, _, command = words[1].partition(" ")
            chosen = [t for t in tasks() if rank.isdigit() and task_rank(t) == int(rank)]
        elif len(words) == 2:
            command = words[1]
            chosen = list(tasks()) if words[0] == "all" else self.listed(words[0])
        else:
            raise gdb.GdbError("expected: task apply all|N,N-N..|rank N COMMAND")
        if not command:
            raise gdb.GdbError("which command?")
        for t in chosen:
            print("\nTask %d \"%s\" (%s, %s):" % (task_id(t), task_name(t), task_state(t), task_reason(t)))
            with Focus(t):
                gdb.execute(command)

    def listed(self, text):
        wanted = set()
        for part in text.split(","):
            low, _, high = part.partition("-")
            if not low.isdigit() or (high and not high.isdigit()):
                raise gdb.GdbError("task apply %s: expected numbers such as 3,5-8" % text)
            wanted.update(range(int(low), int(high or low) + 1))
        return [t for t in tasks() if task_id(t) in wanted]


class InfoWaits(gdb.Command):
    """info waits [rank N]
What every waiting task waits for: the condition, the word's value now, why, and from whom."""

    def __init__(self):
        super().__init__("info waits", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        keep, _ = parse_filter(gdb.string_to_argv(arg))
        for t in tasks():
            if not keep(t):
                continue
            for w in task_waits(t):
                print("%5d %-28s %s" % (task_id(t), task_name(t), wait_text(w)))
            if task_state(t) == "sleeping" and int(t["poll_why"]) != 0:
                print("%5d %-28s polls %s" % (task_id(t), task_name(t), t["poll_why"].string()))


class InfoRanks(gdb.Command):
    """info ranks
One line a rank: its process and host, and how many of its tasks are in which state."""

    def __init__(self):
        super().__init__("info ranks", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        ranks = {}
        for t in tasks():
            if task_rank(t) >= 0:
                ranks.setdefault(task_rank(t), []).append(t)
        print("%4s %-14s %4s %5s %s" % ("rank", "process", "host", "tasks", "states; main waits for"))
        for rank, members in sorted(ranks.items()):
            proc = members[0]["self"]["proc"]
            count = {}
            for t in members:
                count[task_state(t)] = count.get(task_state(t), 0) + 1
            main = [t for t in members if task_name(t).endswith("main")]
            print("%4d %-14s %4d %5d %s; %s" % (
                rank, string_or(proc["name"]), int(proc["host"]), len(members),
                " ".join("%d %s" % (n, s) for s, n in sorted(count.items())),
                task_reason(main[0]) if main else "-"))


class InfoProxies(gdb.Command):
    """info proxies
The proxy tasks of every rank, and all that each of them waits for."""

    def __init__(self):
        super().__init__("info proxies", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        for t in tasks():
            if "proxy" not in task_name(t):
                continue
            print("%5d %-28s %s" % (task_id(t), task_name(t), task_state(t)))
            for w in task_waits(t):
                print("      %s" % wait_text(w))


class Sim(gdb.Command):
    """sim step N | sim until TIME | sim info: run the simulator by its own measures."""

    def __init__(self):
        super().__init__("sim", gdb.COMMAND_RUNNING, prefix=True)


def run_to_limit():
    stop = gdb.Breakpoint("sim_gdb_stop", internal=True, temporary=True)
    stop.silent = True
    gdb.execute("continue")
    if gdb.selected_inferior().pid:
        SimInfo.show()


class SimStep(gdb.Command):
    """sim step [N]: run N steps (choices and events; default 1), then stop."""

    def __init__(self):
        super().__init__("sim step", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        if arg and not arg.isdigit():
            raise gdb.GdbError("sim step %s: expected a number of steps" % arg)
        limit = int(symbol("sim_gdb_steps")) + int(arg or "1")
        gdb.execute("set variable sim_gdb_step_limit = %d" % limit)
        run_to_limit()


class SimUntil(gdb.Command):
    """sim until TIME: run until virtual time TIME: 1200, 1200ns, 3us, 1.5ms, 2s."""

    UNITS = {"": 1, "ns": 1, "us": 1000, "ms": 1000000, "s": 1000000000}

    def __init__(self):
        super().__init__("sim until", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        match = re.fullmatch(r"([0-9]+)(?:\.([0-9]{1,9}))?(ns|us|ms|s|)", arg.strip())
        if not match:
            raise gdb.GdbError("sim until %s: expected a time such as 1200, 3us, 1.5ms, 2s" % arg)
        unit = self.UNITS[match.group(3)]
        fraction = match.group(2) or ""
        ns = int(match.group(1)) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        gdb.execute("set variable sim_gdb_until_ns = %d" % ns)
        run_to_limit()


class SimInfo(gdb.Command):
    """sim info: seed, step, virtual time, and the task that runs."""

    def __init__(self):
        super().__init__("sim info", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        self.show()

    @staticmethod
    def show():
        now = current_task()
        print("[sim seed %d step %d vtime %d ns, %s]" % (
            int(symbol("sim_gdb_seed")), int(symbol("sim_gdb_steps")), int(symbol("sim_gdb_now_ns")),
            "no task" if now is None else "task %d %s" % (task_id(now), task_name(now))))


QP_STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
QP_SHIFT = 5  # FAKEVERBS_QP_SHIFT of backends/fakeverbs/hca.h


class InfoQps(gdb.Command):
    """info qps
The queue pairs of every HCA double: owner, state, peer, what is outstanding, PSNs, retries."""

    def __init__(self):
        super().__init__("info qps", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        view = symbol("fakeverbs")
        world = view["world"]
        if int(world) == 0:
            print("no HCA has been opened yet")
            return
        print("%-8s %-14s %-6s %-8s %-16s %-16s %-22s %s" % (
            "qp", "process/port", "state", "peer qp", "sq posted/done", "rq posted/done",
            "psn una/next expected", "retries left"))
        for i in range(int(world["qp"]["count"])):
            qp = (view["qp"][i >> QP_SHIFT] + (i & ((1 << QP_SHIFT) - 1))).dereference()
            if not int(qp["item"]["live"]):
                continue
            sq, rq, req, resp = qp["sq"], qp["rq"], qp["req"], qp["resp"]
            state = int(qp["state"])
            print("%-8s %-14s %-6s %-8s %-16s %-16s %-22s %s" % (
                hex(int(qp["number"])), "p%d/port%d" % (int(qp["item"]["proc"]), int(qp["port"])),
                QP_STATES[state] if state < len(QP_STATES) else state, hex(int(qp["dest_qpn"])),
                "%d/%d" % (int(sq["head"]), int(sq["done"])), "%d/%d" % (int(rq["head"]), int(rq["done"])),
                "%d/%d %d" % (int(req["psn_una"]), int(req["psn_next"]), int(resp["psn"])),
                "%d/%d" % (int(req["retries"]), int(req["rnr_retries"]))))


def set_convenience(event):
    """At each stop: the focus is gone, and $rank, $task, $step, $vtime say where we are."""
    focused[0] = None
    unwinder.focus(None)
    try:
        now = current_task()
        gdb.set_convenience_variable("rank", -1 if now is None else task_rank(now))
        gdb.set_convenience_variable("task", -1 if now is None else task_id(now))
        gdb.set_convenience_variable("step", int(symbol("sim_gdb_steps")))
        gdb.set_convenience_variable("vtime", int(symbol("sim_gdb_now_ns")))
    except (gdb.GdbError, gdb.error):
        pass  # no engine in the program yet


gdb.events.stop.connect(set_convenience)
gdb.events.cont.connect(lambda event: unwinder.focus(None))
for command in (InfoTasks, Task, TaskApply, InfoWaits, InfoRanks, InfoQps, InfoProxies, Sim, SimStep, SimUntil, SimInfo):
    command()
gdb.execute("set breakpoint pending on")
