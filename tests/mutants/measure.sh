#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Seeds to find: for every mutant and every way to explore, the first seed from 1 that finds it with
# the verdict and the object that NAME.run says. Prints a markdown table, as in results/mutants.md.
# Usage: measure.sh BUILD_DIR SOURCE_DIR [SEEDS] [NAME...]
#   SEEDS    how many at most (default 2000)
# In the environment:
#   WAYS     the columns, separated by `;`, each the arguments for `doppel run`; `default`: the default
#            sweep, which draws its worlds and knows nothing of NAME.run
#   TOTAL_S  about how long all may take (default: no limit). The first column of every mutant comes
#            first and to its end; the others share what is left, `-` is a cell that was not begun
#   LIMIT_S  no cell of the other columns takes longer (default 20); `>N` then stands for N seeds
#            without a finding
#   JOBS     mutants at the same time (default 2)
set -euo pipefail
# shellcheck source=tests/mutants/mutant.sh
. "$(dirname "$0")/mutant.sh"
mutant_init "$1" "$2"
seeds=${3:-2000}
jobs=${JOBS:-2} limit=${LIMIT_S:-20}
shift $(($# > 3 ? 3 : $#))
names=("$@")
[ $# != 0 ] || mapfile -t names < <(mutant_names)
IFS=';' read -ra ways <<<"${WAYS:-$(mutant_ways)}"
deadline=$(($(date +%s) + ${TOTAL_S:-1000000}))

# The first seed of the default sweep that the mutant fails: any failure counts, the unmutated stack
# has none. Into cell.COLUMN and `said`, as cell does.
default_cell() {
	local name=$1 column=$2 found=0 seed=1 failed=
	drawn=1 mutant_sweep "$name" 1 "$seeds" "$3"
	if [ "$found" = 0 ]; then
		echo ">$((seed - 1))" >"$work/$name/cell.$column"
	else
		echo "$found" >"$work/$name/cell.$column"
		[ -f "$work/$name/said" ] ||
			echo "$failed" | tr '|`' '  ' | sed 's/^seed [^ ]* //; s| [^ ]*/fail/[^ ]*||; s/  */ /g' |
				cut -c1-120 >"$work/$name/said"
	fi
	echo "$name, default: $(cat "$work/$name/cell.$column")" >&2
}

# cell NAME COLUMN SECONDS: leaves $work/NAME/cell.COLUMN, and what named it first in `said`.
cell() {
	local name=$1 column=$2 found=0 seed=1 rc=0 text
	[ "${ways[column]}" != default ] || { default_cell "$@"; return; }
	# shellcheck disable=SC2086 # the arguments are words
	if ! LIMIT_S=$3 mutant_find "$name" "$seeds" ${ways[column]} >&2; then
		text="wrong ($rc at $found)"
	elif [ "$found" = 0 ]; then
		text=">$((seed - 1))"
	else
		text=$found
		[ -f "$work/$name/said" ] ||
			echo "$rc: $(mutant_said "$name" | tr '|`' '  ' | cut -c1-100)" >"$work/$name/said"
	fi
	echo "$text" >"$work/$name/cell.$column"
	echo "$name, ${ways[column]}: $text" >&2
}

first_column() {
	mutant_build "$1" >&2 || return 0
	touch "$work/$1/built"
	cell "$1" 0 100000
}

other_columns() {
	local column left
	[ -f "$work/$1/built" ] || return 0
	for ((column = 1; column < ${#ways[@]}; column++)); do
		left=$((deadline - $(date +%s)))
		[ $left -le 0 ] || cell "$1" $column $((left < limit ? left : limit))
	done
	rm -f "$work/$1/libdoppel.so"
}

# each_name FUNCTION: for all mutants, `jobs` at a time
each_name() {
	local name
	for name in "${names[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
		"$1" "$name" &
	done
	wait
}

table() {
	local name column total=0 all=0 said
	printf '| mutant | what finds it, first |'
	for way in "${ways[@]}"; do printf ' `%s` |' "${way#--strategy }"; done
	printf '\n|---|---|'
	for way in "${ways[@]}"; do printf -- '---|'; done
	echo
	for name in "${names[@]}"; do
		said=$(cat "$work/$name/said" 2>/dev/null || echo "not found")
		[ "$said" = "not found" ] || total=$((total + 1))
		all=$((all + 1))
		printf '| `%s` | %s |' "$name" "$said"
		for ((column = 0; column < ${#ways[@]}; column++)); do
			printf ' %s |' "$(cat "$work/$name/cell.$column" 2>/dev/null || echo -)"
		done
		echo
	done
	echo
	echo "$total of $all found within $seeds seeds, $(printf "$work/%s/cell.0\n" "${names[@]}" |
		xargs -d '\n' grep -lx '[0-9]*' 2>/dev/null | wc -l) of them with ${ways[0]}"
}

for name in "${names[@]}"; do rm -rf "${work:?}/$name"; done
each_name first_column
each_name other_columns
table
