# SPDX-License-Identifier: BSD-3-Clause
"""info ras: the status of the job and the causes of waits, as DUMP of RAS has them (core/ras).

Everything is read from the memory of the stopped program, of all processes of its world together. No function of
the program is called, so it works on a core too, and the run and its hash stay as they are. RAS need not be enabled.
Without it a rank records no arguments of its calls, so they are left out.
"""
import gdb

from doppel_gdb.info import communicators
from doppel_gdb.state import c_string, engine, proc, read_word, task_waits, tasks, time_text, wait_from

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3",
         "f8e5m2")
OPS = ("sum", "prod", "max", "min", "avg")
OP_NONE = 255
CALLS = 128  # RANK_CALLS
WORDS = {"count": 0, "chain": 1, "caller": 2, "order": 3, "stream": 4, "rest": 5}
STATES = ("INIT", "RUNNING", "FINALIZE", "FINALIZE", "RUNNING", "RUNNING", "RUNNING")  # enum comm_state
STATUS = ("NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT")


def ranks_text(ranks):
    """rank 3; ranks 0-1, 3."""
    ranks, parts = sorted(ranks), []
    for r in ranks:
        if parts and parts[-1][1] == r - 1:
            parts[-1][1] = r
        else:
            parts.append([r, r])
    return "%s %s" % ("ranks" if len(ranks) > 1 else "rank",
                      ", ".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in parts))


def word(value):
    """A shared word."""
    return read_word(int(value.address), value.type.sizeof)


def have(ranks):
    return "have" if len(ranks) > 1 else "has"


def wait_word(ranks):
    return "%s %s" % (ranks_text(ranks), "wait" if len(ranks) > 1 else "waits")


class Rank:
    """One rank's part of a communicator."""

    def __init__(self, owner, comm):
        life = comm["life"]
        self.owner, self.comm = owner, comm
        self.hash, self.rank, self.nranks = (int(comm[k]) for k in ("id_hash", "rank", "nranks"))
        self.dev = int(comm["cuda_dev"])
        self.calls = int(comm["op_count"])
        self.in_init = int(life["state"]) == 0
        self.made_by = c_string(int(life["made_by"]))
        self.error = word(comm["async_error"])
        aborted = int(comm["abort"]) and word(comm["abort"].dereference())
        self.status = "ABORT" if aborted else "FINALIZE" if int(life["claimed"]) else STATES[int(life["state"])]
        self.formed = word(comm["timed"]["formed"])
        since = int(comm["timed"]["call_since_ns"])
        self.call = c_string(int(comm["timed"]["call_name"])) if since else ""
        self.since_ns = engine().now_ns - since if since else 0
        self.awaited = int(comm["timed"]["call"]["peer"]) if since else -1
        self.busy = self.kernels_run()
        self.sent, self.received = self.messages("sent", "sends"), self.messages("received", "receives")

    def kernels_run(self):
        event = self.comm["launch_done"]
        mark = event["latest"] if int(event) else event
        return bool(int(mark)) and not int(mark["reached"])

    def waits(self):
        return self.busy or self.call != "" or bool(self.waits_for())

    def waits_for(self):
        """The waits of the rank's own tasks for other ranks, except those of its proxy: the calls that it is in."""
        if self.busy:
            return []
        return [w for t in tasks() if t.proc == int(self.owner) and t.kind == "host" and "proxy" not in t.name and
                (t.rank == self.rank or t.name.endswith("main")) for w in task_waits(t)
                if w.rank >= 0 and w.rank != self.rank and "bootstrap" in c_string(w.why)]

    def messages(self, done, now):
        """Their number for each peer: those of earlier groups, and of the group that is being launched."""
        found = {}
        plan = self.comm["plan"]
        if not int(plan) or not int(plan["messages"]):
            return found
        m = plan["messages"]
        pending = int(m["queued"]) and int(m["agreed"])
        for peer in range(self.nranks):
            n = int(m[done][peer]) + (int(m[now][peer]) if pending else 0)
            if n and peer != self.rank:
                found[peer] = n
        return found

    def pair(self, peer, is_send):
        """The last message with the peer, as struct rank_pair; None: not recorded."""
        pairs = self.comm["pairs"]
        return pairs["pair"][peer if is_send else self.nranks + peer] if int(pairs) else None

    def recorded(self, number):
        """The words of the call of that number; None: not kept."""
        calls = self.comm["calls"]
        if not int(calls) or not 0 <= word(calls["next"]) - 1 - number < CALLS or number < 0:
            return None
        return {name: word(calls["slot"][number % CALLS]["word"][i]) for name, i in WORDS.items()}


