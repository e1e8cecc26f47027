#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Our nccl.h and an installed one agree on every value, size and offset, and on every prototype that
# ours has. Skips where none of the same minor version is installed.
set -euo pipefail
source_dir=$2
theirs=
for dir in ${NCCL_INCLUDE:-} /usr/include /usr/local/include /usr/local/cuda/include /usr/local/cuda-*/include; do
	[ -f "$dir/nccl.h" ] && [ -f "$dir/cuda_runtime.h" ] || continue
	grep -q 'define NCCL_MINOR 28$' "$dir/nccl.h" && theirs=$dir && break
done
[ -n "$theirs" ] || { echo "no nccl.h 2.28 with a CUDA Toolkit here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

constants="ncclSuccess ncclUnhandledCudaError ncclSystemError ncclInternalError ncclInvalidArgument
ncclInvalidUsage ncclRemoteError ncclInProgress ncclNumResults ncclInt8 ncclChar ncclUint8 ncclInt32
ncclInt ncclUint32 ncclInt64 ncclUint64 ncclFloat16 ncclHalf ncclFloat32 ncclFloat ncclFloat64
ncclDouble ncclBfloat16 ncclFloat8e4m3 ncclFloat8e5m2 ncclNumTypes ncclNumOps_dummy ncclSum ncclProd
ncclMax ncclMin ncclAvg ncclNumOps ncclMaxRedOp ncclScalarDevice ncclScalarHostImmediate
NCCL_MAJOR NCCL_MINOR NCCL_PATCH NCCL_VERSION_CODE NCCL_UNIQUE_ID_BYTES NCCL_CONFIG_UNDEF_INT
NCCL_SPLIT_NOCOLOR NCCL_WIN_DEFAULT NCCL_WIN_COLL_SYMMETRIC NCCL_WIN_REQUIRED_ALIGNMENT
NCCL_CTA_POLICY_DEFAULT NCCL_CTA_POLICY_EFFICIENCY NCCL_CTA_POLICY_ZERO NCCL_SHRINK_DEFAULT
NCCL_SHRINK_ABORT NCCL_REVOKE_DEFAULT"
config="size magic version blocking cgaClusterSize minCTAs maxCTAs netName splitShare trafficClass
commName collnetEnable CTAPolicy shrinkShare nvlsCTAs nChannelsPerNetPeer nvlinkCentricSched"
{
	echo '#include HEADER'
	echo '#include <stddef.h>'
	echo '#include <stdio.h>'
	echo 'static void bytes(const char *name, const void *p, size_t n)'
	echo '{ printf("%s", name); for (size_t i = 0; i < n; i++) printf(" %02x", ((const unsigned char *)p)[i]); puts(""); }'
	echo 'int main(void) {'
	for c in $constants; do echo "printf(\"$c %lld\\n\", (long long)$c);"; done
	for f in $config; do
		echo "printf(\"ncclConfig_t.$f %zu %zu\\n\", offsetof(ncclConfig_t, $f), sizeof(((ncclConfig_t *)0)->$f));"
	done
	for f in size magic version estimatedTime; do
		echo "printf(\"ncclSimInfo_t.$f %zu\\n\", offsetof(ncclSimInfo_t, $f));"
	done
	for t in ncclResult_t ncclDataType_t ncclRedOp_t ncclScalarResidence_t ncclUniqueId ncclConfig_t \
		ncclSimInfo_t ncclComm_t ncclWindow_t; do
		echo "printf(\"sizeof $t %zu\\n\", sizeof($t));"
	done
	echo 'ncclConfig_t c = NCCL_CONFIG_INITIALIZER; bytes("config", &c, sizeof c);'
	echo 'ncclSimInfo_t s = NCCL_SIM_INFO_INITIALIZER; bytes("sim", &s, 20);'
	echo 'printf("versions %d %d %d\n", NCCL_VERSION(2, 8, 4), NCCL_VERSION(2, 9, 1), NCCL_VERSION(3, 0, 0));'
	echo 'return 0; }'
} >"$work/values.c"
cc -I"$theirs" -DHEADER="\"$theirs/nccl.h\"" -o "$work/theirs" "$work/values.c"
cc -I"$theirs" -DHEADER="\"$source_dir/core/include/nccl.h\"" -o "$work/ours" "$work/values.c"
"$work/theirs" >"$work/theirs.txt"
"$work/ours" >"$work/ours.txt"
diff "$work/theirs.txt" "$work/ours.txt" || { echo "nccl.h: installed (<) and ours (>) differ"; exit 1; }

# Prototypes: one program that declares both; a different type is a compile error.
prototypes=$(cc -E -P -I"$theirs" -x c "$source_dir/core/include/nccl.h" | tr '\n' ' ' |
	grep -oE '(ncclResult_t|const char \*) *p?nccl[A-Z][A-Za-z]* *\([^;]*\);')
{
	echo "#include \"$theirs/nccl.h\""
	echo "$prototypes"
} >"$work/both.c"
cc -I"$theirs" -Wall -Werror -fsyntax-only "$work/both.c"
echo "$(wc -l <"$work/ours.txt") values and $(echo "$prototypes" | wc -l) prototypes agree with $theirs/nccl.h"
