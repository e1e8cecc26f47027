#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes a header that poisons every CUDA, NVML and verbs function that backends/INTERFACE.md does
# not list, so that core cannot grow beyond its interface unnoticed (inline verbs never show in nm).
# Usage: poison.sh INTERFACE.md OUT HEADER...
set -euo pipefail
interface=$1 out=$2
shift 2
listed=$(grep -oE '`(cuda[A-Z]|cu[A-Z]|nvml[A-Z]|_?ibv_)[A-Za-z0-9_]*' "$interface" | tr -d '`' | sort -u)
[ "$(wc -l <<<"$listed")" -gt 20 ] || { echo "$interface lists hardly a name" >&2; exit 1; }
{
	echo "/* Generated from backends/INTERFACE.md: what core may not call. */"
	for header in "$@"; do
		echo "#include <$(sed -E 's#.*/include/##' <<<"$header")>"
	done
	# names followed by a parenthesis, declared or defined
	grep -ohE '\b(cuda[A-Z]|cu[A-Z]|nvml[A-Z]|ibv_)[A-Za-z0-9_]*[[:space:]]*\(' "$@" |
		tr -d '( \t' | sort -u | comm -23 - <(echo "$listed") |
		sed -E 's/(.*)/#undef \1\n#pragma GCC poison \1/'
} >"$out"
