# SPDX-License-Identifier: BSD-3-Clause
"""gdb commands for Doppel: every task of the simulator, seen and walked like a thread.

A suspended task is one word, its stack pointer; gdb's own unwinder does the rest, because the
switch carries CFI (sim/engine/fiber_*.S). Nothing here changes the program: looking at a task does
not disturb the run, and the trace hash stays the same.

  info tasks [FILTER...]    tasks, grouped by where they stand and what they wait for
                            FILTER: rank N, host N, kind host|warp, state NAME, name TEXT, all
                            (`all`: one line a task instead of groups)
  task N | task off         focus on task N: bt, up, frame, info locals act there; off: back.
                            next and step with a focus first run on until task N runs there again
  task apply all|N,N..|rank N CMD   run CMD in each of these tasks
  info waits [FILTER...]    what each waiting task waits for: has, wants, why, from whom
  info ranks                one line a rank: process, host, tasks
  info qps                  the queue pairs of every HCA double
  info proxies              proxy tasks and what they wait for
  sim step [N]              run N steps of the simulator (choices and events), then stop
  sim until TIME            run until virtual time TIME (ns, or with us, ms, s)
  sim info                  seed, step, virtual time, task

Convenience variables, set at every stop: $rank, $task, $step, $vtime.
Works on a live process and on the core file that a failing run leaves.

Depends on: sim/engine/gdb_hooks.h, struct sim_task (sim/engine/sim.h), struct wait
(core/base/wait.h), the tables of waits.c and label.c, struct fakeverbs_view (backends/fakeverbs).
"""
import re

import gdb
import gdb.unwinder

STATES = ("new", "ready", "running", "waiting", "sleeping", "done", "killed")
KINDS = ("host", "warp")
WAIT_OPS = ("==", "!=", ">=", "flags ==", "seq !=")
WAIT_LINE16, WAIT_OBJECT = 3, 4
REGISTERS = {"i386:x86-64": ("rip", "rsp"), "aarch64": ("pc", "sp")}
# How a task came to be suspended: below where it stands. Backtraces start above.
MACHINERY = re.compile(
    r"^(fiber_|sim_|sched_|task_|strategy_|threads_|worker_|wait_|os_|shared_|fakedev_|"
    r"world_(point|wait)|"
    r"run_(wait|enter|barrier|meet|word)|"
    r"dev_(wait|load|store|add|fence|barrier|copy_in|copy_out|shuffle|ballot)|\?$)")
# A primitive is where a warp stands; how it waits is told by the wait.
PRIMITIVE_PART = re.compile(r"^prim_(wait|chunk|barrier|post|fill)")
HASH = 0x9E3779B97F4A7C15  # of the engine's tables, by address
ALL_ONES = (1 << 64) - 1


def void_pointer():
    return gdb.lookup_type("void").pointer()


def symbol(name, static=False):
    """The value of a global of the engine, whatever the locals of the selected frame are called."""
    found = gdb.lookup_static_symbol(name) if static else gdb.lookup_global_symbol(name)
    if found is None:
        raise gdb.GdbError("no %s: the simulator is not loaded yet (start the program first)" % name)
    try:
        return found.value()
    except gdb.error as error:
        raise gdb.GdbError("%s cannot be read: %s (start the program first)" % (name, error))


# ---- tasks ----------------------------------------------------------------------------------------


def tasks():
    task = symbol("sim_tasks_head")
    while int(task) != 0:
        task = task.dereference()
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
    return task.dereference() if int(task) != 0 else None


def suspended(task):
    return task_state(task) not in ("running", "done", "killed") and int(task["sp"]) != 0


def has_frames(task):
    """In engine `threads` a task that runs is one of gdb's threads: `info threads`."""
    return suspended(task) or (task_state(task) == "running" and int(symbol("eng")["kind"]) == 0)


def find_task(number):
    for t in tasks():
        if task_id(t) == number:
            return t
    raise gdb.GdbError("there is no task %d ('info tasks all' lists them)" % number)


