#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Our nccl.h and nccl_device.h agree with every NCCL that is installed here, from 2.28.9 on: names, values, sizes,
# offsets and prototypes; and our library exports what the library beside the header exports. Skips where there is none.
# NCCL_INCLUDE names more folders, with colons between.
set -euo pipefail
build_dir=$1 source_dir=$2
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need python3 cc
cuda=
for dir in /usr/local/cuda/include /usr/local/cuda-*/include /usr/include; do
	[ -f "$dir/cuda_runtime.h" ] && [ -f "$dir/cuda_fp16.h" ] && cuda=$dir && break
done
[ -n "$cuda" ] || { echo "no CUDA Toolkit here, whose headers NCCL's need"; exit 77; }

# the check can fail: a value, a field, a type and a missing function
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
sed 's/ncclTimeout = 8/ncclTimeout = 9/; s/int maxP2pPeers/long maxP2pPeers/' \
	"$source_dir/core/include/nccl_types.h" >"$planted/nccl_types.h"
sed 's/\(pncclCommRevoke(ncclComm_t comm, \)int/\1long/; /^ncclResult_t ncclCommResume/d' \
	"$source_dir/core/include/nccl.h" >"$planted/nccl.h"
cp -r "$source_dir/core/include/nccl_device.h" "$source_dir/core/include/nccl_device" "$planted"
! python3 "$source_dir/tests/unit/build/nccl_abi.py" "$planted" "$source_dir/core/include" "$cuda" >"$planted/out" ||
	{ echo "planted differences are not found"; exit 1; }
for found in 'ncclTimeout 9' 'maxP2pPeers offset [0-9]* size 8' pncclCommRevoke 'ours lacks ncclCommResume'; do
	grep -q "$found" "$planted/out" || { echo "not found: $found"; cat "$planted/out"; exit 1; }
done

compared=0 seen=
IFS=: read -r -a more <<<"${NCCL_INCLUDE:-}"
more+=("$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/nvidia/nccl/include")
for dir in ${more[@]+"${more[@]}"} /opt/nccl-*/nvidia/nccl/include /usr/local/cuda/include /usr/local/cuda-*/include \
	/usr/include /usr/local/include; do
	[ -f "$dir/nccl.h" ] || continue
	dir=$(realpath "$dir")
	[[ ":$seen:" != *":$dir:"* ]] || continue
	seen=$seen:$dir
	theirs=$dir/nccl.h
	minor=$(sed -n 's/^.define NCCL_MINOR *\([0-9]*\)$/\1/p' "$theirs")
	patch=$(sed -n 's/^.define NCCL_PATCH *\([0-9]*\)$/\1/p' "$theirs")
	[ $((minor * 100 + patch)) -ge 2809 ] || { echo "$dir: NCCL 2.$minor.$patch is older than 2.28.9"; continue; }
	python3 "$source_dir/tests/unit/build/nccl_abi.py" "$source_dir/core/include" "$dir" "$cuda"
	lib=$(dirname "$dir")/lib/libnccl.so.2
	if [ -f "$lib" ] && [ $((minor * 100 + patch)) -le 3203 ]; then
		lacks=$(comm -13 <(nm -D --defined-only "$build_dir/libnccl.so.2" | awk '{print $3}' | LC_ALL=C sort) \
			<(nm -D --defined-only "$lib" | awk '{print $3}' | LC_ALL=C sort))
		[ -z "$lacks" ] || { echo "exported by $lib and not by ours:" $lacks; exit 1; }
	fi
	compared=$((compared + 1))
done
[ $compared != 0 ] || { echo "no nccl.h from 2.28.9 on here"; exit 77; }
