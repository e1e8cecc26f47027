#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A file name in a comment or a document is a file of this repository, so that a reader can open it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$2"
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git repository: the files cannot be listed"; exit 77; }
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
git init -q "$planted"
echo '/* As in no_such_file.c. */' >"$planted/a.c"
git -C "$planted" add a.c
(cd "$planted" && ! python3 "$here/rules_names.py" >out) && grep -q 'a.c:1: no_such_file.c' "$planted/out" ||
	{ echo "a name that is planted is not found"; exit 1; }
python3 "$here/rules_names.py"
