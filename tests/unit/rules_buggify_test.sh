#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every os_buggify site of the code has its row in sim/engine/buggify.c, and every row is used.
set -euo pipefail
root=$2
rc=0
used=$(grep -rhoE 'os_buggify\("[^"]*"\)' --include=*.c --include=*.h \
	"$root/core" "$root/backends" "$root/sim" | sed 's/.*("\(.*\)").*/\1/' | sort -u)
listed=$(sed -n '/buggify_sites\[\] = {/,/^};/s/^	{"\([^"]*\)".*/\1/p' "$root/sim/engine/buggify.c" |
	sort -u)
[ -n "$used" ] || { echo "no os_buggify site found under $root"; exit 1; }
for name in $used; do
	grep -qxF "$name" <<<"$listed" || {
		echo "os_buggify(\"$name\") has no row in sim/engine/buggify.c"
		rc=1
	}
done
for name in $listed; do
	grep -qxF "$name" <<<"$used" || {
		echo "sim/engine/buggify.c lists $name, which nobody uses"
		rc=1
	}
done
exit $rc
