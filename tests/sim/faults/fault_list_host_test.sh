#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An all-reduce of 2 hosts x 2 GPUs under one fault at a time, of GPU and host: it ends with the right
# result (0) or with errors on all ranks (2); no hang, no crash, no leak. What must not matter, as
# it only takes time or can be tried again, gives the right result.
set -euo pipefail
bin=$1/doppel
plan=$(mktemp) out=$(mktemp)
trap 'rm -f "$plan" "$out"' EXIT
bad=0 lines=0
while IFS='|' read -r want line; do
	[ -n "$want" ] || continue
	lines=$((lines + 1))
	echo "$line" >"$plan"
	rc=0
	"$bin" run all_reduce --hosts 2 --gpus 2 -b 64K -e 64K --place in --seed "$lines" \
		--faults "$plan" >"$out" 2>&1 || rc=$?
	[ "$rc" = "$want" ] && continue
	echo "'$line' ended with $rc, expected $want (seed $lines):"
	tail -5 "$out"
	bad=1
done <<'LINES'
0|cuda.kernel delay by=3ms
0|cuda.kernel prob=1/2 delay by=300us
0|cuda.block delay by=3ms
0|cuda.block prob=1/2 delay by=100us
0|cuda.block rank=1 hold
0|cuda.warp starve by=5ms
0|cuda.warp prob=1/16 starve by=50us
0|cuda.copy prob=1/2 slow by=100
0|cuda.copy delay by=1ms
0|cuda.device_get_p2p_attribute fail
2|cuda.device_get_attribute fail
2|cuda.malloc nth=6 fail
2|cuda.host_alloc nth=9 fail
2|cuda.host_alloc nth=7 fail error=OperatingSystem
2|cuda.ipc_get fail
2|cuda.ipc_open fail
2|cuda.event_create nth=5 fail
2|cuda.event_record fail
2|cuda.func_get_attributes fail
2|cuda.launch_ex fail
2|cuda.launch_ex rank=2 sticky
2|cuda.stream_query nth=2 sticky error=ECCUncorrectable
2|cuda.stream_query fail
2|cuda.stream_synchronize fail
0|os.connect fail
2|os.connect fail errno=EAGAIN
0|os.connect lost
0|os.connect nth=5 lost by=100ms
0|os.connect count=20 delay by=30ms
0|os.accept fail
0|os.socket prob=1/2 partial by=1
0|os.socket forever partial by=3
0|os.socket prob=1/4 again
0|os.socket prob=1/4 fail errno=EINTR
0|os.socket nth=5 trickle by=10us
0|os.socket nth=50 trickle by=100us
0|os.socket prob=1/4 delay by=1ms
0|os.stranger forever garbage by=1us
0|os.stranger forever silent by=1us
0|os.stranger forever hangup by=1us
2|os.socket nth=80 reset
2|os.thread nth=3 fail
2|os.task rank=1 after=800us kill
0|os.task rank=1 nth=1 starve by=50ms
0|os.task prob=1/16 starve by=100us
LINES
echo "$lines lines"
exit $bad
