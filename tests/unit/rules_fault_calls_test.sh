#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every call of CUDA and NVML that the stack may make can be failed by a fault plan, but for those
# that cannot fail; and every entry point of the GPU double has its row.
set -euo pipefail
root=$2
rows=$(grep -oE 'X\("[a-z0-9_.]+", "[A-Za-z0-9_]+"' "$root/backends/sites/cuda_calls.h" |
	sed 's/.*"\([A-Za-z0-9_]*\)"$/\1/' | sort)
# calls that visit the site of another one
same=$(grep -oE 'X\("[A-Za-z0-9_]+", "[A-Za-z0-9_]+"\)' "$root/backends/sites/cuda_calls.h" | cut -d'"' -f2,4 --output-delimiter=' ')
for other in $(cut -d' ' -f2 <<<"$same" | sort -u); do
	grep -qx -- "$other" <<<"$rows" || { echo "$other has no row in backends/sites/cuda_calls.h"; exit 1; }
done
rows=$(sort <<<"$rows"$'\n'"$(cut -d' ' -f1 <<<"$same")")
[ "$(wc -l <<<"$rows")" -gt 50 ] || { echo "no rows found"; exit 1; }
[ -z "$(uniq -d <<<"$rows")" ] || { echo "twice: $(uniq -d <<<"$rows")"; exit 1; }
# what cannot fail; calls that are another one, with defaults or by another name; not implemented
exempt='cudaGetErrorString cudaGetErrorName cudaGetLastError cudaPeekAtLastError cuGetErrorString
cuGetErrorName nvmlErrorString cudaStreamCreateWithFlags cudaGetDriverEntryPointByVersion
cuDeviceGetAttribute nvmlInit nvmlDeviceGetCount nvmlDeviceGetHandleByIndex
nvmlDeviceGetHandleByPciBusId nvmlDeviceGetNvLinkRemotePciInfo cudaThreadExchangeStreamCaptureMode'
exempt+=" $(sed -n 's/^UNIMPLEMENTED(\(.*\))$/\1/p' "$root/backends/fakecuda/unimplemented.def")"
calls=$(grep -oE '^\| `[^|]*\|' "$root/backends/INTERFACE.md" | grep -oE '`(cuda|cu[A-Z]|nvml)[A-Za-z0-9_]*`' |
	tr -d '`' | sort -u)
[ "$(wc -l <<<"$calls")" -gt 50 ] || { echo "INTERFACE.md names too few calls"; exit 1; }
entered=$(grep -ohE '[a-z_]+\("(cuda|cu[A-Z]|nvml)[A-Za-z0-9_]*"' "$root"/backends/fakecuda/{,*/}*.c |
	grep -vE '^(os_poll_miss|fc_unimplemented|fc_report|fc_enter_quiet|fc_enter_ctx_quiet|strlen)' |
	sed 's/.*"\(.*\)"/\1/' | sort -u)
rc=0
for call in $calls $entered; do
	grep -qw -- "$call" <<<"$rows" || grep -qw -- "$call" <<<"$exempt" || {
		echo "$call has no row in backends/sites/cuda_calls.h"
		rc=1
	}
done
exit $rc
