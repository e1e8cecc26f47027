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
first=$(grep -o 'busid="[^"]*"' "$machine" | sed -n 1p)
second=$(grep -o 'busid="[^"]*"' "$machine" | sed -n 2p)
line=$(grep -n "$second" "$machine" | cut -d: -f1)
sed "s/$second/busid=\"zzzz\"/" "$machine" >strange.xml
sed "s/$second/$first/" "$machine" >twice.xml
sed 's/<net /<other /' "$machine" >lonely.xml
for verb in show search; do
	refused "strange.xml:$line:.*busid.*zzzz.*expected a PCI address" "$doppel" topo $verb strange.xml
	refused "twice.xml:$line:.*busid=$(cut -d= -f2 <<<"$first").*expected another" "$doppel" topo $verb twice.xml
done
refused 'needs a NIC' "$doppel" topo search lonely.xml --hosts 2

# more than any computer has
refused '107374182400000' "$doppel" run all_reduce -b 100000G -e 100000G -c 0
if [ $sanitized = 0 ]; then
	for engine in sim threads; do
		refused 'no memory .*ulimit -v' bash -c "ulimit -v 2000000; exec '$doppel' run all_reduce -e 64 --engine $engine"
	done
fi
exit $bad
