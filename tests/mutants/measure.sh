#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Seeds to find: for every mutant and every way to explore, the first seed from 1 that finds it with
# the verdict and the object that NAME.run says. Prints a markdown table, as in docs/mutants.md.
# Usage: measure.sh BUILD_DIR SOURCE_DIR [SEEDS] [NAME...]
#   SEEDS  how many at most (default 2000)
#   WAYS   in the environment: the columns, separated by `;`, each the arguments for `doppel run`
#   LIMIT_S  in the environment: no cell takes longer; `>N` then stands for N seeds without a finding
set -euo pipefail
# shellcheck source=tests/mutants/mutant.sh
. "$(dirname "$0")/mutant.sh"
mutant_init "$1" "$2"
seeds=${3:-2000}
shift $(($# > 3 ? 3 : $#))
names=("$@")
[ $# != 0 ] || mapfile -t names < <(mutant_names)
IFS=';' read -ra ways <<<"${WAYS:-$(mutant_ways)}"

{
	printf '| mutant | what finds it, first |'
	for way in "${ways[@]}"; do printf ' `%s` |' "${way#--strategy }"; done
	printf '\n|---|---|'
	for way in "${ways[@]}"; do printf -- '---|'; done
	echo
}
total=0 all=0
for name in "${names[@]}"; do
	mutant_build "$name" >&2 || continue
	cells= said= any=0
	for way in "${ways[@]}"; do
		# shellcheck disable=SC2086 # the arguments are words
		if ! mutant_find "$name" "$seeds" $way >&2; then
			cells="$cells wrong ($rc at $found) |"
		elif [ "$found" = 0 ]; then
			cells="$cells >$((seed - 1)) |"
		else
			cells="$cells $found |"
			any=1
			[ -n "$said" ] || said="$rc: $(mutant_said "$name" | tr '|`' '  ' | cut -c1-100)"
		fi
	done
	rm -f "$work/$name/libdoppel.so"
	all=$((all + 1)) total=$((total + any))
	echo "| \`$name\` | ${said:-not found} |$cells"
done
echo
echo "$total of $all found within $seeds seeds"
