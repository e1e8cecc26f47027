#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel topo: what show, search, check, diff and plot print, on the machines that come with Doppel, and on
# machines with one thing changed. Graphs that were printed are read: by diff, and by a run.
#	topo_verbs_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need python3
machines=$(cd "$2" && pwd)/sim/world/machines
zoo=$(cd "$2" && pwd)/../shared/zoo
need_doubles "$1"
test_begin "$1"
export DOPPEL_MACHINE_DIR=$machines

# does CODE PATTERN ARGS...: the exit code of doppel topo, and a line of its output
does() {
	local code=$1 pattern=$2 rc=0
	shift 2
	"$doppel" topo "$@" >out 2>&1 || rc=$?
	[ $rc = "$code" ] && grep -qE -- "$pattern" out && return
	echo "topo $*: exit code $rc, expected $code and a line with '$pattern'"
	head -n 8 out
	bad=1
}
none() { # none PATTERN: the last output has no such line
	! grep -qE -- "$1" out || fail "unexpected: $(grep -E -- "$1" out | head -1)"
}
edit() { # edit MACHINE FILE SED...
	local from=$machines/$1.xml to=$2
	shift 2
	sed "$@" "$from" >"$to"
	! cmp -s "$from" "$to" || fail "$to is $from"
}

mesh() { # mesh COUNT_BACK: two GPUs, 4 links there
	printf '<system>\n<cpu numaid="0">\n'
	printf '<pci busid="0000:01:00.0"><gpu dev="0" sm="80"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu></pci>\n'
	printf '<pci busid="0000:02:00.0"><gpu dev="1" sm="80"><nvlink target="0000:01:00.0" count="%s" tclass="0x030200"/></gpu></pci>\n' "$1"
	printf '</cpu></system>\n'
}

# ---- show
does 0 '^8 GPUs, 8 NICs, 2 CPUs, NVSwitch' show h100-8nic
does 0 '^    GPU 0, dev 0, 0000:17:00.0, sm 90, gdr, x16 32 GT/s, 48 GB/s up$' show h100-8nic
does 0 '^GPU 3 +SYS 10 +SYS 10 +PIX 24 +- +SYS 10 +1$' show --compact pcie-4gpu
[ "$(wc -l <out)" = 5 ] || fail "show --compact: $(wc -l <out) lines, expected a matrix of 5"

# ---- what NCCL takes: a switch's address twice, addresses without some parts, no class, any speed
cat >odd.xml <<'END'
<system version="2"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
<pci busid="0000:01:00.0" class="0x060400"><pci busid="0100:01.0" link_speed="fast"><gpu dev="0" sm="90"/></pci></pci>
<pci busid="0000:01:00.0" class="0x060400"><pci busid="0000:02.0"><nic><net name="mlx5_0" dev="0" speed="200000000"
guid="0x1"/><net name="mlx5_0" dev="0" speed="200000000" guid="0x1"/></nic></pci></pci><cxb/></cpu></system>
END
does 0 '^      mlx5_0, NIC 0, 25000 GB/s' show odd.xml
does 0 '^Channel 00/' search odd.xml --hosts 2
# a host shows addresses whole, and finds the links to them
mesh 4 | sed 's/0000:01:00.0/0100:01.0/; s/0000:02:00.0/0100:02.0/' >short.xml
does 0 'nvlink target="0001:00:02.0" count="4" tclass="0x030200"' detect --machine short.xml
# halves of a GPU, and two hosts of one NVLink domain: shown and searched; a run has neither
link='<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
cat >halves.xml <<END
<system><cpu numaid="0"><pci busid="0000:01:00.0"><gpu dev="0" sm="100" mlopart="0">$link</gpu>
<gpu dev="0" sm="100" mlopart="1">$link</gpu></pci></cpu></system>
END
does 0 'sm 100, half 1, ' show halves.xml
does 0 '^GPU 1 +LOC 2618 +-' show --compact halves.xml
does 0 '<gpu dev="0" mlopart="1"/>' search halves.xml
"$doppel" run all_reduce --machine halves.xml -b 8 -e 8 >out 2>&1 && fail 'two ranks on one GPU are taken'
for host in 1 2; do
	echo "<cpu host_hash=\"0x$host\" numaid=\"0\"><pci busid=\"0000:01:00.0\"><gpu dev=\"0\" sm=\"100\">$link</gpu></pci></cpu>"
