#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Planted bugs, each a patch of core alone (tests/sim/mutants/*.patch): the doubles and the checkers
# stay byte-identical, and find it. For each tests/sim/mutants/NAME.run gives the arguments and,
# in its second line, the exit code that it must end with; the unmutated stack must pass the same seeds.
# Usage: mutants_test.sh BUILD_DIR SOURCE_DIR [SEEDS] [all]
#   SEEDS  how many at most (default 200); `all`: do not stop at the first seed that finds it
set -euo pipefail
build_dir=$1 source_dir=$(cd "$2" && pwd) seeds=${3:-200} mode=${4:-first}
work=$build_dir/mutants
here=$source_dir/tests/sim/mutants
bad=0 found=0
mkdir -p "$work"
rm -rf "$work/src"
mkdir -p "$work/src"
(cd "$source_dir" && tar -cf - CMakeLists.txt cmake core backends sim tests) |
	tar -xf - -C "$work/src"

rebuild() {
	{ cmake -S "$work/src" -B "$work/build" &&
		cmake --build "$work/build" -j "$(nproc)" --target doppel-cli; } >"$work/build.log" 2>&1 ||
		{ tail -30 "$work/build.log"; exit 1; }
}

run_seed() { # run_seed ARGS SEED -> verdict in $rc, what it said in $work/err
	rc=0
	# shellcheck disable=SC2086 # the arguments are words
	timeout 120 "$work/build/doppel" run all_reduce $1 --seed "$2" >"$work/out" 2>"$work/err" || rc=$?
}

rebuild
for patch in "$here"/*.patch; do
	name=$(basename "$patch" .patch)
	args=$(head -1 "$here/$name.run") verdict=$(sed -n 2p "$here/$name.run")
	cp "$work/build/libdoppel-rt.so" "$work/rt.before"
	patch -s -p1 -d "$work/src" <"$patch"
	rebuild
	first=0 hits=0 verdicts=
	for ((seed = 1; seed <= seeds; seed++)); do
		run_seed "$args" $seed
		[ $rc = 0 ] && continue
		hits=$((hits + 1))
		[ $rc = "$verdict" ] || { echo "$name, seed $seed: exit code $rc, expected $verdict"; bad=1; }
		verdicts="$verdicts $rc"
		if [ $first = 0 ]; then
			first=$seed
			grep -m1 -E '^FAIL|wrong result|WARN' "$work/err" >"$work/said" || head -1 "$work/err" >"$work/said"
		fi
		[ "$mode" = all ] || break
	done
	cmp -s "$work/rt.before" "$work/build/libdoppel-rt.so" || { echo "$name: touched more than core"; bad=1; }
	patch -s -R -p1 -d "$work/src" <"$patch"
	if [ $first = 0 ]; then
		echo "$name: not found in $seeds seeds"
		bad=1
	else
		found=$((found + 1))
		verdicts=$(tr ' ' '\n' <<<"$verdicts" | sed '/^$/d' | sort | uniq -c | awk '{printf "%s x %s ", $2, $1}')
		echo "$name: found at seed $first, exit codes: $verdicts: $(cut -c1-150 "$work/said")"
	fi
	echo "$name $first" >>"$work/found"
done

rebuild
for run in "$here"/*.run; do
	args=$(head -1 "$run")
	name=$(basename "$run" .run)
	clean=$seeds
	[ "$mode" = all ] || clean=$(awk -v n="$name" '$1 == n {s = $2} END {print (s < 5 ? 5 : s)}' "$work/found")
	for ((seed = 1; seed <= clean; seed++)); do
		run_seed "$args" $seed
		if [ $rc != 0 ]; then
			echo "unmutated, arguments of $name, seed $seed: exit code $rc"
			head -3 "$work/err"
			bad=1
			break
		fi
	done
done
rm -f "$work/found"
[ $bad = 0 ] && echo "$found mutants found; the unmutated stack passes the same seeds"
exit $bad
