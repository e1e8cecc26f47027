#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each line of the conformance suite's lists of differences has its row in docs/verbs/fidelity.md.
# What fakeverbs lacks is a list of work, and needs none.
set -euo pipefail
source_dir=$2
cd "$source_dir"
bad=0 seen=0
for list in tests/conformance/verbs/expected-*.txt; do
	while read -r word name; do
		seen=$((seen + 1))
		[ "$word" = lacks ] && [[ $list = *fakeverbs* ]] && continue
		grep -qF "| \`$name\` |" docs/verbs/fidelity.md && continue
		echo "$list: $word $name: no row \`$name\` in docs/verbs/fidelity.md"
		bad=1
	done < <(sed 's/#.*//' "$list" | grep -v '^[[:space:]]*$')
done
[ $seen -gt 0 ] || { echo "no list was found"; exit 1; }
[ $bad = 0 ] && echo "$seen lines"
exit $bad
