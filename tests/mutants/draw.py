# SPDX-License-Identifier: BSD-3-Clause
"""Draws mutants of core/ at random. See draw.sh, which calls it.

Usage: draw.py BUILD_DIR SOURCE_DIR SEED COUNT JOBS OUT [OBJECTS]

A line's place in the order is a hash of the seed, its file, its function and its text: nothing else decides, and
a change of core leaves the order of all other lines as it is. A line's operator is drawn among those that it allows,
and then the place in the line. Refused are what does not compile with the build's own command, -Werror included, and
what makes the same objects as core without it. Leaves OUT/NAME.patch, and with OBJECTS the changed objects in
OBJECTS/NAME/. Prints one line a mutant, and how many were refused and why on standard error.
"""
import collections
import concurrent.futures
import difflib
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

from mutations import mutations

MOST_UNITS = 5  # that a header with a mutant may be part of
LEFT_OUT = ("core/os/",)


@functools.cache
def in_source(path, source):
    """The path of a file relative to the source folder. Each header is named by many units."""
    return os.path.relpath(os.path.realpath(path), source)


class Unit:
    """A source file of libdoppel.so: the build's command for its object, and the files of core it reads."""

    def __init__(self, entry, build, source):
        words = shlex.split(entry["command"])
        at = words.index("-o")
        self.object, self.file = words[at + 1], os.path.relpath(entry["file"], source)
        self.words = [w for w in words[:at] if w != "-g"]
        if "ccache" in self.words[0]:
            self.words = self.words[1:]
        depends = (build / (self.object + ".d")).read_text().replace("\\\n", " ").split()[1:]
        files = {in_source(os.path.join(build, d), source) for d in depends}
        self.reads = {f for f in files if f.startswith("core/")} | {self.file}


class Site:
    """A line that the draw may take, and the mutations that fit it."""

    def __init__(self, seed, file, function, number, text, nth, fits):
        self.file, self.function, self.number, self.fits = file, function, number, fits
        self.key = hashlib.sha256("\0".join((seed, file, function, text, str(nth))).encode()).digest()

    def mutation(self):
        by_operator = {}
        for m in self.fits:
            by_operator.setdefault(m.operator, []).append(m)
        names = sorted(by_operator)
        there = by_operator[names[int.from_bytes(self.key[:8], "big") % len(names)]]
        return there[int.from_bytes(self.key[8:16], "big") % len(there)]


def sites_of(seed, file, text):
    by_line = {}
    for m in mutations(text):
        by_line.setdefault((text.count("\n", 0, m.start), m.function), []).append(m)
    lines, seen = text.split("\n"), collections.Counter()
    for (number, function), fits in sorted(by_line.items()):
        row = lines[number].strip()
        yield Site(seed, file, function, number + 1, row, seen[function, row], fits)
        seen[function, row] += 1


