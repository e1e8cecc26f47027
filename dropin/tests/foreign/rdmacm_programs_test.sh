#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs of the distribution that connect by IP address, in two processes: Doppel's
# librdmacm.so.1 on Doppel's libibverbs.so.1.
set -euo pipefail
build=$1
doppel=$build/doppel
[ -e "$build/verbs/librdmacm.so.1" ] || { echo "no librdmacm in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fabric=rdmacm-$$
rc=0 ran=0
port_take

# pair NAME WORDS SERVER... -- CLIENT...: both must end with 0, and each must print WORDS (an
# extended expression; N*WORDS: N lines of it), to prove the transfer and the check of the data. A
# server that ends only by a signal gets one (its name begins with "endless"), and so does one whose
# client failed.
prints() { # FILE WORDS
	local n=1 words=$2
	[[ $words = [0-9]*\** ]] && n=${words%%\**} words=${words#*\*}
	[ "$(grep -cE "$words" "$1")" -ge "$n" ]
}

# ready FABRIC: true if a program of the fabric listens by IP address, or has bound one and waits
# for a group's datagrams, or if fi_pingpong listens at its port
ready() {
	grep -qE " 00010000 .*@doppel-cm/.*/$1/|@doppel-cm/[0-9]+/$1/111/[0-9]+/7f000001" /proc/net/unix ||
		listens "$port"
}

pair() { # once more, and again, where the programs' own race may have been lost ("racy")
	local tries=20
	until pair_once "$@"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] && { [[ $1 = racy* ]] || clock_unfit "$dir/server" "$dir/client"; } && continue
		echo "$1: $got"
		tail -n 12 "$dir/server" "$dir/client"
		rc=1
		return
	done
}

pair_once() {
	local name=$1 words=$2 server=() pid
	got=0
	shift 2
	command -v "$1" >/dev/null || return 0
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	ran=$((ran + 1))
	timeout 300 "$doppel" verbs-run --fabric "$fabric-$ran" "${server[@]}" >"$dir/server" 2>&1 &
	pid=$!
	until_true 50 ready "$fabric-$ran" || true
	timeout 300 "$doppel" verbs-run --fabric "$fabric-$ran" "$@" >"$dir/client" 2>&1 || got=$?
	if [[ $name = endless* ]] || [ "$got" != 0 ]; then
		kill $pid 2>/dev/null || true
		wait $pid || true
	else
		wait $pid || got=server:$?
		prints "$dir/server" "$words" || got="$got, the server does not print '$words'"
	fi
	prints "$dir/client" "$words" || got="$got, the client does not print '$words'"
	[ "$got" = 0 ]
}

# refused NAME WORDS PROGRAM...: the program must print WORDS and end
refused() {
	local name=$1 words=$2 got=0
	shift 2
	command -v "$1" >/dev/null || return 0
	timeout 20 "$doppel" verbs-run --fabric "$fabric" "$@" >"$dir/client" 2>&1 || got=$?
	[ $got != 0 ] && [ $got != 124 ] && prints "$dir/client" "$words" && return
	echo "$name: ended with $got"
	tail -n 5 "$dir/client"
	rc=1
}

lo=127.0.0.1
moved='^ +65536 +100 +[0-9.]+ +[1-9]' # perftest: bytes, iterations, peak, average above 1 MB/s
pair rping '20*ping data: rdma-ping-[0-9]+: [A-Za-z]' rping -s -C 20 -v -- rping -c -a $lo -C 20 -v -V
pair ucmatose 'data transfers complete' ucmatose -- ucmatose -s $lo
pair udaddy 'data transfers complete' udaddy -- udaddy -s $lo
pair mckey 'data transfers complete' mckey -m 230.1.2.3 -b $lo -C 10 -- mckey -m 230.1.2.3 -b $lo -s -C 10
pair rdma_client 'end 0' rdma_server -- rdma_client -s $lo
pair rdma_xclient 'end 0' rdma_xserver -- rdma_xclient -s $lo
pair "rdma_xclient XRC" 'end 0' rdma_xserver -c x -- rdma_xclient -c x -s $lo
pair "endless cmtime" '^connect +: +[0-9.]+' cmtime -- cmtime -s $lo -c 10
pair "write_bw -R" "$moved" ib_write_bw -R -n 100 -- ib_write_bw -R -n 100 $lo
pair "read_bw -R -e" "$moved" ib_read_bw -R -e -n 100 -- ib_read_bw -R -e -n 100 $lo
# the server listens for datagrams only after it has answered the connection from which the client
# knows it
pair "racy send_bw -R UD" '^ +4096 +100 +[0-9.]+ +[1-9]' ib_send_bw -R -c UD -n 100 -- ib_send_bw -R -c UD -n 100 $lo
fi_pingpongs() {
	xfer='^64k +10 +=10 ' # bytes, sent, acknowledged
	pair "fi_pingpong msg" "$xfer" fi_pingpong -B "$port" -c -p verbs -e msg -- \
		fi_pingpong -P "$port" -c -p verbs -e msg $lo
	# libfabric's ofi_rxm polls an empty queue, and checks each 10 ms whether its peer has sent
	# a disconnect. Then it calls rdma_destroy_ep before it polls again. A last message that
	# arrives between the poll and the check is lost with its queue pair, as with any HCA whose
	# library cleans the queue (libmlx5). With 1 s instead of 10 ms the last check precedes the
	# last message.
	FI_OFI_RXM_CM_PROGRESS_INTERVAL=1000000 pair "fi_pingpong rdm" '^1m +10 +=10 ' \
		fi_pingpong -B "$port" -c -p 'verbs;ofi_rxm' -e rdm -- \
		fi_pingpong -P "$port" -c -p 'verbs;ofi_rxm' -e rdm $lo
}
if getent ahosts localhost >/dev/null; then
	fi_pingpongs
else
	echo "fi_pingpong left out: its server needs an address for localhost, and this machine has none (/etc/hosts)"
fi
refused rstream 'Operation not supported' rstream -s $lo
[ $ran -gt 0 ] || { echo "none of the programs is installed"; exit 77; }
[ $rc = 0 ] && echo "$ran pairs of programs connected, moved what they print, and ended well"
exit $rc
