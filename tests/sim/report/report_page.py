#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks a page of `doppel report`: it is one file, nothing of it comes from the network, no text from outside
becomes a tag, and the static table has the same answers as the data.

Usage: report_page.py PAGE [KEY=REGEX]...   the answer KEY ("late", "qp"; "page" is all static text) matches REGEX
Prints what is wrong; exit 1 where something is.
"""
import html.parser
import json
import os
import re
import sys

KEYS = ["late", "call", "channel", "peer", "qp", "fault", "link", "hang", "progress", "gdb"]
MOST_BYTES = 5000000
TAGS = set(
    "html head meta title style body header h1 h2 h3 p span table thead tbody tr th td pre code details summary"
    " ul li div svg g path rect circle text defs marker script".split()
)


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.scripts, self.text = set(), set(), [], []
        self.answers, self.row, self.inside = {}, None, None

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        found = dict(attributes).get("id") or ""
        if tag == "tr":
            self.row = found[2:] if found.startswith("q-") else None
        self.inside = tag
        if tag == "script":
            self.scripts.append("")
        if tag == "td" and self.row:
            self.answers[self.row] = ""

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.text.append(data)
            if self.inside == "td" and self.row:
                self.answers[self.row] += data


def problems(path, wanted):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    page = Page()
    page.feed(text)
    if os.path.getsize(path) > MOST_BYTES:
        yield "%d bytes; expected at most %d" % (os.path.getsize(path), MOST_BYTES)
    if page.tags - TAGS:
        yield "tags that no part of the page writes: %s" % " ".join(sorted(page.tags - TAGS))
    handlers = {a for a in page.attributes if a.startswith("on") or a in ("src", "href", "srcset", "action")}
    if handlers:
        yield "attributes that run or load something: %s" % " ".join(sorted(handlers))
    if len(page.scripts) != 2:
        yield "%d scripts; expected the data and the program" % len(page.scripts)
        return
    data = json.loads(page.scripts[0])
    if list(page.answers) != KEYS:
        yield "questions: %s; expected: %s" % (" ".join(page.answers), " ".join(KEYS))
    for key, answer in page.answers.items():
        if not answer.strip():
            yield "no answer: " + key
        if data["answers"].get(key) != answer:
            yield "%s: the data has %r, the table has %r" % (key, data["answers"].get(key), answer)
    for want in wanted:
        key, regex = want.split("=", 1)
        answer = " ".join(page.text) if key == "page" else page.answers.get(key, "")
        if not re.search(regex, answer, re.S):
            yield "%s: no match of %s in: %s" % (key, regex, answer[:600])


def main():
    bad = list(problems(sys.argv[1], sys.argv[2:]))
    for line in bad:
        print("%s: %s" % (sys.argv[1], line))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
