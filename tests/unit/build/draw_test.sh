#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Mutants drawn at random (tests/mutants/draw.sh): each operator fits the lines that it should and no others, and what
# does not compile or changes no object is refused. A seed draws the same set each time, of any number of compilers;
# each patch applies and is in a function of its own; another seed draws others. Bad arguments are refused.
#	draw_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need python3 patch cc
need_doubles "$build_dir"
need_plain "$build_dir"
test_begin "$build_dir"

python3 "$source_dir/tests/unit/build/draw_check.py" "$build_dir" "$source_dir" >out 2>&1 ||
	fail "draw_check.py: $(tail -n 3 out)"

draw() { # draw SEED COUNT JOBS OUT [OPTION...]
	"$source_dir/tests/mutants/draw.sh" --seed "$1" --count "$2" --jobs "$3" --build "$build_dir" "${@:5}" "$4"
}
draw 1 2 1 first --libs libs >listed 2>log || fail "seed 1: $(tail -n 3 log)"
draw 1 2 2 again >/dev/null 2>log || fail "seed 1 again: $(tail -n 3 log)"
draw 2 1 2 other >/dev/null 2>log || fail "seed 2: $(tail -n 3 log)"
diff -r first again || fail "seed 1 drew another set the second time"
[ "$(find first -name '*.patch' | wc -l)" = 2 ] || fail "expected two patches: $(ls first)"
[ "$(cut -d' ' -f2- listed | sort -u | wc -l)" = 2 ] || fail "expected two functions: $(cat listed)"
for patch in other/*.patch; do
	[ ! -e "first/${patch##*/}" ] || fail "seeds 1 and 2 both drew $patch"
done

# shellcheck source=tests/mutants/mutant.sh
. "$source_dir/tests/mutants/mutant.sh"
mutant_init "$build_dir" "$source_dir"
# shellcheck disable=SC2034 # mutant.sh reads them
here=$PWD/first work=$PWD
for name in $(mutant_names); do
	mutant_applies "$name" || fail "$name does not apply"
	cmp -s "libs/$name/libdoppel.so" "$build_dir/libdoppel.so" && fail "$name: the build's own library"
	LD_LIBRARY_PATH=libs/$name "$build_dir/doppel" --version >out 2>&1 || fail "$name: $(tail -n 3 out)"
done

refused() { # refused PATTERN ARGUMENT...
	local pattern=$1 rc=0
	shift
	"$source_dir/tests/mutants/draw.sh" "$@" >out 2>&1 || rc=$?
	[ $rc = 1 ] && grep -qe "$pattern" out || fail "draw.sh $*: $rc, expected 1 and '$pattern': $(cat out)"
}
refused "^--seed 'x' is not a number" --seed x --count 1 new
refused "^--count '0' is not a number of at least 1" --seed 1 --count 0 new
refused '^--sed: unknown option' --sed 1 --count 1 new
refused '^first: is not empty' --seed 1 --count 1 first
exit $bad
