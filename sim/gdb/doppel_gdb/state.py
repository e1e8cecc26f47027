# SPDX-License-Identifier: BSD-3-Clause
"""What the engine knows, read once a stop: tasks, waits, labels.

Ten thousand tasks are looked at in a second or two because memory is read a struct at a time, and
taken apart here, by the offsets that the debug information gives; gdb.Value is for the few.
"""
import gdb

STATES = ("new", "ready", "running", "waiting", "sleeping", "done", "killed")
KINDS = ("host", "warp")
WAIT_OPS = ("==", "!=", ">=", "flags ==", "seq !=", ">= (cyclic)")
WAIT_LINE16, WAIT_OBJECT = 3, 4


def symbol(name, static=False):
    """The value of a global of the engine, whatever the locals of the selected frame are called."""
    found = gdb.lookup_static_symbol(name) if static else gdb.lookup_global_symbol(name)
    if found is None:
        raise gdb.GdbError("no %s: the simulator is not loaded yet (start the program first)" % name)
    try:
        return found.value()
    except gdb.error as error:
        raise gdb.GdbError("%s cannot be read: %s (start the program first)" % (name, error))


# ---- memory ---------------------------------------------------------------------------------------


def home(address, first):
    """The address of the memory that cuMem mapped there; others are as they are."""
    start, size, page = (int(symbol("fc_vmm_range")[i]) for i in range(3))
    if not start <= address < start + size:
        return address
    number = int(symbol("vmm_pages", static=True)[(address - start) // page])
    return first + (number - 1) * page + address % page if number else address


def alias(address):
    """The address of the same byte of a GPU in the view of kernels; others are as they are."""
    try:
        first, size = (int(symbol("fc_va_range")[i]) for i in range(2))
    except gdb.GdbError:
        return address
    return home(address, first) + size if first <= address < first + size else address


def read_at(address, size):
    try:
        return gdb.selected_inferior().read_memory(address, size).tobytes()
    except gdb.MemoryError:
        return None


def read(address, size):
    """Bytes of the program, or None. In a world of many GPUs, their memory has the alias alone."""
    raw = read_at(address, size)
    if raw is None and alias(address) != address:
        raw = read_at(alias(address), size)
    return raw


class Layout:
    """Some fields of a struct: name=path, with their places."""

    def __init__(self, type_name, **paths):
        kind = gdb.lookup_type(type_name)
        self.size, self.fields = kind.sizeof, []
        for name, path in paths.items():
            at, field_type = 0, kind
            for part in path.split("."):
                field = next(f for f in field_type.strip_typedefs().fields() if f.name == part)
                at += field.bitpos // 8
                field_type = field.type
            self.fields.append((name, at, field_type.sizeof, self.is_signed(field_type)))

    @staticmethod
    def is_signed(kind):
        kind = kind.strip_typedefs()
        return kind.code == gdb.TYPE_CODE_INT and kind.is_signed

    def decode(self, into, raw, at=0):
        for name, offset, size, signed in self.fields:
            start = at + offset
            setattr(into, name, int.from_bytes(raw[start:start + size], "little", signed=signed))
        return into

    def load(self, into, address):
        raw = read(address, self.size)
        if raw is None:
            raise gdb.GdbError("memory at 0x%x cannot be read" % address)
        self.decode(into, raw)
        return raw


class Record:
    """A decoded struct."""


class Cache:
    """What was read at this stop of this inferior; `code` lasts as long as the program file."""

    def __init__(self):
        self.stop, self.code, self.key = {}, {}, None

    def at_stop(self, name, make):
        inferior = gdb.selected_inferior()
        key = (inferior.num, inferior.pid)
        if key != self.key:
            self.forget()
            self.code.clear()
            self.key = key
        if name not in self.stop:
            self.stop[name] = make()
        return self.stop[name]

    def of_code(self, name, make):
        if name not in self.code:
            self.code[name] = make()
        return self.code[name]

    def forget(self, event=None):
        self.stop.clear()

    def forget_code(self, event=None):
        self.stop.clear()
        self.code.clear()


cache = Cache()
gdb.events.stop.connect(cache.forget)
gdb.events.cont.connect(cache.forget)
gdb.events.memory_changed.connect(cache.forget)
gdb.events.exited.connect(cache.forget)
gdb.events.new_objfile.connect(cache.forget_code)
gdb.events.clear_objfiles.connect(cache.forget_code)


def c_string(address):
    """The string there, at most 200 bytes; "" for a null pointer."""
    if not address:
        return ""
    strings = cache.at_stop("strings", dict)
    if address not in strings:
        try:
            value = gdb.Value(address).cast(gdb.lookup_type("char").pointer())
            strings[address] = value.string(errors="replace", length=-1)
        except gdb.MemoryError:
            strings[address] = "?"
    return strings[address]


# ---- tasks ----------------------------------------------------------------------------------------


def task_layout():
    return cache.of_code("task", lambda: Layout(
        "struct task", id="pub.self.id", rank="pub.self.rank", proc="pub.self.proc", sp="pub.sp",
        next="pub.next", kind_number="pub.kind", state_number="pub.state", name_at="pub.name",
        wait="pub.wait", wait_n="pub.wait_n", poll_why="pub.poll_why", wake_ns="pub.wake_ns",
        wait_since_ns="wait_since_ns", stack_low="fiber.low", stack_bytes="fiber.bytes"))


class Task:
    """A task as it is at this stop."""

    def __init__(self, address):
        layout = task_layout()
        raw = layout.load(self, address)
        self.address = address
        at, size = next((f[1], f[2]) for f in layout.fields if f[0] == "name_at")
        self.name = raw[at:at + size].split(b"\0")[0].decode(errors="replace")
        self.state = STATES[self.state_number] if self.state_number < len(STATES) else "?"
        self.kind = KINDS[self.kind_number] if self.kind_number < len(KINDS) else "?"

    def value(self):
        """As gdb.Value of struct sim_task."""
        kind = gdb.lookup_type("struct sim_task").pointer()
        return gdb.Value(self.address).cast(kind).dereference()

    def suspended(self):
        return self.state not in ("running", "done", "killed") and self.sp != 0

    def has_frames(self):
        """In engine `threads` a task that runs is one of gdb's threads: `info threads`."""
        return self.suspended() or (self.state == "running" and engine().kind == 0)

    def host(self):
        return proc(self.proc).host


def proc(address):
    def make():
        known = Record()
        cache.of_code("proc", lambda: Layout("struct os_proc", id="id", host="host",
                                             name="name")).load(known, address)
        known.name = c_string(known.name)
        return known
    procs = cache.at_stop("procs", dict)
    if address not in procs:
        procs[address] = make()
    return procs[address]


def tasks():
    """All live tasks, oldest first."""
    def make():
        address, found = int(symbol("sim_tasks_head")), []
        while address:
            found.append(Task(address))
            address = found[-1].next
        return found
    return cache.at_stop("tasks", make)


def current_task():
    """The task that runs, or None."""
    address = int(symbol("sim_task_current"))
    return Task(address) if address else None


def find_task(number):
    for t in tasks():
        if t.id == number:
            return t
    raise gdb.GdbError("there is no task %d ('info tasks all' lists them)" % number)


def engine():
    """Figures of this moment."""
    def make():
        known = Record()
        cache.of_code("engine", lambda: Layout(
            "struct engine", kind="kind", seed="seed", steps="steps", now_ns="now_ns",
            hash="hash", phase="phase")).load(known, int(symbol("eng").address))
        return known
    return cache.at_stop("engine", make)


# ---- waits ----------------------------------------------------------------------------------------


def task_waits(t):
    """What it waits for, now."""
    if t.state != "waiting" or not t.wait or t.wait_n <= 0:
        return []
    layout = cache.of_code("wait", lambda: Layout(
        "struct wait", on="on", want="want", mask="mask", kind="kind", bytes="bytes", why="why",
        rank="from.rank", channel="from.channel", step="from.step", object="from.object",
        deadline_ns="deadline_ns", idle="idle"))
    raw, waits = read(t.wait, 8 * t.wait_n) or b"", []
    for i in range(0, len(raw), 8):
        waits.append(Record())
        layout.load(waits[-1], int.from_bytes(raw[i:i + 8], "little"))
    return waits


def table(name, kind, **paths):
    """One of the engine's tables by address, as a dict of its entries. The number of its buckets is
in the variable of that name with an s."""
    def make():
        layout = cache.of_code(name, lambda: Layout(kind, object="object", next="next", **paths))
        buckets = symbol(name, static=True)
        raw = read(int(buckets), 8 * int(symbol(name + "s", static=True))) or b""
        found = {}
        for i in range(0, len(raw), 8):
            address = int.from_bytes(raw[i:i + 8], "little")
            while address:
                entry = Record()
                layout.load(entry, address)
                found[entry.object] = entry
                address = entry.next
        return found
    return cache.at_stop(name, make)


def event_counts():
    """The counts of objects by address: an object is in its own place of the table."""
    def make():
        layout = cache.of_code("event_count", lambda: Layout("struct event_count", object="object",
                                                             seq="seq"))
        places = int(symbol("event_places", static=True))
        raw = read(int(symbol("event_count", static=True)), layout.size * places) or b""
        entries = [layout.decode(Record(), raw, at) for at in range(0, len(raw), layout.size)]
        return {entry.object: entry.seq for entry in entries if entry.object}
    return cache.at_stop("event_count", make)


def label_text(address):
    label = table("label_bucket", "struct label", what="value.what", number="value.number",
                  rank="value.rank", peer="value.peer", channel="value.channel").get(address)
    if label is None:
        return "0x%x" % address
    text = c_string(label.what) or "?"
    for value, word in ((label.number, " %d"), (label.rank, " of rank %d"),
                        (label.peer, " peer %d"), (label.channel, " channel %d")):
        if value >= 0:
            text += word % value
    return text


def read_word(address, size):
    """Device memory may be readable by the debugger only; None: not at all."""
    raw = read(address, size)
    return None if raw is None else int.from_bytes(raw, "little")


def wait_have(wait):
    """The value now: of the word, of a line's flag, or the event count. None: cannot be read."""
    if wait.kind == WAIT_OBJECT:
        return event_counts().get(wait.on, 0)
    if wait.kind == WAIT_LINE16:
        return read_word(wait.on + 4, 4)
    value = read_word(wait.on, wait.bytes)
    return None if value is None else value & wait.mask


def wait_from(wait):
    text = ""
    for value, word in ((wait.rank, " rank %d"), (wait.channel, " channel %d"),
                        (wait.step, " step %d")):
        if value >= 0:
            text += word % value
    if wait.object:
        text += " (%s)" % c_string(wait.object)
    return ", from" + text if text else ""


def wait_text(wait):
    """As the report of a failing run says it (sim/engine/report/explain.c)."""
    have = wait_have(wait)
    if wait.kind == WAIT_LINE16:
        return '"%s" at %s: line %d has flags %s and %s, wants %d%s' % (
            c_string(wait.why) or "?", label_text(wait.on), wait.mask,
            read_word(wait.on + 4, 4), read_word(wait.on + 12, 4), wait.want, wait_from(wait))
    return '"%s" at %s: %s, wants %s %d%s' % (
        c_string(wait.why) or "?", label_text(wait.on),
        "cannot be read" if have is None else "is %d" % have, WAIT_OPS[wait.kind], wait.want,
        wait_from(wait))


def time_text(ns):
    for unit, name in ((10 ** 9, "s"), (10 ** 6, "ms"), (10 ** 3, "us")):
        if ns >= unit:
            return "%d.%03d%s" % (ns // unit, ns % unit // (unit // 1000), name)
    return "%dns" % ns


def task_reason(t):
    """What it waits for, short."""
    polls = "polls " + c_string(t.poll_why) if t.poll_why else None
    if t.state == "waiting":
        waits = task_waits(t)
        if waits:
            more = " (+%d more)" % (len(waits) - 1) if len(waits) > 1 else ""
            return (c_string(waits[0].why) or "?") + more
        return polls or "its abort flag"
    if t.state == "sleeping":
        return polls or "time to pass"
    return t.state


def task_reason_full(t):
    if t.state == "sleeping":
        polls = "polls %s, " % c_string(t.poll_why) if t.poll_why else ""
        return "%suntil %s" % (polls, time_text(t.wake_ns))
    return task_reason(t)
