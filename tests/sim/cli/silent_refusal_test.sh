#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Exit code 1 always comes with a sentence on stderr, whatever NCCL_DEBUG is: a machine that is refused
# is one line with file, line, attribute and what was expected; so is memory that there is not.
#	silent_refusal_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
case $(ldd "$1/libdoppel-rt.so") in
*libasan* | *libtsan*) sanitized=1 ;;
*) sanitized=0 ;;
esac
machine=$(cd "$2" && pwd)/sim/world/machines/pcie-4gpu.xml
test_begin "$1"

refused() { # refused PATTERN COMMAND...: one line on stderr, which matches
	local pattern=$1 rc debug
	shift
	for debug in '' VERSION; do
		rc=0
		NCCL_DEBUG=$debug "$@" >out 2>err || rc=$?
		[ $rc = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -qE -- "$pattern" err && continue
		echo "NCCL_DEBUG=$debug $*: exit code $rc, expected 1 and one line with '$pattern'"
		head -n 5 err
		bad=1
	done
}
first=0000:31:00.0 second=0000:32:00.0 # GPUs below one switch
line=$(grep -n "$second" "$machine" | cut -d: -f1)
sed "s/$second/zzzz/" "$machine" >strange.xml
sed "s/$second/$first/" "$machine" >twice.xml
sed "$((line + 1))s/sm=\"80\"/sm=\"green\"/" "$machine" >green.xml
sed "$((line + 1))s/\/>/><nvlink target=\"there\"\/><\/gpu>/" "$machine" >nowhere.xml
sed "$((line))s/link_width=\"16\"/link_width=\"999\"/" "$machine" >wide.xml
sed "$((line))s/vendor=\"0x10de\"/vendor=\"nvidia\"/" "$machine" >vendor.xml
sed "s/<cpu numaid=\"1\"/<cpu numaid=\"9999\"/" "$machine" >numa.xml
sed 's/version="1"/version="7"/' "$machine" >version.xml
sed 's/0000:b0:00.0/0000:30:00.0/' "$machine" >switches.xml
sed 's/<net /<other /' "$machine" >lonely.xml
for how in 'topo show' 'topo search' 'topo check' 'topo plot' 'tune -e 64 --machine' \
	'run all_reduce -e 64 --gpus 2 --machine' 'sweep all_reduce -e 64 --seeds 1..2 --machine'; do
	try() { # try FILE PATTERN
		# shellcheck disable=SC2086 # words
		refused "$1:$2" "$doppel" $how "$1"
	}
	try strange.xml "$line:.*busid.*zzzz.*expected a PCI address"
	try twice.xml "$line:.*busid=\"$first\".*line $((line - 3)) already; expected another"
	try green.xml "$((line + 1)):9: <gpu> attribute 'sm' is 'green', expected an integer"
	try nowhere.xml "$((line + 1)):[0-9]*: <nvlink> target=\"there\", expected a PCI address"
	try wide.xml "$line:7: <pci> link_width=\"999\", expected -1 to 255"
	try vendor.xml "$line:7: <pci> attribute 'vendor' is 'nvidia', expected an unsigned integer"
	try numa.xml "[0-9]*:3: <cpu> numaid=\"9999\", expected -1 to 4095"
	try version.xml "7:1: <system> version=\"7\", expected 1 to 2"
done
"$doppel" topo show switches.xml >/dev/null || { echo "a switch's bus id twice is refused"; bad=1; }
head -c 20M /dev/zero >large.xml
refused 'large.xml: the file is too large, expected at most 4194304 bytes' "$doppel" topo show large.xml
head -c 5M /dev/zero >large.xml
refused 'large.xml: 5242880 bytes, expected at most 4194304' "$doppel" topo show large.xml
refused 'needs a NIC' "$doppel" topo search lonely.xml --hosts 2

# more than any computer has
refused '107374182400000' "$doppel" run all_reduce -b 100000G -e 100000G -c 0
if [ $sanitized = 0 ]; then
	program=$(dirname "$doppel")/tests/cuda_device_test # one that is linked with the doubles
	# a failing run, for replay
	echo 'fabric.packet prob=1/1 drop' >plan
	"$doppel" run all_reduce --hosts 2 --gpus 1 -b 64 -e 64 --place out --faults plan --env NCCL_IB_TIMEOUT=22 \
		--budget-time 1 --fail-dir failed >/dev/null 2>&1 || true
	for command in 'run all_reduce -e 64 --engine sim' 'run all_reduce -e 64 --engine threads' \
		'sweep all_reduce -e 64 --seeds 1..2 -j 1' 'tune all_reduce --gpus 2 -e 64 --measure' \
		'topo detect --machine pcie-4gpu' "replay -q $(echo failed/*)" "exec $program" "exec --engine threads $program" \
		'exhaust kill --k 3 --once --fifo' 'exhaust kill --once --fifo --most 2'; do
		refused 'no memory .*ulimit -v' bash -c "ulimit -v 2000000; exec '$doppel' $command"
	done
	# the program's own words follow
	if command -v ibv_devinfo >/dev/null && [ -e "${doppel%/*}/verbs/libibverbs.so.1" ]; then
		rc=0
		bash -c "ulimit -v 2000000; exec '$doppel' verbs-run --bare ibv_devinfo" >out 2>err || rc=$?
		[ $rc != 0 ] && grep -q '^doppel: no memory for the fabric: Cannot allocate memory; expected [0-9]* MiB of address space (ulimit -v)$' err ||
			{ echo "verbs-run without memory: exit code $rc"; cat err; bad=1; }
	fi
fi
exit $bad
