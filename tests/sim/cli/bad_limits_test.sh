#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What a fault plan, a machine file or an option can name and no run can do: one clear error each,
# with what would do, and never an assertion.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
# shellcheck source=tests/sim/cli/expect_usage.sh
. "$2/tests/sim/cli/expect_usage.sh"
test_begin "$1"

# ---- fault plans

# plan NAME PATTERN LINE
plan() {
	echo "$3" >x.plan
	expect "$1" "x.plan:1:[0-9]+: $2" run all_reduce --hosts 2 --gpus 1 -e 8 --faults x.plan
}
plan 'flaps without end' 'times is 1000000000; expected 1 to 1000' \
	'fabric.link flap times=1000000000 each=1ns'
plan 'no flap' 'times is 0; expected 1 to' 'fabric.link flap times=0'
plan 'flaps that take no time' 'each is 0ns; expected 1 to' 'fabric.link flap each=0ns'
plan 'slower by nothing' 'factor is 0; expected 1 to' 'fabric.link slow factor=0'
plan 'packets of nothing' 'bytes is 0; expected 1 to' 'fabric.link mtu bytes=0'
plan 'a flag that is a number' 'undetected is 7; expected 0 to 1' 'fabric.packet corrupt undetected=7'
plan 'no errno' 'errno is 0; expected 1 to 4095' 'os.any fail errno=0'
plan 'no CUDA error' 'error is 77777777; expected 1 to 9999' 'cuda.malloc fail error=77777777'
plan 'a state that is none' 'state is 7; expected 0 to 6' 'verbs.modify_qp state=7 fail'
plan 'too large a number' '.* is no number, or too large' 'fabric.packet host=9223372036854775807 drop'
for action in fail drop; do
	plan "a layer without failing sites: $action" \
		"fabric.any cannot \"$action\": a layer's any can only fail, and no site of fabric can; expected a site, such as fabric.link" \
		"fabric.any $action"
done
plan 'a layer that can fail, and no more' 'os.any cannot "drop"; it can: fail' 'os.any drop'

# as many flaps as are allowed, as fast as time goes: unread events are lost, as in the kernel
echo 'fabric.link forever flap times=1000 each=1ns' >fast.plan
rc=0
"$doppel" run all_reduce --hosts 2 --gpus 1 -e 8 --faults fast.plan >out 2>&1 || rc=$?
if [ $rc -gt 2 ] || grep -q 'assertion' out; then
	echo "fast flaps: exit code $rc"
	grep -v 'NCCL WARN' out | tail -5
	bad=1
fi

# ---- machines

# pci BUSID CONTENT
pci() { printf '<pci busid="%s" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">%s</pci>\n' "$1" "$2"; }
gpu='<gpu dev="0" sm="80" rank="0" gdr="1"/>'
net() { printf '<nic><net name="%s" dev="%s" speed="100000" port="1" guid="0x%s" gdr="1"/></nic>' "$1" "$2" "$2"; }
cpu() { printf '<cpu numaid="%s" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">%s</cpu>\n' "$1" "$2"; }
system() { printf '<system version="1">\n%s\n</system>\n' "$1"; }
system "$(cpu 0 "$(pci zzzz "$gpu")")" >busid.xml
system "$(cpu 0 "$gpu")" >nowhere.xml
system "$(cpu 0 "$(pci 0000:01:00.0 "$gpu")")$(cpu 0 "$(pci 0000:02:00.0 "$(net mlx5_0 1)")")" >numa.xml
system "$(cpu 0 "$(pci 0000:01:00.0 "$gpu")$(pci 0000:02:00.0 "$(net mlx5_0 1)")$(pci 0000:03:00.0 "$(net mlx5_0 2)")")" >nics.xml
for how in 'run all_reduce -e 8 --machine' 'topo show'; do
	# shellcheck disable=SC2086 # words
	expect "$how: a GPU at no address" "busid.xml:2:79: .*'busid' is 'zzzz', expected a PCI address" $how busid.xml
	# shellcheck disable=SC2086
	expect "$how: a GPU without an address" 'nowhere.xml:2:79: .*without a PCI address' $how nowhere.xml
	# shellcheck disable=SC2086
	expect "$how: two CPUs of one numaid" "numa.xml:2:[0-9]+: .*numaid '0', which an earlier <cpu> has" $how numa.xml
	# shellcheck disable=SC2086
	expect "$how: two NICs of one name" "nics.xml:2:[0-9]+: .*name 'mlx5_0' and port 1, which an earlier <net> has" $how nics.xml
done

# ---- this computer

expect 'more ranks than the kernel has mappings for' \
	'--hosts 4096: 32768 ranks need about [0-9]+ memory mappings.*expected at most --hosts [0-9]+, or sysctl' \
	run all_reduce --hosts 4096 -e 8
expect 'more memory than there is' \
	'-e 1099511627776: .* do not fit in the [0-9]+ MiB of this computer; expected at most -e [0-9]+M' \
	run all_reduce -b 1024G -e 1024G -c 0
expect 'a quiet rank that is not there' '--quiet-rank 77: expected a rank from 0 to 3' \
	run all_reduce --hosts 2 --gpus 2 -e 8 --quiet-rank 77 --faults fast.plan

[ $bad = 0 ] && echo "$cases cases, one clear error each"
exit $bad