# ---- frames ---------------------------------------------------------------------------------------


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class TaskUnwinder(gdb.unwinder.Unwinder):
    """Pretends that the focused task's switch is the caller of what runs now.

    `level` is the frame that it speaks for: the innermost that is not inlined, because gdb asks
    about that one first and never about inlined ones.
    """

    def __init__(self):
        super().__init__("doppel-task")
        self.sp, self.level, self.resume = None, None, None

    def focus(self, task):
        if task is None and self.sp is None:
            return
        self.sp, self.level = None, None
        if task is not None:
            self.resume = gdb.parse_and_eval("(void *)&fiber_resume_pc")
            self.sp = gdb.Value(int(task["sp"])).cast(void_pointer())
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.sp is None:
            return None
        if self.level is None:
            self.level = pending.level()
        arch = pending.architecture().name()
        if pending.level() != self.level or arch not in REGISTERS:
            return None
        pc_name, sp_name = REGISTERS[arch]
        # The id's stack pointer must be inner to the task's stack: gdb stops otherwise.
        info = pending.create_unwind_info(FrameId(self.sp, pending.read_register(pc_name)))
        info.add_saved_register(sp_name, self.sp)
        info.add_saved_register(pc_name, self.resume)
        return info

    def newest(self):
        """The task's own innermost frame."""
        frame = gdb.newest_frame()
        if self.sp is None:
            return frame
        while frame is not None and (self.level is None or frame.level() <= self.level):
            frame = frame.older()
        return frame


unwinder = TaskUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
focused = [None]  # the number of the task that the user focused on


def is_machinery(frame):
    return bool(MACHINERY.match(frame.name() or "?"))


def is_live():
    """A process that can run, not a core file nor a program that is not started."""
    inferior = gdb.selected_inferior()
    kind = inferior.connection and inferior.connection.type
    return inferior.pid != 0 and kind == "native"


def thread_of(task):
    """The gdb thread that is the task: in a core file each is one, in a process the running one."""
    threads = gdb.selected_inferior().threads()
    if suspended(task):
        number = -1 if is_live() else task_id(task) + 1
        return next((thread for thread in threads if thread.ptid[1] == number), None)
    return min(threads, key=lambda thread: thread.num, default=None)


class Focus:
    """with Focus(task): gdb's frames are the task's."""

    def __init__(self, task):
        self.task, self.thread, self.frame = task, gdb.selected_thread(), None

    def __enter__(self):
        if focused[0] is None:
            self.frame = gdb.selected_frame()
        thread = thread_of(self.task)
        unwinder.focus(self.task if thread is None else None)
        if thread is not None and thread.num != self.thread.num:
            thread.switch()
        frame = unwinder.newest()
        if frame is not None:
            frame.select()

    def __exit__(self, *unused):
        if self.thread.is_valid() and self.thread.num != gdb.selected_thread().num:
            self.thread.switch()
        unwinder.focus(find_task(focused[0]) if focused[0] is not None else None)
        if focused[0] is not None:
            select_place()
        elif self.frame.is_valid():
            self.frame.select()


def selected_task():
    """The number of the task that frames are of, or None."""
    if focused[0] is not None:
        return focused[0]
    thread, now = gdb.selected_thread(), current_task()
    if thread is not None and not is_live():
        for t in tasks():
            if suspended(t) and thread.ptid[1] == task_id(t) + 1:
                return task_id(t)
    return None if now is None else task_id(now)


def select_place():
    """Selects the innermost frame that is not machinery."""
    frame = first = unwinder.newest()
    while frame is not None and is_machinery(frame):
        frame = frame.older()
    frame = frame or first
    if frame is not None:
        frame.select()


class TaskFrames:
    """Backtraces of a suspended task start above the machinery; `bt -no-filters` shows all."""

    def __init__(self):
        self.name, self.priority, self.enabled = "doppel-task", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        if unwinder.sp is not None:
            return self.task_frames(frames, unwinder.level)
        frame = gdb.newest_frame()  # a task's thread in a core file
        return self.task_frames(frames, -1) if frame.name() == "fiber_switch" else frames

    @staticmethod
    def task_frames(frames, level):
        held = []
        for f in frames:
            if f.inferior_frame().level() <= level:
                continue
            if held is not None and is_machinery(f.inferior_frame()):
                held.append(f)
                continue
            held = None
            yield f
        yield from held or []  # it has not run yet: nothing else is there


TaskFrames()


