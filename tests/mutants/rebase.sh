#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes every mutant's patch anew after core/ has changed: a three-way merge of the file as the patch
# was written for, the mutated file, and the file of today. A patch that still applies is left as it is.
# Usage: rebase.sh COMMIT   (the patches apply to COMMIT's core/)
# Exit 1: patches are left that a person must rewrite; each is named.
set -euo pipefail
cd "$(dirname "$0")/../.."
base=$1
# shellcheck source=tests/mutants/mutant.sh
. tests/mutants/mutant.sh
mutant_init build/fake .
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/old" "$dir/mutated"
git archive "$base" core | tar -x -C "$dir/old"
left=0 moved=0

# Where a file of the base is today: git follows renames.
today() { awk -v file="$1" '$2 == file { print $3; found = 1 } END { if (!found) print file }' "$dir/renames"; }
git diff --find-renames=40% --diff-filter=R --name-status "$base" -- core >"$dir/renames"

# A line between each two, so that a change of the line beside the mutant's is no conflict.
between=@@
spread() { sed "s/\$/\n$between/" "$1"; }

rebase_one() {
	local patch=$1 file now head
	rm -rf "$dir/mutated"
	cp -r "$dir/old" "$dir/mutated"
	patch --quiet -p1 -d "$dir/mutated" --no-backup-if-mismatch <"$patch" >/dev/null || return 1
	head=$(sed '/^--- /,$d' "$patch")
	echo "$head" >"$dir/new.patch"
	while read -r file; do
		now=$(today "$file")
		[ -e "$now" ] || return 1
		spread "$now" >"$dir/ours"
		spread "$dir/old/$file" >"$dir/base"
		spread "$dir/mutated/$file" >"$dir/theirs"
		git merge-file -q --diff3 "$dir/ours" "$dir/base" "$dir/theirs" || return 1
		grep -vx "$between" "$dir/ours" >"$dir/merged"
		! cmp -s "$now" "$dir/merged" || return 1
		diff -U1 --label "a/$now" --label "b/$now" "$now" "$dir/merged" >>"$dir/new.patch" || true
	done < <(sed -n 's|^+++ b/\([^\t ]*\).*|\1|p' "$patch")
	cp "$dir/new.patch" "$patch"
}

for name in $(mutant_names); do
	mutant_applies "$name" >/dev/null && continue
	if rebase_one "tests/mutants/$name.patch" && mutant_applies "$name"; then
		moved=$((moved + 1))
	else
		echo "$name: does not merge; rewrite it by hand"
		left=1
	fi
done
echo "$moved patches written anew"
exit $left