def call_text(words):
    rest = words["rest"]
    func, kind, op, root = rest & 0xff, rest >> 8 & 0xff, rest >> 16 & 0xff, rest >> 32 & 0xffffffff
    name = gdb.lookup_type("enum dev_func").fields()[func].name[len("DEV_"):].title().replace("_", "")
    text = "nccl%s of %d %s" % (name, words["count"], TYPES[kind] if kind < len(TYPES) else "invalid")
    if op != OP_NONE:
        text += " " + (OPS[op] if op < len(OPS) else "premul_sum")
    if root < 1 << 31:
        text += " root %d" % root
    return text


class Comm:
    """The ranks of one hash."""

    def __init__(self, ranks):
        self.ranks = sorted(ranks, key=lambda r: r.rank)
        self.hash, self.size = ranks[0].hash, ranks[0].nranks
        self.title = ""
        there = {r.rank for r in ranks}
        self.missing = [r for r in range(self.size) if r not in there]
        self.hosts = {}
        for r in ranks:
            host = proc(int(r.owner)).host
            self.hosts[host] = self.hosts.get(host, 0) + 1
        found = {STATUS.index(r.status) for r in ranks} | ({0} if self.missing else set())
        self.status = STATUS[max(found)]
        errors = []
        if any(r.error for r in ranks):
            errors.append("ERROR")
        if len(found) > 1 or len({r.calls for r in ranks}) > 1:
            errors.append("MISMATCH")
        self.errors = ",".join(errors) or "OK"

    def group(self):
        return (self.size, len(self.hosts), STATUS.index(self.status), self.errors)

    def rank(self, number):
        return next((r for r in self.ranks if r.rank == number), None)

    def line(self, text):
        return "%s: %s" % (self.title, text)

    def busy(self, ranks):
        """What absent ranks do meanwhile."""
        text = ""
        for r in ranks:
            if r.call:
                text += "; rank %d is in %s since %.3f s" % (r.rank, r.call, r.since_ns * 1e-9)
            elif r.busy:
                text += "; a kernel of rank %d runs" % r.rank
        return text

    # ---- the causes, in the order of core/ras/watch/ras_cause.c

    def init(self):
        ranks = [r for r in self.ranks if r.in_init]
        if not ranks or not self.missing:
            return []
        return [self.line("%s %s not called %s of %d ranks; %s" % (
            ranks_text(self.missing), have(self.missing), ranks[0].made_by, self.size,
            wait_word([r.rank for r in ranks])))]

    def gone(self):
        waiting = [r.rank for r in self.ranks if r.waits()]
        if any(r.in_init for r in self.ranks) or not waiting:
            return []
        return [self.line("rank %d has left the communicator, or its process has ended; %s" % (r, wait_word(waiting)))
                for r in self.missing[:8]]

    def collective(self):
        number = min(r.calls for r in self.ranks)
        waiting = [r for r in self.ranks if r.calls > number and r.waits()]
        absent = [r for r in self.ranks if r.calls <= number]
        if not waiting:
            return []
        words = next((w for w in (r.recorded(number) for r in waiting) if w), None)
        names = [r.rank for r in absent]
        return [self.line("%s %s not called %s (call %d)%s; %s" % (
            ranks_text(names), have(names), call_text(words) if words else "a collective", number, self.busy(absent),
            wait_word([r.rank for r in waiting])))]

    def lacks(self):
        """(rank, peer, is_send, called, number of the peer): messages whose other end was not called."""
        for r in self.ranks:
            if not r.waits():
                continue
            for is_send, mine in ((True, r.sent), (False, r.received)):
                for peer, called in sorted(mine.items()):
                    other = self.rank(peer)
                    theirs = (other.received if is_send else other.sent).get(r.rank, 0) if other else called
                    if called > theirs:
                        yield r, other, is_send, called, theirs

    def messages(self):
        lines, many = [], {}
        for r, peer, is_send, called, number in self.lacks():
            pair = r.pair(peer.rank, is_send)
            name = c_string(word(pair["call"])) if pair is not None else "ncclSend" if is_send else "ncclRecv"
            if name not in ("ncclSend", "ncclRecv"):
                many.setdefault((peer.rank, name), (peer, set()))[1].add(r.rank)
                continue
            kind = word(pair["type"]) if pair is not None else -1
            args = " of %d %s" % (word(pair["count"]), TYPES[kind]) if pair is not None and called == number + 1 else ""
            lines.append(self.line("rank %d has not called %s %s rank %d (message %d)%s; rank %d waits in %s%s %s "
                                   "rank %d" % (
                                       peer.rank, "ncclRecv" if is_send else "ncclSend", "from" if is_send else "to",
                                       r.rank, number, self.busy([peer]), r.rank, name, args,
                                       "to" if is_send else "from", peer.rank)))
        for (rank, name), (peer, waiting) in sorted(many.items()):
            lines.append(self.line("rank %d has not called %s%s; %s" % (rank, name, self.busy([peer]),
                                                                      wait_word(waiting))))
        return lines

    def form(self):
        in_call = [r for r in self.ranks if r.call.startswith("ncclComm")]
        lines = ["rank %d has not called %s%s; rank %d waits" % (r.awaited, r.call, self.busy([self.rank(r.awaited)]),
                                                                r.rank)
                 for r in in_call if self.rank(r.awaited) and self.rank(r.awaited).call != r.call]
        all_meet = [r for r in in_call if r.awaited < 0]
        most = max((r.formed for r in all_meet), default=0)
        absent = [r for r in self.ranks if r.formed < most]
        if absent:
            names = [r.rank for r in absent]
            lines.insert(0, "%s %s not called %s%s; %s" % (
                ranks_text(names), have(names), next(r.call for r in all_meet if r.formed == most), self.busy(absent),
                wait_word([r.rank for r in all_meet if r.formed == most])))
        return [self.line(text) for text in lines]

    def bootstrap(self):
        """Without RAS a rank does not record its call; its task's waits have the rank that it waits for."""
        lines = []
        for r in self.ranks:
            for w in r.waits_for()[:1]:
                lines.append(self.line('rank %d waits for "%s"%s' % (r.rank, c_string(w.why), wait_from(w))))
        return lines

    def all_called(self):
        waiting = [r.rank for r in self.ranks if r.waits()]
        words = next((w for w in (r.recorded(r.calls - 1) for r in self.ranks if r.waits()) if w), None)
        where = " in %s (call %d)" % (call_text(words), self.ranks[0].calls - 1) if words else ""
        return [self.line("all ranks have made the same calls; %s%s; the pending operations below have its reason" % (
            wait_word(waiting), where))] if waiting else []

    def causes(self):
        lines = self.init() + self.gone() + self.collective() + self.messages() + self.form()
        return lines or self.bootstrap() or self.all_called()


