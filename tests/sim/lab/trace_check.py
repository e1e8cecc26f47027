# SPDX-License-Identifier: BSD-3-Clause
"""Is this trace file what ui.perfetto.dev can show?

Usage: trace_check.py FILE [ranks=N] [calls=N] [kernels=N] [bytes=N] [tracks=N] [messages] [real]

Reads the file as Perfetto's importer of Chrome JSON does: events sorted by time, in the order of the
file where times are equal; B and E make a stack on each track; an X that is neither inside nor after
the open slice is dropped, with all that hangs on it; bind_id, flow_in and flow_out connect slices,
and a flow in comes after its flow out. What that importer would drop or leave open is an error here.
"""
import collections
import json
import os
import re
import sys

bad = []


def fail(text):
    bad.append(text)


class Slice:
    def __init__(self, event, begin, end, parent):
        self.name, self.track = event["name"], (event["pid"], event["tid"])
        self.begin, self.end, self.parent = begin, end, parent
        self.args = dict(event.get("args", {}))


def ns(us):
    """As importers do it: some cut off, some round."""
    if int(us * 1000.0) != round(us * 1000.0):
        fail("%r us are not the same nanoseconds cut off and rounded" % us)
    return int(us * 1000.0)


class Trace:
    def __init__(self, events):
        self.names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
                      if e["ph"] == "M" and e["name"] == "thread_name"}
        self.groups = {e["pid"]: e["args"]["name"] for e in events
                       if e["ph"] == "M" and e["name"] == "process_name"}
        self.slices, self.instants, self.counters = [], [], collections.defaultdict(list)
        self.out, self.into = collections.defaultdict(list), collections.defaultdict(list)
        self.open = collections.defaultdict(list)
        for event in sorted((e for e in events if e["ph"] != "M"), key=lambda e: ns(e["ts"])):
            self.add(event, ns(event["ts"]))

    def add(self, e, at):
        track = (e["pid"], e["tid"])
        if track not in self.names or e["pid"] not in self.groups:
            fail("track %s of %s has no name" % (track, e["name"]))
        if e["ph"] == "i":
            self.instants.append(e)
        elif e["ph"] == "C":
            self.counters[track, e["name"]].append((at, e["args"]))
        elif e["ph"] == "E":
            self.end(e, track, at)
        else:
            self.begin(e, track, at)

    def begin(self, e, track, at):
        stack = self.open[track]
        while stack and stack[-1].end is not None and stack[-1].end <= at:
            stack.pop()
        end = at + ns(e["dur"]) if e["ph"] == "X" else None
        for outer in stack:
            if outer.end is not None and (end is None or end > outer.end):
                fail("%s at %d ns on %s ends after %s around it" % (e["name"], at, track, outer.name))
        one = Slice(e, at, end, stack[-1] if stack else None)
        self.slices.append(one)
        stack.append(one)
        if e.get("flow_in"):
            if not self.out[e["bind_id"]]:
                fail("%s at %d ns: flow %d comes in before it goes out" % (e["name"], at, e["bind_id"]))
            self.into[e["bind_id"]].append(one)
        if e.get("flow_out"):
            self.out[e["bind_id"]].append(one)
        if "bind_id" in e and not e.get("flow_in") and not e.get("flow_out"):
            fail("%s at %d ns: a flow without direction" % (e["name"], at))

    def end(self, e, track, at):
        stack = self.open[track]
        while stack and stack[-1].end is not None and stack[-1].end <= at:
            stack.pop()
        if not stack or stack[-1].name != e["name"] or stack[-1].end is not None:
            fail("end of %s at %d ns on %s: open is %s" %
                 (e["name"], at, track, [s.name for s in stack]))
            return
        stack[-1].end = at
        stack[-1].args.update(e.get("args", {}))
        stack.pop()

    def rank_of(self, one):
        group = self.groups[one.track[0]].split()
        return int(group[1]) if group[0] == "rank" else None

    def named(self, name):
        return [s for s in self.slices if s.name == name]

    def kernels(self):
        return [s for s in self.slices if s.name.startswith("dev_") and not s.name.startswith("dev_messages")]