done >domain.part
{ echo '<system>'; cat domain.part; echo '</system>'; } >domain.xml
does 0 '^2 hosts of one NVLink domain: 2 GPUs' show domain.xml
does 0 '^Channel 00/[0-9]+ : 0 1$' search domain.xml
"$doppel" run all_reduce --machine domain.xml -b 8 -e 8 >out 2>&1 && fail 'a domain is taken as a host'
grep -q 'domain.xml: has 2 hosts of one NVLink domain (host_hash of <cpu>), expected one' out || fail 'domain.xml: no reason'

# ---- search
does 0 '^Channel 00/24 : 0 1 2 3 4 5 6 7$' search h100-8nic
does 0 '^Channel 15/16 : ' search h100-8nic --hosts 2
# a line for each rank; channels are doubled, and the second half has the other tree of the hosts
[ "$(grep -c '^Trees ' out)" = 16 ] || fail "search: $(grep -c '^Trees ' out) lines of trees, expected one for each rank"
grep '^Trees ' out | python3 -c '
import re, sys
tree = [{int(c): (int(r), [int(d) for d in down.split("/")], int(up)) for c, down, r, up in
         re.findall(r"\[(\d+)\] (\S+?)->(\d+)->(-?\d+)", line)} for line in sys.stdin]
for c in range(16):
    assert [tree[r][c][0] for r in range(16)] == list(range(16)), c
    ups = {r: tree[r][c][2] for r in range(16)}
    downs = sorted((d, r) for r in range(16) for d in tree[r][c][1] if d >= 0)
    assert downs == sorted((r, u) for r, u in ups.items() if u >= 0) and len(downs) == 15, (c, ups, downs)
