#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel-nvcc: makefiles with nvcc's options; device code of several files, linked by name.
set -euo pipefail
build_dir=$(realpath "$1") source_dir=$(realpath "$2")
doppel=$build_dir/doppel nvcc=$build_dir/doppel-nvcc
[ -x "$nvcc" ] && [ -e "$build_dir/libfakecuda.so" ] || { echo "skipped: no GPU double in $build_dir"; exit 77; }
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
cp -r "$source_dir/tests/conformance/source/linked" "$source_dir/tests/conformance/source/source.h" .

# a makefile as those of CUDA projects: objects, a device link, the host's linker
cat >Makefile <<'MAKE'
NVCC ?= nvcc
FLAGS := -ccbin g++ -gencode=arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90] \
	-std=c++14 --expt-extended-lambda --expt-relaxed-constexpr -Xptxas -maxrregcount=96 \
	-Xfatbin -compress-all -O3 -lineinfo --threads 2 -Wno-deprecated-gpu-targets \
	--compiler-options "-fPIC,-fvisibility=hidden" -Ilinked
release := $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
all: program
%.o: linked/%.cu
	$(NVCC) $(FLAGS) -DRELEASE=$(release) -dc $< -o $@ -MMD -MF $*.d -MT $@
host.o: linked/host.cc
	$(CXX) -c $< -o $@ -I$(INCLUDE)
glue.o: main.o part.o
	$(NVCC) $(FLAGS) -dlink $^ -o $@
program: main.o part.o host.o glue.o
	$(CXX) $^ -o $@ -L$(LIB) -lcudart -Wl,-rpath,$(LIB)
MAKE
make -s NVCC="$nvcc" LIB="$build_dir" INCLUDE="$source_dir/backends/fakecuda/include" >make.out 2>&1 || fail "make: $(cat make.out)"
runs() { "$doppel" exec --leaks error "$1" >run.out 2>&1 && [ "$(grep -c ' ok$' run.out)" = 2 ] || fail "$1: $(cat run.out)"; }
runs ./program
grep -q 'linked/linked.h' main.d && grep -q '^main.o:' main.d || fail "dependencies: $(cat main.d)"

# compile and link in one step; an archive; a library with its own device link
"$nvcc" -rdc=true linked/main.cu linked/part.cu linked/host.cc -o together || fail "one step"
runs ./together
ar cr libpart.a part.o
"$nvcc" -rdc=true main.o libpart.a host.o -o archive || fail "an archive"
runs ./archive
"$nvcc" -shared -Xcompiler -fPIC -rdc=true linked/part.cu linked/main.cu linked/host.cc -o libboth.so || fail "a shared library"
"$doppel" cc -fgpu-rdc linked/main.cu linked/part.cu host.o -o by_cc || fail "doppel cc -fgpu-rdc"
runs ./by_cc

# without the device link the host's linker fails; a missing definition is an error with its name
g++ main.o part.o host.o -o unlinked -L"$build_dir" -lcudart >unlinked.out 2>&1 && fail "no device link"
grep -q __cudaRegisterLinkedBinary unlinked.out || fail "the linker's error: $(head -5 unlinked.out)"
sed 's/^__device__ int add_seven/__device__ int add_eight/' linked/part.cu >linked/lacks.cu
"$nvcc" -rdc=true linked/main.cu linked/lacks.cu host.o -o lacks || fail "lacks.cu does not link"
"$doppel" exec ./lacks >lacks.out 2>&1 && fail "a missing function is accepted"
grep -q '_Z9add_seveni' lacks.out || fail "a missing function: $(cat lacks.out)"
echo '__device__ int twice(int x) { return x; }' >>linked/lacks.cu
sed -i 's/add_eight/add_seven/' linked/lacks.cu
"$nvcc" -rdc=true linked/main.cu linked/lacks.cu host.o -o double || fail "double does not link"
"$doppel" exec ./double >double.out 2>&1 && fail "two definitions are accepted"
grep -q '_Z5twicei is defined in two objects' double.out || fail "two definitions: $(cat double.out)"

# code for newer GPUs only: its kernels have no code here
"$nvcc" -rdc=true -gencode=arch=compute_100f,code=sm_100f linked/part.cu -c -o part.o || fail "sm_100f"
"$nvcc" -rdc=true -Xcompiler -O1 main.o part.o host.o -o newer || fail "newer does not link"
"$doppel" exec ./newer >newer.out 2>&1 && fail "code for sm_100f runs"
grep -q 'factor_of_all: cudaErrorInvalidSymbol' newer.out || fail "code for sm_100f: $(cat newer.out)"
cat >alone.cu <<'CU'
#include <stdio.h>
__global__ void alone() {}
int main()
{
	cudaFuncAttributes a;
	printf("%s\n", cudaGetErrorName(cudaFuncGetAttributes(&a, alone)));
}
CU
"$nvcc" -arch=sm_100 alone.cu -o alone && "$doppel" exec ./alone >alone.out 2>/dev/null || true
grep -qx cudaErrorNoKernelImageForDevice alone.out || fail "a kernel without code: $(cat alone.out)"

# other steps
"$nvcc" --ptx -arch=sm_80 linked/part.cu -rdc=true -o part.ptx && grep -q 'target sm_80' part.ptx || fail "-ptx"
"$nvcc" -M -dc linked/part.cu | grep -q linked.h || fail "-M"
echo 'int main() { return RELEASE != 13; }' >plain.txt
"$nvcc" -x c++ -DRELEASE=13 plain.txt -o plain && "$doppel" exec ./plain || fail "-x c++"
cp plain.txt plain.cpp && "$nvcc" -DRELEASE=13 plain.cpp -o plain && "$doppel" exec ./plain || fail "host code"
mkdir -p sub && cp linked/part.cu sub/part.inc && "$nvcc" -x cu -Ilinked -dc sub/part.inc -o inc.o || fail "-x cu"

refuses() {
	local text=$1
	shift
	"$nvcc" "$@" >refused 2>&1 && fail "doppel-nvcc $* is accepted"
	grep -qF -- "$text" refused || fail "doppel-nvcc $*: $(cat refused)"
}
refuses 'unknown option --fast-as-light' --fast-as-light x.cu
refuses 'unknown option -cubin' -cubin x.cu
refuses 'expected a word after it' -c x.cu -o
refuses 'expected true or false' -rdc=maybe x.cu
refuses 'expected objects' -dlink linked/part.cu
refuses 'no file' -c
[ $bad = 0 ] && echo "doppel-nvcc: make, -dc, -dlink, archives and errors: ok"
exit $bad
