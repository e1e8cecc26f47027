#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every kind of os_trace record has its row in sim/engine/timeline_kinds.c, which names its numbers, and
# every row is used.
set -euo pipefail
root=$2
table=sim/engine/timeline_kinds.c
rc=0
# a call may choose between two kinds
used=$(grep -rhoE '\b(os_trace|hca_trace|trace_record)\([^,]*"[^"]*"[^,]*,' --include=*.c --include=*.h \
	"$root/core" "$root/backends" "$root/sim" | grep -oE '"[^"]*"' | tr -d '"' | sort -u)
listed=$(sed -n '/timeline_kinds\[\] = {/,/^};/s/^	{"\([^"]*\)".*/\1/p' "$root/$table" | sort -u)
[ -n "$used" ] || { echo "no os_trace found under $root"; exit 1; }
while read -r kind; do
	grep -qxF "$kind" <<<"$listed" || { echo "os_trace(\"$kind\") has no row in $table"; rc=1; }
done <<<"$used"
while read -r kind; do
	grep -qxF "$kind" <<<"$used" || { echo "$table has a row for $kind, which no os_trace records"; rc=1; }
done <<<"$listed"
echo "$(wc -l <<<"$used") kinds of records"
exit $rc