def job():
    """All communicators, in the groups of the report."""
    by_hash = {}
    for owner, comm in communicators(with_owner=True):
        r = Rank(owner, comm)
        by_hash.setdefault(r.hash, []).append(r)
    comms = sorted((Comm(ranks) for ranks in by_hash.values()),
                   key=lambda c: ([-n for n in c.group()[:3]], c.errors == "OK", len(c.ranks), c.hash))
    group, number, last = -1, 0, None
    for c in comms:
        group, number = (group, number + 1) if c.group() == last else (group + 1, 0)
        last, c.number = c.group(), (group, number)
        c.title = "#%d-%d (%016x)" % (group, number, c.hash)
    return comms


def orders(comms):
    """Collectives of two communicators that two ranks launch in different orders (ras_order.c)."""
    lines, last = [], []
    for c in comms:
        for r in c.ranks:
            words = r.recorded(r.calls - 1) if r.waits() else None
            if words:
                last.append((c, r, r.calls - 1, words))

    def before(a, b):
        return a[0] is not b[0] and int(a[1].owner) == int(b[1].owner) and a[1].dev == b[1].dev and \
            a[3]["order"] < b[3]["order"]

    def same(a, b):
        return a[0] is b[0] and a[1] is not b[1] and a[2] == b[2]

    for a in last:
        for b in last:
            other = next((x for x in last if before(a, b) and same(a, x) and x[1].rank > a[1].rank and
                          any(same(b, y) and before(y, x) for y in last)), None)
            if other:
                lines.append("ranks launch calls of two communicators in different orders: rank %d %s (call %d) of %s "
                             "before %s (call %d) of %s; rank %d in the other order%s" % (
                                 a[1].rank, call_text(a[3]), a[2], a[0].title, call_text(b[3]), b[2], b[0].title,
                                 other[1].rank, "" if a[3]["stream"] == b[3]["stream"] else
                                 ", which works only if streams differ and a GPU has room for both"))
    return lines[:4]


