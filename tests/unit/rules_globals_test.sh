#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No mutable globals in core: nothing of it in .data or .bss, but for the files named here.
set -euo pipefail
build_dir=$1
cd "$build_dir"
# file -> why: the ops tables and their defaults are chosen once, before any task runs
exceptions='core/os/(os|os_posix|os_real[a-z_]*)\.c'
bad=0 objects=0
while read -r object; do
	objects=$((objects + 1))
	source=$(sed -E 's#.*\.dir/##; s#\.o$##' <<<"$object")
	grep -qE "^$exceptions\$" <<<"$source" && continue
	hits=$(nm --defined-only "$object" | awk '$2 ~ /^[bBdDCsSgG]$/ {print $3}' |
		grep -vE '^(__gcov|__llvm|__asan|__odr|\.L|__tsan|DW\.ref|_ubsan|\.?__sancov|__func__\.|__PRETTY)' || true)
	if [ -n "$hits" ]; then
		echo "$source: mutable globals: ${hits//$'\n'/ }"
		bad=1
	fi
done < <(find . -path '*.dir/core/*.o' | LC_ALL=C sort)
[ $objects -gt 20 ] || { echo "only $objects objects of core found in $build_dir"; exit 1; }
[ $bad = 0 ] && echo "$objects objects of core, no mutable globals"
exit $bad