def check_complete(t):
    for one in t.slices:
        if one.end is None:
            fail("%s at %d ns on %s does not end" % (one.name, one.begin, t.names[one.track]))
    for event in t.instants:
        if set(event.get("args", {})) & {"a", "b", "c"}:
            fail("%s has arguments without names: %s" % (event["name"], event["args"]))


def per_rank(t, what, slices, want, ranks):
    count = collections.Counter(t.rank_of(s) for s in slices)
    for rank in range(ranks):
        if count[rank] != want:
            fail("rank %d has %d %s, expected %d" % (rank, count[rank], what, want))


def check_collectives(t, ranks, calls):
    per_rank(t, "calls of ncclAllReduce", t.named("ncclAllReduce"), calls, ranks)
    per_rank(t, "collectives on the GPU", t.named("all_reduce"), calls, ranks)
    for one in t.named("ncclAllReduce"):
        missing = {"count", "bytes", "type", "op"} - set(one.args)
        if missing:
            fail("ncclAllReduce at %d ns lacks %s" % (one.begin, sorted(missing)))
            return
    for one in t.named("all_reduce"):
        if one.parent not in t.kernels():
            fail("all_reduce at %d ns is not inside its kernel" % one.begin)
    for one in t.named("plan"):
        missing = {"algorithm", "protocol", "channels", "nthreads"} - set(one.args)
        if missing:
            fail("plan at %d ns lacks %s" % (one.begin, sorted(missing)))
            return
    for other, arg in (("ncclAllReduce", "bytes"), ("plan", "algorithm")):
        wanted, work_of = ([sorted((t.rank_of(s), s.args["number"], s.args[arg]) for s in t.named(name))
                            for name in (other, "all_reduce")])
        if wanted != work_of:
            fail("GPUs work on other collectives than %s has" % other)


def check_kernels(t, ranks, kernels):
    per_rank(t, "kernels", t.kernels(), kernels, ranks)
    inside = collections.defaultdict(int)
    for one in t.named("all_reduce"):
        inside[id(one.parent)] += one.args["bytes"]
    for one in t.kernels():
        if not {"blocks", "threads", "algorithm", "protocol"} <= set(one.args):
            fail("%s at %d ns has only %s" % (one.name, one.begin, sorted(one.args)))
        elif one.args["bytes"] != inside[id(one)]:
            fail("%s at %d ns: %d bytes, %d in its collectives" %
                 (one.name, one.begin, one.args["bytes"], inside[id(one)]))


def check_counters(t, exact):
    """A stream's throughput: that of each kernel while it runs, then none. In real time the clock goes on between the
    records of a kernel, and they are counted alone."""
    kernels = collections.defaultdict(list)
    for one in t.kernels():
        if one.args.get("bytes") and one.end > one.begin and one.args["algorithm"] != "PAIR":
            gbps = one.args["bytes"] * 1000 // (one.end - one.begin) / 1000
            kernels[one.track, t.names.get(one.track)] += [(one.begin, {"GB/s": gbps}), (one.end, {"GB/s": 0})]
    for key in set(kernels) | set(t.counters):
        want, have = ([(at, tuple(args), round(args.get("GB/s", -1), 3)) for at, args in of[key]]
                      for of in (kernels, t.counters))
        if not exact:
            want, have = [(0, (), 0)] * len(want), [(0, (), 0)] * len(have)
        if sorted(want) != sorted(have):
            fail("counter %s of %s has %d values, expected those of %d kernels: %s" %
                 (key[1], t.groups[key[0][0]], len(have), len(want) // 2,
                  sorted(set(have) ^ set(want))[:2]))