def table(comms):
    print("Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors")
    print("    #  in group  per comm  per node  per comm  in group")
    groups = {}
    for c in comms:
        groups.setdefault(c.number[0], []).append(c)
    for group, members in sorted(groups.items()):
        per_node = sorted(n for c in members for n in c.hosts.values())
        spread = "%d" % per_node[0] if per_node[0] == per_node[-1] else "%d-%d" % (per_node[0], per_node[-1])
        print("%5d  %8d  %8d  %8s  %8d  %8d  %8s  %s" % (
            group, len(members), len(members[0].hosts), spread, members[0].size, sum(len(c.ranks) for c in members),
            members[0].status, members[0].errors))


def pending(comms):
    """What each process has running, and what its tasks wait for."""
    owners = {}
    for c in comms:
        for r in c.ranks:
            owners.setdefault(int(r.owner), []).append(r)
    for owner, ranks in sorted(owners.items(), key=lambda item: proc(item[0]).id):
        known = proc(owner)
        print("\nProcess %d (%s) on host %d" % (known.id, known.name, known.host))
        for r in ranks:
            what = "its init runs" if r.in_init else "%d collectives launched; %s" % (
                r.calls, "its kernels run" if r.busy else "its kernels have ended")
            print("  communicator %016x rank %d of %d: %s%s" % (
                r.hash, r.rank, r.nranks, what, "; it is in %s since %s" % (r.call, time_text(r.since_ns))
                if r.call else ""))
        for t in tasks():
            if t.proc != owner or t.kind != "host":
                continue
            for w in task_waits(t):
                if w.rank >= 0 and not w.idle:
                    print('    task %d "%s" waits for "%s"%s' % (t.id, t.name, c_string(w.why), wait_from(w)))


class InfoRas(gdb.Command):
    """info ras
Why ranks wait for others, the status of all communicators, and what each process has pending: what RAS answers to
DUMP (docs/ras.md), read from the memory of the program. It works while the program is stopped in gdb (doppel run,
replay and exec with --gdb) and on the core of a failing run. NCCL_RAS_ENABLE=1 adds the arguments of calls, and the
calls in which ranks wait. The ranks of other real processes (doppel exec --procs) are not in this memory: there,
`doppel ras --dump` asks them."""

    def __init__(self):
        super().__init__("info ras", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        comms = job()
        if not comms:
            print("there is no communicator")
            return
        lines = orders(comms) + [line for c in comms for line in c.causes()]
        print("Causes\n======\n\n%s\n" % ("\n".join(lines) or "No rank waits for another one."))
        table(comms)
        print("\nPending operations\n==================")
        pending(comms)


COMMANDS = (InfoRas,)
