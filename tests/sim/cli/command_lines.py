# SPDX-License-Identifier: BSD-3-Clause
"""Generated command lines and environments: every command, its options from its own --help, its
variables from `doppel env`, with garbage as values.

Of each line is expected: no crash and no hang; a value that is garbage is refused with exit code 1
and a message that shows the option or the variable; output that is lost is no success. A new option or
variable is covered by being in the table.

	command_lines.py DOPPEL LINES SEED FOLDER_OF_A_FAILING_RUN [--lost-output]
"""
import os
import random
import re
import shutil
import subprocess
import sys

# A small run of each command that has one, which succeeds as it is; @ is a folder of a failing run.
BASE = {
    "run": ["all_reduce", "--gpus", "2", "-e", "64"],
    "sweep": ["all_reduce", "--gpus", "2", "-e", "64", "--seeds", "1..2", "-j", "1"],
    "sweep-merge": ["sweep.json"],
    "replay": ["@", "-q"],
    "report": ["@"],
    "shrink": ["@", "--time", "1", "--no-stacks", "--seeds", "2"],
    "topo": ["show", "h100-8nic"],
    "topo detect": [],
    "tune": ["all_reduce", "--gpus", "2", "-e", "64"],
    "exhaust": ["kill", "--k", "3", "--once", "--fifo"],
    "verbs-run": ["--bare", "true"],
    "exec": ["true"],
    "ras": ["127.0.0.1:1"],
    "faults": [],
    "env": [],
}
# Other lines of a command, which take turns with the one above; they may find something (exit code 2).
TURNS = {
    "topo": [["search", "pcie-4gpu", "--hosts", "2"], ["check", "pcie-4gpu"], ["plot", "a100-4nic", "--pattern", "tree"],
             ["plot", "a100-4nic", "--dot"], ["diff", "pcie-4gpu", "a100-4nic"], ["show", "pcie-4gpu", "--compact"]],
}
# By what the help shows in the place of the value. All of these must be refused. A path that cannot
# be is in a folder that is not there.
NUMBER = ["", "x", "-1", "1x", "1.5", "99999999999999999999", "0x", " 1", "1 ", "NaN", "%s%n", "1,2"]
NOWHERE = ["/nonexistent/x", "no/such/place", ""]
GARBAGE = {
    "SIZE": NUMBER + ["8kk", "K", "99999999999G"],
    "SECONDS": NUMBER + ["0", "1y"],
    "0,1,...": ["", ",", "0,,1", "0,", "x", "0,0", "-1", "4096"],
    "NAME=VALUE": ["", "x", "=", "=x", "NCCL_IB_TIMEOUT=fast", "DOPPEL_WARP=3"],
    "HOST:PORT": ["", "x", "x:", ":1", "x:0", "x:65536", "x:1y"],
    "K/N": ["", "x", "/", "0/2", "3/2", "1/", "1/x", "-1/2", "1/99999"],
    "A..B": ["", "1", "..", "2..1", "1..x", "x..1", "1...2", "-1..2"],
    "COMMIT": ["", "x", "-1", "g" * 40],
    "TYPE": ["", "x", "flaot", "float,int8"],
    "OP": ["", "x", "summ"],
    "PLAN": NOWHERE + ["/dev/null/x"],
    "XML": ["/nonexistent/x.xml", "nosuch", "", "/dev/null"],
    "XML[,XML...]": ["/nonexistent/x.xml", "nosuch", "", "/dev/null", "h100-8nic,nosuch", "h100-8nic,", ","],
    "NAME|FILE": ["/nonexistent/x.xml", "nosuch", ""],
    "FILE": NOWHERE,
    "DIR": NOWHERE,
    "SITE": ["", "x", "cuda.nosuch"],
    "default": ["", "x"],
}
# A value that only its reader knows: (command, option) -> garbage.
OWN = {
    ("run", "--strategy"): ["", "x", "fifo,pct"],
    ("sweep", "--strategy"): ["", "x", "fifo,pct"],
    ("verbs-run", "--fabric"): ["", "a/b", "/"],
    ("run", "--root"): GARBAGE["HOST:PORT"],
    ("exec", "--seed"): ["x", "-1", "1x", "99999999999999999999", "0xffffffffffffffff"],
}
# Without effect on what a line comes to, or started by hand: gdb waits for its user.
LEFT_OUT = {"--gdb", "--help", "--usage", "--version"}
# Variables of which any text is right, and those that files and sockets decide.
ANY_TEXT = {"NCCL_DEBUG_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_HOSTID", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_COMM_ID",
            "NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "DOPPEL_JOB"}
TEXT_GARBAGE = {"DOPPEL_FABRIC": ["a/b", "/"], "DOPPEL_INTERFACES": ["foo,", "=", "%s", "0123456789abcdef"],
                "NCCL_TOPO_FILE": NOWHERE[:2],
                "NCCL_GRAPH_FILE": NOWHERE[:2], "NCCL_CONF_FILE": NOWHERE[:2], "DOPPEL_ETC_CONF": NOWHERE[:2],
                "DOPPEL_MACHINE": ["nosuch", "/nonexistent/x.xml"],
                "DOPPEL_MACHINE_DIR": NOWHERE[:2], "DOPPEL_TRACE": NOWHERE[:2], "DOPPEL_FAULTS": NOWHERE[:2]}
ENVIRONMENT_SEEN_BY = ("run", "sweep", "exhaust", "topo", "tune", "exec")
# Variables whose value only some commands look at; the others warn that it has no effect.
RUNS = ("run", "sweep", "exhaust", "exec")
SEEN_BY = {"DOPPEL_MACHINE": RUNS + ("tune", "verbs-run"), "DOPPEL_MACHINE_DIR": RUNS + ("tune",),
           "DOPPEL_TRACE": ("exec", "verbs-run"), "DOPPEL_FAULTS": ("exec", "verbs-run"),
           "NCCL_TOPO_FILE": RUNS, "NCCL_GRAPH_FILE": RUNS,
           "NCCL_CONF_FILE": RUNS + ("topo", "tune"), "DOPPEL_ETC_CONF": RUNS + ("topo", "tune")}


def options(doppel, command):
    """[(name, place of the value or None)], from the command's help."""
    text = subprocess.run([doppel] + command.split() + ["--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ +(?:-\w, )?(--[a-z_-]+)(?:=(\S+))?", text, re.M)
    assert found, "no options in the help of " + command
    return [(name, value or None) for name, value in found if name not in LEFT_OUT]


def commands(doppel):
    text = subprocess.run([doppel, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  ([a-z][a-z-]*) ", text, re.M))


def variables(doppel):
    text = subprocess.run([doppel, "env"], capture_output=True, text=True, check=True).stdout
    rows = [line.split()[:2] for line in text.splitlines()[1:] if re.match(r"[A-Z]+_", line)]
    assert len(rows) > 40, "few variables in doppel env"
    return rows


def garbage(command, name, place):
    if (command, name) in OWN:
        return OWN[command, name]
    if place in GARBAGE:
        return GARBAGE[place]
    if "|" in place:
        return ["", "x", place, place.split("|")[0] + " "]
    if re.fullmatch(r"0\.\.\d+|[A-Z]+", place):
        return NUMBER
    raise AssertionError("%s %s=%s: no garbage is known for such a value" % (command, name, place))


class Lines:
    def __init__(self, doppel, folder, lost_output):
        self.doppel, self.folder, self.lost_output = doppel, folder, lost_output
        self.options = {c: options(doppel, c) for c in BASE if c != "verbs-run" or self.has("verbs-run")}
        known = set(BASE) | {"cc", "nvcc"}  # options of a compiler
        assert commands(doppel) <= known, "no line of: %s" % ", ".join(commands(doppel) - known)
        self.variables = variables(doppel)
        self.bad = self.count = self.turn = 0
        self.kinds = {}

    def has(self, command):
        return subprocess.run([self.doppel, command, "--help"], capture_output=True).returncode == 0

    def base(self, command):
        if command == "shrink":  # it writes beside the folder
            shutil.rmtree("copy-min", ignore_errors=True)
        lines = [BASE[command]] + TURNS.get(command, [])
        self.turn += 1
        return [self.folder if a == "@" else a for a in lines[self.turn % len(lines)]]

    def run(self, args, env=None, stdout=None):
        """(exit code, stderr); a line that does not end in time is a finding."""
        full = dict(os.environ, **(env or {}))
        try:
            p = subprocess.run([self.doppel] + args, env=full, stdin=subprocess.DEVNULL,
                               stdout=stdout or subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
        except subprocess.TimeoutExpired:
            return None, ""
        return p.returncode, p.stderr.decode(errors="replace")

    def finding(self, args, env, what, err):
        self.bad += 1
        print("%s\n  line: %s doppel %s\n  %s" % (
            what, " ".join("%s=%r" % e for e in (env or {}).items()), " ".join(map(repr, args)),
            "\n  ".join(err.strip().splitlines()[-4:])))

    def check(self, kind, args, env, shown=None, stdout=None):
        self.count += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        rc, err = self.run(args, env, stdout)
        if rc is None or rc < 0 or rc >= 128 or "assertion failed" in err:
            self.finding(args, env, "a crash or a hang: exit code %s" % rc, err)
        elif kind == "lost" and (rc == 0 or "No space left on device" not in err):
            self.finding(args, env, "lost output is a success, or has no message: exit code %d" % rc, err)
        elif kind == "garbage" and rc != 1:
            self.finding(args, env, "garbage is accepted: exit code %d" % rc, err)
        elif kind == "garbage" and not any(s in err for s in shown):
            self.finding(args, env, "no message shows %s" % " or ".join(shown), err)
        elif kind == "mixed" and rc == 1 and not err.strip():
            self.finding(args, env, "exit code 1 without a word", err)

    def garbage_option(self, rng):
        while True:
            command = rng.choice(list(self.options))
            valued = [(n, p) for n, p in self.options[command] if p and garbage(command, n, p)]
            if valued:
                break
        name, place = rng.choice(valued)
        value = rng.choice(garbage(command, name, place))
        args = command.split() + ["%s=%s" % (name, value)] + self.base(command)
        short = dict(self.short(command))
        shown = [name, short.get(name, name), value.split("=")[0] or name]
        self.check("garbage", args, None, [s for s in shown if s])

    def short(self, command):
        text = subprocess.run([self.doppel] + command.split() + ["--help"], capture_output=True, text=True).stdout
        return [(long, s + " ") for s, long in re.findall(r"^ +(-\w), (--[a-z_-]+)", text, re.M)]

    def garbage_variable(self, rng):
        name, kind = rng.choice([v for v in self.variables if v[0] not in ANY_TEXT])
        values = TEXT_GARBAGE.get(name) or (["x", "foo,", "=", "-1x", "%s"] if kind == "string" else
                                            ["x", "1x", "99999999999999999999", "1.5", "%s%n"])
        value = rng.choice(values)
        command = rng.choice([c for c in SEEN_BY.get(name, ENVIRONMENT_SEEN_BY) if c in self.options])
        self.check("garbage", [command] + self.base(command), {name: value}, [name, value])

    def mixed(self, rng):
        """Several options, right and wrong values; anything but a crash, and never without a word."""
        command = rng.choice(list(self.options))
        args = command.split() + self.base(command)
        for name, place in rng.sample(self.options[command], min(rng.randint(1, 3), len(self.options[command]))):
            value = rng.choice(["0", "1", "2", "3", "64"] + (garbage(command, name, place) if place else []))
            args.append(name if not place else "%s=%s" % (name, value))
        if rng.random() < 0.3:
            args.insert(rng.randint(0, len(args)), rng.choice(["", "-", "--", "x", "--nosuch", "-Z", "\x01\xff"]))
        env = {}
        if rng.random() < 0.5:
            env = {rng.choice(self.variables)[0]: rng.choice(["", "0", "1", "2", "foo"])}
        self.check("mixed", args, env)

    def lost(self, rng):
        command = rng.choice([c for c in self.options if c not in ("verbs-run", "exec", "ras")])  # the program's, a job's
        with open("/dev/full", "w") as full:
            self.check("lost", command.split() + self.base(command), None, stdout=full)


def main():
    doppel, lines, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    folder = sys.argv[4]
    g = Lines(doppel, folder, "--lost-output" in sys.argv)
    kinds = [g.garbage_option, g.garbage_option, g.garbage_variable, g.mixed]
    for i in range(lines):
        if g.lost_output and i % 10 == 9:
            g.lost(rng)
        else:
            rng.choice(kinds)(rng)
    print("%d lines: %s; %d findings" % (g.count, ", ".join("%d %s" % (n, k) for k, n in sorted(g.kinds.items())), g.bad))
    return 1 if g.bad else 0


sys.exit(main())
