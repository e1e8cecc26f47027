#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The shape of the tree: backends in core, base names, sizes of files and folders. See rules_shape_test.sh.

Usage: rules_shape.py [--prune] [FILE_OF_PENDING]   without a file: tests/unit/rules_shape_pending.txt
Prints what is wrong; exit 1 where something is. --prune: first removes the rows that are mended.
"""
import os
import re
import subprocess
import sys

LINES = 500  # of a file
FILES = 25  # in a folder

CODE = (".c", ".h", ".cu", ".S", ".sh", ".py", ".js", ".cmake", ".md")
DATA = ("tests/mutants/", "tests/fuzz/corpus/", "tests/unit/golden/", "sim/world/machines/")

CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\bDOPPEL_(?:FAKE|)(?:CUDA|VERBS|GPU|RDMA)\b")


def backends_in_core(path, text):
    """Conditions on a backend: core is the same for each backend, except the contract with the device."""
    if path.startswith("core/") and not path.startswith("core/device/shim/"):
        for number, row in enumerate(text.split("\n"), 1):
            if CONDITION.match(row):
                yield "%s:%d: a condition on a backend; expected only in core/device/shim/" % (path, number)


def same_names(files):
    """Base names of several .c files: a breakpoint on NAME:LINE is ambiguous."""
    by_name = {}
    for path in files:
        if path.endswith(".c"):
            by_name.setdefault(os.path.basename(path), []).append(path)
    return {name: ", ".join(paths) for name, paths in by_name.items() if len(paths) > 1}


def long_files(texts):
    lines = {path: text.count("\n") for path, text in texts.items() if path.endswith(CODE)}
    return {path: "%d lines" % n for path, n in lines.items() if n > LINES}


def full_folders(files):
    count = {}
    for path in files:
        folder = os.path.dirname(path) or "."
        count[folder] = count.get(folder, 0) + 1
    return {folder: "%d files" % n for folder, n in count.items() if n > FILES}


def pending(path):
    """Rows "name|lines|files NAME": what is allowed until it is mended. The list only gets shorter."""
    rows = {"name": set(), "lines": set(), "files": set()}
    with open(path) as f:
        for row in f:
            words = row.split("#")[0].split()
            if words:
                rows[words[0]].add(words[1])
    return rows


def pruned(path, found):
    """Removes the rows that are mended."""
    with open(path) as f:
        rows = f.readlines()
    with open(path, "w") as f:
        for row in rows:
            words = row.split("#")[0].split()
            if not words or words[1] in found[words[0]]:
                f.write(row)


def compared(kind, found, allowed, rule):
    for name in sorted(found.keys() - allowed):
        yield "%s: %s; expected %s" % (name, found[name], rule)
    for name in sorted(allowed - found.keys()):
        yield "%s: mended; remove '%s %s' from the list" % (name, kind, name)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--prune"]
    path_of_pending = arguments[0] if arguments else "tests/unit/rules_shape_pending.txt"
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    files = [f for f in listed.split("\n") if os.path.isfile(f) and not f.startswith(DATA)]
    texts = {}
    for path in files:
        with open(path, errors="replace") as f:
            texts[path] = f.read()
    found = {"name": same_names(files), "lines": long_files(texts), "files": full_folders(files)}
    if "--prune" in sys.argv:
        pruned(path_of_pending, found)
    allowed = pending(path_of_pending)
    bad = [line for path in files for line in backends_in_core(path, texts[path])]
    bad += compared("name", found["name"], allowed["name"], "a base name of its own")
    bad += compared("lines", found["lines"], allowed["lines"], "at most %d" % LINES)
    bad += compared("files", found["files"], allowed["files"], "at most %d" % FILES)
    for line in bad:
        print(line)
    left = sum(len(names) for names in allowed.values())
    print("%d files read, %d findings, %d pending" % (len(files), len(bad), left))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
