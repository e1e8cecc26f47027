#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The shape of the tree: backends in core, base names, sizes of files and folders. See rules_shape_test.sh.

Usage: rules_shape.py   in the repository
Prints what is wrong; exit 1 where something is.
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


def main():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    files = [f for f in listed.split("\n") if os.path.isfile(f) and not f.startswith(DATA)]
    texts = {}
    for path in files:
        with open(path, errors="replace") as f:
            texts[path] = f.read()
    bad = [line for path in files for line in backends_in_core(path, texts[path])]
    for found, rule in (
        (same_names(files), "a base name of its own"),
        (long_files(texts), "at most %d" % LINES),
        (full_folders(files), "at most %d" % FILES),
    ):
        bad += ["%s: %s; expected %s" % (name, found[name], rule) for name in sorted(found)]
    for line in bad:
        print(line)
    print("%d files read, %d findings" % (len(files), len(bad)))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
