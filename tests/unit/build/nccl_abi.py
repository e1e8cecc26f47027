#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares our nccl.h and nccl_device.h with those of an installed NCCL: names, values, layouts, prototypes.

Usage: nccl_abi.py OURS THEIRS CUDA     the folders of the headers, and the folder of cuda_runtime.h
Prints what differs; exit 1 where something does.

An older header has a subset of our names. A newer one has all of ours, and may have more. Of the device API, only the
same version is compared, and only what our header has: the rest is for the GPU.
"""
import os
import re
import subprocess
import sys
import tempfile

VERSION = {"NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH", "NCCL_VERSION_CODE", "ncclNumResults"}
# exported by NCCL on every system, and declared for Windows only
WINDOWS = {"ncclGinOutboxCreateRequirement", "ncclGinInboxA2ACreateRequirement"}
# macros without a value that C can print
OWN = re.compile(r"NCCL_DOPPEL_")  # options of ncclCollConfig_t.ext, which vendors number themselves
NO_VALUE = re.compile(r"NCCL_(H_|SUFFIX|COMM_NULL|CONFIG_UNDEF_PTR|VERSION|TYPES_H_|DEVICE_H_|\w+_INITIALIZER)$")


def preprocess(folder, header, cuda):
    """The text of the folder's own headers, after the preprocessor."""
    out = subprocess.run(["cc", "-E", "-DNCCL_OS_LINUX", "-I" + folder, "-I" + cuda, os.path.join(folder, header)],
                         capture_output=True, text=True, check=True).stdout
    kept, inside = [], False
    for line in out.split("\n"):
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            inside = os.path.dirname(marker.group(1)).startswith(folder)
        elif inside:
            kept.append(line)
    return " ".join(kept)


def fields_of(body):
    """Names of the fields in the body of a struct."""
    while re.search(r"\{[^{}]*\}", body):
        body = re.sub(r"\{[^{}]*\}", " ", body)
    found = []
    for one in body.split(";"):
        for part in one.split(","):
            name = re.search(r"(\w+)\s*(\[[^]]*\])?\s*$", part)
            if name:
                found.append(name.group(1))
    return found


def parse(folder, header, cuda):
    text = preprocess(folder, header, cuda)
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)\s*\)", "", text)
    text = re.sub(r"__attribute__\s*\(\([^()]*\([^()]*\)\s*\)\)", "", text)
    found = {"values": set(), "structs": {}, "functions": {}}
    for body in re.findall(r"\benum\s*\w*\s*\{([^}]*)\}", text):
        found["values"] |= set(re.findall(r"(?:^|,)\s*((?:nccl|NCCL)\w+)", body))
    for body, name in re.findall(r"\bstruct\s*\w*\s*(\{(?:[^{}]|\{[^{}]*\})*\})\s*(nccl\w+|)\s*;", text):
        if name:
            found["structs"][name] = fields_of(body[1:-1])
    for tag, body in re.findall(r"\bstruct\s+(nccl\w+)\s*(\{(?:[^{}]|\{[^{}]*\})*\})\s*;", text):
        pointer = re.search(r"\btypedef\s+struct\s+%s\s*\*" % tag, text)
        found["structs"].setdefault("struct " + tag if pointer else tag + "_t", fields_of(body[1:-1]))
    for result, name, parameters in re.findall(r"([\w ]+\*?)\s*\b(p?nccl[A-Z]\w*)\s*\(([^;{}]*)\)\s*;", text):
        result = result.replace("extern", "").strip()
        found["functions"][name] = "%s %s(%s);" % (result, name, parameters)
    for name in os.listdir(folder):
        if name in ("nccl.h", "nccl_types.h") or name == header:
            with open(os.path.join(folder, name), errors="replace") as f:
                macros = re.findall(r"^\s*#\s*define\s+(NCCL_\w+)", f.read(), re.M)
            found["values"] |= {m for m in macros if not NO_VALUE.match(m)}
    return found


def version_of(folder):
    text = ""
    for name in ("nccl.h", "nccl_types.h"):
        if os.path.isfile(os.path.join(folder, name)):
            with open(os.path.join(folder, name), errors="replace") as f:
                text += f.read()
    return tuple(int(re.search(r"define\s+NCCL_%s\s+(\d+)" % part, text).group(1))
                 for part in ("MAJOR", "MINOR", "PATCH"))


def program(values, structs, initializers):
    """A C program that prints values and layouts."""
    yield "#include HEADER\n#include <stddef.h>\n#include <stdio.h>"
    yield "static void bytes(const char *name, const void *p, size_t n) { printf(\"%s\", name);"
    yield "for (size_t i = 0; i < n; i++) printf(\" %02x\", ((const unsigned char *)p)[i]); puts(\"\"); }"
    yield "int main(void) {"
    for v in sorted(values):
        yield 'printf("%s %%.17g\\n", (double)(%s));' % (v, v)
    for name, fields in sorted(structs.items()):
        for f in fields:
            yield 'printf("%s.%s offset %%zu size %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));' % (
                name, f, name, f, name, f)
    for name, macro in initializers:
        yield 'printf("sizeof %s %%zu\\n", sizeof(%s));' % (name, name)
        yield "static const %s i%s = %s; bytes(\"%s\", &i%s, sizeof(%s));" % (name, macro, macro, macro, macro, name)
    yield 'printf("versions %d %d %d\\n", NCCL_VERSION(2, 8, 4), NCCL_VERSION(2, 9, 1), NCCL_VERSION(3, 0, 0));'
    yield "return 0; }"


