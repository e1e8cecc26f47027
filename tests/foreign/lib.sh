# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the scripts of this folder to source: programs that were built against NCCL's library, run on it and on ours.

export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1

nccl_names() { nm -D "$@" 2>/dev/null | awk '$(NF - 1) ~ /[TWU]/ && $NF ~ /^nccl[A-Z]/ { sub(/@.*/, "", $NF); print $(NF - 1), $NF }' | sort -u; }

# absent_functions FOLDER LIBNCCL BINARY...: prints the path of a library, made in FOLDER, with those functions of
# NCCL that the binaries call and LIBNCCL does not have. Each logs its name and returns ncclInvalidUsage (5), so that
# a program loads and fails only where it calls one.
absent_functions() {
	local folder=$1 ours=$2 name
	shift 2
	comm -13 <(nccl_names "$ours" | sed -n 's/^[TW] //p' | sort -u) <(nccl_names "$@" | sed -n 's/^U //p' | sort -u) \
		>"$folder/absent.txt"
	{
		echo '#include <stdio.h>'
		while read -r name; do
			printf 'int %s(void) { fputs("%s is not implemented\\n", stderr); return 5; }\n' "$name" "$name"
		done <"$folder/absent.txt"
	} >"$folder/absent.c"
	cc -shared -fPIC -o "$folder/libabsent.so" "$folder/absent.c"
	echo "$folder/libabsent.so"
}
