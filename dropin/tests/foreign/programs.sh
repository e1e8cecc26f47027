#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs of the distribution, in two processes over the fabric. Arguments: build
# folder, source folder, and a part: pingpong, perftest, ucx, qperf, more or matrix; without a part,
# all except matrix.
set -euo pipefail
build=$1 part=${3:-all}
doppel=$build/doppel
[ -e "$build/verbs/libibverbs.so.1" ] || { echo "no drop-in in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fabric=programs-$$
rc=0 ran=0
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"

# Runs a server and a client; both must end with 0.
pair() {
	local tries=20
	command -v "$1" >/dev/null || return 0
	ran=$((ran + 1))
	until pair_once "$@"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] && clock_unfit "$dir/server" "$dir/client" && continue
		echo "$*: $got"
		grep -hvE "^[|+]" "$dir/server" "$dir/client" | head -n 40
		rc=1
		return
	done
}

# True if the server listens at its TCP port, or (perftest -R) at that of the connection manager.
serves() { listens "$port" || grep -q " 00010000 .*@doppel-cm/[0-9]*/$fabric/[0-9a-f]*/$port/" /proc/net/unix; }

pair_once() {
	local program=$1 server
	shift
	got=0
	port_take
	local args=(timeout 300 "$doppel" verbs-run --fabric "$fabric" "$program" "$@" -p "$port")
	"${args[@]}" >"$dir/server" 2>&1 &
	server=$!
	until_true 50 serves || true # the client then logs what is wrong
	"${args[@]}" 127.0.0.1 >"$dir/client" 2>&1 || got=$?
	# a server without a client would wait without end
	[ "$got" = 0 ] || until_true 20 gone $server || kill $server
	wait $server || got="$got, the server $?"
	[ "$got" = 0 ]
}

pingpongs() {
	for program in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong ibv_xsrq_pingpong; do
		pair $program -g 3 -n 100
	done
	for program in ibv_rc_pingpong ibv_ud_pingpong ibv_srq_pingpong; do
		pair $program -g 3 -n 100 -e
	done
	pair ibv_rc_pingpong -g 3 -n 100 -s 1000000 -m 1024
	pair ibv_rc_pingpong -g 3 -n 100 -c
}

# perftest measures the processor's frequency at each size, which takes most of the time here.
perftests() {
	pair ib_write_lat -x 3 -n 100 -s 8
	pair ib_read_bw -x 3 -n 100
	pair ib_send_bw -x 3 -n 100
	pair ib_atomic_lat -x 3 -n 100
	pair ib_write_bw -x 3 -n 100 -c UC
	pair ib_send_lat -x 3 -n 100 -c UD
	pair ib_send_lat -x 3 -n 100 -e
	pair ib_write_bw -x 3 -n 100 -q 4 -d mlx5_1
}

perftests_more() {
	pair ib_write_bw -x 3 -n 5 -a
	pair ib_send_bw -x 3 -n 5 -a
	pair ib_read_lat -x 3 -n 100
	pair ib_send_lat -x 3 -n 100
	pair ib_atomic_bw -x 3 -n 100 -A CMP_AND_SWAP
	pair ib_send_bw -x 3 -n 100 -c UC
	pair ib_send_bw -x 3 -n 100 -c UD
	pair ib_send_bw -x 3 -n 100 -r 128 --use-srq
	pair ib_write_bw -x 3 -n 100 -b
}

# Options that a test of perftest has with every transport; -x 3 is RoCE v2 over IPv4.
perftest_options() { # bandwidth or latency, write, read, send or atomic, and the transport
	cat <<-'END'
		-x 3 -n 100
		-x 3 -n 100 -d mlx5_1
		-x 3 -n 100 -m 1024
		-x 3 -n 100 -u 18
		-x 3 -n 100 -S 1
		-x 3 -n 100 -F
		-x 3 -D 1
	END
	[ "$2" = atomic ] || printf -- '-x 3 -n 100 -s %s\n' 1 64 1024
	[ "$2" = atomic ] || echo "-x 3 -n 5 -a"
	[ "$2" = atomic ] || [ "$3" = UD ] || printf -- '-x 3 -n %s\n' "100 -s 65536" "5 -s 1048576" "100 -s 5000"
	[ "$1$2" != latwrite ] || printf -- '-x 3 -n 100 -I %s\n' 0 32
	[ "$2" != send ] || printf -- '-x 3 -n 100 %s\n' -e "-r 128" "-e -s 4096" "-I 0" "-I 32"
	[ "$2" != read ] || printf -- '-x 3 -n 100 %s\n' "-o 1" "-o 4" -e
	[ "$2" != atomic ] || printf -- '-x 3 -n 100 %s\n' "-A CMP_AND_SWAP" "-A FETCH_AND_ADD" "-o 1" -e
	[ "$1" = lat ] || printf -- '-x 3 -n 100 %s\n' "-q 4" "-t 8" "-Q 1" "-N" "--report_gbits" "-l 4" "-q 4 -t 8" \
		"-D 1" "-b -q 2" -b
	[ "$1" = bw ] || printf -- '-x 3 -n 100 %s\n' "-C" "-H" "-U"
	[ "$2$3" != sendRC ] || printf -- '-x 3 -n 100 --use-srq%s\n' "" " -r 128"
	[ "$1$2$3" != bwsendRC ] || echo "-x 3 -n 100 --use-srq -q 4"
	[ "$3" = UC ] || [ "$3" = XRC ] || printf -- '-R -n 100%s\n' "" " -T 32" " -z"
	[ "$3" != RC ] || [ "$1" = lat ] || printf -- '-R -n 100 %s\n' "-q 4" "-b"
}

