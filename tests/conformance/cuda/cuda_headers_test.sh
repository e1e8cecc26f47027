#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Our CUDA headers parse as C17 and C++17, and agree with the Toolkit's, where one is installed, in
# every constant, every structure's layout and every prototype. CUDA_HOME names another Toolkit.
# Exits 77 after the first part without one.
set -u
source=$2
ours=$source/backends/fakecuda/include
real=${CUDA_HOME:-/usr/local/cuda}/include
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$*"; exit 1; }

cat > "$dir/parse.c" <<-'C'
	#include <cuda.h>
	#include <cuda_runtime.h>
	#include <nvml.h>
	dim3 grid;
C
gcc -std=c17 -Wall -Wextra -Wpedantic -Werror -I"$ours" -fsyntax-only "$dir/parse.c" ||
	fail "the headers do not parse as C17"
g++ -x c++ -std=c++17 -Wall -Wextra -Werror -I"$ours" -fsyntax-only "$dir/parse.c" ||
	fail "the headers do not parse as C++17"
echo 'ok: C17 and C++17'

[ -f "$real/cuda_runtime_api.h" ] || { echo "skipped: no Toolkit in $real"; exit 77; }

# A program that prints every enumerator, macro with a number, size and offset of our headers. Built
# against either set of headers it must print the same.
{
	echo '#include <cuda_runtime_api.h>'
	echo '#include <cuda.h>'
	echo '#include <stddef.h>'
	echo '#include <stdio.h>'
	echo '#define N(x) printf("%s %lld\n", #x, (long long)(x));'
	echo '#define S(t) printf("sizeof %s %zu\n", #t, sizeof(t));'
	echo '#define O(t, f) printf("%s.%s %zu\n", #t, #f, offsetof(t, f));'
	echo 'int main(void) {'
	sed -n 's/^\t\([A-Za-z0-9_]*\) = .*,$/N(\1)/p' "$ours/driver_enums.h" "$ours/driver_types.h" \
		"$ours/graph_types.h" "$ours/cuda.h" "$ours/cuda_graph.h" "$ours/driver_api.h" \
		"$ours/driver_memory.h"
	sed -n 's/^#define \(c[A-Za-z]*\|CU[A-Z_]*\) *\(0x\)\?[0-9][0-9a-f]*$/N(\1)/p' "$ours"/*.h
	# structures: `struct NAME {` or `typedef struct NAME_st {`...`} NAME;`, one field a line
	awk '/^typedef union/ { skip = 1 } skip { if (/^}/) skip = 0; next }
	     /^struct [A-Za-z0-9_]+ \{/ { type = "struct " $2; n = 0; inside = 1; next }
	     /^typedef struct [A-Za-z0-9_]+ \{/ { type = ""; n = 0; inside = 1; next }
	     inside && /^}/ { if (type == "") { type = $2; sub(";", "", type) }
		print "S(" type ")"; for (i = 0; i < n; i++) print "O(" type ", " f[i] ")"; inside = 0 }
	     inside && /;/ && !/[()]/ { line = $0; sub(";.*", "", line); sub(/\[.*/, "", line)
		gsub(/\*/, "", line); k = split(line, w, " "); if (line !~ /,/) f[n++] = w[k] }' \
		"$ours/driver_types.h" "$ours/graph_types.h" "$ours/cuda_graph.h" "$ours/driver_api.h" \
		"$ours/driver_memory.h"
	for field in accessPolicyWindow cooperative syncPolicy clusterDim priority memSyncDomainMap \
		clusterSchedulingPolicyPreference programmaticStreamSerializationAllowed \
		programmaticEvent.triggerAtBlockStart memSyncDomain preferredClusterDim.z \
		launchCompletionEvent.flags deviceUpdatableKernelNode.devNode sharedMemCarveout \
		nvlinkUtilCentricScheduling; do
		echo "O(cudaLaunchAttributeValue, $field)"
	done
	echo 'S(cudaLaunchAttributeValue) S(dim3) S(CUdeviceptr) S(CUdevice) S(CUresult)'
	echo 'S(CUmemAccessDesc) O(CUmemAccessDesc, flags) S(CUmemAllocationProp)'
	for field in requestedHandleTypes location.id win32HandleMetaData allocFlags.gpuDirectRDMACapable \
		allocFlags.usage; do
		echo "O(CUmemAllocationProp, $field)"
	done
	for field in waitValue.value64 waitValue.flags writeValue.address writeValue.flags \
		flushRemoteWrites.flags memoryBarrier.flags pad; do
		echo "O(CUstreamBatchMemOpParams, $field)"
	done
	echo 'S(CUstreamBatchMemOpParams)'
	echo 'return 0; }'
} > "$dir/layout.c"
gcc -w -I"$ours" "$dir/layout.c" -o "$dir/ours" || fail "layout check does not compile with ours"
gcc -w -I"$real" "$dir/layout.c" -o "$dir/real" || fail "layout check does not compile with $real"
"$dir/ours" > "$dir/ours.txt"
"$dir/real" > "$dir/real.txt"
diff "$dir/ours.txt" "$dir/real.txt" || fail "ours (<) differs from the Toolkit's (>)"
facts=$(wc -l < "$dir/ours.txt")
[ "$facts" -gt 700 ] || fail "only $facts facts were compared: the extraction is broken"
echo "ok: $facts constants, sizes and offsets agree"

# Our prototypes after the Toolkit's: a difference is a conflicting declaration.
{
	echo '#include <cuda_runtime_api.h>'
	echo '#include <cuda.h>'
	for h in cuda_runtime_api.h graph_api.h pool_api.h cuda.h cuda_graph.h driver_api.h driver_memory.h; do
		awk '/^FAKECUDA_API/ { on = 1 } on { print } /;/ { on = 0 }' "$ours/$h" |
			sed 's/FAKECUDA_API//; s/FAKECUDA_OPT([A-Za-z0-9]*)//g'
	done
} > "$dir/prototypes.c"
count=$(grep -c ';' "$dir/prototypes.c")
[ "$count" -gt 120 ] || fail "only $count prototypes were compared: the extraction is broken"
gcc -std=gnu17 -Wno-deprecated-declarations -Werror -I"$real" -fsyntax-only "$dir/prototypes.c" ||
	fail "a prototype differs from the Toolkit's"
echo "ok: $count prototypes agree"

# The driver's pointer types: each has the name, the version and the type that the Toolkit's has.
{
	echo '#include <cudaTypedefs.h>'
	sed -n 's/^FAKECUDA_PFN(\([A-Za-z0-9_]*\), \([0-9]*\), \([A-Za-z0-9_]*\)).*/SAME(PFN_\1_v\2, \3)/p' \
		"$ours/cudaTypedefs.h"
} > "$dir/pointers.c"
count=$(grep -c SAME "$dir/pointers.c")
[ "$count" -gt 150 ] || fail "only $count pointer types were compared: the extraction is broken"
same='SAME(pfn, name)=_Static_assert(__builtin_types_compatible_p(pfn, __typeof__(&name)), #name);'
gcc -std=gnu17 -D__CUDA_API_VERSION_INTERNAL "-D$same" -I"$real" -fsyntax-only "$dir/pointers.c" ||
	fail "a pointer type differs from the Toolkit's"
echo "ok: $count pointer types agree"
