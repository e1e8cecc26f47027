#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No mutable globals in core: nothing of it in .data or .bss, but for the files named here.
set -euo pipefail
build_dir=$1
cd "$build_dir"
# file -> why: the ops tables and their defaults are chosen once, before any task runs
exceptions='core/os/(os|os_library|os_posix|os_real[a-z_]*)\.c'
bad=0 objects=0
while read -r object; do
	objects=$((objects + 1))
	source=$(sed -E 's#.*\.dir/##; s#\.o$##' <<<"$object")
	grep -qE "^$exceptions\$" <<<"$source" && continue
	# constant tables of pointers lie in .data.rel.ro: read-only once relocated
	hits=$(objdump -t "$object" | awk '$4 ~ /^\.(data|bss|tdata|tbss)/ && $4 !~ /^\.data\.rel\.ro/ &&
		$3 ~ /O|g/ && $NF !~ /^(\.|__gcov|__llvm|__asan|__odr|__tsan|__func__\.|__PRETTY)/ {print $NF}
		$4 == "*COM*" {print $NF}')
	if [ -n "$hits" ]; then
		echo "$source: mutable globals: ${hits//$'\n'/ }"
		bad=1
	fi
done < <(find ./CMakeFiles -path '*.dir/core/*.o' | LC_ALL=C sort)
# the check can fail: a planted variable must be found
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
printf 'static int counter; int f(void); int f(void) { return ++counter; }\n' >"$planted/x.c"
gcc -c -o "$planted/x.o" "$planted/x.c"
grep -q counter <<<"$(objdump -t "$planted/x.o" | awk '$4 ~ /^\.(data|bss)/ && $3 ~ /O|g/')" ||
	{ echo "the check finds nothing"; exit 1; }
[ $objects -gt 20 ] || { echo "only $objects objects of core found in $build_dir"; exit 1; }
[ $bad = 0 ] && echo "$objects objects of core, no mutable globals"
exit $bad
