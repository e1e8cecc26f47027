#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A package that is missing is a sentence of the configuration that names it, and what is left out; one
# that comes later, or goes, is noticed by the next configuration. The packages are hidden from CMake,
# not removed.
set -euo pipefail
source_dir=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
include=$(cc -E -x c - <<<'#include <xxhash.h>' | sed -n 's|^# [0-9]* "\(.*\)/xxhash.h".*|\1|p' | head -1)
expat=$(cc -print-file-name=libexpat.so)
if [ -z "$include" ] || [ ! -f "$include/check.h" ] || [ ! -f "$include/rdma/rdma_cma.h" ] || [ ! -f "$expat" ]; then
	echo "a package that this test hides is not here, or somewhere else"
	exit 77
fi

bad=0
# configured CODE "PATTERN" ARGUMENT...: so it ends, and prints that
configured() {
	local code=$1 pattern=$2 rc=0
	shift 2
	cmake -S "$source_dir" -B "$work/build" "$@" >"$work/out" 2>&1 || rc=$?
	if [ $rc != "$code" ] || ! tr -s ' \n' ' ' <"$work/out" | grep -qE -- "$pattern"; then
		echo "cmake $*: ended with $rc, expected $code and '$pattern':"
		sed 's/^/    /' "$work/out"
		bad=1
	fi
}
target() { cmake --build "$work/build" --target help >"$work/targets" && grep -qE "^\.\.\. $1\$" "$work/targets"; }

# nothing is found where the headers are, but for what is given
seen=(-DXXHASH_INCLUDE="$include" -DVERBS_INCLUDE="$include" -DEXPAT_INCLUDE_DIR="$include" -DEXPAT_LIBRARY="$expat")
hide=-DCMAKE_IGNORE_PATH=$include
configured 0 'check \(check.h\) is missing, left out: every test program.*apt-get install check' "$hide" "${seen[@]}"
configured 0 'rdma_cma.h is missing, left out: the drop-in librdmacm.so.1.*apt-get install librdmacm-dev' "$hide"
target world_test && { echo "a test is built without check"; bad=1; }
target rdmacm && { echo "librdmacm.so.1 is built without its header"; bad=1; }
target doppel-cli || { echo "the program is not built without check"; bad=1; }

# they are installed
configured 0 '.' -DCMAKE_IGNORE_PATH=
target world_test || { echo "check came, and its tests are not built"; bad=1; }
target rdmacm || { echo "librdmacm-dev came, and librdmacm.so.1 is not built"; bad=1; }

# they go: what the cache remembers is gone
configured 0 'check \(check.h\) is missing' "$hide" -DCHECK_LIB=/gone/libcheck.a -DCHECK_INCLUDE=/gone
target world_test && { echo "check went, and a test is built"; bad=1; }

# what nothing can be built without
for hidden in "XXHASH_INCLUDE libxxhash-dev" "VERBS_INCLUDE libibverbs-dev" "EXPAT_INCLUDE_DIR libexpat1-dev"; do
	read -r name package <<<"$hidden"
	rm -rf "$work/build"
	others=()
	for given in "${seen[@]}"; do
		case $given in -D"$name"=*) ;; *) others+=("$given") ;; esac
	done
	configured 1 "is missing, and nothing can be built without it: apt-get install $package" "$hide" "${others[@]}"
done
[ $bad = 0 ] && echo "a missing package is named, one that comes is noticed"
exit $bad
