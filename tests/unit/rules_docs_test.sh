#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A block of README or docs/ that shows commands and what they print is marked ```console, so that docs/update
# runs it and compares. Those that cannot be run so are listed here, each by its page and first line, with the
# reason. An entry that no block has is an error.
set -euo pipefail
cd "$2"
# shellcheck source=tests/lib.sh
. tests/lib.sh
need python3
python3 - <<'PY'
import glob
import sys

# (page, first line of the block, or its beginning): reason
PLAIN = {
    ("docs/verbs/drop-in.md", "$ doppel verbs-run --pair ib_write_bw"): "real time; perftest is the distribution's; dropin.verbs_pair_test",
    ("docs/verbs/drop-in.md", "$ build/fake/tests/kill_peers"): "real time, minutes; ci/full kill-peers",
    ("docs/verbs/drop-in.md", "$ bash dropin/tests/killed/stack.sh"): "real time, minutes, a second build; ci/full kill-stack",
    ("docs/verbs/soft-roce.md", "$ doppel run all_reduce --processes 2"): "a kernel's verbs, in a VM; ci/soft-roce",
}


def blocks(lines):
    """(number, mark, lines) of each block."""
    found, inside = [], None
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            if inside:
                inside[2].append(line)
        elif inside:
            found.append(inside)
            inside = None
        else:
            inside = (number, line[3:], [])
    return found


def shows_output(lines):
    """Is there a command, and a line that is neither one nor the rest of one?"""
    commands = rest = False
    before = ""
    for line in lines:
        if line.startswith(("$ ", "(gdb) ")):
            commands = True
        elif line.strip() and not before.endswith("\\"):
            rest = True
        before = line
    return commands and rest


def unchecked(page, lines):
    return [(page, number, block[0]) for number, mark, block in blocks(lines)
            if mark != "console" and shows_output(block)]


# the check can fail
PLANTED = ["```", "$ doppel faults", "sites", "```", "```console", "$ doppel faults", "sites", "```",
           "```sh", "doppel faults", "```", "```", "$ doppel faults \\", "  --json", "```", "```", "(gdb) bt", "#0", "```"]
assert unchecked("x", PLANTED) == [("x", 1, "$ doppel faults"), ("x", 16, "(gdb) bt")], unchecked("x", PLANTED)

bad, seen, checked = 0, set(), 0
for page in ["README.md"] + sorted(glob.glob("docs/**/*.md", recursive=True)):
    lines = open(page).read().split("\n")
    checked += sum(mark == "console" for _, mark, _ in blocks(lines))
    for page, number, first in unchecked(page, lines):
        entry = next((e for e in PLAIN if e[0] == page and first.startswith(e[1])), None)
        seen.add(entry)
        if not entry:
            bad = 1
            print("%s:%d: shows what a command prints, and is not compared: '%s'; expected ```console, or a "
                  "reason in tests/unit/rules_docs_test.sh" % (page, number, first))
for entry in sorted(set(PLAIN) - seen):
    bad = 1
    print("%s: no block begins with '%s' any longer; its entry in tests/unit/rules_docs_test.sh remains" % entry)
print("%d blocks are compared by docs/update, %d are not, with a reason" % (checked, len(seen - {None})))
sys.exit(bad)
PY
