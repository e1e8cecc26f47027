#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The pages that lead through the code (CONTRIBUTING, the map, the architecture, the style, the glossary, recipes and
# READMEs) name files, functions and tests that exist, and no page has a link that leads nowhere.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$2"
# shellcheck source=tests/lib.sh
. tests/lib.sh
need python3 git
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git repository: the files cannot be listed"; exit 77; }

# the check can fail
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir "$planted/docs"
cat >"$planted/docs/MAP.md" <<'END'
`code.c` has `there_is` and `there_is_not`. `docs/none.c`, `unit.none_test` and [a page](none.md#x) do not exist.
END
echo 'int there_is; /* there_is_not */' >"$planted/code.c"
touch "$planted"/{CONTRIBUTING,docs/architecture,docs/style,docs/glossary}.md
git init -q "$planted"
git -C "$planted" add .
(cd "$planted" && ! python3 "$here/guide_names.py" >out) || { echo "planted names are not found"; exit 1; }
for name in there_is_not docs/none.c unit.none_test none.md; do
	grep -qF "$name" "$planted/out" || { echo "the planted name $name is not found"; cat "$planted/out"; exit 1; }
done
[ "$(wc -l <"$planted/out")" = 5 ] || { echo "expected four findings"; cat "$planted/out"; exit 1; }

python3 "$here/guide_names.py"
