#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""File names in comments and documents: each is a file of this repository. See rules_names_test.sh."""
import os
import re
import subprocess
import sys

# A name is the end of a path: "wire.c" and "transport/wire.c" are both fine, if there is such a file.
NAME = re.compile(
    r"(?<![\w/.*@-])((?:[A-Za-z_][\w-]*/)*[A-Za-z_][\w-]*\.(?:c|h|S|cu|sh|py|md|cmake|def|map))\b(?![\w(/])"
)
CODE = (".c", ".h", ".S", ".cu")
SCRIPT = (".sh", ".py", ".cmake")

# Files of others, and files that a build, a test or a user makes.
ELSEWHERE = {
    "errno.h", "stddef.h", "stdio.h", "infiniband/verbs.h", "verbs.h", "rdma/rdma_cma.h",
    "rdma/rsocket.h", "xxhash.h", "DoppelConfig.cmake", "file.c", "table.md", "planted/x.sh",
    "theirs/nccl.h",
}  # fmt: skip
# A copy of the sources with a mutant in it: tests/mutants/build.sh names files so.
MUTANT = re.compile(r"^mutants/\w+/")


def is_pattern(name):
    """FILE.c, X_LAYER.c stand for many files, and so do endings such as _verbs.c."""
    stem = os.path.basename(name).rsplit(".", 1)[0]
    return re.search(r"(?:^|_)[A-Z]{2,}$", stem) or stem.startswith("_")


def comments(path, text):
    """(line number, text) of what people read: a document, or the comments of a source."""
    if path.endswith(".md"):
        yield from enumerate(text.split("\n"), 1)
    elif path.endswith(CODE):
        for found in re.finditer(r"/\*.*?\*/", text, re.S):
            first = text.count("\n", 0, found.start()) + 1
            yield from enumerate(found.group(0).split("\n"), first)
    else:
        for n, line in enumerate(text.split("\n"), 1):
            if "#" in line:
                yield n, line[line.index("#") :]


def main():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    files = [f for f in listed.split("\n") if f and os.path.exists(f)]
    by_name = {}
    for path in files:
        by_name.setdefault(os.path.basename(path), []).append(path)
    seen = bad = 0
    for path in files:
        if not path.endswith((".md",) + CODE + SCRIPT):
            continue
        with open(path, errors="replace") as f:
            text = f.read()
        for n, line in comments(path, text):
            for found in NAME.finditer(line):
                seen += 1
                name = MUTANT.sub("", found.group(1))
                same = by_name.get(os.path.basename(name), [])
                if any(p == name or p.endswith("/" + name) for p in same):
                    continue
                if name in ELSEWHERE or is_pattern(name):
                    continue
                print(f"{path}:{n}: {name}: no such file in this repository")
                bad += 1
    if seen < 500:
        print(f"only {seen} names seen: the test looks in the wrong place")
        bad += 1
    if not bad:
        print(f"{seen} file names in text exist")
    return 1 if bad else 0


sys.exit(main())