def check_slots(t):
    """Kernel to kernel: filled by one rank, received by the next."""
    filled = t.named("first slot filled")
    if not filled or len(filled) != len(t.named("first slot received")):
        fail("%d slots filled, %d received" % (len(filled), len(t.named("first slot received"))))
    for flow, ends in t.out.items():
        if ends and ends[0].name == "first slot filled":
            into = t.into[flow]
            if len(ends) != 1 or [s.name for s in into] != ["first slot received"]:
                fail("flow %d: %d slots filled, then %s" % (flow, len(ends), [s.name for s in into]))
            elif (t.rank_of(ends[0]), ends[0].args["to"]) != (into[0].args["from"], t.rank_of(into[0])):
                fail("flow %d leads from rank %d to rank %d" %
                     (flow, t.rank_of(ends[0]), t.rank_of(into[0])))


def check_message(t, flow):
    sent = [s for s in t.out[flow] if s.name == "send"]
    wire = [s for s in t.into[flow] if s.name == "write"]
    received = [s for s in t.into[flow] if s.name == "received"]
    if len(sent) != 1 or not wire or len(received) != 1:
        fail("flow %d: %d sends, %d on the wire, %d received" %
             (flow, len(sent), len(wire), len(received)))
        return
    sent, received = sent[0], received[0]
    sender = sent.args.get("relayed for", t.rank_of(sent))  # PXN: another rank's proxy sends
    if (sender, sent.args["to"]) != (received.args["from"], t.rank_of(received)):
        fail("flow %d leads from rank %d to rank %d" % (flow, sender, t.rank_of(received)))
    if not sent.begin <= wire[0].begin <= wire[0].end <= received.begin:
        fail("flow %d: the wire is not between the two proxies" % flow)
    if sum(s.args["bytes"] for s in wire) < sent.args["bytes"] != received.args["bytes"]:
        fail("flow %d: fewer bytes arrive than were sent" % flow)


def check_messages(t):
    """Proxy to HCA to proxy."""
    sends = t.named("send")
    if not sends or len(sends) != len(t.named("received")):
        fail("%d messages sent, %d received" % (len(sends), len(t.named("received"))))
    flows = [flow for flow, ends in t.out.items() if any(s.name == "send" for s in ends)]
    if len(flows) != len(sends):
        fail("%d flows for %d messages" % (len(flows), len(sends)))
    for flow in flows:
        check_message(t, flow)


def check_tracks(t, most):
    count = collections.Counter(pid for pid, tid in t.names if t.groups[pid].startswith("rank "))
    if len({tid for pid, tid in t.names}) != len(t.names):
        fail("two tracks have one tid: a viewer names tracks by it alone")
    for pid, n in count.items():
        if n > most:
            fail("%s has %d tracks, expected at most %d: %s" %
                 (t.groups[pid], n, most, sorted(v for k, v in t.names.items() if k[0] == pid)))


def main(path, *wants):
    want = dict(re.fullmatch(r"(\w+)=?(\d*)", w).groups() for w in wants)
    with open(path, encoding="utf-8") as f:
        t = Trace(json.load(f))
    check_complete(t)
    if "calls" in want:
        check_collectives(t, int(want["ranks"]), int(want["calls"]))
    if "kernels" in want:
        check_kernels(t, int(want["ranks"]), int(want["kernels"]))
        check_counters(t, "real" not in want)
        check_slots(t)
    if "messages" in want:
        check_messages(t)
    if "tracks" in want:
        check_tracks(t, int(want["tracks"]))
    if "bytes" in want and os.path.getsize(path) > int(want["bytes"]):
        fail("%d bytes, expected at most %s" % (os.path.getsize(path), want["bytes"]))
    for text in bad[:20]:
        print("%s: %s" % (path, text))
    print("%s: %d slices, %d instants, %d counters, %d flows, %d tracks, %d bytes, %d errors" %
          (path, len(t.slices), len(t.instants), len(t.counters), sum(map(bool, t.out.values())), len(t.names),
           os.path.getsize(path), len(bad)))
    return 1 if bad else 0


sys.exit(main(*sys.argv[1:]))
