#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests of pyverbs that Debian ships, each in a process of its own with a timeout.

    dropin/tests/pyverbs/run.py [options] [PATTERN...]

They are not part of this repository: packages rdma-core and python3-pyverbs have them, and this
unpacks them into a temporary folder. Which libibverbs they run on is the caller's LD_LIBRARY_PATH.
A test of the list --required must pass; any test that fails or does not end is a failure, unless the
list has "fails NAME # why". Where the list has "absent PATTERN # why", only tests of such a pattern
may be skipped. Prints a line for each test, then counts. PATTERN: a shell pattern of names like
test_qp.QPTest.test_create_rc_qp.
"""
import argparse
import fnmatch
import gzip
import os
import shutil
import signal
import sys
import tempfile
import time
import unittest

DEBIAN = "/usr/share/doc/rdma-core/tests"
# Of one vendor, or of hardware that is not an HCA.
OTHERS = ("test_mlx5", "test_efa", "test_cuda")
ONE_PORT = ("test_rdmacm.",)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--dev", help="device name; default: the first")
    p.add_argument("--port", type=int, default=1)
    p.add_argument("--gid", type=int, help="GID index; default: pyverbs' own choice")
    p.add_argument("--required", help="file: tests that must pass, one a line")
    p.add_argument("--timeout", type=int, default=30, help="seconds for a test")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--only-required", action="store_true")
    p.add_argument("--why", action="store_true", help="the reason of a test that is skipped")
    p.add_argument("--verbose", action="store_true", help="what a test that fails prints, in full")
    p.add_argument("--list", action="store_true")
    p.add_argument("patterns", nargs="*")
    return p.parse_args()


def unpack(to):
    """The package's tests as Python finds them: "tests", with their .gz unpacked."""
    for name in sorted(os.listdir(DEBIAN)):
        if not name.startswith(OTHERS):
            at = os.path.join(DEBIAN, name)
            if name.endswith(".py.gz"):
                with gzip.open(at) as f, open(os.path.join(to, name[:-3]), "wb") as out:
                    shutil.copyfileobj(f, out)
            elif name.endswith(".py"):
                shutil.copy(at, to)


def load(folder, args):
    """All test cases, by name."""
    sys.path[:0] = [os.path.dirname(folder), folder]
    sys.argv[1:] = ["--port", str(args.port)]
    if args.dev:
        sys.argv += ["--dev", args.dev]
    if args.gid is not None:
        sys.argv += ["--gid", str(args.gid)]
    from args_parser import parser

    parser.parse_args()
    del sys.argv[1:]
    import tests

    found = {}
    for module in tests.__test_modules__:
        for suite in unittest.defaultTestLoader.loadTestsFromModule(module):
            for case in suite:
                found[case.id().removeprefix("tests.")] = case
    return found


class Lists:
    """What must pass, what fails (name: why), and what may be skipped."""
    def __init__(self, required=(), failing=None, absent=()):
        self.required, self.failing, self.absent = set(required), failing or {}, absent

    def must_not_skip(self, name):
        if name in self.required:
            return True
        return bool(self.absent) and not any(fnmatch.fnmatchcase(name, p) for p in self.absent)


def read_list(path):
    required, failing, absent = set(), {}, []
    for line in open(path):
        words, _, why = line.partition("#")
        words = words.split()
        if len(words) == 1:
            required.add(words[0])
        elif len(words) == 2 and words[0] == "fails":
            failing[words[1]] = why.strip()
        elif len(words) == 2 and words[0] == "absent":
            absent.append(words[1])
        elif words:
            sys.exit(f"{path}: expected NAME, 'fails NAME # why' or 'absent PATTERN # why': {line}")
    return Lists(required, failing, absent)


def run_here(case, to):
    """In the child: runs one case, and writes how it went."""
    result = unittest.TestResult()
    case.run(result)
    bad = result.errors + result.failures
    if bad:
        text = "failed\n" + bad[0][1]
    elif result.skipped:
        text = "skipped\n" + result.skipped[0][1]
    elif result.testsRun == 1:
        text = "passed\n"
    else:
        text = "failed\nit did not run"
    os.write(to, text.encode())


