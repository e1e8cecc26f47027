#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names in the pages that lead through the code exist: paths, functions and other identifiers in backticks, and the
targets of links. See guide_names_test.sh.

Usage: guide_names.py     in the root of the repository; prints PAGE:LINE: what is wrong; exit 1 where something is.
"""
import glob
import os
import re
import subprocess
import sys

# Pages whose names are checked one by one. A README of a room names files from its own folder.
GUIDES = (
    ["CONTRIBUTING.md", "docs/MAP.md", "docs/architecture.md", "docs/style.md", "docs/glossary.md"]
    + sorted(glob.glob("docs/recipes/*.md"))
    + sorted(glob.glob("*/README.md"))
    + sorted(glob.glob("docs/*/README.md"))
)
CODE = (".c", ".h", ".cu", ".S", ".sh", ".py", ".cmake", ".txt", ".def", ".map", ".json")

BLOCK = re.compile(r"^```.*?^```", re.S | re.M)
TICKED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
IDENTIFIER = re.compile(r"[A-Za-z]\w*(?:\.\w+)?(?:\[\]|\(\))?")
PATH = re.compile(r"[\w.*<>{}-]+(?:/[\w.*-]+)*/?")
# A test is LABEL.NAME. Names of a build, of other projects, and words of a format are not of this repository.
TEST = re.compile(r"(unit|internal|conformance|collectives|sim|fuzz|dropin)\.(\w+)")
# A word in capitals stands for many names, and so does an ending such as _internal.h or .c.
PLACEHOLDER = re.compile(r"(?:^|[/_])(?:X_|[A-Z]{4,}\b)|^[._]\w*(?:\.\w+)?$")
ELSEWHERE = {
    "FILE.so", "libnccl-tuner-NAME.so", "libnccl.so.2", "libdoppel.so", "libdoppel-rt.so", "libfakecuda.so",
    "libfakeverbs.so", "libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1", "infiniband/verbs.h", "layer.operation",
    "verbs/libibverbs.so.1", "plan.txt", "fail/ID", "minutes/ID", "qp_rtr_without_rnr_timer_is_einval", "lower_snake",
}  # fmt: skip


def listed():
    out = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    return [f for f in out.split("\n") if os.path.isfile(f)]


def words_of_code(files):
    """All identifiers of the code, without those in comments of C."""
    words = set()
    for path in files:
        if path.endswith(CODE) or "." not in os.path.basename(path):
            with open(path, errors="replace") as f:
                text = f.read()
            if path.endswith((".c", ".h", ".cu")):
                text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
            words.update(re.findall(r"[A-Za-z_]\w*", text))
    return words


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    with open(path, errors="replace") as f:
        return {"#" + anchor(row.lstrip("#")) for row in f if row.startswith("#")}


def without_blocks(text):
    return BLOCK.sub(lambda m: "\n" * m.group(0).count("\n"), text)


class Names:
    def __init__(self):
        self.files = listed()
        self.folders = {os.path.dirname(f) for f in self.files}
        self.folders |= {os.path.dirname(d) for d in self.folders} | {"."}
        self.tests = {os.path.basename(f).rsplit(".", 1)[0] for f in self.files if f.startswith(("tests/", "dropin/"))}
        self.words = words_of_code(self.files) | self.tests

    def is_path(self, name, home):
        """A file, a folder or a pattern of files, from the root, from the page's folder, or as the end of a path."""
        name = name.rstrip("/")
        for path in (name, os.path.normpath(os.path.join(home, name))):
            if path in self.folders or os.path.isfile(path) or ("*" in path and glob.glob(path)):
                return True
        return any(f.endswith("/" + name) for f in self.files) or any(d.endswith("/" + name) for d in self.folders)

    def wrong(self, text, home):
        """What is wrong with a text in backticks; None: nothing, or it is no name."""
        text = text.removeprefix("struct ").removeprefix("enum ")
        test = TEST.fullmatch(text)
        if text in ELSEWHERE or " " in text:
            return None
        if test:
            known = test.group(2) in self.tests or test.group(2).removesuffix("_test") + "_test" in self.tests
            return None if known else "no such test"
        if PLACEHOLDER.search(text):
            return None
        if PATH.fullmatch(text) and ("/" in text or text.endswith(CODE + (".md",))):
            return None if self.is_path(text, home) else "no such file or folder"
        if IDENTIFIER.fullmatch(text) and ("_" in text or re.match(r"(?:p?nccl|cuda|cu|nvml)[A-Z]", text)):
            name = re.sub(r"[\[(].*", "", text).split(".")[-1]
            return None if name in self.words else "no such identifier in the code"
        return None


def names_of_page(path, names):
    """(line, complaint) for each name of a page that does not exist; counts into `seen`."""
    with open(path, errors="replace") as f:
        text = without_blocks(f.read())
    for number, row in enumerate(text.split("\n"), 1):
        for found in TICKED.finditer(row):
            complaint = names.wrong(found.group(1), os.path.dirname(path))
            if complaint:
                yield number, "`%s`: %s" % (found.group(1), complaint)


def links_of_page(path):
    with open(path, errors="replace") as f:
        text = without_blocks(f.read())
    for number, row in enumerate(text.split("\n"), 1):
        for found in LINK.finditer(re.sub(r"`[^`]*`", "", row)):
            target, part = found.group(1), found.group(2)
            if "://" in target:
                continue
            file = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if not os.path.exists(file):
                yield number, "link to %s: no such file" % target
            elif part and file.endswith(".md") and part not in anchors(file):
                yield number, "link to %s%s: no such heading" % (target, part)


def main():
    names = Names()
    bad = 0
    pages = [f for f in names.files if f.endswith(".md")]
    for path in GUIDES:
        for number, complaint in names_of_page(path, names):
            print("%s:%d: %s" % (path, number, complaint))
            bad += 1
    for path in pages:
        for number, complaint in links_of_page(path):
            print("%s:%d: %s" % (path, number, complaint))
            bad += 1
    print("%d guides and the links of %d pages read, %d findings" % (len(GUIDES), len(pages), bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