root = [next(r for r in range(16) if tree[r][c][2] < 0) // 8 for c in range(16)]
assert root == [0] * 8 + [1] * 8, root
' || fail 'search: the lines of trees are not one tree for each channel, rooted at host 0, then at host 1'
python3 -c 'import sys, xml.dom.minidom as m; assert len(m.parse(sys.argv[1]).getElementsByTagName("channel")) == 16' out ||
	fail 'the graphs are no XML, or not 8 channels of rings and 8 of trees'
cp out graphs.xml
# each try with what came of it, and what was made of the best
does 0 '^  60 +NVL +ring +equal +6 of  6 +54  no more channels can fit; best so far$' search h100-8nic --why
grep -qE '^  40 +NVL +ring +equal +0 of  9 +0  not made: no more than that can fit$' out || fail 'search --why: the rings of 40 GB/s'
grep -q '^  6 channels were doubled at half the speed$' out || fail 'search --why: nothing is doubled'
grep -q '^  => 12 x 30 GB/s NVL, equal channels; 54 steps$' out || fail 'search --why: other rings'
for pattern in ring tree collnet_chain nvls collnet_direct; do
	grep -q "^$pattern, inside a host$" out || fail "search --why: no $pattern"
done
does 0 '^ring, between hosts$' search h100-8nic --why --hosts 2

# ---- check: nothing, and each finding with its element and line
edit pcie-4gpu narrow.xml '13s/link_width="16"/link_width="8"/'
does 2 'narrow.xml:13: GPU 1: its PCI link has 8 lanes, expected 16' check narrow.xml
edit pcie-4gpu slow.xml '13s/16.0 GT/8.0 GT/'
does 2 'slow.xml:13: GPU 1: its PCI link runs at 8 GT/s, expected 16, as others like it do' check slow.xml
does 2 'pcie-4gpu.xml:2[0-9]: GPU 2: no NIC is below one of its switches: the nearest is mlx5_0, SYS' check pcie-4gpu
none 'GPU 0: no NIC'
edit pcie-4gpu fast_port.xml 's/speed="100000"/speed="400000"/'
does 2 'fast_port.xml:16: NIC 0000:33:00.0: its PCI link has 12 GB/s, and the port mlx5_0 has 50' check fast_port.xml
edit a100-4nic fewer.xml '0,/<nvlink[^>]*>/s///'
does 2 'fewer.xml:[0-9]+: GPU 0: its NVLinks to the NVSwitch have 200 GB/s, expected 240, as of other GPUs' check fewer.xml
edit a100-4nic alone.xml '/<gpu dev="0"/,/<\/gpu>/{/<nvlink/d}'
does 2 'alone.xml:[0-9]+: GPU 0: NVLinks connect this island alone: 0; expected all 8 GPUs in one' check alone.xml
does 2 'NVLinks connect this island alone: 1 2 3 4 5 6 7;' check alone.xml
mesh 4 >same.xml
mesh 2 >one_way.xml
does 0 '^0 findings, 1 note$' check same.xml
does 2 'one_way.xml:3: GPU 0: NVLinks to GPU 1 have 80 GB/s, and 40 back' check one_way.xml
sed 's/target="0000:01:00.0"/target="0000:09:00.0"/' same.xml >lost.xml
does 2 'lost.xml:4: GPU 1: 4 NVLinks to a function that is not in the file' check lost.xml
does 0 '^ +4 NVLinks to a function that is not in the file: not used' show lost.xml
does 0 '^0 findings, 1 note$' check h100-8nic
NCCL_CROSS_NIC=1 does 2 'h100-8nic.xml:[0-9]+: mlx5_[0-9]: 16 of 16 crossings between hosts change rails' check h100-8nic
pci() { # pci BUS CLASS SPEED WIDTH TEXT: of a PCI tree
	printf '<pci busid="0000:%s:00.0" class="%s" link_speed="%s GT/s PCIe" link_width="%s">%s</pci>\n' "$@"
}
net() { # net NUMBER SPEED
	printf '<nic><net name="mlx5_%s" dev="%s" speed="%s" port="1" guid="0x%s" gdr="1"/></nic>' "$1" "$1" "$2" "$1"
}
gpu() { # gpu NUMBER BUS...: with a link to each GPU at these
	printf '<gpu dev="%s" sm="80" gdr="1">' "$1"
	shift
	printf '<nvlink target="0000:%s:00.0" count="1" tclass="0x030200"/>' "$@"
	printf '</gpu>'
}
{ # the NICs are next to another CPU than two of the three GPUs, and unlike
	printf '<system>\n<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">\n'
	pci 31 0x030200 8.0 16 "$(gpu 2 11 21)"
	pci 12 0x020700 16.0 16 "$(net 0 100000)"
	pci 22 0x020700 16.0 8 "$(net 1 50000)"
	printf '</cpu>\n<cpu numaid="1" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">\n'
	pci 11 0x030200 16.0 16 "$(gpu 0 21 31)"
	pci 21 0x030200 16.0 16 "$(gpu 1 11 31)"
	printf '</cpu>\n</system>\n'
} >apart.xml
NCCL_CROSS_NIC=1 does 2 'apart.xml:4: mlx5_0: 4 of 18 links of trees between hosts change rails: a parent has mlx5_0, and its child on the next host mlx5_1' check apart.xml
NCCL_CROSS_NIC=0 does 2 'findings?, ' check apart.xml
none 'of trees between hosts'
# links of switches that all of it shares; NICs by guid and port
board() { # board BUS GPU_BUS NIC_BUS NUMBER: a GPU and a NIC below a switch with one slow lane
	pci "$1" 0x060400 2.5 1 "$(pci "$2" 0x030200 16.0 16 "<gpu dev=\"$4\" sm=\"80\" gdr=\"1\"/>")$(pci "$3" 0x020700 16.0 16 "$(net "$4" 100000)")"
}
cpu='<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">'
printf '<system>\n%s\n%s\n%s\n</cpu>\n</system>\n' "$cpu" "$(board 10 11 12 0)" "$(board 20 21 22 1)" >x1.xml
does 2 'x1.xml:3: PCI 0000:10:00.0: its PCI link upwards, x1 2.5 GT/s, has 0.187 GB/s, and GPU 0 below it has 24; expected as much \(2 switches like this\)$' check x1.xml
cross='they cross the link of PCI 0000:10:00.0, which has 0.187 GB/s$'
for effect in 'rings within the host have 0.12 GB/s' 'rings over several hosts have 0.12' 'of 2 crossings between hosts change rails'; do
	does 2 "$effect.*; $cross" check x1.xml