perftests_matrix() {
	local verb kind transport options
	for verb in write read send atomic; do
		for kind in bw lat; do
			for transport in RC UC UD XRC; do
				case $verb-$transport in
				*-RC | *-XRC | send-* | write-UC) ;;
				*) continue ;; # verbs that the transport does not have
				esac
				while read -r -u 4 options; do
					# shellcheck disable=SC2086 # several options
					pair "ib_${verb}_$kind" -c $transport $options
				done 4< <(perftest_options $kind $verb $transport)
			done
		done
	done
}

ucx() {
	for test in put_lat put_bw am_lat am_bw; do
		UCX_LOG_LEVEL=error pair ucx_perftest -d mlx5_0:1 -x rc_verbs -t $test -n 500 -s 32 -w 10
	done
	UCX_LOG_LEVEL=error pair ucx_perftest -d mlx5_0:1 -x rc_verbs -t add_lat -n 500 -w 10
	UCX_LOG_LEVEL=error pair ucx_perftest -d mlx5_0:1 -x rc_verbs -t get -D zcopy -n 500 -s 65536 -w 10
	UCX_LOG_LEVEL=error pair ucx_perftest -d mlx5_0:1 -x ud_verbs -t am_lat -n 500 -s 32 -w 10
	UCX_LOG_LEVEL=error UCX_TLS=rc_verbs,ud_verbs,self UCX_NET_DEVICES=mlx5_0:1 \
		pair ucx_perftest -t tag_lat -n 500 -s 1000 -w 10
}

# One server runs all tests of a line; the test "quit" ends it. It waits for completions on channels
# and ends a test by a signal, so the latencies are the relevant tests.
qperf_tests() {
	local got=0 server
	command -v qperf >/dev/null || return 0
	ran=$((ran + 1))
	port_take
	local args=(timeout 120 "$doppel" verbs-run --fabric "$fabric" qperf -lp "$port")
	"${args[@]}" >"$dir/server" 2>&1 &
	server=$!
	until_true 50 listens "$port" || true # else the client reports what is wrong
	"${args[@]}" 127.0.0.1 -t 1 "$@" quit >"$dir/client" 2>&1 || got=$?
	until_true 20 gone $server || kill $server
	wait $server || got="$got, the server $?"
	# it exits with 0 even if tests failed; each successful test prints a line of results
	[ "$got" = 0 ] && ! grep -E 'fail|timed out' "$dir/client" &&
		[ "$(grep -cE '^ +(latency|bw|send_bw|msg_rate) ' "$dir/client")" = $(($# - qperf_options)) ] &&
		return
	echo "qperf $*: $got"
	head -n 40 "$dir/server" "$dir/client"
	rc=1
}

qperfs() {
	local qperf_options=0 # words that are no tests
	export DOPPEL_HCA_PERSONALITY=mlx5-ib # it knows no addresses of RoCE but by IP
	qperf_tests rc_lat uc_lat ud_lat rc_rdma_read_lat rc_rdma_write_lat rc_rdma_write_poll_lat
	qperf_tests rc_bw ud_bw rc_compare_swap_mr
	unset DOPPEL_HCA_PERSONALITY
	qperf_options=2
	qperf_tests -cm 1 rc_lat rc_bw
}

case $part in
pingpong) pingpongs ;;
perftest) perftests ;;
ucx) ucx ;;
qperf) qperfs ;;
more) perftests_more ;;
matrix) perftests_matrix ;;
all) pingpongs; perftests; perftests_more; ucx; qperfs ;;
*)
	echo "programs.sh: unknown part '$part'; expected pingpong, perftest, ucx, qperf, more or matrix" >&2
	exit 1
	;;
esac
[ $ran != 0 ] || { echo "none of the programs is installed"; exit 77; }
# no names remain
left=$(grep "doppel-.*$fabric" /proc/net/unix || true)
[ -z "$left" ] || { echo "names that are left: $left"; rc=1; }
[ $rc = 0 ] && echo "$ran pairs of programs"
exit $rc
