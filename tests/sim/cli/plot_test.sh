#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What a run writes about its table: JSON that has the rows of the table, and a plot that is an XML
# document with a point in both panels for each row. Files that cannot be written are an error.
#	plot_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
doppel=$1/doppel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
python3 - "$doppel" <<'PY'
import json, re, subprocess, sys
import xml.etree.ElementTree as ET

doppel, bad = sys.argv[1], 0
svg = "{http://www.w3.org/2000/svg}"
names = re.search(r"one of: (.*)", subprocess.run([doppel, "run"], capture_output=True, text=True).stderr)
collectives = names.group(1).split(", ")
assert "all_reduce" in collectives, names.group(0)

def run(*args, code=0):
    p = subprocess.run([doppel, "run", *args, "--json", "r.json", "--plot", "r.svg"], capture_output=True, text=True)
    assert p.returncode == code, (args, p.returncode, p.stderr)
    rows = []  # of the table: size, count, type, op, root, then time, algbw, busbw, wrong of each place
    for line in p.stdout.splitlines():
        w = line.split()
        if w and w[0].isdigit():
            rows += [w[:5] + w[5 + 4 * i:9 + 4 * i] for i in range((len(w) - 5) // 4)]
    return rows, json.load(open("r.json")), ET.parse("r.svg").getroot()

def check(rows, doc, root, shown=None):
    assert len(rows) == len(doc["rows"]) > 0, (len(rows), doc)
    for w, r in zip(rows, doc["rows"]):
        assert w[:5] == [str(r[k]) for k in ("bytes", "count", "type", "op", "root")], (w, r)
        assert w[8] == ("N/A" if r["wrong"] is None else str(r["wrong"])), (w, r)
        assert abs(float(w[5]) - r["time_us"]) <= max(0.006, r["time_us"] * 1e-6) and abs(float(w[7]) - r["busbw_gbps"]) <= 0.006, (w, r)
    circles = root.findall(svg + "circle")
    assert len(circles) == (2 * len(rows) if shown is None else shown), (len(circles), len(rows))
    width, height = float(root.get("width")), float(root.get("height"))
    for c in circles:
        assert 0 < float(c.get("cx")) < width and 0 < float(c.get("cy")) < height, c.attrib
    text = [t.text for t in root.findall(svg + "text")]
    for t in ("size (bytes)", "bus bandwidth (GB/s)", "time (microseconds)"):
        assert t in text, (t, text)
    return text

for c in collectives:
    rows, doc, root = run(c, "--hosts", "2", "--gpus", "2", "-b", "64", "-e", "64K", "-f", "4", "-d", "half")
    text = check(rows, doc, root)
    assert doc["collective"] == c and doc["code"] == 0 and doc["ranks"] == 4, doc
    assert "out of place" in text and ("in place" in text) == any(r["in_place"] for r in doc["rows"]), text
many = run("all_reduce", "--gpus", "2", "-b", "64", "-e", "256", "-d", "all", "-o", "all", "-c", "0")
text = check(*many)
assert "f8e5m2 avg in place" in text, text
one = run("all_gather", "--gpus", "2", "-b", "64", "-e", "64", "--place", "out", "-n", "3", "-a", "3")
check(*one)
alone = run("all_reduce", "--gpus", "1", "-b", "0", "-e", "8", "-i", "8")  # no bytes, no bandwidth
text = check(*alone, shown=2)
assert any("not shown" in (t or "") for t in text), text
for option in ("--json", "--plot"):
    p = subprocess.run([doppel, "run", "all_reduce", "--gpus", "2", "-e", "8", option, "/dev/full"], capture_output=True, text=True)
    assert p.returncode == 1 and option in p.stderr, (p.returncode, p.stderr)
PY
