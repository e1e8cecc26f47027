#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What core calls, seen by the linker: the undefined symbols of its objects are base's and os.h's,
# the CUDA and verbs calls of backends/INTERFACE.md, and a few pure functions of the C library.
# A symbol check cannot be fooled by macros; inline verbs are caught by the poison list.
set -euo pipefail
build_dir=$1 source_dir=$2
# bcmp and __popcountdi2: what compilers make of memcmp and popcount; __aarch64_*: atomics
pure='mem(cpy|set|cmp|move)|str(len|cmp|ncmp|chr|rchr|str|spn|cspn|error|nlen)|v?snprintf|__v?snprintf_chk|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__errno_location|strto[a-z]+|__isoc23_strto[a-z]+|fprintf|__fprintf_chk|bcmp|memchr|strncpy|strn?casecmp|strerror_r|__xpg_strerror_r|inet_(ntop|pton)|__popcountdi2|__aarch64_[a-z0-9_]+|fputs|fputc|fwrite|__ctype_[a-z_]+|__gcov_[a-z_]*|__asan_.*|__ubsan_.*|__tsan_.*|__assert_fail|strdup|atoi|tolower'
listed=$(grep -oE '`(cuda[A-Z]|cu[A-Z]|nvml[A-Z]|_?ibv_)[A-Za-z0-9_]*' "$source_dir/backends/INTERFACE.md" | tr -d '`' | sort -u)
bad=0
cd "$build_dir"
# those of this configuration: an old build folder also has objects of files that were renamed
objects=$(grep -oE 'CMakeFiles/core_(host|topo|detect)\.dir/[^ "]*\.o' compile_commands.json | LC_ALL=C sort -u)
[ "$(wc -l <<<"$objects")" -gt 20 ] || { echo "hardly an object of core in $build_dir"; exit 1; }
# shellcheck disable=SC2086 # one word an object
provided=$( (nm --defined-only $objects | awk 'NF == 3 {print $3}'; nm -D --defined-only libdoppel-rt.so | awk 'NF == 3 {print $3}') | sort -u)
# shellcheck disable=SC2086
undefined=$(nm -u $objects | awk 'NF == 2 {print $2}' | sort -u)
runtime=$(nm -D --defined-only libdoppel-rt.so | awk '{print $3}')
rt_allowed='^(os_|log_|param_|hash64|xml_|shared_hook|doppel_assert|memo_|pci_address_|gfx_|base_)'
declare -A is_listed=() is_provided=() is_runtime=()
while read -r name; do is_listed[$name]=1; done <<<"$listed"
while read -r name; do is_provided[$name]=1; done <<<"$provided"
while read -r name; do is_runtime[$name]=1; done <<<"$runtime"
count=0
while read -r symbol; do
	count=$((count + 1))
	[[ $symbol =~ ^($pure)$ ]] && continue
	[ -z "${is_listed[$symbol]:-}" ] || continue
	if [ -n "${is_provided[$symbol]:-}" ]; then
		# its own, or the kernel table; of the runtime only base and os
		[ -n "${is_runtime[$symbol]:-}" ] || continue
		[[ $symbol =~ $rt_allowed ]] && continue
		echo "core uses $symbol of the engine or the world"
	elif [[ $symbol =~ ^dev_kernel ]]; then
		continue
	else
		echo "core uses $symbol, which is on no list"
	fi
	bad=1
done <<<"$undefined"
[ "$count" -gt 60 ] || { echo "only $count undefined symbols seen"; exit 1; }
[ $bad = 0 ] && echo "$count symbols that core uses, all of them allowed"
exit $bad
