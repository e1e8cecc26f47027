#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Same seed, same hash: whatever the compiler, the optimisation and the machine.
# Usage: compilers_test.sh BUILD_DIR SOURCE_DIR [SEEDS] [all | gcc-O0 | clang-O2 | aarch64]
# ctest takes 4 seeds, and the build that the commit draws.
set -euo pipefail
build_dir=$1 source_dir=$2 seeds=${3:-4}
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
names=(gcc-O0 clang-O2 aarch64)
wanted=${4:-$(drawn 1 "${names[@]}")}
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
variant() { # variant NAME [RUNNER] -- CMAKE_ARGUMENTS...
	local name=$1 runner=()
	shift
	while [ "$1" != -- ]; do
		runner+=("$1")
		shift
	done
	shift
	if build "$name" "$@"; then
		compare "$name" ${runner[@]+"${runner[@]}"} "$variants/$name/doppel"
	else
		tail -20 "$variants/$name.log"
		bad=1
	fi
}

[ "$wanted" = all ] || [[ " ${names[*]} " == *" $wanted "* ]] ||
	{ echo "no build '$wanted'; expected all, or one of: ${names[*]}"; exit 1; }
[ "$wanted" = all ] || names=("$wanted")
for name in "${names[@]}"; do
	case $name in
	gcc-O0) variant gcc-O0 -- -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O0 ;;
	clang-O2)
		if ! command -v clang >/dev/null; then
			echo "clang-O2: skipped: no clang"
			continue
		fi
		variant clang-O2 -- -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2
		;;
	aarch64)
		if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64-static >/dev/null ||
			[ ! -e /usr/lib/aarch64-linux-gnu/libexpat.so ]; then
			echo "aarch64: skipped: no cross compiler, libraries or qemu-user"
			continue
		fi
		variant aarch64 qemu-aarch64-static -- -DCMAKE_TOOLCHAIN_FILE="$source_dir/cmake/aarch64.cmake" \
			-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2
		;;
	esac
done
[ $bad = 0 ] && [ $compared = 0 ] && exit 77
[ $bad = 0 ] && echo "$seeds seeds agree over ${names[*]}"
exit $bad