class Scratch:
    """Copies of core/, one for each task: a source has the same path relative to each, so its objects compare."""

    def __init__(self, root, build, source):
        self.root, self.build, self.source, self.mine = root, build, source, threading.local()
        self.base, self.lock, self.count = {}, threading.Lock(), 0

    def folder(self):
        if not hasattr(self.mine, "folder"):
            with self.lock:
                self.count += 1
                self.mine.folder = self.root / str(self.count)
            shutil.copytree(self.source / "core", self.mine.folder / "core")
        return self.mine.folder

    def compile(self, unit, out):
        out.parent.mkdir(parents=True, exist_ok=True)
        words = [unit.words[0], "-I."] + unit.words[1:] + ["-g0", "-o", str(out), "-c", unit.file]
        return subprocess.run(words, cwd=self.folder(), stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

    def base_object(self, unit):
        if unit.object not in self.base:
            out = self.folder() / "base.o"
            if not self.compile(unit, out):
                raise SystemExit(f"{unit.file} does not compile without a mutant: build {self.build} first")
            self.base[unit.object] = out.read_bytes()
        return self.base[unit.object]

    def objects(self, units, file, text):
        """The objects that differ, by name; the text of the refusal where there are none."""
        path, found = self.folder() / file, {}
        original = path.read_text()
        bases = [self.base_object(u) for u in units]
        path.write_text(text)
        try:
            for unit, base in zip(units, bases):
                out = self.folder() / "mutant.o"
                if not self.compile(unit, out):
                    return "does not compile"
                data = out.read_bytes()
                if data != base:
                    found[unit.object] = data
        finally:
            path.write_text(original)
        return found or "same objects"


def name_of(site, operator):
    stem, ending = os.path.splitext(os.path.basename(site.file))
    return f"{stem}{'_h' if ending == '.h' else ''}_{site.number}_{operator}"


def patch_of(site, operator, old, new, context=1):
    rows = difflib.unified_diff(
        old.splitlines(True), new.splitlines(True), "a/" + site.file, "b/" + site.file, n=context)
    return f"# drawn: {operator.replace('_', ' ')}, in {site.function}\n" + "".join(rows)


def candidate(scratch, units, texts, site):
    m = site.mutation()
    old = texts[site.file]
    new = old[: m.start] + m.new + old[m.end :]
    result = scratch.objects([u for u in units if site.file in u.reads], site.file, new)
    return m.operator, new, result


def units_of(build, source):
    entries = json.loads((build / "compile_commands.json").read_text())
    return [Unit(e, build, source) for e in entries if re.search(r" -o CMakeFiles/core_", e["command"])]


def eligible(units, source):
    """Sources of the library, and headers that are part of few of them."""
    count = collections.Counter(f for u in units for f in u.reads)
    files = [f for f in count if not f.startswith(LEFT_OUT)]
    return sorted(f for f in files if f.startswith("core/") and (f.endswith(".c") or count[f] <= MOST_UNITS))


def accept(site, operator, new, result, texts, out, objects):
    name = name_of(site, operator)
    (out / f"{name}.patch").write_text(patch_of(site, operator, texts[site.file], new))
    for path, data in result.items() if objects else ():
        to = objects / name / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
    print(name, site.file, site.function, flush=True)


def draw(scratch, units, texts, seed, count, jobs, out, objects):
    sites = sorted((s for f in sorted(texts) for s in sites_of(seed, f, texts[f])), key=lambda s: s.key)
    taken, refused = set(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        at = 0
        while at < len(sites):
            most = min(2 * jobs, count - len(taken))  # compiles no more than are still missing
            batch = [s for s in sites[at : at + most] if (s.file, s.function) not in taken]
            at += most
            made = pool.map(lambda s: candidate(scratch, units, texts, s), batch)
            # in the order of the draw, whatever was compiled first
            for site, (operator, new, result) in zip(batch, made):
                if len(taken) == count or (site.file, site.function) in taken:
                    continue
                if isinstance(result, str):
                    refused[result] += 1
                    continue
                taken.add((site.file, site.function))
                accept(site, operator, new, result, texts, out, objects)
            if len(taken) == count:
                break
    print(f"{len(taken)} drawn from {len(sites)} lines; refused: "
          + ", ".join(f"{n} {why}" for why, n in sorted(refused.items())), file=sys.stderr)
    return 0 if len(taken) == count else 1


def main():
    build, source = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    seed, count, jobs, out = sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), pathlib.Path(sys.argv[6])
    objects = pathlib.Path(sys.argv[7]) if len(sys.argv) > 7 else None
    out.mkdir(parents=True, exist_ok=True)
    units = units_of(build, source)
    texts = {f: (source / f).read_text() for f in eligible(units, source)}
    with tempfile.TemporaryDirectory() as root:
        return draw(Scratch(pathlib.Path(root), build, source), units, texts, seed, count, jobs, out, objects)


if __name__ == "__main__":
    sys.exit(main())
