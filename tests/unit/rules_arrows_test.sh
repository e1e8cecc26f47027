#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Which room may include which (ARCHITECTURE section 2). Every quoted include is checked; an include of
# a room that is not on the including room's list fails with file, line and the list.
#
# A room with floors is an ordered list of folders: a floor may include itself and the floors before it,
# and it may call only those (the objects are read with nm, so a prototype in the wrong header does not
# help). No file may include itself, directly or through others.
set -euo pipefail
build_dir=$(realpath "$1") source_dir=$(realpath "$2")
cd "$source_dir"

# room -> rooms it may include, itself included
declare -A allowed=(
	[core/base]="core/base core/os"
	[core/os]="core/base core/os"
	[core/include]="core/include"
	[core/device]="core/base core/device backends/fakecuda"
	[core/bootstrap]="core/base core/os core/include core/bootstrap"
	[core/topo]="core/base core/os core/include core/topo core/device"
	[core/rank]="core/base core/os core/include core/device core/bootstrap core/topo core/rank"
	[core/transport]="core/base core/os core/include core/device core/bootstrap core/topo core/rank core/proxy core/transport"
	[core/proxy]="core/base core/os core/include core/device core/bootstrap core/topo core/rank core/transport core/proxy"
	[core/plan]="core/base core/os core/include core/device core/topo core/rank core/transport core/proxy core/plan"
	[core/comm]="core/base core/os core/include core/device core/bootstrap core/topo core/rank core/transport core/proxy core/plan core/comm"
	[core/api]="core/base core/os core/include core/device core/bootstrap core/topo core/rank core/transport core/proxy core/plan core/comm core/api"
	[backends]="core/os core/base backends"
	[backends/cuda]="core/os core/base core/device backends backends/cuda"
	[backends/verbs]="core/os core/base backends backends/verbs"
	[backends/rdmacm]="backends/rdmacm"
	[backends/nccl]="core/os sim/world backends/nccl"
	[backends/fakecuda]="core/os core/base core/device sim/engine sim/world backends backends/fakecuda"
	[backends/dropin]="core/os core/base sim/engine sim/world backends backends/dropin"
	[sim/engine]="core/os core/base sim/engine"
	[sim/world]="core/os core/base sim/engine sim/world"
	[sim/lab]="core/os core/base core/include sim/engine sim/world sim/lab backends"
	[sim/cli]="core/os core/base core/include core/topo sim/engine sim/world sim/lab sim/cli backends backends/dropin"
)

# floors of a room, from the ground up, and what the lowest may include besides itself
fakeverbs_floors="arena objects checks queues transport entry"
below="core/os core/base sim/engine sim/world backends"
for floor in $fakeverbs_floors; do
	below+=" backends/fakeverbs/$floor"
	allowed[backends/fakeverbs/$floor]=$below
	allowed[backends/dropin]+=" backends/fakeverbs/$floor"
done

table=$(for room in "${!allowed[@]}"; do echo "$room ${allowed[$room]}"; done)
includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' core backends sim \
	--include='*.c' --include='*.h' --include='*.cu')
bad=0
awk -v table="$table" '
	BEGIN {
		n = split(table, rows, "\n")
		for (i = 1; i <= n; i++) {
			k = split(rows[i], words, " ")
			list[words[1]] = substr(rows[i], length(words[1]) + 2)
			for (j = 2; j <= k; j++)
				may[words[1], words[j]] = 1
		}
	}
	{
		split($0, at, ":")
		room = at[1]
		sub("/[^/]*$", "", room)
		if (room ~ "^backends/.*/include$") # CUDA headers name each other as the Toolkit does
			next
		seen++
		target = $0
		sub("^[^\"]*\"", "", target)
		sub("\".*", "", target)
		to = target
		where = at[1] ":" at[2] ": "
		if (!sub("/[^/]*$", "", to)) {
			print where "include \"" target "\" is not written from the root"
			bad = 1
		} else if (!(room in list)) {
			print where "room " room " is not in the table of this test"
			bad = 1
		} else if (!((room, to) in may)) {
			print where room " must not include " to " (allowed: " list[room] ")"
			bad = 1
		}
	}
	END {
		if (seen <= 50) {
			print "only " seen " includes seen: the test looks in the wrong place"
			bad = 1
		}
		if (!bad)
			print seen " includes follow the arrows"
		exit bad
	}' <<<"$includes" || bad=1

# ---- no circle of files. core/device/programs.h ends with a list of files that it includes only where
# DEV_PROGRAM_FILES is defined: in core/device/kernels.c, at its second reading.
circle=$(grep -v '^core/device/programs.h:' <<<"$includes" | sed -E 's/^([^:]*):[0-9]*:[^"]*"([^"]*)".*/\1 \2/' |
	tsort 2>&1 >/dev/null | sed 's/^tsort: //') || true
if [ -n "$circle" ]; then
	printf 'these files include each other:\n%s\n' "$circle"
	bad=1
fi

# ---- no call from a floor to one above it
objects=$build_dir/CMakeFiles/fakeverbs_objects.dir/backends/fakeverbs
if [ -e "$build_dir/libfakeverbs.so" ]; then
	calls=$(cd "$objects" && find . -name '*.c.o' | sort | while read -r object; do
		# an object whose source has moved stays in a build folder
		[ ! -e "$source_dir/backends/fakeverbs/${object%.o}" ] || echo "$object"
	done | xargs nm -A -P | awk -v floors="$fakeverbs_floors" '
		BEGIN {
			n = split(floors, name, " ")
			for (i = 1; i <= n; i++)
				level[name[i]] = i
		}
		{
			file = $1
			gsub("^\\./|\\.o:$", "", file)
			floor = file
			sub("/.*", "", floor)
			if ($3 == "U") {
				uses++
				user[uses] = file; used[uses] = $2; at[uses] = level[floor]
			} else if ($3 ~ "^[A-Z]$") {
				home[$2] = file; above[$2] = level[floor]
			}
		}
		END {
			for (i = 1; i <= uses; i++) {
				if (!(used[i] in home))
					continue
				seen++
				if (above[used[i]] > at[i])
					print user[i] " uses " used[i] " of " home[used[i]] ", a floor above"
			}
			print seen + 0
		}')
	seen=$(tail -n 1 <<<"$calls")
	if [ "$(wc -l <<<"$calls")" != 1 ]; then
		sed '$d' <<<"$calls"
		bad=1
	elif [ "$seen" -le 300 ]; then
		echo "only $seen calls seen in $objects: the test looks in the wrong place"
		bad=1
	else
		echo "$seen calls between files of backends/fakeverbs go down or stay on their floor"
	fi
fi
exit $bad
