#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Doppel's librdmacm.so.1 exports the names of rdma-core's, each in the same version node, and names
# of newer nodes. Debian's programs that are linked with it load with Doppel's, every symbol bound.
# A program that needs the newest names loads too; their calls fail with EOPNOTSUPP.
set -euo pipefail
ours=$1/verbs/librdmacm.so.1
theirs=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '/librdmacm\.so\.1 .*x86-64/ {print $NF}')
theirs=${theirs%%$'\n'*}
[ -n "$theirs" ] || { echo "no librdmacm.so.1 here to compare with: skipped"; exit 77; }
names() { nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ {print $3}' | sort; }
newer='@@RDMACM_1\.[45]$'
if ! diff <(names "$theirs" | grep -v "$newer") <(names "$ours" | grep -v "$newer"); then
	echo "< rdma-core has it, > we have it"
	exit 1
fi
echo "$(names "$ours" | wc -l) names, as rdma-core's"
case $(readelf -d "$ours") in
*libasan* | *libtsan*) echo "the rest needs programs without a sanitizer"; exit 0 ;;
esac
# shellcheck source=dropin/tests/library/newer.sh
. "$2/dropin/tests/library/newer.sh"
newer_program "$1/verbs/librdmacm.so.1" RDMACM_1.4 minus rdma_query_addrinfo rdma_resolve_addrinfo \
	rdma_write_cm_event
newer_program "$1/verbs/librdmacm.so.1" RDMACM_1.5 minus repoll_create1 repoll_ctl
for program in rping ucmatose ib_write_bw; do
	path=$(command -v $program) || continue
	out=$(LD_BIND_NOW=1 LD_LIBRARY_PATH=$1/verbs "$path" --help 2>&1 || true)
	if grep -qE 'symbol lookup error|version .* not found|cannot open shared' <<<"$out"; then
		echo "$program: $out"
		exit 1
	fi
	loaded=$(LD_LIBRARY_PATH=$1/verbs ldd "$path")
	grep -q "$1/verbs/librdmacm.so.1" <<<"$loaded" ||
		{ echo "$program does not load our librdmacm"; exit 1; }
	echo "$program loads"
done