def where(task):
    """The innermost function of the task that is not machinery, as "function:line"."""
    if not has_frames(task):
        return "(%s)" % task_state(task)
    with Focus(task):
        frame = unwinder.newest()
        for _ in range(40):
            if frame is None:
                break
            name = frame.name() or "?"
            if name == "fiber_entry":
                return "(not started)"
            if not is_machinery(frame) and not PRIMITIVE_PART.match(name):
                return "%s:%d" % (name, frame.find_sal().line)
            frame = frame.older()
    return "?"


# ---- waits ----------------------------------------------------------------------------------------


def string_or(value, otherwise=""):
    return value.string() if int(value) != 0 else otherwise


def task_waits(task):
    if task_state(task) != "waiting" or int(task["wait"]) == 0:
        return []
    return [task["wait"][i].dereference() for i in range(int(task["wait_n"]))]


def table_find(table, address):
    """The entry of one of the engine's tables by address, or None."""
    entry = symbol(table, static=True)[((address * HASH) & ALL_ONES) >> 54]
    while int(entry) != 0 and int(entry["object"]) != address:
        entry = entry["next"]
    return entry if int(entry) != 0 else None


def label_text(address):
    label = table_find("label_bucket", address)
    if label is None:
        return "0x%x" % address
    value, text = label["value"], string_or(label["value"]["what"], "?")
    for key, word in (("number", " %d"), ("rank", " of rank %d"), ("peer", " peer %d"),
                      ("channel", " channel %d")):
        if int(value[key]) >= 0:
            text += word % int(value[key])
    return text


def read_word(address, size):
    """Device memory may be readable by the debugger only; None: not at all."""
    try:
        raw = gdb.selected_inferior().read_memory(address, size).tobytes()
    except gdb.MemoryError:
        return None
    return int.from_bytes(raw, "little")


def wait_have(wait):
    """The value now: of the word, of a line's flag, or the event count. None: cannot be read."""
    kind, size, on = int(wait["kind"]), int(wait["bytes"]), int(wait["on"])
    if kind == WAIT_OBJECT:
        count = table_find("event_bucket", on)
        return 0 if count is None else int(count["seq"])
    if kind == WAIT_LINE16:
        return read_word(on + 4, 4)
    value = read_word(on, size)
    return None if value is None else value & int(wait["mask"])


def wait_from(wait):
    origin, text = wait["from"], ""
    for key, word in (("rank", " rank %d"), ("channel", " channel %d"), ("step", " step %d")):
        if int(origin[key]) >= 0:
            text += word % int(origin[key])
    if int(origin["object"]) != 0:
        text += " (%s)" % origin["object"].string()
    return ", from" + text if text else ""


def wait_text(wait):
    """As the report of a failing run says it (sim/engine/explain.c)."""
    have = wait_have(wait)
    return '"%s" at %s: %s, wants %s %d%s' % (
        string_or(wait["why"], "?"), label_text(int(wait["on"])),
        "cannot be read" if have is None else "is %d" % have,
        WAIT_OPS[int(wait["kind"])], int(wait["want"]), wait_from(wait))


