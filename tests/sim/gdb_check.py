# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts that a test runs in gdb share: a check that ends gdb when it fails."""
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
