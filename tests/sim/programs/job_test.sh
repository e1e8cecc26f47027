#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `doppel exec --hosts N`: a program (guest/guest_job.c, examples/hosts.c) on several hosts of one world. Right
# results, one order for one seed, a state of its own for each host, ends of programs and of the job, a
# killed host, gdb, and what is refused. Arguments: build folder, source folder.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
need_plain "$build_dir"
test_begin "$build_dir"
flags=(-Wall -Wextra -Werror -I"$source_dir/core/include" -I"$source_dir/backends/fakecuda/include")
libraries=(-L"$build_dir" -lnccl -lcudart -pthread)
cc -g "${flags[@]}" -o "$work/job" "$source_dir/tests/sim/guest/guest_job.c" "${libraries[@]}"
cc "${flags[@]}" -o "$work/hosts" "$source_dir/examples/hosts.c" "${libraries[@]}"
USAGE=1 ERROR=2 NO_PROGRESS=10 LEAK=13

checks=0
# gives CODE "PATTERN..." ARGUMENTS...: `doppel exec` ends with CODE, and prints each pattern (grep -E,
# one a line; one that begins with ! must not be there)
gives() {
	local code=$1 patterns=$2 rc=0 pattern
	shift 2
	{ timeout 120 "$doppel" exec "$@" >"$work/out" 2>&1 || rc=$?; } 2>/dev/null
	checks=$((checks + 1))
	if [ $rc = 124 ] || { [ "$code" != any ] && [ $rc != "$code" ]; }; then
		echo "doppel exec $*: ended with $rc, expected $code"
		sed 's/^/    /' "$work/out"
		bad=1
	fi
	while read -r pattern; do
		case $pattern in
		!*) ! grep -qE -- "${pattern#!}" "$work/out" && continue ;;
		*) grep -qE -- "$pattern" "$work/out" && continue ;;
		esac
		echo "doppel exec $*: expected '$pattern' in"
		sed 's/^/    /' "$work/out"
		bad=1
	done <<<"$patterns"
}

# ---- results, on both engines
for engine in sim threads; do
	on=(--engine "$engine")
	for hosts in 2 4; do
		gives 0 "process $((hosts - 1)) of $hosts: 2 GPUs, 1000 floats each, 0 wrong"$'\n!leak' \
			"${on[@]}" --hosts "$hosts" "$work/hosts" 4000 2
	done
	gives 0 'process 3 of 4: 2 GPUs, 1000 floats each, 0 wrong' \
		"${on[@]}" --hosts 2 --processes-per-host 2 "$work/hosts" 4000 2
	gives 0 $'rank 0: right\nrank 2: right' "${on[@]}" --hosts 3 "$work/job" sums
	gives 0 $'rank 0: on host0, local 0 of 1\nrank 1: on host1, local 0 of 1' "${on[@]}" --hosts 2 "$work/job" own_state
	gives 0 'rank 3: on host1, local 1 of 2' "${on[@]}" --hosts 2 --processes-per-host 2 "$work/job" own_state
	gives 0 'rank 1: on host0, local 1 of 2' "${on[@]}" --processes-per-host 2 "$work/job" own_state
	gives 0 $'rank 0: a 7, rest last\nrank 2: a 7, rest last' "${on[@]}" --hosts 3 "$work/job" options -bc -a 3 -a4 last
	gives 0 $'rank 0: freed late: 0\nrank 1: freed late: 0\n!leak' "${on[@]}" --hosts 2 "$work/job" late
	gives 0 'leak: device allocations 1 .*100 bytes' "${on[@]}" --hosts 2 "$work/job" leak
	gives "$LEAK" 'leak: device allocations 1 .*100 bytes' "${on[@]}" --leaks error --hosts 2 "$work/job" leak
	gives 5 'the program of rank 1 \(host 1\) ended with 5: the job ends' "${on[@]}" --hosts 2 "$work/job" leaves 5
	gives 9 'rank 0: RANK failed|OMPI_COMM_WORLD_RANK failed' "${on[@]}" "$work/job" sums
	gives any 'host dereference of device pointer' "${on[@]}" --hosts 2 "$work/job" crash
	rm -f "$work/written"
	gives 0 $'rank 0: waited\nrank 1: waited' "${on[@]}" --hosts 2 "$work/job" sleeps "$work/written"
	gives 0 'rank 1: right' "${on[@]}" --hosts 2 "$work/job" deep
