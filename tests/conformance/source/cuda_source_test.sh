#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# CUDA programs from source on the double: each file is compiled by `doppel cc` and run by `doppel
# exec`. A program checks its kernels itself. The same seed prints the same.
set -euo pipefail
build_dir=$(realpath "$1") source_dir=$(realpath "$2")
doppel=$build_dir/doppel
[ -x "$doppel" ] && [ -e "$build_dir/libfakecuda.so" ] || { echo "skipped: no GPU double in $build_dir"; exit 77; }
command -v clang++-19 >/dev/null || { echo "skipped: no clang++-19 (apt-get install clang-19)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME=$dir/cache
cd "$dir"
bad=0
fail() { echo "FAILED: $*"; bad=1; }

for file in "$source_dir"/tests/conformance/source/*.cu; do
	name=$(basename "$file" .cu)
	"$doppel" cc "$file" -o "$name" || { fail "$name does not compile"; continue; }
	"$doppel" exec --leaks error "./$name" >"$name.out" 2>"$name.err" || fail "$name: $(cat "$name.out" "$name.err")"
	grep -q ' ok$' "$name.out" || fail "$name checks nothing"
	cat "$name.out"
done
[ -f flow.out ] && { grep -qx 'printf 42 21.00 text x 1099511627776%' flow.out || fail "printf of a kernel"; }

# lines of a warp are whole, in each order of the lanes
for seed in {2..9}; do
	"$doppel" exec --leaks error --seed $seed ./lines >lines.out 2>&1 || fail "lines, seed $seed: $(cat lines.out)"
done
"$doppel" exec --leaks error --engine threads ./lines >lines.out 2>&1 || fail "lines, engine threads: $(cat lines.out)"

for file in "$source_dir"/examples/cuda/*.cu; do
	name=example_$(basename "$file" .cu)
	link=()
	if grep -q '^#include <nccl' "$file"; then
		[ -e "$build_dir/libnccl.so" ] || continue
		link=(-lnccl)
	fi
	"$doppel" cc "$file" "${link[@]}" -o "$name" || { fail "$name does not compile"; continue; }
	for seed in 1 2 3; do
		"$doppel" exec --leaks error --seed $seed "./$name" >"$name.$seed" 2>&1 || fail "$name, seed $seed: $(cat "$name.$seed")"
	done
	head -1 "$name.1"
done

# the same seed has the same hash
hash_of() { "$doppel" exec --seed "$1" ./example_ring 2>&1 | grep 'trace hash' || true; }
one=$(hash_of 5)
[ -n "$one" ] && [ "$one" = "$(hash_of 5)" ] || fail "two runs of seed 5: $one"

# without its fences the ring shows flags before data, in some seeds
sed '/__threadfence_system/d' "$source_dir/examples/cuda/ring.cu" >weak.cu
"$doppel" cc weak.cu -o weak || fail "weak.cu does not compile"
wrong=0
for seed in {1..24}; do
	"$doppel" exec --seed "$seed" ./weak >weak.out 2>&1 || wrong=$((wrong + 1))
done
[ $wrong -gt 0 ] && [ $wrong -lt 24 ] || fail "the ring without fences is wrong in $wrong of 24 seeds"

# a text too long to be optimized, whose registers need more than the default stack of a lane
awk 'BEGIN {
	print "#include \"source.h\"\n__global__ void deep(unsigned long long *p)\n{\n\tasm volatile(\"{ .reg .u64 q<24000>; mov.u64 q0, 1;\""
	for (i = 1; i < 24000; i++)
		print "\"add.u64 q" i ", q" i - 1 ", 1;\""
	print "\"st.global.u64 [%0], q23999; }\" ::\"l\"(p) : \"memory\");\n}"
	print "int main()\n{\n\tboth<unsigned long long> got(1);\n\tdeep<<<1, 32>>>(got.gpu);\n\tgot.down();"
	print "\tcheck(\"a deep stack\", got, [](int) { return 24000ull; });\n\treturn failures != 0;\n}"
}' >deep.cu
"$doppel" cc -I "$source_dir/tests/conformance/source" deep.cu -o deep || fail "deep.cu does not compile"
for engine in sim threads; do
	"$doppel" exec --leaks error --engine $engine ./deep >deep.out 2>&1 || fail "deep, engine $engine: $(tail -5 deep.out)"
done

# images of machine code, and errors of kernels
cat >wrong.cu <<'CU'
#include <stdio.h>
#include <cuda.h>
__global__ void outside(int *p) { p[1 << 20] = 1; }
__global__ void unknown(int *p) { asm volatile("mma.nonsense.u32 %0, 1;" : "=r"(*p)); }
int main()
{
	CUmodule m;
	int *p;
	cudaMalloc(&p, 64);
	printf("%d\n", (int)cuModuleLoadData(&m, "\177ELF\2\1\1"));
	printf("%d\n", (int)cuModuleLoadData(&m, ".version 8.5\n.target sm_90\n.address_size 64\n.globl x;"));
	unknown<<<1, 1>>>(p);
	printf("%d\n", (int)cudaGetLastError());
	outside<<<1, 1>>>(p);
	printf("%d\n", (int)cudaDeviceSynchronize());
}
CU
"$doppel" cc wrong.cu -o wrong || fail "wrong.cu does not compile"
"$doppel" exec ./wrong >wrong.out 2>wrong.err || true
[ "$(tr '\n' ' ' <wrong.out)" = '209 218 218 700 ' ] || fail "errors: $(cat wrong.out)"
for text in 'doppel cc FILE.cu' 'line 4: found' 'opcode mma.nonsense.u32 is not implemented' 'wrong.cu:3'; do
	grep -qF "$text" wrong.err || fail "no error has '$text': $(cat wrong.err)"
done

# an instruction that is not implemented ends the kernel that reaches it, with its name
cat >reaches.cu <<'CU'
#include <stdio.h>
__global__ void reaches(int *p) { asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(p)); }
int main()
{
	reaches<<<1, 1>>>(0);
	printf("%d\n", (int)cudaDeviceSynchronize());
}
CU
"$doppel" cc reaches.cu -o reaches && { "$doppel" exec ./reaches >reaches.out 2>reaches.err || true; }
grep -qx 719 reaches.out && grep -q 'multimem.red.relaxed.sys.global.add.u32 is not implemented' reaches.err || fail "multimem: $(cat reaches.out reaches.err)"

# what doppel cc refuses
refuses() {
	local text=$1
	shift
	"$doppel" cc "$@" >refused 2>&1 && fail "doppel cc $* is accepted"
	grep -qF -- "$text" refused || fail "doppel cc $*: $(cat refused)"
}
refuses 'no file FILE.cu'
refuses 'expected a word after it' -o
refuses 'expected one' -c -o x.o a.cu b.cu
refuses 'absent.cu' absent.cu

# nccl.h has the types of its data, as NCCL's has
cat >types.cu <<'CU'
#include <nccl.h>
__global__ void types(half *h, __nv_bfloat16 *b, __nv_fp8_e4m3 *e) { *h = half((float)*b + (float)*e); }
CU
"$doppel" cc -c types.cu || fail "types.cu does not compile"

# the driver's calls
cat >driver.cu <<'CU'
#include <stdio.h>
#include <cuda.h>
static char text[1 << 16];
int main(int argc, char **argv)
{
	CUmodule m;
	CUlibrary lib;
	CUfunction f;
	CUkernel k;
	CUdeviceptr five;
	size_t bytes, size = 12;
	int *p, got[2], by = 3;
	FILE *in = fopen(argv[1], "r");
	if (!in || !fread(text, 1, sizeof text - 1, in))
		return 1;
	cudaMalloc(&p, 8);
	if (cuModuleLoadData(&m, text) || cuModuleGetFunction(&f, m, "times") ||
	    cuModuleGetGlobal(&five, &bytes, m, "five") || bytes != 4)
		return 2;
	void *params[] = {&p, &by};
	if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, NULL))
		return 3;
	struct { int *p; int by; } packed = {p + 1, 4};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};
	CUlaunchConfig c = {1, 1, 1, 1, 1, 1, 0, 0, NULL, 0};
	if (cuLibraryLoadData(&lib, text, 0, 0, 0, 0, 0, 0) || cuLibraryGetKernel(&k, lib, "times") ||
	    cuLaunchKernelEx(&c, (CUfunction)k, NULL, extra))
		return 4;
	cudaMemcpy(got, p, 8, cudaMemcpyDeviceToHost);
	if (cuModuleGetFunction(&f, m, "absent") != 500 || cuModuleUnload(m) || cuLibraryUnload(lib) ||
	    cuModuleUnload(m) != 400)
		return 5;
	cudaFree(p);
	printf("%d %d\n", got[0], got[1]);
}
CU
cat >times.cu <<'CU'
__device__ int five = 5;
extern "C" __global__ void times(int *p, int by) { *p = five * by; }
CU
plain_clang() {
	clang++-19 -x cuda -nocudainc -nocudalib -Wno-unknown-cuda-version --cuda-gpu-arch=sm_90 \
		-Xclang -target-sdk-version=12.3 -O2 -include cuda_runtime.h \
		-I "$source_dir/backends/fakecuda/include" "$@"
}
plain_clang --cuda-device-only -S -o times.ptx times.cu
"$doppel" cc driver.cu -o driver || fail "driver.cu does not compile"
[ "$("$doppel" exec --leaks error ./driver times.ptx 2>driver.err)" = '15 20' ] || fail "driver: $(cat driver.err)"

# two objects of plain clang: no byte is between their texts
for n in 1 2; do
	other=$((3 - n))
	cat >plain$n.cu <<-CU
		#include <stdio.h>
		int run$other();
		static __global__ void kernel$n(int *p) { *p = $n; }
		int run$n()
		{
			int *p, got = 0;
			cudaMalloc(&p, 4);
			kernel$n<<<1, 1>>>(p);
			cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost);
			cudaFree(p);
			return got;
		}
		#if $n == 1
		int main() { return printf("%d %d\n", run1(), run2()) < 0 || strcmp("", ""); }
		#endif
	CU
	plain_clang --cuda-device-only -S -o plain$n.ptx plain$n.cu
	while [ $(($(stat -c %s plain$n.ptx) % 16)) != 0 ]; do echo >>plain$n.ptx; done
	plain_clang --cuda-host-only -Xclang -fcuda-include-gpubinary -Xclang plain$n.ptx -c -o plain$n.o plain$n.cu
done
"$doppel" cc plain1.o plain2.o -o plain || fail "objects of plain clang do not link"
[ "$("$doppel" exec --leaks error ./plain 2>plain.err)" = '1 2' ] || fail "objects of plain clang: $(cat plain.err)"

# the second run finds the translations
before=$(find "$XDG_CACHE_HOME" -name '*.so' | sort)
"$doppel" exec --seed 7 ./vadd >/dev/null 2>&1 || fail "vadd, seed 7"
[ "$before" = "$(find "$XDG_CACHE_HOME" -name '*.so' | sort)" ] || fail "a second run builds again"

# a translation replaces its C file, which the compiler of another process may be reading
mkdir once
XDG_CACHE_HOME=$dir/once "$doppel" exec ./vadd >/dev/null 2>&1 || fail "vadd, another cache"
for text in once/doppel/ptx/*.c; do
	echo old >"$text"
	ln "$text" "$text.read"
	rm "${text%.c}.so"
done
XDG_CACHE_HOME=$dir/once "$doppel" exec ./vadd >/dev/null 2>&1 || fail "vadd builds again"
for text in once/doppel/ptx/*.read; do
	[ "$(cat "$text")" = old ] || fail "$text was changed while it is read"
done
exit $bad
