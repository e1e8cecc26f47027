#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every os_buggify and OS_PROBE site of the code has its row in the table of the engine, and every row
# is used.
set -euo pipefail
root=$2
rc=0

rows_match() { # rows_match CALL TABLE FILE
	local used listed name
	used=$(grep -rhoE "\b$1\(\"[^\"]*\"" --include=*.c --include=*.h \
		"$root/core" "$root/backends" "$root/sim" | sed 's/.*("\([^"]*\)"/\1/' | sort -u)
	listed=$(sed -n "/$2\[\] = {/,/^};/s/^	{\"\([^\"]*\)\".*/\1/p" "$root/$3" | sort -u)
	[ -n "$used" ] || { echo "no $1 site found under $root"; exit 1; }
	for name in $used; do
		grep -qxF "$name" <<<"$listed" || { echo "$1(\"$name\") has no row in $3"; rc=1; }
	done
	for name in $listed; do
		grep -qxF "$name" <<<"$used" || { echo "$3 lists $name, which nobody uses"; rc=1; }
	done
	echo "$1: $(wc -w <<<"$used") sites"
}
rows_match os_buggify buggify_sites sim/engine/buggify.c
rows_match OS_PROBE probe_sites sim/engine/probe.c
exit $rc