done
gives 0 $'rank 0: right\nrank 1: right' --engine threads --hosts 2 "$work/job" thread
gives "$USAGE" 'engine sim, which has one thread; expected engine threads' --hosts 2 "$work/job" thread
gives "$NO_PROGRESS" $'process host1/p0 exited with 0 without ncclCommDestroy\nFAIL deadlock' --hosts 2 "$work/job" leaves 0
gives "$USAGE" $'rank 0: right\ntrace: cannot write /dev/full: No space left on device' \
	--hosts 2 --trace /dev/full "$work/job" sums

# ---- one seed is one order; a plan
hash_of() { # OPTIONS..., under another environment each time
	{ env "UNUSED=$RANDOM" ${aslr:+setarch -R} "$doppel" exec --hosts 2 "$@" "$work/job" sums 2>&1 || true; } |
		sed -n 's/.*trace hash //p'
}
aslr=''
one=$(hash_of --seed 7)
aslr=off
two=$(hash_of --seed 7)
three=$(hash_of --seed 8)
if [ -z "$one" ] || [ "$one" != "$two" ] || [ "$one" = "$three" ]; then
	echo "hashes of seed 7 twice and of seed 8: '$one' '$two' '$three'"
	bad=1
fi
echo 'cuda.malloc host=1 nth=1 fail' >"$work/plan"
gives 9 'cuda.malloc host=1 nth=1 fail +# matched [0-9]+, fired 1' --faults "$work/plan" --hosts 2 "$work/job" sums
echo 'os.task host=1 nth=300 kill' >"$work/plan"
gives 9 $'rank 0: .* failed\nthe fault plan killed rank 1 \\(host 1\\)\n!killed rank 0' --faults "$work/plan" --hosts 2 "$work/job" sums
one=$(hash_of --faults "$work/plan") two=$(hash_of --faults "$work/plan")
if [ -z "$one" ] || [ "$one" != "$two" ]; then
	echo "a killed host, twice: '$one' '$two'"
	bad=1
fi
# the other one ends with 0: a job whose host was killed has not passed
gives "$ERROR" $'rank 0: no communicator\nkilled rank 1' --faults "$work/plan" --hosts 2 "$work/job" tolerates

# ---- C++: what the programs have of its library
if command -v c++ >/dev/null; then
	cat >"$work/cxx.cc" <<'EOF'
#include <cuda_runtime.h>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
struct counter {
	int n = 1;
	~counter() { std::cout << "counted " << n << std::endl; }
} count;
int main()
{
	int gpus;
	for (int i = 0; i < 10; i++)
		count.n += cudaGetDeviceCount(&gpus) == cudaSuccess;
	try {
		throw std::runtime_error(std::string("rank ") + getenv("RANK"));
	} catch (const std::exception &e) {
		std::cout << e.what() << " caught" << std::endl;
	}
	return 0;
}
EOF
	c++ "${flags[@]}" -o "$work/cxx" "$work/cxx.cc" "${libraries[@]}"
	gives 0 $'rank 0 caught\nrank 1 caught\ncounted 11\n!counted ([^1]|1[^1])' --hosts 2 "$work/cxx"
	# the C++ library starts the threads: they belong to the program, too
	cat >"$work/threads.cc" <<'EOF'
#include <cstdlib>
#include <iostream>
#include <nccl.h>
#include <string>
#include <thread>
static void one()
{
	void *p = nullptr;
	bool good = !ncclMemAlloc(&p, 4096) && !ncclMemFree(p);
	const char *rank = getenv("RANK");
	std::cout << (std::string("thread of rank ") + (rank ? rank : "?") + (good ? ": good\n" : ": bad\n"));
}
int main()
{
	std::thread first(one), second(one);
	first.join();
	second.join();
	return 0;
}
EOF
	c++ "${flags[@]}" -o "$work/threads" "$work/threads.cc" "${libraries[@]}"
	gives 0 $'thread of rank 0: good\nthread of rank 1: good\n!rank \\?\n!bad' --engine threads --hosts 2 "$work/threads"
fi
# libc starts this thread by itself
gives "$USAGE" 'a thread that no program of the job has started made a call' --engine threads --hosts 2 "$work/job" c11_thread

