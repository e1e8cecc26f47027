#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What libdoppel and libnccl.so.2 export is what nccl.h declares: the same names, nothing else; each
# with its twin at the same address. The second has the soname that programs look for.
set -euo pipefail
build_dir=$1 source_dir=$2
header=$(cc -E -P -fsyntax-only -I"$source_dir/backends/fakecuda/include" -x c "$source_dir/core/include/nccl.h" |
	tr '\n' ' ' | grep -oE '\bp?nccl[A-Z][A-Za-z]* *\(' | tr -d ' (' | LC_ALL=C sort -u)
for lib in "$build_dir/libdoppel.so" "$build_dir/libnccl.so.2"; do
	[ -f "$lib" ] && [ ! -L "$lib" ] || { echo "no library $lib"; exit 1; }
	soname=$(readelf -d "$lib" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
	[ "$soname" = "$(basename "$lib")" ] || { echo "$lib has the soname '$soname'"; exit 1; }
	exported=$(nm -D --defined-only "$lib" | awk '{print $3}' | LC_ALL=C sort -u)
	if ! diff <(echo "$header") <(echo "$exported"); then
		echo "nccl.h (<) and $lib (>) differ"
		exit 1
	fi
	bad=$(nm -D --defined-only "$lib" | awk '
		{ at[$3] = $1; kind[$3] = $2 }
		END {
			for (n in at) if (n !~ /^p/ && (at["p" n] != at[n] || kind[n] != "W" || kind["p" n] != "T"))
				print n, kind[n], at[n], kind["p" n], at["p" n]
		}')
	[ -z "$bad" ] || { echo "no weak name with a strong twin at one address: $bad"; exit 1; }
	echo "$(basename "$lib"): $(echo "$exported" | wc -l) symbols"
done
