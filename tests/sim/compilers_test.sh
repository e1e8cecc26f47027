#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Same seed, same hash: whatever the compiler, the optimisation and the machine.
# Usage: compilers_test.sh BUILD_DIR SOURCE_DIR [SEEDS]   (ctest: a sample; the full run has 20)
set -euo pipefail
build_dir=$1 source_dir=$2 seeds=${3:-4}
variants=$build_dir/variants
args=(run all_reduce --hosts 2 --gpus 2 -b 1K -e 64K -f 64)
bad=0 compared=0

# name, how to run it, cmake arguments
build() {
	local name=$1
	shift
	cmake -S "$source_dir" -B "$variants/$name" "$@" >"$variants/$name.log" 2>&1 &&
		cmake --build "$variants/$name" -j "$(nproc)" --target doppel-cli >>"$variants/$name.log" 2>&1
}
mkdir -p "$variants"
hashes() { # hashes COMMAND...
	for ((seed = 1; seed <= seeds; seed++)); do
		"$@" "${args[@]}" --seed $seed | sed -n "s/^# trace hash /$seed /p"
	done
}
want=$(hashes "$build_dir/doppel")
[ "$(wc -l <<<"$want")" = "$seeds" ] || { echo "no hashes from $build_dir/doppel"; exit 1; }

compare() { # compare NAME COMMAND...
	local name=$1 got
	shift
	got=$(hashes "$@")
	compared=$((compared + 1))
	if [ "$got" != "$want" ]; then
		echo "$name differs:"
		diff <(echo "$want") <(echo "$got") || true
		bad=1
	fi
}
if build gcc-O0 -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O0; then
	compare gcc-O0 "$variants/gcc-O0/doppel"
else
	tail -20 "$variants/gcc-O0.log"
	bad=1
fi
if ! command -v clang >/dev/null; then
	echo "clang: skipped: there is none"
elif build clang-O2 -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2; then
	compare clang-O2 "$variants/clang-O2/doppel"
else
	tail -20 "$variants/clang-O2.log"
	bad=1
fi
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64-static >/dev/null ||
	[ ! -e /usr/lib/aarch64-linux-gnu/libexpat.so ]; then
	echo "aarch64: skipped: no cross compiler, libraries or qemu-user"
elif build aarch64 -DCMAKE_TOOLCHAIN_FILE="$source_dir/cmake/aarch64.cmake" \
	-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2; then
	compare aarch64 qemu-aarch64-static "$variants/aarch64/doppel"
else
	tail -20 "$variants/aarch64.log"
	bad=1
fi
[ $bad = 0 ] && echo "$seeds seeds agree over $compared other builds"
exit $bad
