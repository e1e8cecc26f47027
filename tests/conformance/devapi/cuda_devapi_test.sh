#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Kernels with NCCL's device API, compiled by `doppel cc` and run by `doppel exec`: each program checks itself.
# With nvcc the same source compiles for GPUs. Usage: cuda_devapi_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build_dir=$(realpath "$1") source_dir=$(realpath "$2")
doppel=$build_dir/doppel
[ -x "$doppel" ] && [ -e "$build_dir/libnccl.so" ] || { echo "skipped: no libnccl.so in $build_dir"; exit 77; }
[ -e "$build_dir/libfakecuda.so" ] || { echo "skipped: no GPU double in $build_dir"; exit 77; }
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_plain "$build_dir"
command -v clang++-19 >/dev/null || { echo "skipped: no clang++-19 (apt-get install clang-19)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME=$dir/cache
cd "$dir"
bad=0
fail() { echo "FAILED: $*"; bad=1; }

for name in devapi order errors procs to_all; do
	"$doppel" cc "$source_dir/tests/conformance/devapi/$name.cu" -lnccl -o $name || fail "$name.cu does not compile"
done

# each check of the program, on several seeds; the same seed has the same hash
for seed in 1 16; do
	"$doppel" exec --leaks error --seed $seed ./devapi >devapi.$seed 2>&1 || fail "devapi, seed $seed: $(cat devapi.$seed)"
	[ "$(grep -c ' ok$' devapi.$seed)" = 14 ] || fail "devapi, seed $seed has not 14 checks: $(cat devapi.$seed)"
done
cat devapi.1
"$doppel" exec --leaks error --seed 1 ./devapi >again 2>&1 || fail "devapi, seed 1, again"
diff <(grep 'trace hash' devapi.1) <(grep 'trace hash' again) || fail "two runs of seed 1 differ"

# ranks in several processes, and on several hosts: their teams
teams() {
	local ranks=$1
	shift
	"$doppel" exec "$@" ./procs >procs.out 2>&1 || fail "procs $*: $(cat procs.out)"
	[ "$(grep -c "a team of $ranks ranks, 0 wrong" procs.out)" = 2 ] || fail "procs $*: $(cat procs.out)"
}
teams 4 --procs 2
teams 2 --procs 2 --hosts 2
teams 2 --hosts 2 --leaks error

# all-to-all on windows: lines and stores; a rank without windows waits for messages
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL "$doppel" exec --leaks error ./to_all >to_all.out 2>&1 || fail "to_all: $(tail -5 to_all.out)"
for kernel in LL ST; do
	grep -q "Symmetric AlltoAll_$kernel" to_all.out || fail "to_all does not run AlltoAll_$kernel"
done
rc=0
"$doppel" exec ./to_all mixed >to_all.out 2>&1 || rc=$?
[ $rc = 10 ] && grep -q "waits for .connection: the peer to call ncclSend" to_all.out || fail "to_all mixed: $rc $(head -5 to_all.out)"

# a barrier orders memory; without release and acquire some seeds show old values, and others do not
wrong=0
for seed in {1..16}; do
	"$doppel" exec --seed $seed ./order >order.out 2>&1 || fail "order, seed $seed: $(cat order.out)"
	"$doppel" exec --seed $seed ./order relaxed >order.out 2>&1 || wrong=$((wrong + 1))
done
[ $wrong -gt 0 ] && [ $wrong -lt 16 ] || fail "relaxed barriers are wrong in $wrong of 16 seeds"
echo "relaxed barriers: wrong in $wrong of 16 seeds"

# without its fence, a cleared bank of lines loses lines of the next epochs in some seeds: a rank waits for ever
cp -r "$source_dir/core/include" unfenced
sed -i '/__threadfence_system/d' unfenced/nccl_device/ll_a2a.h
"$doppel" cc -I unfenced "$source_dir/tests/conformance/devapi/devapi.cu" -lnccl -o unfenced_lines || fail "unfenced lines do not compile"
lost=0
for ((seed = 1; seed <= 32 && !lost; seed++)); do
	"$doppel" exec --seed $seed ./devapi wrap >wrap.out 2>&1 || fail "lines that wrap, seed $seed: $(cat wrap.out)"
	timeout 20 "$doppel" exec --seed $seed ./unfenced_lines wrap >wrap.out 2>&1 || lost=$seed
done
[ $lost -gt 0 ] || fail "32 seeds find no line that is lost without the fence"
echo "lines without the fence: lost with seed $lost"

# what a kernel cannot use is named, and ends it
while read -r what text; do
	"$doppel" exec ./errors "$what" >errors.out 2>errors.err || true
	grep -qF "$text" errors.out || fail "errors $what has no '$text': $(cat errors.out)"
	grep -qx cudaErrorLaunchFailure errors.out || fail "errors $what: $(cat errors.out)"
done <<'END'
index LSA barrier 4 does not exist: ncclDevCommRequirements requested 4
multimem ncclLsaBarrierSession with multimem is not implemented
pointer ncclGetLsaMultimemPointer is not implemented
find is in no window of the communicator
gin ncclGin::put is not implemented
END
"$doppel" exec ./errors abort >errors.out 2>&1 || fail "abort: $(cat errors.out)"
grep -q 'an abort ends a barrier ok' errors.out || fail "abort: $(cat errors.out)"

# for GPUs
if command -v nvcc >/dev/null; then
	for name in devapi errors; do
		nvcc -std=c++17 -arch=sm_90 -I "$source_dir/core/include" -c -o $name.o \
			"$source_dir/tests/conformance/devapi/$name.cu" || fail "nvcc does not compile $name.cu"
	done
fi
exit $bad
