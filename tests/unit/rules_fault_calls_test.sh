#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every call of CUDA and NVML that the stack may make, and every entry point of the GPU double, has a
# row in entries.def with a fault site, unless it cannot fail; and every site is used.
set -euo pipefail
root=$2
entries=$root/backends/fakecuda/entry/entries.def
sites=$(grep -oE 'X\("[a-z0-9_.]+"' "$root/backends/sites/cuda_calls.h" | cut -d'"' -f2 | sort)
[ "$(wc -l <<<"$sites")" -gt 50 ] || { echo "no sites found"; exit 1; }
[ -z "$(uniq -d <<<"$sites")" ] || { echo "twice: $(uniq -d <<<"$sites")"; exit 1; }
used=$(grep -oE '"[a-z0-9_.]+"' "$entries" | tr -d '"' | sort -u)
differ=$(comm -3 <(echo "$sites") <(echo "$used"))
[ -z "$differ" ] || { echo "in one of cuda_calls.h and entries.def only: $differ"; exit 1; }
# calls with a body and without a site: the names of those that cannot fail
free=$(sed -nE 's/^[A-Z]+\(([A-Za-z0-9_]+),.*NULL, BODY\)$/\1/p' "$entries" | sort -u)
for call in $free; do
	[[ $call =~ GetError(Name|String)$|LastError$|^nvmlErrorString$|CaptureMode$|^cuDriverGetVersion$|^cuGetProcAddress$ ]] ||
		{ echo "$call has no fault site in entries.def"; exit 1; }
done
# a function is known by its base and by its exported name
rows=$(sed -nE 's/^[A-Z]+\(([A-Za-z0-9_]+),.*/\1/p; s/^DRIVER\(([A-Za-z0-9_]+), ([A-Za-z0-9_]+),.*/\1\2/p' "$entries")
# names that headers give to another function
rows+=" nvmlInit nvmlDeviceGetCount nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByPciBusId"
rows+=" nvmlDeviceGetNvLinkRemotePciInfo"
calls=$(grep -oE '^\| `[^|]*\|' "$root/backends/INTERFACE.md" | grep -oE '`(cuda|cu[A-Z]|nvml)[A-Za-z0-9_]*`' |
	tr -d '`' | sort -u)
[ "$(wc -l <<<"$calls")" -gt 50 ] || { echo "INTERFACE.md names too few calls"; exit 1; }
entered=$(grep -ohE '[A-Za-z_]+\("(cuda|cu[A-Z]|nvml)[A-Za-z0-9_]*"' "$root"/backends/fakecuda/{,*/}*.c |
	grep -vE '^(os_poll_miss|fc_unimplemented|fc_report|strlen)' |
	sed 's/.*"\(.*\)"/\1/' | sort -u)
rc=0
for call in $calls $entered; do
	grep -qw -- "$call" <<<"$rows" || {
		echo "$call has no row in backends/fakecuda/entry/entries.def"
		rc=1
	}
done
exit $rc