done
two_nets() { # two_nets PORT: two NICs of one card, on ports 1 and PORT
	printf '<nic>'
	printf '<net name="%s" dev="%s" speed="400000" port="%s" guid="0x66" gdr="1"/>' a 0 1 b 1 "$1"
	printf '</nic>'
}
card() { # card PORT
	printf '<system>\n%s\n' "$cpu"
	pci 10 0x060400 32.0 16 "$(pci 11 0x030200 32.0 16 '<gpu dev="0" sm="90" gdr="1"/>')$(pci 12 0x020700 32.0 16 "$(two_nets "$1")")"
	printf '</cpu>\n</system>\n'
}
card 1 >one_port.xml
does 0 'note: a: 2 NICs are one port, guid 0x66 port 1: a, b; together they have its 50 GB/s$' check one_port.xml
card 2 >two_ports.xml
does 2 'two_ports.xml:3: NIC 0000:12:00.0: its PCI link has 48 GB/s, and its 2 ports have 100 together$' check two_ports.xml
none 'are one port'
edit workstation-2gpu floor.xml 's/link_speed="[^"]*"/link_speed="0.001 GT\/s"/'
does 2 'floor.xml: machine: no ring fits within the host at any speed' check floor.xml
edit workstation-2gpu slow_host.xml 's/link_speed="[^"]*"/link_speed="5.0 GT\/s"/; s/link_width="[^"]*"/link_width="8"/'
does 2 "slow_host.xml: machine: rings within the host have 3 GB/s; NCCL's search tries nothing below 3$" check slow_host.xml
does 2 'note: PCI 0000:30:00.0: ACS of this and other switches is not known' check pcie-4gpu

# ---- diff
does 0 '^0 differences$' diff pcie-4gpu pcie-4gpu
does 2 '^GPU 1 \(line 13 \| 13\): PCI link x16 16 GT/s, 24 GB/s \| PCI link x8 16 GT/s, 12 GB/s$' diff pcie-4gpu narrow.xml
does 2 '^GPU 1 to GPU 0: NVL 80 \| 40$' diff same.xml one_way.xml
does 2 '^mlx5_4 \(line [0-9]+\): only in the first$' diff h100-8nic a100-4nic
does 2 'GPU 0 \(line .*\): sm 90 gdr \| sm 80 gdr' diff h100-8nic a100-4nic
does 0 '^0 differences$' diff graphs.xml graphs.xml
sed '0,/<gpu dev="0x1"\/>/s//<gpu dev="0x2"\/>/' graphs.xml >other.xml
does 2 '^ring, channel 0 \(line [0-9]+ \| [0-9]+\): nic 0 .* 1 .*\| nic 0 .* 2 .*2 ' diff graphs.xml other.xml

