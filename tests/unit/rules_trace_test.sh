#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every kind of os_trace record has its row in sim/engine/trace/timeline_kinds.c, which names its numbers, and
# every row is used. gdb knows the names of choices as well.
set -euo pipefail
root=$2
table=sim/engine/trace/timeline_kinds.c
rc=0
# a call may choose between two kinds
used=$(grep -rhoE '\b(os_trace|hca_trace|trace_record|proxy_recv_note)\([^,]*"[^"]*"[^,]*,' --include=*.c --include=*.h \
	"$root/core" "$root/backends" "$root/sim" "$root/dropin" | grep -oE '"[^"]*"' | tr -d '"' | sort -u)
listed=$(sed -n '/timeline_kinds\[\] = {/,/^};/s/^	{"\([^"]*\)".*/\1/p' "$root/$table" | sort -u)
[ -n "$used" ] || { echo "no os_trace found under $root"; exit 1; }
while read -r kind; do
	grep -qxF "$kind" <<<"$listed" || { echo "os_trace(\"$kind\") has no row in $table"; rc=1; }
done <<<"$used"
while read -r kind; do
	grep -qxF "$kind" <<<"$used" || { echo "$table has a row for $kind, which no os_trace records"; rc=1; }
done <<<"$listed"
# gdb takes the names of records and of choices
names=sim/gdb/doppel_gdb/names.py
made=$(grep -rhoE '\b(sim_choose[a-z_]*|choice_[a-z_]+|transfer_cut)\([^;]*"[a-z]+\.[a-z_.]+"' --include=*.c "$root/sim" "$root/backends" |
	grep -oE '"[a-z]+\.[a-z_.]+"' | sort -u)
known=$(sed -n '/^CHOICES = /,/)/p' "$root/$names" | grep -oE '"[^"]*"' | sort -u)
[ "$made" = "$known" ] || { echo "$names has other choices than the code:"; diff <(echo "$made") <(echo "$known") || true; rc=1; }
for kind in $(sed -n '/^EVENTS = /,/)/p' "$root/$names" | grep -oE '"[a-z.]*"' | tr -d '"'); do
	grep -qxF "$kind" <<<"$listed" || { echo "$names has $kind, which is no kind of record"; rc=1; }
done
echo "$(wc -l <<<"$used") kinds of records"
exit $rc
