#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Who may include whom (ARCHITECTURE section 2). Every quoted include is checked; an include of a
# room that is not on the including room's list fails with file, line and the list.
set -euo pipefail
source_dir=$2
cd "$source_dir"

# room -> rooms it may include, itself included
declare -A allowed=(
	[core/base]="core/base core/os"
	[core/os]="core/base core/os"
	[core/include]="core/include"
	[core/device]="core/base core/device backends/fakecuda"
	[core/bootstrap]="core/base core/os core/include core/bootstrap"
	[core/topo]="core/base core/os core/include core/topo core/device"
	[core/transport]="core/base core/os core/include core/device core/bootstrap core/topo core/comm core/proxy core/transport"
	[core/proxy]="core/base core/os core/include core/device core/bootstrap core/topo core/comm core/transport core/proxy"
	[core/comm]="core/base core/os core/include core/device core/bootstrap core/topo core/transport core/proxy core/plan core/comm"
	[core/plan]="core/base core/os core/include core/device core/topo core/comm core/transport core/proxy core/plan"
	[core/api]="core/base core/os core/include core/device core/bootstrap core/topo core/comm core/transport core/proxy core/plan core/api"
	[backends]="core/os core/base backends"
	[backends/cuda]="core/os core/base core/device backends backends/cuda"
	[backends/verbs]="core/os core/base backends backends/verbs"
	[backends/rdmacm]="backends/rdmacm"
	[backends/nccl]="core/os sim/world backends/nccl"
	[backends/fakecuda]="core/os core/base core/device sim/engine sim/world backends backends/fakecuda"
	[backends/fakeverbs]="core/os core/base sim/engine sim/world backends backends/fakeverbs"
	[backends/dropin]="core/os core/base sim/engine sim/world backends backends/fakeverbs backends/dropin"
	[sim/engine]="core/os core/base sim/engine"
	[sim/world]="core/os core/base sim/engine sim/world"
	[sim/lab]="core/os core/base core/include sim/engine sim/world sim/lab backends"
	[sim/cli]="core/os core/base core/include core/topo sim/engine sim/world sim/lab sim/cli backends backends/dropin"
)

bad=0 seen=0
while IFS=: read -r file line include; do
	room=${file%/*}
	# CUDA's own headers name each other as the Toolkit's do
	[[ $room = backends/*/include ]] && continue
	target=$(sed -E 's/.*"([^"]+)".*/\1/' <<<"$include")
	target_room=${target%/*}
	seen=$((seen + 1))
	if [ "$target_room" = "$target" ]; then
		echo "$file:$line: include \"$target\" is not written from the root"
		bad=1
		continue
	fi
	list=${allowed[$room]-}
	if [ -z "$list" ]; then
		echo "$file:$line: room $room is not in the table of this test"
		bad=1
	elif ! grep -qw -- "$target_room" <<<"$list"; then
		echo "$file:$line: $room must not include $target_room (allowed: $list)"
		bad=1
	fi
done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' core backends sim \
	--include='*.c' --include='*.h' --include='*.cu')

# the seam itself: nothing of sim or of a backend is named in core but the fake's device shim
[ "$seen" -gt 50 ] || { echo "only $seen includes seen: the test looks in the wrong place"; exit 1; }
[ $bad = 0 ] && echo "$seen includes follow the arrows"
exit $bad
