#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Which room may include which (docs/architecture.md, section 2). Every quoted include is checked; an include of
# a room that is not on the including room's list fails with file, line and the list.
#
# Floors are an ordered list of folders: a floor may include itself and the floors before it, and it may
# call only those (the objects are read with nm, so a prototype in the wrong header does not help, nor
# does a table of functions). So no two floors can know each other, directly or through others. The rooms
# of core are floors, and so are the folders of the HCA double, of the engine and of the lab.
#
# No file may include itself, directly or through others.
set -euo pipefail
build_dir=$(realpath "$1") source_dir=$(realpath "$2")
cd "$source_dir"

# room -> rooms it may include, itself included
declare -A allowed=(
	[backends]="core/os core/base backends"
	[backends/cuda]="core/os core/base backends backends/cuda"
	[backends/verbs]="core/os core/base backends backends/verbs"
	[backends/sites]="core/os core/base sim/engine backends/sites"
	[backends/nccl]="core/os sim/world backends/nccl"
	[sim/world]="core/os core/base sim/engine sim/world sim/world/machine"
	[sim/world/machine]="core/os core/base sim/engine sim/world sim/world/machine"
	[sim/world/program]="core/os core/base sim/engine sim/world sim/world/machine sim/world/program"
	# the verbs product for foreign programs; its command is in the program doppel
	[dropin/ibverbs]="core/os core/base sim/engine sim/world backends dropin/ibverbs"
	[dropin/rdmacm]="dropin/rdmacm"
	[dropin/mlx5dv]="dropin/mlx5dv backends/fakeverbs/objects"
	[dropin/cli]="core/os core/base sim/engine sim/world sim/lab/run sim/lab/check sim/lab/search sim/lab/explore sim/cli backends backends/fakeverbs/fabric dropin/ibverbs dropin/cli"
)

# Floors, from the ground up. Two folders with a + between them are one floor: base reads the environment
# through os, and os is written with the words of base; both are in libdoppel-rt.
device_floors="layout reduce shim prims edges programs kernels"
core_floors="base+os include+include/nccl_device device/${device_floors// / device/} bootstrap topo+topo/model+topo/detect+topo/search+topo/connect rank detect"
core_floors+=" mem plugin profiler transport/base transport/net_verbs transport/net_socket transport/net_plugin transport/collnet"
core_floors+=" transport+transport/local+transport/registered+transport/conn proxy+proxy/relay algo tune tuner plan ras+ras/watch comm api+api/windows"
fakeverbs_floors="arena objects checks queues transport entry context fabric"
engine_floors="base trace order memory faults run report life"
# the runner and what a program does beside its series call each other
lab_floors="check run+program+family+queries+scene+life+plugin search explore"

