#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every OS_PROBE site of the code has its row in sim/engine/probe.c, and every row is used.
set -euo pipefail
root=$2
rc=0
used=$(grep -rhoE 'OS_PROBE\("[^"]*"' --include=*.c --include=*.h \
	"$root/core" "$root/backends" "$root/sim" | sed 's/.*("\([^"]*\)".*/\1/' | sort -u)
listed=$(sed -n '/probe_sites\[\] = {/,/^};/s/^	{"\([^"]*\)".*/\1/p' "$root/sim/engine/probe.c" |
	sort -u)
[ -n "$used" ] || { echo "no OS_PROBE site found under $root"; exit 1; }
for name in $used; do
	grep -qxF "$name" <<<"$listed" || {
		echo "OS_PROBE(\"$name\") has no row in sim/engine/probe.c"
		rc=1
	}
done
for name in $listed; do
	grep -qxF "$name" <<<"$used" || {
		echo "sim/engine/probe.c lists $name, which nobody uses"
		rc=1
	}
done
exit $rc