# ---- plot: the same bytes, well-formed, and inside the picture
files=("$machines"/*.xml apart.xml)
[ ! -d "$zoo" ] || mapfile -t -O ${#files[@]} files < <(drawn 3 "$zoo"/*.xml "$zoo"/search/*.xml)
for file in "${files[@]}"; do
	for picture in ring:1 ring:2 tree:1 tree:2; do
		options=(--pattern "${picture%:*}" --hosts "${picture#*:}")
		"$doppel" topo plot "$file" "${options[@]}" -o one.svg 2>err || { grep -q 'no GPU\|needs a NIC' err || fail "plot $file: $(head -1 err)"; continue; }
		"$doppel" topo plot "$file" "${options[@]}" >two.svg
		cmp -s one.svg two.svg || fail "plot $file: two pictures differ"
		python3 - one.svg <<-'END' || fail "plot $file ${options[*]}"
			import sys, xml.etree.ElementTree as e
			svg = e.parse(sys.argv[1]).getroot()
			width, height = int(svg.get("width")), int(svg.get("height"))
			boxes = [r for r in svg if r.tag.endswith("rect")]
			assert len(boxes) > 3
			for r in boxes:
			    x, y, w, h = (int(r.get(k, 0)) for k in ("x", "y", "width", "height"))
			    assert x >= 0 and y >= 0 and w > 0 and x + w <= width and y + h <= height, e.tostring(r)
			named = [r for r in boxes if r.get("class")]
			for i, a in enumerate(named):
			    for b in named[:i]:
			        ax, ay, aw, ah = (int(a.get(k)) for k in ("x", "y", "width", "height"))
			        bx, by, bw, bh = (int(b.get(k)) for k in ("x", "y", "width", "height"))
			        apart = ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay
			        assert apart, e.tostring(a) + e.tostring(b)
		END
	done
	"$doppel" topo plot "$file" --dot >machine.dot 2>err || continue
	[ "$(head -1 machine.dot) $(tail -1 machine.dot)" = 'digraph machine { }' ] || fail "plot --dot $file"
done

# ---- search: heads, where there are some
does 0 '^NVLS Head  7:  7 15$' search h100-8nic --hosts 2
does 0 '^NVLS Trees : 17/8/-1->0->-1 17/-1/-1->0->8$' search h100-8nic --hosts 2
does 0 '^NVLS Trees : -1/-1/-1->1->-1 -1/-1/-1->1->-1$' search h100-2nic --hosts 2
none CollNet
does 0 '^NVLS Head  3:  3$' search h100-2nic
none 'NVLS Trees'
does 0 '^Trees ' search a100-4nic --hosts 2
none 'NVLS|CollNet'
edit h100-2nic reducing.xml 's/<net /<net coll="1" /'
NCCL_COLLNET_ENABLE=1 does 0 '^CollNet Chain \[0\] 2->1->0 \[1\] -1->1->0 ' search reducing.xml --hosts 2
NCCL_COLLNET_ENABLE=1 does 0 '^CollNet Direct rank 6 down 4 5 7 up 4 nHeads 2 headRank 1 out 8$' \
	search reducing.xml --hosts 2

# ---- NCCL_GRAPH_FILE: the rings of a run are those of the file
run=("$doppel" run all_reduce --machine pcie-4gpu --hosts 1 -e 64 -b 64)
"$doppel" topo search pcie-4gpu >found.xml
sed 's/"0x1"/"Y"/; s/"0x2"/"0x1"/; s/"Y"/"0x2"/' found.xml >turned.xml
for file in found:'0 1 2 3' turned:'0 2 1 3'; do
	NCCL_DEBUG=INFO NCCL_GRAPH_FILE=${file%%:*}.xml "${run[@]}" >out 2>&1 || fail "NCCL_GRAPH_FILE=${file%%:*}.xml: exit code $?"
	grep -q "Channel 00/02 : ${file##*:}\$" out || fail "NCCL_GRAPH_FILE=${file%%:*}.xml: other rings"
done
sed 's/<gpu dev="0x3"\/>/<gpu dev="0x7"\/>/' found.xml >foreign.xml
NCCL_GRAPH_FILE=foreign.xml "${run[@]}" >out 2>&1 && fail 'a graph of another machine is taken'
grep -q 'foreign.xml:[0-9]*:5: <channel> has <gpu> dev 7, expected each GPU in use once' out || fail 'foreign.xml: no reason'
NCCL_GRAPH_FILE=absent.xml "${run[@]}" >out 2>&1 && fail 'an absent graph file is taken'
grep -q "NCCL_GRAPH_FILE is 'absent.xml', which cannot be read" out || fail 'absent.xml: no reason'

# ---- NCCL_GRAPH_DUMP_FILE: what a run writes, another one reads
NCCL_GRAPH_DUMP_FILE=dumped.xml "${run[@]}" >out 2>&1 || fail "NCCL_GRAPH_DUMP_FILE: exit code $?"
does 0 '^0 differences$' diff dumped.xml found.xml
NCCL_DEBUG=INFO NCCL_GRAPH_FILE=turned.xml NCCL_GRAPH_DUMP_FILE=dumped.xml NCCL_GRAPH_DUMP_FILE_RANK=3 "${run[@]}" >out 2>&1
does 0 '^0 differences$' diff dumped.xml turned.xml
NCCL_GRAPH_DUMP_FILE=none/dumped.xml "${run[@]}" >out 2>&1 || fail "a dump that cannot be written stops a run: $?"
grep -q 'WARN NCCL_GRAPH_DUMP_FILE: none/dumped.xml cannot be written: No such file' out || fail 'none/dumped.xml: no warning'
for name in NCCL_GRAPH_DUMP_FILE NCCL_TOPO_DUMP_FILE; do
	"${run[@]}" --env $name=/dev/full >out 2>&1 || fail "$name=/dev/full stops a run: $?"
	grep -q "WARN $name: /dev/full cannot be written: No space left on device" out || fail "$name=/dev/full: another reason"
done
exit $bad