def time_text(ns):
    for unit, name in ((10 ** 9, "s"), (10 ** 6, "ms"), (10 ** 3, "us")):
        if ns >= unit:
            return "%d.%03d%s" % (ns // unit, ns % unit // (unit // 1000), name)
    return "%dns" % ns


def task_reason(task):
    """What it waits for, short."""
    state = task_state(task)
    if state == "waiting":
        waits = task_waits(task)
        if waits:
            more = " (+%d more)" % (len(waits) - 1) if len(waits) > 1 else ""
            return string_or(waits[0]["why"], "?") + more
        polls = string_or(task["poll_why"])
        return "polls " + polls if polls else "its abort flag"
    if state == "sleeping":
        polls = string_or(task["poll_why"])
        return "polls " + polls if polls else "time to pass"
    return state


def task_reason_full(task):
    if task_state(task) == "sleeping":
        polls = "polls %s, " % task["poll_why"].string() if int(task["poll_why"]) else ""
        return "%suntil %s" % (polls, time_text(int(task["wake_ns"])))
    return task_reason(task)


# ---- info tasks, task, task apply -----------------------------------------------------------------


def filter_of(key, value):
    if key in ("rank", "host") and not value.lstrip("-").isdigit():
        raise gdb.GdbError("%s %s: expected a number" % (key, value))
    for name, known in (("kind", KINDS), ("state", STATES)):
        if key == name and value not in known:
            raise gdb.GdbError("%s %s: expected one of %s" % (key, value, ", ".join(known)))
    return {
        "rank": lambda t: task_rank(t) == int(value),
        "host": lambda t: int(t["self"]["proc"]["host"]) == int(value),
        "kind": lambda t: KINDS[int(t["kind"])] == value,
        "state": lambda t: task_state(t) == value,
        "name": lambda t: value in task_name(t),
    }[key]


def parse_filter(arg):
    """A predicate, and whether each task is wanted on a line of its own."""
    words, keep, each = gdb.string_to_argv(arg), [], False
    while words:
        key = words.pop(0)
        if key == "all":
            each = True
        elif words and key in ("rank", "host", "kind", "state", "name"):
            keep.append(filter_of(key, words.pop(0)))
        else:
            raise gdb.GdbError("expected: rank N, host N, kind host|warp, state NAME, name TEXT, "
                               "all; got '%s'" % key)
    return (lambda t: all(k(t) for k in keep)), each


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
        keep, each = parse_filter(arg)
        chosen = [t for t in tasks() if keep(t)]
        if each:
            self.one_by_one(chosen)
        else:
            self.grouped(chosen)

    @staticmethod
    def one_by_one(chosen):
        now, here = symbol("sim_task_current"), selected_task()
        rows = [("*" if now == t.address else ">" if here == task_id(t) else " ", task_id(t),
                 task_name(t), task_state(t), where(t), task_reason_full(t)) for t in chosen]
        print("  %5s %-26s %-8s %-32s %s" % ("id", "name", "state", "where", "waits for"))
        for row in rows:
            print("%s %5d %-26s %-8s %-32s %s" % row)

    @staticmethod
    def grouped(chosen):
        groups = {}
        for t in chosen:
            key = (KINDS[int(t["kind"])], where(t), task_reason(t))
            groups.setdefault(key, []).append(t)
        print("%5s %-4s  %-32s %-40s %s" % ("tasks", "kind", "where", "waits for", "ranks; ids"))
        order = sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))
        for (kind, place, reason), members in order:
            print("%5d %-4s  %-32s %-40s %s; %s" % (
                len(members), kind, place, reason, ranges({task_rank(t) for t in members}),
                ranges([task_id(t) for t in members])))


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
            number = selected_task()
            if number is None:
                print("[no task: the engine's loop]")
            else:
                t = find_task(number)
                print("[task %d \"%s\", %s]" % (number, task_name(t), task_state(t)))
            return
        if not arg.isdigit():
            raise gdb.GdbError("task %s: expected a number or off" % arg)
        self.switch(find_task(int(arg)))

    @staticmethod
    def switch(t):
        thread = thread_of(t) if has_frames(t) else None
        focused[0] = task_id(t) if thread is None and has_frames(t) else None
        unwinder.focus(t if focused[0] is not None else None)
        print("[Switching to task %d \"%s\", %s: %s]" % (task_id(t), task_name(t), task_state(t),
                                                        task_reason_full(t)))
        set_convenience_of(t)
        if not has_frames(t):
            return
        if thread is not None:
            thread.switch()
        select_place()
        gdb.execute("frame")


class TaskApply(gdb.Command):
    """task apply all|N,N-N..|rank N COMMAND
Runs COMMAND in each of these tasks."""

    def __init__(self):
        super().__init__("task apply", gdb.COMMAND_STACK)

    def invoke(self, arg, from_tty):
        chosen, command = self.parse(arg)
        for t in chosen:
            print("\nTask %d \"%s\" (%s: %s):" % (task_id(t), task_name(t), task_state(t),
                                                task_reason_full(t)))
            if not has_frames(t):
                continue
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
            return [t for t in tasks() if task_rank(t) == int(rank)], words[1]
        wanted = None if words[0] == "all" else self.listed(words[0])
        return [t for t in tasks() if wanted is None or task_id(t) in wanted], words[1]

    @staticmethod
    def listed(text):
        wanted = set()
        for part in text.split(","):
            low, _, high = part.partition("-")
            if not low.isdigit() or (high and not high.isdigit()):
                raise gdb.GdbError("task apply %s: expected numbers such as 3,5-8" % text)
            wanted.update(range(int(low), int(high or low) + 1))
        return wanted


