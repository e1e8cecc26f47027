# SPDX-License-Identifier: BSD-3-Clause
# The catalogue in docs/faults.md has the output of `doppel faults --json`. Compares the two, or writes the catalogue:
#   python3 tests/unit/build/faults_doc.py build/fake/doppel docs/faults.md [--write]
import json
import subprocess
import sys

BEGIN, END = "<!-- catalogue: begin -->\n", "<!-- catalogue: end -->\n"


def plain_fail(site):
    return [a["name"] for a in site["actions"]] == ["fail"]


def action(a):
    text = "`%s`" % " ".join(
        [a["name"]]
        + ["%s=" % p["name"] for p in a["parameters"]]
        + (["for="] if a["lasts"] else [])
    )
    return text + (": " + a["what"] if a["what"] and a["what"] != "returns the error" else "")


def catalogue(faults):
    out = []
    for layer in faults["layers"]:
        out.append("### `%s`: %s\n\n" % (layer["name"], layer["what"]))
        out.append("Selectors: %s.\n\n" % ", ".join("`%s=`" % k for k in layer["selectors"]))
        calls = [s["name"].split(".", 1)[1] for s in layer["sites"] if plain_fail(s)]
        if calls:
            out.append("| calls | actions |\n|---|---|\n")
            out.append("| %s | `fail` |\n\n" % " ".join("`%s`" % c for c in calls))
        rest = [s for s in layer["sites"] if not plain_fail(s)]
        if rest:
            out.append("| site | what | actions |\n|---|---|---|\n")
        for s in rest:
            actions = "; ".join(action(a) for a in s["actions"])
            out.append("| `%s` | %s | %s |\n" % (s["name"], s["what"], actions.replace("|", "/")))
        out.append("\n" if rest else "")
    out.append("### Idle sites\n\nNo run of the lab visits these sites. Drawn plans leave them out.\n\n")
    out.append("| sites | why |\n|---|---|\n")
    why = {}
    for layer in faults["layers"]:
        for s in layer["sites"]:
            if "idle" in s:
                why.setdefault(s["idle"], []).append("`%s`" % s["name"])
    out += ["| %s | %s |\n" % (" ".join(names), reason) for reason, names in why.items()]
    out.append("\n")
    out.append("### Keys\n\n| key | meaning |\n|---|---|\n")
    out += ["| `%s=` | %s |\n" % (k["name"], k["what"]) for k in faults["keys"]]
    return "".join(out)


def main():
    doppel, page = sys.argv[1:3]
    faults = json.loads(subprocess.check_output([doppel, "faults", "--json"]))
    text = open(page).read()
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    new = catalogue(faults)
    sites = [s["name"] for l in faults["layers"] for s in l["sites"]]
    assert len(sites) > 40 and len(set(sites)) == len(sites), "a site is in the tables twice"
    if "--write" in sys.argv:
        open(page, "w").write(head + BEGIN + new + END + tail)
    elif new != old:
        sys.exit(
            "docs/faults.md does not agree with 'doppel faults': run\n"
            "  python3 tests/unit/build/faults_doc.py BUILD/doppel docs/faults.md --write"
        )


main()
