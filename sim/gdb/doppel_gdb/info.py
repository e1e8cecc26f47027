# SPDX-License-Identifier: BSD-3-Clause
"""info waits, ranks, proxies, relays, qps."""
import gdb

from doppel_gdb.frames import where
from doppel_gdb.printers import ProxyConn, shared_word
from doppel_gdb.state import (c_string, engine, proc, symbol, task_reason_full, task_waits, tasks,
                              time_text, wait_text)
from doppel_gdb.tasks import parse_filter


def print_waits(t):
    waits = task_waits(t)
    for w in waits:
        print("      %s" % wait_text(w))
    if t.state == "waiting" and t.wait:
        print("      for %s" % time_text(engine().now_ns - t.wait_since_ns))


class InfoWaits(gdb.Command):
    """info waits [rank N] [host N] [kind host|warp] [name TEXT] [--dot]
What every waiting task waits for: the word's value now, the value it wants, why, and from whom.
--dot: as a graph, for `dot -Tsvg`; an arrow goes to each task that may be meant."""

    def __init__(self):
        super().__init__("info waits", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        keep, given = parse_filter(arg, "--dot")
        chosen = [t for t in tasks() if keep(t) and (task_waits(t) or t.poll_why)]
        if given:
            self.dot(chosen)
            return
        for t in chosen:
            print("%5d %s%s" % (t.id, t.name, "" if task_waits(t) else ": " + task_reason_full(t)))
            print_waits(t)

    @classmethod
    def dot(cls, chosen):
        quoted, everybody, nodes, lines = cls.quoted, tasks(), {}, []
        for t in chosen:
            nodes[t.id] = t
            for w in task_waits(t):
                for other in cls.meant(w, t, everybody):
                    nodes[other.id] = other
                    lines.append("\tt%d -> t%d [label=%s];" % (t.id, other.id,
                                                               quoted(c_string(w.why))))
        print("digraph waits {\n\tnode [shape=box];")
        for number, t in sorted(nodes.items()):
            print("\tt%d [label=%s];" % (number, quoted("%s\n%s" % (t.name, task_reason_full(t)))))
        print("\n".join(lines + ["}"]))

    @staticmethod
    def meant(w, waiting, everybody):
        """The tasks that a wait names: by rank and kind of task, and a warp by its channel."""
        if w.rank < 0:
            return []
        named = c_string(w.object)
        same = [t for t in everybody if t.rank == w.rank and t.id != waiting.id]
        exact = [t for t in same if t.name == named]
        by_name = exact or [t for t in same if t.kind == "host" and any(
            word in t.name for word in named.replace("(", " ").split() if len(word) > 3)]
        by_channel = [t for t in same if t.kind == "warp" and w.channel >= 0 and
                      " b%d " % w.channel in t.name]
        return by_name if by_name and "kernel" not in named else by_channel[:1] or by_name or same[:1]

    @staticmethod
    def quoted(text):
        return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class InfoRanks(gdb.Command):
    """info ranks
One line a rank: its process and host, and how many of its tasks are in which state."""

    def __init__(self):
        super().__init__("info ranks", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        ranks = {}
        for t in tasks():
            if t.rank >= 0:
                ranks.setdefault(t.rank, []).append(t)
        print("%4s %-14s %4s %5s  %-28s %s" % ("rank", "process", "host", "tasks", "states",
                                              "its main task"))
        for rank, members in sorted(ranks.items()):
            owner, count = proc(members[0].proc), {}
            for t in members:
                count[t.state] = count.get(t.state, 0) + 1
            main = [t for t in members if t.name.endswith("main")]
            print("%4d %-14s %4d %5d  %-28s %s" % (
                rank, owner.name, owner.host, len(members),
                ", ".join("%d %s" % (n, s) for s, n in sorted(count.items())),
                "%s, %s" % (where(main[0]), task_reason_full(main[0])) if main else "-"))


class InfoProxies(gdb.Command):
    """info proxies
The proxy tasks of every rank, and all that each of them waits for."""

    def __init__(self):
        super().__init__("info proxies", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        for t in tasks():
            if "proxy" in t.name:
                print("%5d %s: %s" % (t.id, t.name, t.state))
                print_waits(t)


def communicators(with_owner=False):
    """Of all processes; from the list of each (core/rank/registry.h). with_owner: as (struct os_proc *, it)."""
    slot = int(gdb.parse_and_eval("(int)OS_SLOT_CORE"))
    comm = int(gdb.parse_and_eval("(int)REGISTRY_COMM"))
    for address in sorted({t.proc for t in tasks() if t.state not in ("done", "killed")}):
        owner = gdb.Value(address).cast(gdb.lookup_type("struct os_proc").pointer())
        node = int(owner["slot"][slot]) & ~1  # the lowest bit is the list's lock
        while node:
            found = gdb.Value(node).cast(gdb.lookup_type("struct registry_node").pointer())
            if int(found["kind"]) == comm:
                made = found.cast(gdb.lookup_type("struct ncclComm").pointer())
                yield (owner, made) if with_owner else made
            node = int(found["next"])


class InfoRelays(gdb.Command):
    """info relays
The ranks by which other ranks of their host send to the network (PXN): for each such rank the requests and
operations on their way to the relay's proxy, what is in use of the GPU memory that the relay has set aside for it,
and the connections there, with the steps that the sender's kernel has filled, the proxy has handed to the network,
and the network has sent."""

    def __init__(self):
        super().__init__("info relays", gdb.COMMAND_STATUS)

    def invoke(self, arg, from_tty):
        any_is = False
        for comm in communicators():
            relay = comm["relays"]["users"] if int(comm["relays"]) else 0
            while int(relay):
                any_is = True
                self.show(int(comm["rank"]), relay)
                relay = relay["next"]
        if not any_is:
            print("no rank sends through another one")

    @staticmethod
    def show(rank, relay):
        area = relay["area"]
        conns = [relay["conn"][i].dereference() for i in range(int(relay["conns"]))]
        taken = sum(int(c["store_place"]) != 0 for c in conns)
        print("rank %d for rank %d: %s of %s requests answered, %s of %s operations taken, %d of %d KiB of GPU memory "
              "in use%s" % (
                  rank, int(relay["user"]), shared_word(area["answers"].address),
                  shared_word(area["requests"].address), shared_word(area["ops_taken"].address),
                  shared_word(area["ops_put"].address), int(relay["pool_used"]) >> 10,
                  int(relay["pool_bytes"]) >> 10,
                  ", %d connections in the store" % taken if taken else ""))
        for conn in conns:
            print("      %s" % ProxyConn(conn).to_string())


QP_STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")


def queue_pairs():
    """Live ones; a table of chunks of items, each item_bytes long (backends/fakeverbs/arena/arena.h)."""
    view = symbol("fakeverbs")
    if int(view["world"]) == 0:
        return
    found, kind = view["world"]["qp"], gdb.lookup_type("struct hca_qp").pointer()
    base, chunks = int(symbol("world_arena_base")), found["chunk"]
    shift, size = int(found["chunk_shift"]), int(found["item_bytes"])
    for i in range(int(found["count"])):
        at = base + int(chunks[i >> shift]) + (i & ((1 << shift) - 1)) * size
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
        owners = [proc(t.proc) for t in tasks()]
        procs = {p.id: p.name for p in owners}
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


COMMANDS = (InfoWaits, InfoRanks, InfoProxies, InfoRelays, InfoQps)