class Child:
    def __init__(self, name, case):
        self.name, self.output = name, tempfile.TemporaryFile()
        self.read, write = os.pipe()
        sys.stdout.flush()
        self.pid, self.start = os.fork(), time.monotonic()
        if self.pid == 0:
            os.setpgid(0, 0)  # with its own children
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            try:
                run_here(case, write)
            finally:
                os._exit(0)
        os.close(write)

    def ended(self, timeout):
        """None while it runs, else (how it went, what it printed)."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            text = os.read(self.read, 1 << 20).decode(errors="replace")
            os.close(self.read)
            how, _, printed = text.partition("\n")
            if os.WIFSIGNALED(status):
                how, printed = "failed", f"signal {os.WTERMSIG(status)}"
            return how or "failed", printed or ("" if how else "no result")
        if time.monotonic() - self.start < timeout:
            return None
        for one in (-self.pid, self.pid):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(self.pid, 0)
        os.close(self.read)
        return "failed", f"no end after {timeout} s"

    def printed(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")


def may_start(name, running):
    """Tests of one of these modules all bind the same port: one at a time."""
    return not (name.startswith(ONE_PORT) and any(c.name.startswith(ONE_PORT) for c in running))


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def main():
    args = arguments()
    if not os.path.isdir(DEBIAN):
        print("pyverbs: skipped: no " + DEBIAN + " (package rdma-core)")
        return 77
    try:
        import pyverbs  # noqa: F401
    except ImportError:
        print("pyverbs: skipped: no module pyverbs (package python3-pyverbs)")
        return 77
    lists = read_list(args.required) if args.required else Lists()
    with tempfile.TemporaryDirectory() as temp:
        folder = os.path.join(temp, "tests")
        os.mkdir(folder)
        unpack(folder)
        cases = load(folder, args)
        return run_all(args, cases, lists)


def run_all(args, cases, lists):
    missing = sorted(lists.required - set(cases))
    if missing:
        sys.exit("pyverbs: no such test: " + ", ".join(missing))
    names = [n for n in sorted(cases)
             if (not args.patterns or any(fnmatch.fnmatchcase(n, p) for p in args.patterns))
             and (not args.only_required or n in lists.required)]
    if args.list:
        print("\n".join(names))
        return 0
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    bad, running, todo = 0, [], list(names)
    while todo or running:
        while len(running) < args.jobs:
            name = next((n for n in todo if may_start(n, running)), None)
            if not name:
                break
            todo.remove(name)
            running.append(Child(name, cases[name]))
        time.sleep(0.005)
        for child in list(running):
            end = child.ended(args.timeout)
            if not end:
                continue
            running.remove(child)
            bad += report(args, child, end, lists, counts)
    print(f"{counts['passed']} passed, {counts['skipped']} skipped, {counts['failed']} failed"
          + (f", {bad} not as they must" if bad else ""))
    return 1 if bad or not names else 0


def report(args, child, end, lists, counts):
    """Prints one line; 1: it is not as it must be."""
    how, printed = end
    counts[how] += 1
    name, why, wrong = child.name, "", 0
    if how == "failed":
        why = " # " + last_line(printed)
        if name in lists.failing:
            why += f" (known: {lists.failing[name]})"
        else:
            wrong = 1
    elif how == "skipped":
        wrong = int(lists.must_not_skip(name))
        why = " # " + last_line(printed) if args.why or wrong else ""
    elif name in lists.failing:
        why, wrong = " # passes: remove it from those that fail", 1
    print(f"{'BAD ' if wrong else ''}{how} {name}{why}")
    if how == "failed" and wrong:
        text = printed + child.printed()
        lines = text.splitlines()
        for line in lines if args.verbose else lines[-12:]:
            print("    " + line)
    child.output.close()
    sys.stdout.flush()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
