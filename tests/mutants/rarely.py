#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Functions and lines of core/ that runs of a coverage build execute never or rarely.

    cmake --preset coverage && cmake --build build/coverage --target doppel-cli
    find build/coverage -name '*.gcda' -delete
    build/coverage/doppel sweep --count 1000 --twice 0
    tests/mutants/rarely.py build/coverage [MOST]

Prints what was executed at most MOST times (default 4): functions, then lines of other functions.
"""
import json
import pathlib
import subprocess
import sys

FILES = 40  # of a call of gcov


def add_counts(report, root, functions, lines):
    for file in report["files"]:
        path = pathlib.Path(report["current_working_directory"], file["file"]).resolve()
        if not path.is_relative_to(root / "core"):
            continue
        name = str(path.relative_to(root))
        for f in file["functions"]:
            key = (name, f["start_line"], f["end_line"], f["name"])
            functions[key] = functions.get(key, 0) + f["execution_count"]
        for line in file["lines"]:
            key = (name, line["line_number"])
            lines[key] = lines.get(key, 0) + line["count"]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    root = pathlib.Path(__file__).resolve().parents[2]
    functions, lines = {}, {}
    data = sorted(str(p) for p in build.rglob("*.gcda") if "/core/" in str(p))
    for at in range(0, len(data), FILES):
        command = ["gcov", "--json-format", "--stdout", *data[at : at + FILES]]
        out = subprocess.run(command, capture_output=True, check=True, cwd=build).stdout
        for report in out.decode().splitlines():
            if report.strip():
                add_counts(json.loads(report), root, functions, lines)
    inside = set()
    for (name, first, last, function), count in sorted(functions.items(), key=lambda f: (f[1], f[0])):
        if count <= most:
            print(f"{count} {name}:{first} {function}")
            inside.update((name, n) for n in range(first, last + 1))
    for (name, number), count in sorted(lines.items()):
        if count <= most and (name, number) not in inside:
            text = (root / name).read_text().splitlines()[number - 1]
            print(f"{count} {name}:{number}: {text.strip()}")


if __name__ == "__main__":
    main()
