#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Draws mutants of core/ at random, at most one in a function: the same seed and source give the same set. Each is
# OUT/NAME.patch, where NAME has file, line and operator. Drawn uniformly are the lines of functions of
# libdoppel.so that a standard operator fits (mutations.py): deleted statements, negated conditions, other
# comparisons, other numbers, errors not returned. Left out are core/os, log texts and assertions.
# Usage: draw.sh --seed N --count K [--jobs J] [--build BUILD_DIR] [--libs DIR] OUT
#   --jobs   compilers at the same time (2); the set is the same for each number
#   --build  a finished build of the doubles (build/fake); its commands compile the mutants
#   --libs   builds DIR/NAME/libdoppel.so of each, without symbols of the debugger
set -euo pipefail
seed='' count='' jobs=2 build='' libs='' out=''
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
usage() {
	echo "$1; Usage: $0 --seed N --count K [--jobs J] [--build BUILD_DIR] [--libs DIR] OUT" >&2
	exit 1
}
while [ $# != 0 ]; do
	case $1 in
	--seed | --count | --jobs | --build | --libs)
		[ $# -ge 2 ] || usage "$1 has no value"
		declare "${1#--}=$2"
		shift
		;;
	-*) usage "$1: unknown option" ;;
	*) out=$1 ;;
	esac
	shift
done
[[ $seed =~ ^[0-9]+$ ]] || usage "--seed '$seed' is not a number"
[[ $count =~ ^[1-9][0-9]*$ ]] || usage "--count '$count' is not a number of at least 1"
[[ $jobs =~ ^[1-9][0-9]*$ ]] || usage "--jobs '$jobs' is not a number of at least 1"
[ -n "$out" ] || usage "no folder OUT"
# shellcheck source=tests/mutants/mutant.sh
. "$source_dir/tests/mutants/mutant.sh"
mutant_init "${build:-$source_dir/build/fake}" "$source_dir"
need python3 strip
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
begin=$SECONDS

[ -z "$(ls -A "$out" 2>/dev/null)" ] || usage "$out: is not empty; a set is drawn into a new folder"
mkdir -p "$out"
python3 "$source_dir/tests/mutants/draw.py" "$build_dir" "$source_dir" "$seed" "$count" "$jobs" "$out" \
	${libs:+"$made"}
echo "drawn in $((SECONDS - begin)) s" >&2
[ -n "$libs" ] || exit 0

# The library of one mutant: its objects, and all others of the build.
link_one() {
	local name=$1 object all=()
	for object in "${library[@]}"; do
		[ -f "$made/$name/$object" ] && all+=("$made/$name/$object") || all+=("$build_dir/$object")
	done
	mkdir -p "$libs/$name"
	mutant_link "$libs/$name" "${all[@]}" || { cat "$libs/$name/build.log"; return 1; }
	strip -g "$libs/$name/libdoppel.so"
	rm "$libs/$name/build.log"
}

mapfile -t library < <(sed -n 's|.* -o \(CMakeFiles/core_[^ ]*\) -c .*|\1|p' "$build_dir/compile_commands.json")
for patch in "$out"/*.patch; do
	link_one "$(basename "$patch" .patch)"
done
echo "linked after $((SECONDS - begin)) s" >&2
