#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An ordinary program (guest/guest_program.c) on the doubles, by `doppel exec` and by DOPPEL_MACHINE: what it
# gets, and what is printed at its end. Arguments: build folder, source folder.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
# a program is built as the libraries are
sanitizer=$(grep -oE -m 1 -e '-fsanitize=(address|thread)' "$build_dir/compile_commands.json" | head -1 || true)
if [ "$sanitizer" = -fsanitize=thread ]; then
	echo "programs under ThreadSanitizer are not tested"
	exit 77
fi
test_begin "$build_dir"
# a child that exits leaves what its parent had; what a world leaves is counted by the world
export ASAN_OPTIONS=detect_leaks=0
cc ${sanitizer:+$sanitizer} -o "$work/program" "$source_dir/tests/sim/guest/guest_program.c" -I"$source_dir/core/include" \
	-I"$source_dir/backends/fakecuda/include" -L"$build_dir" -lnccl -lcudart -pthread
# the codes of a run
{
	echo '#include <stdio.h>'
	echo '#include "sim/engine/sim.h"'
	echo 'int main(void) {'
	for v in USAGE ERROR NO_PROGRESS LEAK MISUSE; do echo "printf(\"$v=%d\\n\", (int)SIM_$v);"; done
	echo 'return 0; }'
} >"$work/codes.c"
cc -D_GNU_SOURCE -DDOPPEL_FAKE=1 -I"$source_dir" -o "$work/codes" "$work/codes.c"
USAGE=0 ERROR=0 NO_PROGRESS=0 LEAK=0 MISUSE=0
eval "$("$work/codes")"

checks=0
# expect CODE "ENGINES" WHAT PATTERN...: `doppel exec` ends with CODE, and prints each (grep -E); a
# pattern that begins with ! must not be there.
expect() {
	local code=$1 engines=$2 what=$3 engine pattern rc
	shift 3
	for engine in $engines; do
		rc=0
		# the shell's word on a crash is not wanted
		{
			timeout 120 "$doppel" exec --engine "$engine" ${options:+$options} "$work/program" "$what" \
				>"$work/out" 2>&1 || rc=$?
		} 2>/dev/null
		checks=$((checks + 1))
		if [ "$code" != any ] && [ $rc != "$code" ]; then
			echo "$what, engine $engine: ended with $rc, expected $code"
			sed 's/^/    /' "$work/out"
			bad=1
		fi
		for pattern in "$@"; do
			case $pattern in
			!*) ! grep -qE -- "${pattern#!}" "$work/out" && continue ;;
			*) grep -qE -- "$pattern" "$work/out" && continue ;;
			esac
			echo "$what, engine $engine: expected '$pattern' in"
			sed 's/^/    /' "$work/out"
			bad=1
		done
	done
}

both="sim threads" options=
expect 0 "$both" nothing '!seed' 'nothing ran on the doubles'
expect 0 "$both" all_reduce 'engine (sim|threads)' '!leak'
expect 0 sim all_reduce 'trace hash 0x[0-9a-f]{16}'
expect 0 "$both" no_destroy 'leak: memory .*communicator'
options="--leaks error"
expect "$LEAK" "$both" no_destroy 'leak: memory .*communicator'
expect "$LEAK" "$both" leak 'leak: device allocations 1 .*100 bytes on gpu 0' 'FAIL leak'
options=
expect 0 "$both" free_at_exit 'freed late: 0' '!leak'
expect 5 "$both" own_status 'seed 1' '!leak'
expect "$MISUSE" "$both" misuse 'FAIL misuse'
expect any "$both" dereference 'host dereference of device pointer 0x[0-9a-f]+' 'FAIL crash'
expect 0 "$both" environment 'NCCL version'
expect 0 "$both" nccl_first '!leak'
expect "$NO_PROGRESS" sim one_rank_alone 'FAIL deadlock' 'line of slot'
# whether its kernel runs already when the program ends is the threads' business
expect any threads one_rank_alone_at_exit 'still run at the end|leak: ' '!FAIL'
expect "$USAGE" sim thread_cuda 'engine sim, which has one thread; expected engine threads'
expect "$USAGE" sim thread_nccl 'engine sim, which has one thread; expected engine threads'
expect 0 threads thread_cuda 'thread: 0'
expect 0 threads thread_per_gpu '!leak'
for _ in 1 2 3 4 5; do
	expect 0 threads threads_at_exit '!crash'
done
expect 0 "$both" forks "child: $USAGE" 'a child made by fork has none'
expect 0 "$both" forks_for_other_work 'child: 7'

# faults: the counts are printed; a killed program is no pass
echo 'cuda.malloc nth=2 fail' >"$work/plan"
options="--faults $work/plan"
expect 9 "$both" all_reduce 'cudaMalloc failed' 'cuda.malloc nth=2 fail +# matched 2, fired 1'
echo 'os.task nth=5 kill' >"$work/plan"
expect "$ERROR" sim all_reduce 'the fault plan killed the program' 'matched [0-9]+, fired 1'
options="--faults random --seed 3"
expect any sim all_reduce 'seed 3' 'matched'
options=

