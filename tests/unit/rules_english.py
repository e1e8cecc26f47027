#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plain English in comments, messages and documents (docs/style.md). See rules_english_test.sh.

Usage: rules_english.py [PATH...]   without a path: all files of the repository
Prints FILE:LINE: what is wrong; exit 1 where something is.
"""
import re
import subprocess
import sys

# Pages that keep what was measured; they are not rewritten later.
RECORDS = "results/"

COLUMNS = 100
TAB = 8
WORDS = 25  # of a sentence in a document

CODE = (".c", ".h", ".cu", ".S")

# A comment or a sentence of one that begins so has no subject that a reader can see.
OPENING = re.compile(r"^(?:Of|By|What|Where|Those|That|Which|As|So)\b(?!-)")
OPENING_FINE = re.compile(
    r"^(?:As (?:a|an|the) \w+[^.]*, |By default|By hand|That is|What is \w+\?|Where [^.?]*\?|What [^.?]*\?)"
)

# Words with a better one: (what, instead)
INSTEAD = [
    (r"who|whom|whoever|somebody|someone|nobody|anybody|everybody", "the actor's noun"),
    (r"says|said|say|told|tells|tell|asks|asked|ask|hears|heard|hear|deaf|news",
     "logs, reports, returns, requests, receives"),
    (r"he|him|his|she", "it, or the noun"),
    (r"at once", "immediately, together or atomically"),
    (r"any more", "no longer"),
    (r"(?:is|are|was|were) none", "is not one, or name it"),
    (r"stays? so", "name what stays"),
    (r"(?:nothing|none|all|any|anything|everything|every one|no one) but", "except, only"),
    (r"behind", "after, or name the place"),
    (r"the (?:short|long|slow|quick|other) way", "fast path, slow path"),
    (r"upset|lonely|stranger|strangers|by heart|good day|bad day|on its way", "a standard term"),
    (r"(?:its|a|the|their|whose) turn", "sequence number, or the next X"),
    (r"for ever", "without end, forever"),
]  # fmt: skip
INSTEAD = [(re.compile(r"(?<![\w'`\"/.-])(?:%s)(?![\w'`\"/-])" % what, re.I), good) for what, good in INSTEAD]

# Uses that are right: the word is a term, a name or a quotation.
FINE = re.compile(
    r"`[^`]*`|\"[^\"]*\"|'[^']*'|who am i|left behind|https?://\S+|World Health|write-behind", re.I
)


def listed():
    out = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    return [f for f in out.split("\n") if f.endswith(CODE + (".md",)) and not f.startswith(RECORDS)]


def comments(text):
    """(line number, text) of each comment, its frame of stars removed."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(/\*.*?\*/)|(//[^\n]*)'
    for found in re.finditer(pattern, text, re.S):
        body = found.group(1) or found.group(2)
        if body:
            line = text.count("\n", 0, found.start()) + 1
            rows = [re.sub(r"^\s*\*(?!/) ?", "", row) for row in body.strip("/").strip("*").split("\n")]
            yield line, rows


def sentences(rows, first):
    """(line number, sentence) of prose; a row that is empty, indented or a picture ends one."""
    words, at = [], first
    for number, row in enumerate(rows, first):
        picture = not row.strip() or row.startswith(("  ", "\t", "----", "|", "#", "```"))
        if picture and words:
            yield at, " ".join(words)
            words = []
        if picture:
            continue
        if re.match(r"\s*(?:[-*]|\d+[.)]) ", row) and words:
            yield at, " ".join(words)
            words = []
        for word in re.sub(r"^\s*(?:[-*]|\d+[.)]) ", "", row).split():
            if not words:
                at = number
            words.append(word)
            if re.search(r"[.!?:;][)\"']*$", word) and not re.search(r"(?:e\.g|i\.e|etc|vs)\.$", word):
                yield at, " ".join(words)
                words = []
    if words:
        yield at, " ".join(words)


def complaints_of_words(sentence):
    plain = FINE.sub("", sentence)
    for pattern, good in INSTEAD:
        found = pattern.search(plain)
        if found:
            yield "'%s'; expected %s" % (found.group(0), good)


def complaints_of_comment(first, rows):
    begins = True  # of the comment, or after a full stop
    for at, sentence in sentences(rows, first):
        opening = OPENING.match(sentence)
        if begins and opening and not OPENING_FINE.match(sentence):
            yield at, "begins with '%s'; expected a subject, a verb, an object" % opening.group(0)
        for complaint in complaints_of_words(sentence):
            yield at, complaint
        begins = not re.search(r"[:;]$", sentence)


def messages(text):
    """(line number, text) of string literals with several words: what a person reads."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    for number, row in enumerate(text.split("\n"), 1):
        if row.lstrip().startswith("#include"):
            continue
        for found in re.finditer(r'"((?:\\.|[^"\\])*)"', row):
            if found.group(1).count(" ") >= 2:
                yield number, found.group(1)


def complaints_of_code(path, text):
    for first, rows in comments(text):
        yield from complaints_of_comment(first, rows)
    if not path.startswith("tests/"):
        for number, message in messages(text):
            for complaint in complaints_of_words(message):
                yield number, complaint
    for number, row in enumerate(text.split("\n"), 1):
        width = len(row.expandtabs(TAB))
        if width > COLUMNS:
            yield number, "%d columns; expected %d at most" % (width, COLUMNS)


def prose(text):
    """The rows of a document without its code blocks, tables and headings."""
    inside = False
    for row in text.split("\n"):
        if row.startswith("```"):
            inside = not inside
        yield "" if inside or row.startswith(("```", "|", "#", "<")) else row.lstrip()


def complaints_of_page(text):
    for at, sentence in sentences(list(prose(text)), 1):
        for complaint in complaints_of_words(sentence):
            yield at, complaint
        count = len(FINE.sub("x", sentence).split())
        if count > WORDS and not sentence.startswith("|"):
            yield at, "a sentence of %d words; expected %d at most" % (count, WORDS)


def complaints(path, text):
    return complaints_of_page(text) if path.endswith(".md") else complaints_of_code(path, text)


def main():
    paths = sys.argv[1:] or listed()
    bad = 0
    for path in paths:
        with open(path, errors="replace") as f:
            text = f.read()
        for number, complaint in sorted(complaints(path, text)):
            bad += 1
            print("%s:%d: %s" % (path, number, complaint))
    print("%d files read, %d findings" % (len(paths), bad))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
