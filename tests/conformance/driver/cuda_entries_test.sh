#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The table of entry points and the symbols of the library agree, both ways. The table is sorted, and
# docs/cuda/functions.md lists it.
set -euo pipefail
build=$1 root=$2
entries=$root/backends/fakecuda/entry/entries.def
rows=$(sed -nE 's/^(RUNTIME|NVML)\(([A-Za-z0-9_]+), ("[a-z0-9_.]+"|NULL), (BODY|ABSENT)\)$/\2/p
	s/^DRIVER\(([A-Za-z0-9_]+), ([A-Za-z0-9_]*), [0-9]+, ("[a-z0-9_.]+"|NULL), (BODY|ABSENT)\)$/\1\2/p' "$entries")
count=$(grep -cE '^[A-Z]+\(' "$entries")
[ "$(wc -l <<<"$rows")" = "$count" ] || { echo "a row of entries.def has another form"; exit 1; }
[ "$count" -gt 200 ] || { echo "only $count rows: the extraction is broken"; exit 1; }
sed -nE 's/^[A-Z]+\(([A-Za-z0-9_]+),.*/\1/p' "$entries" | LC_ALL=C sort -c || { echo "the rows are not sorted"; exit 1; }
# all rows of a base have one site
sites=$(sed -nE 's/^DRIVER\(([A-Za-z0-9_]+),.* ("[a-z0-9_.]+"|NULL), .*/\1 \2/p' "$entries" | LC_ALL=C sort -u)
[ "$(wc -l <<<"$sites")" -gt 100 ] || { echo "no sites found"; exit 1; }
twice=$(cut -d' ' -f1 <<<"$sites" | uniq -d)
[ -z "$twice" ] || { echo "rows with two fault sites: $twice"; exit 1; }
symbols=$(nm -D --defined-only "$build/libfakecuda.so" | awk '$2 == "T" { print $3 }' |
	grep -E '^(cuda[A-Z]|cu[A-Z]|nvml)' | LC_ALL=C sort)
differ=$(LC_ALL=C comm -3 <(echo "$symbols") <(LC_ALL=C sort <<<"$rows"))
[ -z "$differ" ] || { echo "in one of libfakecuda.so and entries.def (indented) only:"; echo "$differ"; exit 1; }
"$root/cmake/functions.sh" | diff - "$root/docs/cuda/functions.md" || { echo "cmake/functions.sh > docs/cuda/functions.md renews it"; exit 1; }
echo "ok: $count functions"
