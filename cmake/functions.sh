#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Prints docs/cuda/functions.md: the functions of CUDA and NVML that the GPU double exports, from its
# table of entry points. `cmake/functions.sh > docs/cuda/functions.md` renews the page.
set -euo pipefail
export LC_ALL=C
entries=$(dirname "$(realpath "$0")")/../backends/fakecuda/entry/entries.def

# names KIND STATE: names, or bases of the driver, as a block
names() {
	echo '```'
	sed -nE "s/^$1\(([A-Za-z0-9_]+),.* $2\)\$/\1/p" "$entries" | sort -u | tr '\n' ' ' | fold -s -w 118 | sed 's/ *$//'
	printf '\n```\n'
}
count() { sed -nE "s/^$1\(([A-Za-z0-9_]+),.* $2\)\$/\1/p" "$entries" | sort -u | wc -l; }

cat <<TEXT
# The functions of CUDA that the double has

\`cmake/functions.sh\` makes this page from \`backends/fakecuda/entry/entries.def\`, which has the versions, variants
and fault sites as well. A function without a body aborts with its name, and \`cuGetProcAddress\` does not find it.
TEXT
for kind in "DRIVER driver" "RUNTIME runtime" "NVML NVML"; do
	set -- $kind
	printf '\n## %s: %s functions\n\n' "${2^}" "$(count "$1" BODY)"
	names "$1" BODY
	[ "$(count "$1" ABSENT)" = 0 ] || {
		printf '\nWithout a body (%s):\n\n' "$(count "$1" ABSENT)"
		names "$1" ABSENT
	}
done