# ---- gdb: each program's functions, and the tasks of all hosts
if command -v gdb >/dev/null; then
	printf 'set confirm off\nbreak ncclAllReduce\nrun\ninfo tasks\nbt\ndelete\ncontinue\n' >"$work/commands"
	gives 0 $'job_wait:.*end of a program\nncclAllReduce:.*running\nin sums \\(\\)\nrank 1: right' --gdb --hosts 2 "$work/job" sums <"$work/commands"
	# a function of the program has an address in each copy, once they are loaded
	printf 'set confirm off\nbreak program_finish\nrun\nbreak need\ndelete\ncontinue\n' >"$work/commands"
	gives 0 'Breakpoint 2 at .*2 locations' --gdb --hosts 2 "$work/job" sums <"$work/commands"
fi

# ---- refused
gives "$USAGE" '--hosts 0: expected a number from 1 to 256' --hosts 0 "$work/job" sums
gives "$USAGE" '--hosts 2x: expected a number' --hosts 2x "$work/job" sums
gives "$USAGE" '--processes-per-host 257: expected a number from 1 to 256' --processes-per-host 257 "$work/job" sums
gives "$USAGE" '100 hosts with 3 processes each; expected at most 256' --hosts 100 --processes-per-host 3 "$work/job" sums
gives "$USAGE" "machine 'nosuch' does not exist" --hosts 2 --machine nosuch "$work/job" sums
gives 127 'nosuch: No such file' --hosts 2 "$work/nosuch"
gives 127 'nosuch: No such file' --hosts 2 nosuch
gives 126 "/dev/null: Permission denied" --hosts 2 /dev/null
printf '#!/bin/sh\nexit 0\n' >"$work/script"
chmod +x "$work/script"
gives 126 'script: not a program of this computer' --hosts 2 "$work/script"
refused() { # "PATTERN" "SOURCE" FLAGS...: a program that is built so
	local pattern=$1
	echo "$2" >"$work/refused.c"
	shift 2
	cc "${flags[@]}" -o "$work/refused" "$work/refused.c" "${libraries[@]}" "$@"
	gives 126 "refused: $pattern" --hosts 2 "$work/refused"
}
refused 'it has thread-local variables' '__thread int x; int main(void) { return x; }'
refused 'its symbol table has no main' 'int main(void) { return 0; }' -s
refused 'its address is fixed' 'int main(void) { return 0; }' -no-pie
refused 'it uses the library variable (__)?timezone' 'extern long timezone; int main(void) { return (int)timezone; }'
echo 'int shared; int f(void); int f(void) { return ++shared; }' >"$work/f.c"
cc -shared -fPIC -o "$work/libf.so" "$work/f.c"
refused 'it is linked with libf.so, whose variables all hosts would share' 'int f(void); int main(void) { return f(); }' -L"$work" -lf

# ---- files that are damaged: each byte of the head, and some behind it, is another one
python3 - "$work/job" "$work" <<'EOF'
import struct, sys
data = open(sys.argv[1], "rb").read()
# a table of relocations without an end: DT_RELASZ is 8
at, bytes_ = next(struct.unpack_from("<QQQQQ", data, 64 + 56 * i + 8)[0::3] for i in range(13)
                  if struct.unpack_from("<I", data, 64 + 56 * i)[0] == 2)
for entry in range(at, at + bytes_, 16):
    if struct.unpack_from("<q", data, entry)[0] == 8:
        endless = bytearray(data)
        struct.pack_into("<Q", endless, entry + 8, 1 << 62)
        open(f"{sys.argv[2]}/endless", "wb").write(endless)
for i in range(64):
    at = i if i < 40 else (i - 40) * 97 % len(data)
    bad = bytearray(data)
    bad[at] ^= 0xff
    open(f"{sys.argv[2]}/damaged{i}", "wb").write(bad if i % 5 else bad[:at * 13])
EOF
chmod +x "$work"/damaged* "$work/endless"
gives 126 'endless: its dynamic section is damaged' --hosts 2 "$work/endless" sums
for damaged in "$work"/damaged?; do
	gives any '' --hosts 2 "$damaged" sums
done
[ $bad = 0 ] && echo "$checks runs as expected"
exit $bad
