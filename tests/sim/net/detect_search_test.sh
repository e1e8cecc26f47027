#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel topo search of what `doppel topo detect --machine F` prints, against doppel topo search of F: over the
# machines that come with Doppel, machines of AMD, and the folder of real ones if it is there. The graphs have the same
# channels, speeds and types. Where F has its elements in the order in which ranks find them, all lines are the
# same; other files have the order of another release of NCCL, in which ties of the search fall otherwise.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
source_dir=$(cd "$2" && pwd)
test_begin "$1"
fail_shows=(differences)

# amd FILE CORE LINK: four GPUs with links of several lanes, one of which only one side has
amd() {
	local gpu other lanes
	{
		echo '<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">'
		for gpu in 1 2 3 4; do
			echo "<pci busid=\"000$gpu:00:00.0\" class=\"0x038000\" vendor=\"0x1002\" device=\"0x74b5\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
			echo "<gpu dev=\"$((gpu - 1))\" sm=\"94\" gcn=\"$2\" arch=\"38911\" rank=\"$((gpu - 1))\" gdr=\"1\">"
			for other in 1 2 3 4; do
				lanes=$(((gpu + other) % 2 + 1))
				[ "$gpu" = "$other" ] || [ "$gpu$other" = 41 ] ||
					echo "<$3 target=\"000$other:00:00.0\" count=\"$lanes\" tclass=\"0x038000\"/>"
			done
			echo "</gpu></pci>"
		done
		echo '</cpu></system>'
	} >"$1"
}
amd amd-942.xml gfx942 xgmi
amd amd-90a.xml 910 xgmi
amd amd-1100.xml gfx1100 xgmi
amd amd-old.xml 908 nvlink

elements() { grep -oE '<(cpu|pci|net)\b[^>]*' "$1" | grep -oE '<[a-z]+|(numaid|busid|name)="[^"]*"' || true; }
cores() { "$doppel" topo show "$1" | grep -oE 'GPU [0-9]+, .*gfx[0-9a-f]+' | sed 's/, dev.*,/,/' | sort || true; }

# there_and_back FILE
files=0 whole=0
there_and_back() {
	local name
	name=$(basename "$1")
	"$doppel" topo search "$1" >file.graphs 2>err || return 0 # no machine
	files=$((files + 1))
	"$doppel" topo detect --machine "$1" >found.xml 2>err || { fail "$name: detect: $(cat err)" && return; }
	"$doppel" topo search "$work/found.xml" >found.graphs 2>err || { fail "$name: search of what is detected: $(cat err)" && return; }
	diff <(cores "$1") <(cores "$work/found.xml") >differences || fail "$name: graphics cores"
	diff <(grep '<graph ' file.graphs) <(grep '<graph ' found.graphs) >differences || fail "$name: graphs"
	! cmp -s <(elements "$1") <(elements found.xml) || {
		whole=$((whole + 1))
		diff file.graphs found.graphs >differences || fail "$name: orders"
	}
	"$doppel" topo detect --machine "$work/found.xml" >again.xml 2>err || fail "$name: detect of what is detected: $(cat err)"
	diff found.xml again.xml >differences || fail "$name: what is detected is another machine when it is detected again"
}
for file in "$source_dir"/sim/world/machines/*.xml "$work"/amd-*.xml; do there_and_back "$file"; done
[ $files -ge 10 ] && [ $whole -ge 8 ] || fail "only $whole of $files machines were compared whole"
cores "$work/amd-90a.xml" >differences
grep -q 'GPU 0.*gfx90a' differences || fail "amd-90a.xml: no graphics core is shown"
for file in "$source_dir"/../shared/zoo/*.xml "$source_dir"/../shared/zoo/search/*.xml; do
	[ ! -f "$file" ] || there_and_back "$file"
done
echo "$files machines there and back, $whole of them with the same orders"
exit $bad
