#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# How many runs a planted bug takes: seed after seed, and as a search by coverage. A row for each
# mutant and strategy: the runs from each of STARTS first seeds, sorted; >N: not in N.
#	search.sh MUTANT... [-- OPTIONS OF SWEEP]
# RUNS=2000 at most for each, STARTS=5, BUILD=build/fake
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$source_dir/build/fake}
runs=${RUNS:-2000}
starts=${STARTS:-5}
mutants=() options=()
while [ $# != 0 ] && [ "$1" != -- ]; do
	mutants+=("$1")
	shift
done
[ $# = 0 ] || options=("${@:2}")
[ ${#mutants[@]} != 0 ] || { echo "Usage: $0 MUTANT... [-- OPTIONS OF SWEEP]" >&2; exit 1; }

# first seed, options: how many runs until something is found
count() {
	local first=$1 out n
	shift
	out=$("$doppel" sweep "$@" --seeds "$first..$((first + runs - 1))" --max-failures 1 -j 1 \
		--twice 0 --fail-dir "$work" 2>/dev/null)
	n=$(sed -n 's/^\([0-9]*\) seeds: .*/\1/p' <<<"$out")
	grep -q "^$n seeds: $n passed$" <<<"$out" && n=">$n"
	echo "$n"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "| mutant | options | seed after seed | search |"
echo "|---|---|---|---|"
for m in "${mutants[@]}"; do
	"$source_dir/tests/mutants/build.sh" "$m" "$build" >"$work/log" 2>&1 ||
		{ cat "$work/log"; exit 1; }
	doppel=$build/mutants/$m/doppel
	read -r -a args <<<"$(head -1 "$source_dir/tests/mutants/$m.run" |
		sed "s|@|$source_dir/tests/mutants|g;s|^-|all_reduce -|")"
	plain=() guided=()
	for ((i = 0; i < starts; i++)); do
		first=$((1 + i * 1000000))
		plain+=("$(count $first "${args[@]}" "${options[@]}")")
		guided+=("$(count $first "${args[@]}" "${options[@]}" --coverage)")
	done
	sorted() { printf '%s\n' "$@" | sed 's/^>/~/' | sort -t~ -k1,1n | sed 's/^~/>/' | paste -sd' '; }
	echo "| \`$m\` | ${options[*]} | $(sorted "${plain[@]}") | $(sorted "${guided[@]}") |"
done
