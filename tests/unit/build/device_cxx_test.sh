#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Device code is what C17 and C++17 share: every header of core/device by itself, and the kernels, those
# with both warp widths. With nvcc, as CUDA too.
set -uo pipefail
source_dir=$2
cd "$source_dir" || exit 1
failed=0

try() { # description, command...
	local what=$1
	shift
	if ! "$@"; then
		echo "FAILED: $what: $*"
		failed=1
	fi
}

flags="-fsyntax-only -Wall -Wextra -Werror -Wno-unused-parameter -I. -DDOPPEL_FAKE=1 -DDOPPEL_FAKECUDA=1 -D_GNU_SOURCE"
# reduce_types.h and its bodies, run_programs.h and the CUDA shim are not headers by themselves
headers=$(find core/device -name '*.h' | LC_ALL=C sort | grep -vE '(reduce_(types|element|tile|pack)|run_programs)\.h|_cuda\.h')
for compiler in "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++17" "gcc -x c -std=gnu17" "clang -x c -std=gnu17"; do
	command -v ${compiler%% *} >/dev/null || continue
	for file in $headers; do
		try "$compiler" $compiler $flags -DDEV_WARP_WIDTH=32 -include "$file" /dev/null
	done
	for width in 1 32; do
		for file in core/device/kernels/kernels.c core/device/kernels/table.c tests/conformance/device_kernels.c; do
			try "$compiler, width $width" $compiler $flags -DDEV_WARP_WIDTH=$width "$file"
		done
	done
done

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
if [ -n "$nvcc" ]; then
	scratch=$(mktemp -d)
	try "nvcc to PTX" "$nvcc" -std=c++17 -I. -Ibackends/cuda/include -fmad=false -arch=compute_90 \
		-Werror all-warnings -ptx core/device/kernels/kernels.cu -o "$scratch/kernels.ptx"
	# fused multiply-adds of floats would make results differ from the double's
	if grep -E '^\s*fma\.rn\.(f16|bf16|f32|f64|f16x2|bf16x2)\b' "$scratch/kernels.ptx" | head -3 | grep .; then
		echo "FAILED: the kernels contract floating point"
		failed=1
	fi
	rm -rf "$scratch"
fi
[ $failed = 0 ] && echo "core/device is C17, C++17${nvcc:+ and CUDA}"
exit $failed
