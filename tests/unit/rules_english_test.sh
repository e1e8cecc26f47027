#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Comments, messages and documents are plain English, and no line is wider than 100 columns: docs/testing.md.
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
cat >"$planted/a.c" <<'C'
/* What is left of it. */
/* A record whose owner exited. It is nothing but a number. */
int width_of_this_line_is_more_than_one_hundred_columns, which_is_too_wide_for_a_window_beside_another_one;
const char *text = "the peer is behind it";
/* Returns the first record. What it holds: a number. */
C
git -C "$planted" add a.c
(cd "$planted" && ! python3 "$here/rules_english.py" >out)
for expected in "a.c:1: begins with 'What'" "a.c:2: 'nothing but'" "a.c:3: 107 columns" "a.c:4: 'behind'" \
	"a.c:5: begins with 'What'" "1 files read, 5 findings"; do
	grep -qF "$expected" "$planted/out" ||
		{ echo "a fault that is planted is not found: $expected"; cat "$planted/out"; exit 1; }
done
python3 "$here/rules_english.py"
