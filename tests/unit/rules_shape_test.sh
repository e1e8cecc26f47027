#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The shape of the tree:
# - core has no condition on a backend outside of core/device/shim/;
# - each .c file has a base name of its own, so that `break FILE:LINE` names one place in gdb;
# - a file has at most 500 lines, and a folder at most 25 files. Data and mutants do not count.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$2"
# shellcheck source=tests/lib.sh
. tests/lib.sh
need python3
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git repository: the files cannot be listed"; exit 77; }
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
git init -q "$planted"
mkdir -p "$planted"/{core/device/shim,core/plan,full,tests/mutants}
printf '\043ifdef DOPPEL_FAKECUDA\n\043endif\n' >"$planted/core/plan/allowed.c"
printf '\043if defined(DOPPEL_FAKE) && !defined(DOPPEL_VERBS)\n\043endif\n' >"$planted/core/plan/verbs.h"
printf '\043ifdef DOPPEL_FAKECUDA\n\043endif\n' >"$planted/core/device/shim/shim_table.h"
printf '\043ifdef DOPPEL_FAKE\n\043endif\n' >"$planted/core/device/allowed.c"
seq 500 >"$planted/core/device/fits.h"
seq 501 >"$planted/core/device/long.h"
seq 501 >"$planted/core/device/data.txt"
seq -f "$planted/full/%g.h" 26 | xargs touch
seq -f "$planted/tests/mutants/%g.h" 26 | xargs touch
git -C "$planted" add .
(cd "$planted" && ! python3 "$here/rules_shape.py" >out)
diff "$planted/out" - <<'END' || { echo "the planted faults (>) and those that are found (<) differ"; exit 1; }
core/plan/allowed.c:1: a condition on a backend; expected only in core/device/shim/
core/plan/verbs.h:1: a condition on a backend; expected only in core/device/shim/
allowed.c: core/device/allowed.c, core/plan/allowed.c; expected a base name of its own
core/device/long.h: 501 lines; expected at most 500
full: 26 files; expected at most 25
33 files read, 5 findings
END
python3 "$here/rules_shape.py"
