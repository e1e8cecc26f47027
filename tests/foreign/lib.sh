# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the scripts of this folder to source: programs that were built against NCCL's library, run on it and on ours. Ours
# takes NCCL's place by LD_PRELOAD, as users do it.

export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1

nccl_names() { nm -D "$@" 2>/dev/null | awk '$(NF - 1) ~ /[TWU]/ && $NF ~ /^nccl[A-Z]/ { sub(/@.*/, "", $NF); print $(NF - 1), $NF }' | sort -u; }

# require_functions LIBNCCL BINARY...: fails where a binary calls a function of NCCL that LIBNCCL does not have.
require_functions() {
	local ours=$1 absent
	shift
	absent=$(comm -13 <(nccl_names "$ours" | sed -n 's/^[TW] //p' | sort -u) <(nccl_names "$@" | sed -n 's/^U //p' | sort -u))
	[ -z "$absent" ] || { echo "$ours: absent, and called by $*: $(paste -sd ' ' <<<"$absent")" && exit 1; }
}
