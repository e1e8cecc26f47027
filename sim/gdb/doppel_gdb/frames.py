# SPDX-License-Identifier: BSD-3-Clause
"""Stacks of suspended tasks: gdb's unwinder pointed at them, focus, and where each one stands."""
import re

import gdb
import gdb.unwinder

from doppel_gdb import state
from doppel_gdb.state import cache, current_task, find_task, tasks

REGISTERS = {"i386:x86-64": ("rip", "rsp"), "aarch64": ("pc", "sp")}
# How a task came to be suspended: below where it stands. Backtraces start above.
MACHINERY = re.compile(
    r"^(fiber_|sim_|gdb_stop|trace_|choice_|fault_|buggify_|accessor_|sched_|task_|strategy_|threads_|"
    r"worker_|wait_|os_|shared_|fakedev_|"
    r"world_(point|wait)|"
    r"run_(wait|enter|barrier|word)|"
    r"dev_(wait|load|store|add|fence|barrier|copy_in|copy_out|shuffle|ballot)|\?$)")
# A primitive is where a warp stands; how it waits is told by the wait.
PRIMITIVE_PART = re.compile(r"^prim_(wait|chunk|barrier|post|fill)")
SHAPE_BYTES = 2048  # of a stack, looked at to recognise it


def void_pointer():
    return gdb.lookup_type("void").pointer()


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
            self.resume = cache.of_code(
                "resume", lambda: gdb.parse_and_eval("(void *)&fiber_resume_pc"))
            self.sp = gdb.Value(task.sp).cast(void_pointer())
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.sp is None:
            return None
        level = pending.level()
        if self.level is None:
            self.level = level
        if level != self.level:
            return None
        arch = pending.architecture().name()
        if arch not in REGISTERS:
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


def core_threads():
    """A core file's threads by id."""
    def make():
        return {thread.ptid[1]: thread for thread in gdb.selected_inferior().threads()}
    return cache.at_stop("threads", make)


def thread_of(task):
    """The gdb thread that is the task: in a core file each is one, in a process the running one."""
    if task.suspended():
        return None if is_live() else core_threads().get(task.id + 1)
    return min(gdb.selected_inferior().threads(), key=lambda thread: thread.num, default=None)


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
            if t.suspended() and thread.ptid[1] == t.id + 1:
                return t.id
    return None if now is None else now.id


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
        name = gdb.newest_frame().name()
        if name == "fiber_switch" or (name == "sim_gdb_stop" and current_task() is not None):
            return self.task_frames(frames, -1)  # in a core file; in a trap
        return frames

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


# ---- shapes ---------------------------------------------------------------------------------------


class Shape:
    """How a suspended stack looks, from the switch to where its task stands.

    Two stacks with the same return addresses at the same distances from their stack pointers were
    left by the same calls: what gdb's unwinder found out about one holds for the other.
    """

    def __init__(self, place, hidden):
        self.place, self.hidden = place, hidden  # hidden: frames of machinery
        self.slots = []                          # (distance from sp, return address as bytes)

    def fits(self, raw):
        return all(raw[at:at + 8] == pc for at, pc in self.slots)


def stack_of(task):
    top = task.stack_low + task.stack_bytes
    size = min(SHAPE_BYTES, top - task.sp) if task.stack_low <= task.sp < top else 0
    return state.read(task.sp, size) or b"" if size > 0 else b""


def known_shape(raw):
    shapes = cache.of_code("shapes", dict)
    for at, by_pc in shapes.items():
        for shape in by_pc.get(raw[at:at + 8], ()):
            if shape.fits(raw):
                return shape
    return None


def learn_shape(task, raw):
    """With gdb's frames of the task selected: what it looks like."""
    frame, shape, slots, whole = unwinder.newest(), Shape("?", 0), [], True
    hidden = True
    for _ in range(60):
        if frame is None:
            break
        name = frame.name() or "?"
        if name == "fiber_entry":
            shape.place = "(not started)"
            break
        if hidden and is_machinery(frame):
            shape.hidden += 1
        else:
            hidden = False
            if not is_machinery(frame) and not PRIMITIVE_PART.match(name):
                shape.place = "%s:%d" % (name, frame.find_sal().line)
                break
        older = frame.older()
        if older is not None and frame.type() != gdb.INLINE_FRAME:
            at = int(older.read_register("sp")) - 8 - task.sp
            pc = older.pc().to_bytes(8, "little")
            whole = whole and 0 <= at and raw[at:at + 8] == pc
            slots.append((at, pc))
        frame = older
    if whole and slots and shape.place != "?":
        shape.slots = slots
        by_pc = cache.of_code("shapes", dict).setdefault(slots[0][0], {})
        by_pc.setdefault(slots[0][1], []).append(shape)
    return shape


def shape_of(task):
    """Of a task that has frames."""
    raw = stack_of(task) if task.suspended() else b""
    shape = known_shape(raw) if raw else None
    if shape is None:
        with Focus(task):
            shape = learn_shape(task, raw)
    return shape


def where(task):
    """The innermost function of the task that is not machinery, as "function:line"."""
    return shape_of(task).place if task.has_frames() else "(%s)" % task.state


# ---- backtraces of many tasks ---------------------------------------------------------------------


def bt_count(command):
    """How many frames `bt` or `bt N` asks for; None when it is another command."""
    match = re.fullmatch(r"\s*(?:bt|backtrace)(?:\s+([1-9][0-9]*))?\s*", command)
    filters = [f for f in gdb.frame_filters.values() if getattr(f, "enabled", True)]
    if not match or gdb.current_progspace().frame_filters or len(filters) != 1:
        return None
    return int(match.group(1) or 10000)


class Backtraces:
    """with Backtraces() as b: b.show(task, n) prints n frames, without Python for each of them."""

    def __enter__(self):
        self.inside = Focus(next(t for t in tasks()))
        self.inside.__enter__()
        return self

    def __exit__(self, *unused):
        self.inside.__exit__()

    @staticmethod
    def show(task, n):
        shape, level = shape_of(task), unwinder.level
        unwinder.focus(task)
        unwinder.level = level  # what runs stays as it is
        if level is None:
            unwinder.newest()
        first = unwinder.level + 1 + shape.hidden
        gdb.execute("frame apply level %d-%d echo" % (first, first + n - 1))


def name_threads():
    """In a core file every task is a thread, whose id is the task's plus one."""
    if is_live() or not gdb.selected_inferior().pid:
        return
    try:
        names = {t.id + 1: "%d %s" % (t.id, t.name) for t in tasks()}
    except (gdb.GdbError, gdb.error):
        return  # not one of Doppel's
    for thread in gdb.selected_inferior().threads():
        thread.name = names.get(thread.ptid[1], "engine")