# one seed is one order, by whatever way it is given; another seed is another
hash_of() { "$@" 2>&1 >/dev/null | sed -n 's/.*trace hash //p'; }
one=$(hash_of "$doppel" exec --seed 7 "$work/program" all_reduce)
two=$(hash_of env DOPPEL_MACHINE=h100-8nic DOPPEL_SEED=7 LD_LIBRARY_PATH="$build_dir" \
	setarch -R "$work/program" all_reduce)
three=$(hash_of "$doppel" exec --seed 8 "$work/program" all_reduce)
if [ -z "$one" ] || [ "$one" != "$two" ] || [ "$one" = "$three" ]; then
	echo "hashes of seed 7, seed 7 by the environment and seed 8: '$one' '$two' '$three'"
	bad=1
fi

# a zero in front is no octal
"$doppel" exec --seed 010 "$work/program" all_reduce 2>&1 | grep '^# seed 10 ' >"$work/out" ||
	{ echo "--seed 010 is another seed than 10"; bad=1; }

# a trace that cannot be written is noticed before the program runs, or at its end
rc=0
"$doppel" exec --trace /dev/full "$work/program" environment >"$work/out" 2>"$work/err" || rc=$?
if [ $rc != "$USAGE" ] || [ -s "$work/out" ] || ! grep -qx 'trace: cannot write /dev/full: No space left on device' "$work/err"; then
	echo "a trace in a full file: ended with $rc, expected $USAGE before the program runs"
	cat "$work/out" "$work/err"
	bad=1
fi
if [ "$(id -u)" = 0 ] && mkdir "$work/disk" && mount -t tmpfs -o size=4k none "$work/disk" 2>/dev/null; then
	rc=0
	"$doppel" exec --trace "$work/disk/t.json" "$work/program" all_reduce >"$work/out" 2>&1 || rc=$?
	umount "$work/disk"
	if [ $rc != "$USAGE" ] || [ "$(grep -c '^trace: cannot write .*No space left' "$work/out")" != 1 ]; then
		echo "a trace on a disk that fills up: ended with $rc, expected $USAGE and one line"
		cat "$work/out"
		bad=1
	fi
fi
rc=0
"$doppel" exec "$work/program" all_reduce 2>/dev/full >"$work/out" || rc=$?
[ $rc = "$USAGE" ] || { echo "a report that is lost: ended with $rc, expected $USAGE"; bad=1; }

# an unknown variable is one warning, by whatever way the program is started
for way in "$doppel exec" "$doppel exec --hosts 2" "env DOPPEL_MACHINE=h100-8nic LD_LIBRARY_PATH=$build_dir"; do
	# shellcheck disable=SC2086 # words
	DOPPEL_HCA_PERSONALTY=mlx5 $way "$work/program" all_reduce >"$work/out" 2>&1 || true
	[ "$(grep -c 'warning: DOPPEL_HCA_PERSONALTY .*nearest: DOPPEL_HCA_PERSONALITY' "$work/out")" = 1 ] ||
		{ echo "$way: an unknown variable is not one warning:"; cat "$work/out"; bad=1; }
done

# refusals name the option or variable, the value, and what was expected
refused() {
	local pattern=$1 rc=0
	shift
	"$@" >"$work/out" 2>&1 || rc=$?
	checks=$((checks + 1))
	[ $rc = "$USAGE" ] && grep -qE -- "$pattern" "$work/out" && return
	echo "$*: ended with $rc, expected $USAGE and '$pattern' in"
	sed 's/^/    /' "$work/out"
	bad=1
}
refused "--hosts 0: expected a number from 1 to 256" "$doppel" exec --hosts 0 "$work/program" nothing
refused "machine 'nosuch' does not exist" "$doppel" exec --machine nosuch "$work/program" nothing
refused "DOPPEL_ENGINE is 'x', expected sim or threads" "$doppel" exec --engine x "$work/program" nothing
for seed in -1 1x 0xffffffffffffffff; do
	refused "DOPPEL_SEED is '$seed', expected an integer from 0 to" "$doppel" exec --seed $seed "$work/program" nothing
done
refused "DOPPEL_FAULTS is '/no/plan', expected a fault plan" "$doppel" exec --faults /no/plan "$work/program" nothing
echo 'nonsense' >"$work/plan"
refused "nonsense" "$doppel" exec --faults "$work/plan" "$work/program" nothing
refused "expected a program" "$doppel" exec
refused "DOPPEL_ENGINE is 'x'" env DOPPEL_MACHINE=h100-8nic DOPPEL_ENGINE=x LD_LIBRARY_PATH="$build_dir" \
	"$work/program" all_reduce
rc=0
LD_LIBRARY_PATH=$build_dir "$work/program" leak >"$work/out" 2>&1 || rc=$?
if [ $rc != 9 ] || ! grep -q "expected a start by 'doppel exec'" "$work/out"; then
	echo "without a world: ended with $rc:"
	cat "$work/out"
	bad=1
fi
[ $bad = 0 ] && echo "$checks runs as expected"
exit $bad
