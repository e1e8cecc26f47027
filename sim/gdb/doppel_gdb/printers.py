# SPDX-License-Identifier: BSD-3-Clause
"""How gdb prints the structs between a call and the wire: works, connections, plans.

One line each, with the names of programs, types and operations; `p/r` prints all members.
"""
import gdb
import gdb.printing

from doppel_gdb import state


def enum_name(enum, number, prefix="DEV_"):
    """The name of a number in one of the stack's enums, without the prefix."""
    try:
        fields = gdb.lookup_type("enum " + enum).fields()
    except gdb.error:
        return "%s %d" % (enum, number)
    names = [f.name for f in fields if f.enumval == number]
    if not names:
        return "%s %d" % (enum, number)
    return names[0][len(prefix):] if names[0].startswith(prefix) else names[0]


def pointer(value):
    return "%#x" % int(value)


def shared_word(address):
    """The value of a shared word that a pointer names, in host or device memory."""
    if int(address) == 0:
        return "-"
    size = address.type.target().sizeof
    raw = state.read(int(address), size)
    if raw is None:
        return "at %#x, not readable" % int(address)
    return "%d" % int.from_bytes(raw, "little")


class Work:
    """struct dev_work: what a kernel does with one collective, or with one pair of messages."""

    def __init__(self, val):
        self.val = val

    def shares(self):
        w = self.val
        lo, hi = int(w["channel_lo"]), int(w["channel_hi"])
        if lo == hi:
            return "channel %d" % lo
        return "channels %d..%d (%d, %d each, %d)" % (lo, hi, int(w["count_lo"]),
                                                      int(w["count_mid"]), int(w["count_hi"]))

    def messages(self):
        w, pair = self.val, self.val["pair"]
        ends = ["%s %d bytes %s rank %d" % (verb, int(pair[name + "_bytes"]), way,
                                            int(pair[name + "_conn"]["peer"]))
                for name, verb, way in (("send", "send", "to"), ("recv", "receive", "from"))
                if int(pair[name + "_conn"])]
        lo, hi = int(w["channel_lo"]), int(w["channel_hi"])
        where = "channel %d" % lo if lo == hi else "channels %d..%d" % (lo, hi)
        return "{messages number %d on %s: %s}" % (int(pair["nth"]), where, ", ".join(ends))

    def to_string(self):
        w = self.val
        if enum_name("dev_work_kind", int(w["kind"])) == "WORK_SEND_RECV":
            return self.messages()
        root = "" if int(w["root"]) < 0 else ", root %d" % int(w["root"])
        return "{opCount %d: %s, %d elements %s %s%s, send %s, recv %s, %s, %d elements per chunk, " \
            "%d warps}" % (
                int(w["op_count"]), enum_name("dev_program", int(w["program"])), int(w["count"]),
                enum_name("dev_type", int(w["type"])), enum_name("dev_op", int(w["op"])), root,
                pointer(w["send"]), pointer(w["recv"]), self.shares(), int(w["chunk_lo"]),
                int(w["nwarps"]))


class DevConn:
    """struct dev_conn: one end of a connection as the kernel uses it."""

    def __init__(self, val):
        self.val = val

    def to_string(self):
        c = self.val
        protos = [p for p in range(3) if int(c["buffer"][p])]
        if not protos:
            return "{not connected}"
        return "{channel %d, peer %d%s: next step %d, tail %s, head %s, %d bytes per step at %s}" % (
            int(c["channel"]), int(c["peer"]), " by proxy" if int(c["fifo"]) else "",
            int(c["step"]), shared_word(c["tail"]), shared_word(c["head"]),
            int(c["step_bytes"][protos[0]]), pointer(c["buffer"][protos[0]]))


class Conn:
    """struct conn: one end of a connection as the host uses it."""

    def __init__(self, val):
        self.val = val

    def to_string(self):
        c = self.val
        if int(c["transport"]) == 0:
            return "{not connected}"
        return "{channel %d %s rank %d via %s%s, dev = %s}" % (
            int(c["channel"]), "->" if int(c["is_send"]) else "<-", int(c["peer"]),
            c["transport"]["name"].string(), self.proxy(), DevConn(c["dev"]).to_string())

    def proxy(self):
        port = self.val["proxy"]
        if int(port) == 0:
            return ""
        if int(port["use"]):
            return ", by the proxy of rank %d" % int(port["use"]["rank"])
        return ", proxy %s" % pointer(port)


class ProxyConn:
    """struct proxy_conn: a connection of the network as the proxy uses it. Steps as the kernel counts them."""

    def __init__(self, val):
        self.val = val

    def to_string(self):
        c, relay = self.val, self.val["proxy"]["relay"]
        messages = int(c["conn_index"]) == int(gdb.parse_and_eval("(int)CONN_PAIR"))
        return "{channel %d%s, rank %d %s rank %d%s, NIC %d, %s: %s}" % (
            int(c["channel"]), " of messages" if messages else "", int(c["rank"]),
            "->" if int(c["is_send"]) else "<-", int(c["peer"]),
            " through rank %d" % int(c["comm"]["rank"]) if int(relay) else "", int(c["nic"]),
            enum_name("proxy_conn_state", int(c["state"]), "PROXY_CONN_"), self.operation())

    def operation(self):
        c, run = self.val, self.val["run"]
        if not int(run["active"]):
            return "no operation, next step %d" % int(c["step"])
        base, op = int(run["base"]), run["op"]
        counts = ("transmitted", "done") if int(c["is_send"]) else ("received", "transmitted", "done")
        return "opCount %d, %s, steps %d to %d, %s%s%s" % (
            int(op["op_count"]), enum_name("dev_proto", int(op["protocol"])), base,
            base + int(op["nsteps"]) - 1, self.kernel(),
            ", ".join("%s to %d" % (name, base + int(run[name])) for name in counts),
            self.slots(int(op["protocol"])))

    def kernel(self):
        """How far the sender's kernel has filled; lines have no such word."""
        c = self.val
        if not int(c["is_send"]) or int(c["recv_mem"]) == 0:
            return ""
        return "filled to %s, " % shared_word(c["recv_mem"]["tail"].address)

    def slots(self, protocol):
        b = self.val["buffer"][protocol]
        if int(b["at"]) == 0:
            return ""
        return "; slots of %d bytes in %s memory at %s" % (
            int(b["step_bytes"]), "GPU" if int(b["on_gpu"]) else "host", pointer(b["at"]))


class Plan:
    """struct plan: what one launch does."""

    def __init__(self, val):
        self.val = val

    def to_string(self):
        p, mask = self.val, int(self.val["channel_mask"])
        return "plan of %d tasks, %d works, %d proxy operations, %d blocks of %d warps, stream %s" % (
            int(p["ntasks"]), int(p["nworks"]), int(p["nops"]), bin(mask).count("1"),
            int(p["block_warps"]), pointer(p["stream"]))

    def children(self):
        p = self.val
        for i in range(int(p["nworks"])):
            yield "work[%d]" % i, p["work"][i]
        for i in range(int(p["nops"])):
            yield "op[%d]" % i, p["op"][i]


def register():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("doppel")
    for name, printer in (("dev_work", Work), ("dev_conn", DevConn), ("conn", Conn),
                          ("proxy_conn", ProxyConn), ("plan", Plan)):
        printers.add_printer(name, "^%s$" % name, printer)
    gdb.printing.register_pretty_printer(None, printers, replace=True)
