#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A program with no library of Doppel but the GPU double's, as NCCL is one: it loads verbs by name and
# version, and reads /sys. Alone, and as two real processes, which need the HCA double to meet.
set -euo pipefail
build_dir=$(realpath "$1") programs=$(realpath "$2")/tests/conformance/source/foreign
doppel=$build_dir/doppel
[ -x "$doppel" ] && [ -e "$build_dir/driver/libibverbs.so.1" ] || { echo "skipped: no GPU and HCA doubles in $build_dir"; exit 77; }
! grep -q fsanitize "$build_dir/compile_commands.json" || { echo "skipped: a program cannot load a sanitizer's build"; exit 77; }
command -v clang++-19 >/dev/null || { echo "skipped: no clang++-19 (apt-get install clang-19)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME=$dir/cache
cd "$dir"
bad=0
fail() { echo "FAILED: $*"; bad=1; }

"$doppel" cc "$programs/hcas.cu" -o hcas || { echo "FAILED: hcas.cu does not compile"; exit 1; }

# runs OPTIONS: prints what the program wrote, sorted
runs() {
	"$doppel" exec "$@" ./hcas >out 2>err || fail "exec $*: $(cat out err)"
	sort out
}

# A machine where no namespace can be made has the library alone.
shown='shown'
unshare --mount true 2>/dev/null || unshare --user --mount true 2>/dev/null || shown='.*shown'
[[ $(runs --engine threads) =~ ^rank\ -:\ 8\ HCAs,\ .*shown$ ]] || fail "alone: $(cat out err)"
[[ $(runs --sys) =~ ^rank\ -:\ 8\ HCAs,\ $shown$ ]] || fail "--sys: $(cat out err)"
[[ $(runs --sys --procs 2 | tr '\n' ' ') =~ ^rank\ 0:\ 8\ HCAs,\ $shown\ rank\ 1:\ 8\ HCAs,\ $shown\ $ ]] || fail "--sys --procs 2: $(cat out err)"
[[ $(runs --procs 2 --hosts 2 | wc -l) = 2 ]] || fail "--procs 2 --hosts 2: $(cat out err)"
"$doppel" exec --sys --hosts 2 ./hcas >out 2>&1 && fail "--sys with two hosts in one process is accepted"
grep -q 'expected --procs, too' out || fail "--sys --hosts 2: $(cat out)"
# the world is not freed under threads that wait in it
"$doppel" cc "$programs/async.cu" -o async || fail "async.cu does not compile"
for i in $(seq 20); do
	"$doppel" exec --engine threads --sys ./async >out 2>err || fail "exit $i with threads that wait: $(cat out err)"
done
# the compiler of kernels does not load what the program preloads
cat >preloaded.c <<'C'
extern int of_the_program;
int *preloaded = &of_the_program;
C
cc -shared -fPIC preloaded.c -o preloaded.so && "$doppel" cc "$programs/preload.cu" -Wl,--export-dynamic-symbol=of_the_program -o preload || fail "preload does not compile"
"$doppel" exec --env LD_PRELOAD=./preloaded.so ./preload >out 2>err || fail "LD_PRELOAD: $(cat out err)"
grep -qx 5 out || fail "LD_PRELOAD: $(cat out err)"
[ $bad = 0 ] && echo "verbs by name, version and /sys"
exit $bad
