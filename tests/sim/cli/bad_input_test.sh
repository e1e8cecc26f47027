#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Bad input at the command line: one clear error each, exit code 1, nothing left behind.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
# shellcheck source=tests/sim/cli/expect_usage.sh
. "$2/tests/sim/cli/expect_usage.sh"
test_begin "$1"

machine() { # machine FILE GPU_ATTRIBUTES
	cat >"$1" <<XML
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      $2
    </pci>
  </cpu>
</system>
XML
}
machine no_gpu.xml ''
sed -i 's/class="0x030200"/class="0x020000"/' no_gpu.xml
machine bad_sm.xml '<gpu dev="0" sm="eighty" rank="0" gdr="1"/>'
machine one_gpu.xml '<gpu dev="0" sm="80" rank="0" gdr="1"/>'
printf '<system version="1">\n  <cpu numaid="0">\n</system>\n' >malformed.xml
printf 'fabric.packet rank=0 nth=1 drop\nfabric.lonk host=0 down\n' >typo.plan
printf 'fabric.packet rnak=0 nth=1 drop\n' >key.plan
graphs() { # graphs TYPE
	printf '<graphs version="1">\n<graph id="0" pattern="4" nchannels="0" typeintra="%s" typeinter="SYS"/></graphs>\n' "$1"
}
graphs NVL >graphs.xml
graphs XYZ >wrong_graphs.xml
before=$(shm_list)

expect 'no command' 'Usage: doppel'
expect 'unknown command' "unknown command 'rnu'" rnu
expect 'no collective' 'which collective' run
expect 'unknown collective' "unknown collective 'all_rdeuce'; did you mean all_reduce" run all_rdeuce
expect 'unknown collective of a sweep' "unknown collective 'allreduce'; did you mean all_reduce" sweep allreduce
expect 'unknown option' "unrecognized option '--host'|unrecognized option '--hostz'" run all_reduce --hostz 2
expect 'size' '-b eight: expected a size' run all_reduce -b eight
expect 'type' '-d flaot: expected int8, .* or all; nearest: float' run all_reduce -d flaot
expect 'op' '-o summ: expected sum, .* or all; nearest: sum' run all_reduce -o summ
expect 'min above max' 'larger than -e' run all_reduce -b 64 -e 8
expect 'missing machine' 'nowhere.xml.*No such file' run all_reduce --machine nowhere.xml
expect 'malformed machine' 'malformed.xml:3' run all_reduce --machine malformed.xml
expect 'bad attribute' "bad_sm.xml:4.*sm.*eighty.*expected" run all_reduce --machine bad_sm.xml
expect 'no GPU' 'no_gpu.xml.*no GPU|no_gpu.xml.*GPU' run all_reduce --machine no_gpu.xml
expect 'too many ranks here' 'rank 1 with 2 GPUs does not fit in --ranks 2' run all_reduce --rank 1 --ranks 2 --gpus 2 --root 127.0.0.1:7000
expect 'no root' 'needs --root HOST:PORT' run all_reduce --rank 0 --ranks 1
expect 'HCA doubles of two processes' 'ends at its process' run all_reduce --processes 2 --env NCCL_NET=IB
expect '0 hosts' '--hosts 0: expected a number from 1' run all_reduce --hosts 0
expect '0 GPUs' '--gpus 0: expected a number from 1' run all_reduce --gpus 0
expect 'more ranks than GPUs' '9 ranks per host, but machine .* has 8 GPUs' run all_reduce --gpus 9
expect 'device out of range' 'GPU 8.*GPUs 0..7' run all_reduce --devices 0,8
expect 'device twice' 'GPU 1 appears twice' run all_reduce --devices 1,1
expect 'missing plan' 'nowhere.plan: No such file' run all_reduce --faults nowhere.plan
expect 'plan with an unknown site' 'typo.plan:2:.*fabric.lonk.*fabric.link' run all_reduce --faults typo.plan
expect 'plan with an unknown key' 'key.plan:1:.*rnak' run all_reduce --faults key.plan
expect 'topo without a machine' 'expected show, search, check, diff, plot or detect, and a machine' topo
expect 'topo with an unknown verb' "'shwo': expected show, search" topo shwo one_gpu.xml
expect 'topo diff of one machine' 'diff: expected two machines or graph files' topo diff one_gpu.xml
expect 'topo show of two machines' "show takes one machine; 'no_gpu.xml' is too much" topo show one_gpu.xml no_gpu.xml
expect 'topo diff of a machine and graphs' 'graphs.xml is a file of graphs and one_gpu.xml is not' topo diff one_gpu.xml graphs.xml
expect 'topo diff of graphs that are none' 'wrong_graphs.xml:2:1: <graph> typeintra="XYZ", expected a type' topo diff graphs.xml wrong_graphs.xml
expect 'topo plot into no folder' 'nowhere/x.svg' topo plot one_gpu.xml -o nowhere/x.svg
expect 'topo of a missing machine' 'nowhere.xml' topo show nowhere.xml
expect 'faults with an argument' 'takes --json or nothing' faults x

left=$(shm_left "$before")
[ -z "$left" ] || { echo "left in /dev/shm: $left"; bad=1; }
left=$(find . -type f ! -name '*.xml' ! -name '*.plan')
[ -z "$left" ] || { echo "left behind: $left"; bad=1; }
# the file that is right must work: the checks above are not about something else
"$doppel" run all_reduce --machine one_gpu.xml -e 64 >/dev/null || { echo "one_gpu.xml does not run"; bad=1; }
[ $bad = 0 ] && echo "$cases cases of bad input, one clear error each"
exit $bad