# ---- info waits, ranks, proxies, qps --------------------------------------------------------------


def print_waits(t):
    now = int(symbol("eng")["now_ns"])
    own = t["priv"].cast(gdb.lookup_type("struct task").pointer())
    for w in task_waits(t):
        print("      %s" % wait_text(w))
    if task_state(t) == "waiting" and int(t["wait"]) != 0:
        print("      for %s" % time_text(now - int(own["wait_since_ns"])))


class InfoWaits(gdb.Command):
    """info waits [rank N] [host N] [kind host|warp] [name TEXT]
What every waiting task waits for: the word's value now, the value it wants, why, and from whom."""

    def __init__(self):
        super().__init__("info waits", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        keep, _ = parse_filter(arg)
        for t in tasks():
            if not keep(t) or not (task_waits(t) or int(t["poll_why"])):
                continue
            print("%5d %s%s" % (task_id(t), task_name(t),
                                "" if task_waits(t) else ": " + task_reason_full(t)))
            print_waits(t)


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
        print("%4s %-14s %4s %5s  %-28s %s" % ("rank", "process", "host", "tasks", "states",
                                              "its main task"))
        for rank, members in sorted(ranks.items()):
            proc, count = members[0]["self"]["proc"], {}
            for t in members:
                count[task_state(t)] = count.get(task_state(t), 0) + 1
            main = [t for t in members if task_name(t).endswith("main")]
            print("%4d %-14s %4d %5d  %-28s %s" % (
                rank, string_or(proc["name"]), int(proc["host"]), len(members),
                ", ".join("%d %s" % (n, s) for s, n in sorted(count.items())),
                "%s, %s" % (where(main[0]), task_reason_full(main[0])) if main else "-"))


class InfoProxies(gdb.Command):
    """info proxies
The proxy tasks of every rank, and all that each of them waits for."""

    def __init__(self):
        super().__init__("info proxies", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        for t in tasks():
            if "proxy" in task_name(t):
                print("%5d %s: %s" % (task_id(t), task_name(t), task_state(t)))
                print_waits(t)


QP_STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")


def queue_pairs():
    """Live ones; a table of chunks of items, each item_bytes long (backends/fakeverbs/hca.h)."""
    view = symbol("fakeverbs")
    if int(view["world"]) == 0:
        return
    table, kind = view["world"]["qp"], gdb.lookup_type("struct hca_qp").pointer()
    shift, size = int(table["chunk_shift"]), int(table["item_bytes"])
    for i in range(int(table["count"])):
        at = int(view["qp"][i >> shift]) + (i & ((1 << shift) - 1)) * size
        qp = gdb.Value(at).cast(kind).dereference()
        if int(qp["item"]["live"]):
            yield qp


class InfoQps(gdb.Command):
    """info qps
The queue pairs of every HCA double: owner, state, peer, what is outstanding, PSNs, retries.
posted/done count work requests; psn una/next/max: oldest not acknowledged, next to transmit, never
transmitted yet; expected: the responder's."""

    def __init__(self):
        super().__init__("info qps", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        owners = [t["self"]["proc"].dereference() for t in tasks()]
        procs = {int(p["id"]): string_or(p["name"]) for p in owners}
        line = "%-6s %-12s %4s %-5s %-6s %12s %12s %20s %9s %s"
        print(line % ("qp", "process", "port", "state", "peer", "sends", "receives",
                      "psn una/next/max", "expected", "retries left"))
        print(line % ("", "", "", "", "", "posted/done", "posted/done", "", "", "ack/rnr"))
        for qp in sorted(queue_pairs(), key=lambda qp: (int(qp["port"]), int(qp["number"]))):
            state, owner = int(qp["state"]), int(qp["item"]["proc"])
            print(line % (
                hex(int(qp["number"])), procs.get(owner, "process %d" % owner), int(qp["port"]),
                QP_STATES[state] if state < len(QP_STATES) else state, hex(int(qp["dest_qpn"])),
                "%d/%d" % (int(qp["sq"]["head"]), int(qp["sq"]["done"])),
                "%d/%d" % (int(qp["rq"]["head"]), int(qp["rq"]["done"])),
                "%d/%d/%d" % tuple(int(qp["req"][k]) for k in ("psn_una", "psn_next", "psn_max")),
                int(qp["resp"]["psn"]),
                "%d/%d" % (int(qp["req"]["retries"]), int(qp["req"]["rnr_retries"]))))


# ---- sim ------------------------------------------------------------------------------------------


class Sim(gdb.Command):
    """sim step N | sim until TIME | sim info: run the simulator by its own measures."""

    def __init__(self):
        super().__init__("sim", gdb.COMMAND_RUNNING, prefix=True)


def run_to_limit(variable, value):
    if not is_live():
        raise gdb.GdbError("the program is not running ('start' runs it to main)")
    gdb.execute("set variable %s = %d" % (variable, value))
    stop = gdb.Breakpoint("sim_gdb_stop", internal=True, temporary=True)
    stop.silent = True
    gdb.execute("continue")
    reached = not stop.is_valid()
    if not reached:
        stop.delete()
    if not is_live():
        return
    if not reached:
        print("[stopped before that]")
        gdb.execute("set variable %s = 0" % variable)
    SimInfo.show()


class SimStep(gdb.Command):
    """sim step [N]: run N steps (choices and events; default 1), then stop."""

    def __init__(self):
        super().__init__("sim step", gdb.COMMAND_RUNNING)

    def invoke(self, arg, from_tty):
        if arg and not (arg.isdigit() and int(arg)):
            raise gdb.GdbError("sim step %s: expected a number of steps" % arg)
        run_to_limit("sim_gdb_step_limit", int(symbol("eng")["steps"]) + int(arg or "1"))


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
        now = int(symbol("eng")["now_ns"])
        if ns <= now:
            raise gdb.GdbError("sim until %s: it is %s already" % (arg, time_text(now)))
        run_to_limit("sim_gdb_until_ns", ns)


class SimInfo(gdb.Command):
    """sim info: seed, step, virtual time, and the task that runs."""

    def __init__(self):
        super().__init__("sim info", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        self.show()

    @staticmethod
    def show():
        now, eng = current_task(), symbol("eng")
        print("[sim seed %d step %d vtime %d ns, %s]" % (
            int(eng["seed"]), int(eng["steps"]), int(eng["now_ns"]),
            "between tasks" if now is None else 'task %d "%s"' % (task_id(now), task_name(now))))


# ---- stops ----------------------------------------------------------------------------------------


def set_convenience_of(t):
    gdb.set_convenience_variable("rank", -1 if t is None else task_rank(t))
    gdb.set_convenience_variable("task", -1 if t is None else task_id(t))


def set_convenience(event=None):
    """At each stop: the focus is gone, and $rank, $task, $step, $vtime say where we are."""
    focused[0] = None
    unwinder.focus(None)
    try:
        set_convenience_of(current_task())
        gdb.set_convenience_variable("step", int(symbol("eng")["steps"]))
        gdb.set_convenience_variable("vtime", int(symbol("eng")["now_ns"]))
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


def name_threads():
    """In a core file every task is a thread, whose id is the task's plus one."""
    if is_live() or not gdb.selected_inferior().pid:
        return
    try:
        names = {task_id(t) + 1: "%d %s" % (task_id(t), task_name(t)) for t in tasks()}
    except (gdb.GdbError, gdb.error):
        return  # not one of Doppel's
    for thread in gdb.selected_inferior().threads():
        thread.name = names.get(thread.ptid[1], "engine")


def drop_focus(event):
    """The program runs on: frames are those of what runs."""
    focused[0] = None
    unwinder.focus(None)


gdb.events.stop.connect(set_convenience)
gdb.events.cont.connect(drop_focus)
for command in (InfoTasks, Task, TaskApply, InfoWaits, InfoRanks, InfoQps, InfoProxies, Sim,
                SimStep, SimUntil, SimInfo, RunToFocus):
    command()
for name in ("next", "step"):
    gdb.execute("define hook-%s\nsim run-to-focus\nend" % name)
gdb.execute("set breakpoint pending on")
set_convenience()
name_threads()
gdb.events.new_objfile.connect(lambda event: name_threads())
