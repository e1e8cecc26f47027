#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs of the distribution that connect by IP address, in two processes: our
# librdmacm.so.1 over our libibverbs.so.1.
set -euo pipefail
build=$1
doppel=$build/doppel
[ -e "$build/verbs/librdmacm.so.1" ] || { echo "no librdmacm in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fabric=rdmacm-$$
rc=0 ran=0

# pair NAME SERVER... -- CLIENT...: both must end with 0
pair() {
	local name=$1 server=() got=0 pid
	shift
	command -v "$1" >/dev/null || return 0
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	ran=$((ran + 1))
	timeout 60 "$doppel" verbs-run --fabric "$fabric-$ran" "${server[@]}" >"$dir/server" 2>&1 &
	pid=$!
	for _ in $(seq 100); do # until it listens
		grep -q " 00010000 .*@doppel-cm/.*/$fabric-$ran/" /proc/net/unix && break
		sleep 0.05
	done
	timeout 60 "$doppel" verbs-run --fabric "$fabric-$ran" "$@" >"$dir/client" 2>&1 || got=$?
	wait $pid || got=server:$?
	[ "$got" = 0 ] && return
	echo "$name: $got"
	tail -n 5 "$dir/server" "$dir/client"
	rc=1
}

pair rping rping -s -C 20 -v -- rping -c -a 127.0.0.1 -C 20 -v
pair ucmatose ucmatose -- ucmatose -s 127.0.0.1
pair udaddy udaddy -- udaddy -s 127.0.0.1
pair rdma_client rdma_server -- rdma_client -s 127.0.0.1
pair "write_bw -R" ib_write_bw -R -n 100 -- ib_write_bw -R -n 100 127.0.0.1
pair "send_bw -R UD" ib_send_bw -R -c UD -n 100 -- ib_send_bw -R -c UD -n 100 127.0.0.1
if command -v fi_pingpong >/dev/null; then
	pair "fi_pingpong msg" fi_pingpong -p verbs -e msg -- fi_pingpong -p verbs -e msg 127.0.0.1
fi
[ $ran -gt 0 ] || { echo "none of the programs is installed"; exit 77; }
[ $rc = 0 ] && echo "$ran pairs of programs connected and ended well"
exit $rc