def run(work, name, folder, header, cuda, text):
    source, binary = os.path.join(work, name + ".c"), os.path.join(work, name)
    with open(source, "w") as f:
        f.write("\n".join(text) + "\n")
    subprocess.run(["cc", "-DNCCL_OS_LINUX", "-I" + folder, "-I" + cuda, "-w",
                    '-DHEADER="%s"' % os.path.join(folder, header), "-o", binary, source], check=True)
    return subprocess.run([binary], capture_output=True, text=True, check=True).stdout.split("\n")


def names_missing(ours, theirs, older, newer, part):
    """Names that one header has and the other lacks."""
    for kind in ("values", "structs", "functions"):
        mine, other = set(ours[kind]), set(theirs[kind])
        if part:  # their device header has no twins, and more than the host's part
            other |= WINDOWS if kind == "functions" else set()
            other |= {"p" + n for n in other}
        if not newer and not part:
            yield from ("%s: ours lacks %s" % (kind, n) for n in sorted(other - mine))
        if not older:
            yield from ("%s: theirs lacks %s" % (kind, n) for n in sorted(mine - other) if not OWN.match(n))
    for name in sorted(set(ours["structs"]) & set(theirs["structs"])):
        mine, other = ours["structs"][name], theirs["structs"][name]
        short, long = (other, mine) if older else (mine, other)
        if long[:len(short)] != short or not (older or newer or part or len(long) == len(short)):
            yield "fields of %s: ours %s, theirs %s" % (name, " ".join(mine), " ".join(other))


def prototypes_check(work, ours, theirs, folder, header, cuda):
    """A program that declares both: a different type is a compile error."""
    known = set(theirs["functions"])
    known |= {"p" + n for n in known}
    lines = [p for n, p in sorted(ours["functions"].items()) if n in known]
    source = os.path.join(work, "both.c")
    with open(source, "w") as f:
        f.write('#include "%s"\n%s\n' % (os.path.join(folder, header), "\n".join(lines)))
    made = subprocess.run(["cc", "-DNCCL_OS_LINUX", "-I" + folder, "-I" + cuda, "-w", "-fsyntax-only", source],
                          capture_output=True, text=True)
    return len(lines), made.stderr if made.returncode else ""


def compare(work, folders, cuda, header, part):
    ours, theirs = (parse(f, header, cuda) for f in folders)
    mine, other = (version_of(f) for f in folders)
    bad = list(names_missing(ours, theirs, other < mine, other > mine, part))
    values = ours["values"] & theirs["values"] - (set() if mine == other else VERSION)
    structs = {n: [f for f in fields if f in theirs["structs"][n]]
               for n, fields in ours["structs"].items() if n in theirs["structs"]}
    initializers = []
    if mine == other:
        structs_with = {"ncclConfig_t": "NCCL_CONFIG_INITIALIZER", "ncclCollConfig_t": "NCCL_COLLCONFIG_INITIALIZER",
                        "ncclSimInfo_t": "NCCL_SIM_INFO_INITIALIZER",
                        "ncclEncryptionConfig_t": "NCCL_ENCRYPTION_CONFIG_INITIALIZER",
                        "ncclCommProperties_t": "NCCL_COMM_PROPERTIES_INITIALIZER",
                        "ncclDevCommRequirements_t": "NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER"}
        initializers = [(n, m) for n, m in structs_with.items() if n in structs]
    text = list(program(values, structs, initializers))
    lines = [run(work, name, folder, header, cuda, text) for name, folder in zip(("ours", "theirs"), folders)]
    bad += ["ours: %s; theirs: %s" % pair for pair in zip(*lines) if pair[0] != pair[1]]
    count, errors = prototypes_check(work, ours, theirs, folders[1], header, cuda)
    bad += [errors] if errors else []
    print("%s: %d values and offsets, %d structs, %d prototypes compared with %s of %s" % (
        header, len(lines[0]) - 1, len(structs), count, ".".join(map(str, other)), folders[1]))
    return bad, count


def main():
    ours, theirs, cuda = (os.path.realpath(f) for f in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as work:
        bad, count = compare(work, (ours, theirs), cuda, "nccl.h", False)
        if count < 60:
            bad.append("only %d prototypes of nccl.h are found" % count)
        if version_of(ours) == version_of(theirs) and os.path.isfile(os.path.join(theirs, "nccl_device.h")):
            more, count = compare(work, (ours, theirs), cuda, "nccl_device.h", True)
            bad += more
            if count < 40:
                bad.append("only %d prototypes of nccl_device.h are found" % count)
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
