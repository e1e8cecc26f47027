#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A communicator that detects its hosts' topology gets the channels that the machine's file gives, on one host
# and on several, over HCAs and over sockets, in virtual and in real time; a run is a seed all the same; and
# `doppel topo detect` prints what it found, which is a machine again.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
fail_shows=(err)

run=("$doppel" run all_reduce -b 64K -e 64K --env NCCL_DEBUG=INFO --env "NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET")
channels() { grep -oE 'Channel [0-9]+/[0-9]+ : .*|Using network .*' "$1" | sort -u; }

# same MACHINE HOSTS GPUS OPTIONS...: the channels of the file, and of detection
same() {
	local machine=$1 hosts=$2 gpus=$3
	shift 3
	"${run[@]}" --machine "$machine" --hosts "$hosts" --gpus "$gpus" "$@" >err 2>&1 ||
		fail "$machine x $hosts with a file: exit code $?"
	channels err >file.channels
	"${run[@]}" --machine "$machine" --hosts "$hosts" --gpus "$gpus" --env NCCL_TOPO_FILE= "$@" >err 2>&1 ||
		fail "$machine x $hosts detected: exit code $?"
	channels err >found.channels
	grep -q 'Channel 00' found.channels || fail "$machine x $hosts: no channels"
	diff file.channels found.channels >differences ||
		fail "$machine x $hosts $*: channels differ: $(head -4 differences)"
}
same h100-8nic 1 8
same h100-8nic 2 4
same a100-4nic 2 8
same pcie-4gpu 1 4
same workstation-2hca 2 1
same workstation-2gpu 2 2
same h100-8nic 2 2 --env NCCL_NET=Socket --env DOPPEL_TOPO_NETWORK=1
same h100-8nic 1 2 --env NCCL_P2P_DISABLE=1 --env NCCL_SHM_DISABLE=1
same h100-8nic 2 2 --engine threads --env NCCL_MAX_NCHANNELS=32

# a cloud's template has GPUs without <gpu>: they get their links from NVML, and from each rank its own
sed '/<gpu /,/<\/gpu>/d' "$2/sim/world/machines/h100-8nic.xml" >template.xml
grep -q nvlink template.xml && fail "template.xml has links"
"${run[@]}" --machine h100-8nic --gpus 8 >err 2>&1 || fail "the file of the template: exit code $?"
channels err >file.channels
"${run[@]}" --machine h100-8nic --gpus 8 --env NCCL_TOPO_FILE="$work/template.xml" >err 2>&1 || fail "template: exit code $?"
channels err >found.channels
diff file.channels found.channels >differences || fail "template: channels differ: $(head -4 differences)"
echo "nvml.device_get_nvlink_remote rank=1 fail" >plan
for seed in 1 2 3; do
	"$doppel" run all_reduce --gpus 4 -b 64K -e 64K --seed $seed --env NCCL_TOPO_FILE="$work/template.xml" --faults plan >out 2>err ||
		fail "template, links that rank 1 cannot see, seed $seed: exit code $?"
done

# a run is a seed
detect=("$doppel" run all_reduce --hosts 2 --gpus 2 -b 64K -e 64K --env NCCL_TOPO_FILE=)
hash_of() { "${detect[@]}" "$@" 2>err | sed -n 's/^# trace hash //p'; }
one=$(hash_of --seed 7) two=$(hash_of --seed 7)
[ -n "$one" ] && [ "$one" = "$two" ] || fail "two runs of one seed: '$one' and '$two'"

# what is written is a topology file, and the machine that it was
"${detect[@]}" --env NCCL_TOPO_DUMP_FILE="$work/dump.xml" --env NCCL_TOPO_DUMP_FILE_RANK=3 >out 2>err || fail "dump: exit code $?"
grep -q '<gpu dev="1" sm="90" rank="3" gdr="1">' dump.xml || fail "dump.xml is not rank 3's host"
grep -q 'keep=' dump.xml && fail "dump.xml has what is between ranks"
"$doppel" topo search "$work/dump.xml" >searched 2>err || fail "dump.xml is not read"
"${detect[@]}" --env NCCL_TOPO_DUMP_FILE=/no/such/folder/x --env NCCL_DEBUG=WARN >out 2>err || fail "dump to nowhere: exit code $?"
grep -q 'NCCL_TOPO_DUMP_FILE: /no/such/folder/x cannot be written' out err || fail "dump to nowhere is not named"

# a driver that refuses, files that cannot be read: less is known, the results are right
for plan in "nvml.init fail" "nvml.device_get_handle_by_pci_bus_id rank=1 fail" "nvml.device_get_nvlink_remote fail" \
	"os.file prob=1/3 fail" "os.file fail"; do
	echo "$plan" >plan
	for seed in 1 2 3; do
		"${detect[@]}" --seed $seed --faults plan >out 2>err || fail "$plan, seed $seed: exit code $?"
	done
done

# the command
"$doppel" topo detect --machine h100-8nic >h100.xml 2>err || fail "topo detect: exit code $?"
"$doppel" topo show h100-8nic >shown && "$doppel" topo show "$work/h100.xml" >again || fail "topo show of what was detected"
diff <(sed 1d shown) <(sed 1d again) >differences || fail "topo show differs: $(head -4 differences)"
rc=0
"$doppel" topo detect >here.xml 2>err || rc=$?
[ $rc = 2 ] && grep -q 'there is no GPU' err || fail "topo detect without GPUs: exit code $rc"
grep -q '<cpu host_hash=' here.xml || fail "topo detect: no CPU of this host"
for wrong in "--machine nosuch" "--machine=" "h100-8nic" "--hosts 2"; do
	rc=0
	# shellcheck disable=SC2086 # words
	"$doppel" topo detect $wrong >out 2>err || rc=$?
	[ $rc = 1 ] || fail "topo detect $wrong: exit code $rc"
done
exit $bad
