#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The HCAs in the /sys of doppel verbs-run. NCCL, hwloc and libpciaccess find the PCI functions in
# the kernel's layout. The counters have the driver's names, rise, and persist after the program
# that raised them. As root and as another user. Arguments: build folder, source folder.
set -euo pipefail
build=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
[ -e "$build/verbs/libibverbs.so.1" ] || { echo "no drop-in in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
rc=0
fail() { echo "$*"; rc=1; }
cc -O1 -o "$work/counters" "$source_dir/dropin/tests/programs/sys_counters.c" -L"$build/verbs" -Wl,--as-needed \
	-l:libibverbs.so.1

cat >"$work/look" <<'END'
set -eu
for hca in /sys/class/infiniband/*; do
	name=${hca##*/}
	function=$(readlink -f "$hca/device") address=${function##*/}
	[ "$(readlink -f "$hca")" = "$function/infiniband/$name" ] || echo "$name: not below its function"
	[ "$(readlink -f "/sys/bus/pci/devices/$address")" = "$function" ] || echo "$name: not on the bus"
	[ "$(readlink -f "/sys/class/pci_bus/${address%:*}/../../$address")" = "$function" ] ||
		echo "$name: not where its bus leads"
	[ "$(cat "$function/infiniband_verbs"/*/ibdev)" = "$name" ] || echo "$name: no device of verbs"
	bridge=${function%/*}
	for dir in "$function" "$bridge"; do
		[ "$(readlink -f "/sys/bus/pci/devices/${dir##*/}")" = "$dir" ] || echo "$dir: not on the bus"
		id=$(cat "$dir/vendor"):$(cat "$dir/device")
		id=$(echo "$id" | sed s/0x//g | tr a-f A-F)
		grep -qx "PCI_ID=$id" "$dir/uevent" || echo "$dir: uevent has another id than $id"
		grep -qx "PCI_SLOT_NAME=${dir##*/}" "$dir/uevent" || echo "$dir: uevent has another address"
		config=$(od -An -tx1 -N4 "$dir/config" | tr -d ' \n' | tr a-f A-F)
		[ "${config:2:2}${config:0:2}:${config:6:2}${config:4:2}" = "$id" ] || echo "$dir: config $config"
		for file in class revision subsystem_vendor subsystem_device numa_node resource local_cpulist; do
			[ -s "$dir/$file" ] || echo "$dir has no $file"
		done
	done
	[ "$(cat "$bridge/class")" = 0x060400 ] || echo "$bridge is no bridge"
done
for link in /sys/bus/pci/devices/* /sys/class/pci_bus/* /sys/class/net/*; do
	[ -d "$link" ] || echo "$link leads nowhere"
done
END
before=$(ls /sys /sys/class /sys/devices /sys/devices/virtual /sys/bus /sys/bus/pci/devices /sys/class/pci_bus 2>&1 || true)
look() { # machine, command...
	local machine=$1 found
	shift
	found=$(timeout 300 "$@" "$build/doppel" verbs-run --machine "$machine" --fabric "sysfs-$$-$machine" \
		bash "$work/look" 2>&1) || fail "$machine: $found"
	[ -z "$found" ] || fail "$machine: $found"
}
look workstation-2hca env
look h100-8nic env
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$build/doppel"; then
	look workstation-2hca setpriv --reuid 65534 --regid 65534 --clear-groups
fi
[ "$before" = "$(ls /sys /sys/class /sys/devices /sys/devices/virtual /sys/bus /sys/bus/pci/devices /sys/class/pci_bus 2>&1 || true)" ] ||
	fail "something of it is outside"

# A tree sums the counts of two programs, one after the other, and both at the same time.
printf 'fabric.packet prob=1/20 drop\n' >"$work/plan"
cat >"$work/add" <<'END'
set -eu
program=$1 file=/sys/class/infiniband/mlx5_0/ports/1/$2
[ "$(cat "$file")" = 0 ]
"$program" lossy
one=$(cat "$file")
"$program" lossy
two=$(cat "$file")
"$program" lossy &
other=$!
"$program" lossy
wait $other
four=$(cat "$file")
echo "$one $two $four packets"
[ "$one" -ge 800 ] && [ "$two" -ge $((one + 800)) ] && [ "$four" -ge $((two + 1600)) ]
END
for kind in mlx5 rxe; do
	case $kind in mlx5) sent=counters/port_xmit_packets ;; *) sent=hw_counters/sent_pkts ;; esac
	DOPPEL_HCA_PERSONALITY=$kind timeout 300 "$build/doppel" verbs-run --fabric "sysfs-$$-$kind" \
		--faults "$work/plan" bash "$work/add" "$work/counters" "$sent" >"$work/out" 2>&1 ||
		{ fail "counters of $kind:"; cat "$work/out"; }
done
exit $rc
