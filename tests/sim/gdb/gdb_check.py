# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts that a test runs in gdb share: a check that ends gdb when it fails, and walks over functions."""
import re

import gdb

passed = []


def check(what, ok, seen=""):
    if not ok:
        print("FAILED: %s; saw:\n%s" % (what, seen))
        gdb.execute("kill")
        gdb.execute("quit 1")
    passed.append(what)


def run(command):
    return gdb.execute(command, to_string=True)


def value(expression):
    return int(gdb.parse_and_eval(expression))


def go(function, condition=None):
    """Runs on to the function; true when it is there."""
    stop = gdb.Breakpoint(function, temporary=True)
    stop.silent = True
    if condition:
        stop.condition = "sim_task_current && (%s)" % condition
    run("continue")
    check("%s is reached" % function, gdb.selected_inferior().pid and not stop.is_valid() and
          gdb.selected_frame().name() in (function, "p" + function, "hca_post_send"),
          run("bt 1") if gdb.selected_inferior().pid else "the end of the program")
    check("%s has no locals of sites" % function, "site_" not in run("info locals"),
          run("info locals"))


def unoptimized():
    """The selected function was compiled with -O0, as by the preset debug."""
    return re.search(r" -O[1-3sgf]", gdb.selected_frame().find_sal().symtab.producer) is None


def frames(command, *patterns):
    text, at = run(command), 0
    check("%s: nothing is optimized out" % command,
          "<optimized out>" not in text or not unoptimized(), text)
    for pattern in patterns:
        found = re.compile(pattern).search(text, at)
        check("%s shows %s" % (command, pattern), found, text)
        at = found.end()
    return text


def whole(walk):
    """A run with the walk in it, from sim_run to its end: the hash is checked by the caller."""
    run("set breakpoint pending on")
    run("set confirm off")
    run("tbreak sim_run")
    gdb.execute("run")
    walk()
    run("delete")
    gdb.execute("continue")
    print("walked: %d checks" % len(passed))