# floors_allow ROOT FLOORS BELOW: rows of the table for floors that have none; all may include BELOW
floors_allow() {
	local root=$1 floor folder below=$3
	for floor in $2; do
		for folder in ${floor//+/ }; do
			below+=" $root/$folder"
		done
		for folder in ${floor//+/ }; do
			: "${allowed[$root/$folder]:=$below}"
		done
	done
}
# device code is also compiled for GPUs: it knows nothing of core/os
floors_allow core/device "$device_floors" "core/base"
allowed[core/device/shim]+=" backends/fakecuda"
floors_allow core "$core_floors" ""
floors_allow backends/fakeverbs "$fakeverbs_floors" "core/os core/base sim/engine sim/world backends"
floors_allow sim/lab "$lab_floors" \
	"core/os core/base core/include sim/engine sim/world backends"
# its plugins are compiled from the interfaces of plugins
allowed[sim/lab/plugin]+=" core/tune core/profiler core/transport/net_plugin core/transport/collnet"
# the folders of the command line see its own headers, and not each other's
cli="core/os core/base core/include core/topo core/topo/model core/topo/detect core/topo/search core/topo/connect core/tune core/detect sim/engine sim/world"
cli+=" sim/lab/check sim/lab/run sim/lab/search sim/lab/explore backends dropin/ibverbs sim/cli"
allowed[sim/cli]=$cli allowed[sim/cli/cc]="$cli sim/cli/cc" allowed[sim/cli/report]="$cli sim/cli/report" allowed[sim/cli/run]="$cli sim/cli/run sim/cli/report" allowed[sim/cli/topo]="$cli sim/cli/topo"
# the folders of the GPU double are one room
fakecuda="backends/fakecuda backends/fakecuda/memory backends/fakecuda/stream backends/fakecuda/launch"
fakecuda+=" backends/fakecuda/vmm backends/fakecuda/pool backends/fakecuda/graph backends/fakecuda/entry backends/fakecuda/runtime"
fakecuda+=" backends/fakecuda/image backends/fakecuda/ptx"
for folder in $fakecuda; do
	allowed[$folder]="core/os core/base core/device/layout core/device/shim sim/engine sim/world backends backends/sites"
	allowed[$folder]+=" $fakecuda"
done
for floor in $fakeverbs_floors; do
	allowed[dropin/ibverbs]+=" backends/fakeverbs/$floor"
done
# rooms that may include the world may include its folders, except the world itself
for room in "${!allowed[@]}"; do
	[[ $room == sim/world* || " ${allowed[$room]} " != *" sim/world "* ]] ||
		allowed[$room]+=" sim/world/machine sim/world/program"
done
# sim.h of the engine includes a header of each floor; rooms that may include it may include the floors
for room in "${!allowed[@]}"; do
	[[ " ${allowed[$room]} " != *" sim/engine "* ]] ||
		allowed[$room]+=" sim/engine/${engine_floors// / sim/engine/}"
done
floors_allow sim/engine "$engine_floors" "core/os core/base"
allowed[sim/engine]="sim/engine/${engine_floors// / sim/engine/}"

table=$(for room in "${!allowed[@]}"; do echo "$room ${allowed[$room]}"; done)
includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' core backends sim dropin \
	--include='*.c' --include='*.h' --include='*.cu' | grep -v '^dropin/tests/')
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
		# installed headers name each other by the file alone
		if (room ~ "^backends/.*/include$" || room ~ "^core/include")
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

# ---- no circle of files
circle=$(sed -E 's/^([^:]*):[0-9]*:[^"]*"([^"]*)".*/\1 \2/' <<<"$includes" |
	tsort 2>&1 >/dev/null | sed 's/^tsort: //') || true
if [ -n "$circle" ]; then
	printf 'these files include each other:\n%s\n' "$circle"
	bad=1
fi

# ---- no call from a floor to one above it, nor any other use of a symbol of one above it
# floors_call ROOT FLOORS LEAST OBJECT_FOLDER...: LEAST uses of symbols at least must be seen
floors_call() {
	local root=$1 floors=$2 least=$3 uses seen
	shift 3
	uses=$(find "$@" -name '*.c.o' | sort | while read -r object; do
		# an object whose source has moved stays in a build folder
		source=${object#*.dir/}
		[ ! -e "$source_dir/${source%.o}" ] || echo "$object"
	done | xargs nm -A -P | awk -v root="$root" -v floors="$floors" '
		BEGIN {
			n = split(floors, name, " ")
			for (i = 1; i <= n; i++) {
				m = split(name[i], folder, "+")
				for (j = 1; j <= m; j++)
					level[folder[j]] = i
			}
		}
		{
			file = $1
			sub("^.*\\.dir/" root "/", "", file)
			sub("\\.o:$", "", file)
			floor = file
			sub("/[^/]*$", "", floor)
			if (!(floor in level)) {
				if (!(floor in unknown))
					print root "/" floor " is on no floor"
				unknown[floor] = 1
			}
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
	seen=$(tail -n 1 <<<"$uses")
	if [ "$(wc -l <<<"$uses")" != 1 ]; then
		sed '$d' <<<"$uses"
		bad=1
	elif [ "$seen" -le "$least" ]; then
		echo "only $seen uses of symbols seen in $*: the test looks in the wrong place"
		bad=1
	else
		echo "$seen uses of symbols between files of $root go down or stay on their floor"
	fi
}

products=$build_dir/CMakeFiles
if [ -e "$build_dir/libdoppel-rt.so" ]; then
	floors_call core "$core_floors" 600 "$products"/{rt_objects,core_*}.dir/core
fi
if [ -e "$build_dir/libfakeverbs.so" ]; then
	floors_call sim/engine "$engine_floors" 300 "$products"/rt_objects.dir/sim/engine
	floors_call backends/fakeverbs "$fakeverbs_floors" 300 \
		"$products"/fakeverbs_objects.dir/backends/fakeverbs
fi
if [ -e "$build_dir/liblab.a" ]; then
	floors_call sim/lab "$lab_floors" 200 "$products"/lab.dir/sim/lab
fi
exit $bad
