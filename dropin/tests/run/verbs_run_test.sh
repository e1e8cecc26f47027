#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel verbs-run: the program gets Doppel's library, device nodes and a /sys tree. Its exit code
# is passed on. Nothing of the tree is visible outside. As root and as another user.
set -euo pipefail
build=$1
doppel=$build/doppel
[ -e "$build/verbs/libibverbs.so.1" ] || { echo "no drop-in in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
rc=0
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
fail() { echo "$*"; rc=1; }
run() { timeout 300 "$doppel" verbs-run "$@"; }

before=$(ls /dev /sys/class)
for code in 0 7; do
	got=0
	run sh -c "exit $code" || got=$?
	[ $got = $code ] || fail "exit code $got, expected $code"
done
got=0
run /no/such/program 2>/dev/null || got=$?
[ $got = 127 ] || fail "a program that is not there: exit code $got, expected 127"

look='
	cd /sys/class/infiniband/mlx5_0/ports/1 && cat gid_attrs/types/1 gid_attrs/types/3 gids/3 state link_layer &&
	basename $(realpath /sys/class/infiniband/mlx5_0/device) && cat /sys/class/infiniband/mlx5_0/device/vendor &&
	test -c /dev/infiniband/uverbs0 -a -r /dev/infiniband/uverbs0 -a -w /dev/infiniband/uverbs0 && echo node &&
	cat /sys/class/infiniband_verbs/uverbs1/ibdev && test -e /dev/null -a -e /dev/urandom &&
	test -e /sys/class/net/lo && id -u'
expected='RoCE v2
RoCE v2
0000:0000:0000:0000:0000:ffff:ac10:0001
4: ACTIVE
Ethernet
0000:0b:00.0
0x15b3
node
mlx5_1'
check() { # name, uid, command...
	local name=$1 uid=$2 seen
	shift 2
	seen=$("$@" sh -c "$look" 2>&1) || fail "$name: the program failed: $seen"
	[ "$seen" = "$expected
$uid" ] || fail "$name sees: $seen"
}
check "$(id -un)" "$(id -u)" run
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$doppel"; then
	nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups timeout 300 "$doppel" verbs-run)
	check nobody 65534 "${nobody[@]}"
	# two programs share one user namespace; otherwise they could not access each other's memory
	held=$(mktemp -u)
	mkfifo "$held"
	"${nobody[@]}" sh -c 'readlink /proc/self/ns/user; read -r until_told' \
		<"$held" >"${TMPDIR:-/tmp}/space.$$" &
	first=$!
	exec {hold}>"$held"
	rm -f "$held"
	until_true 20 test -s "${TMPDIR:-/tmp}/space.$$" || fail "the first program of user nobody prints nothing"
	second=$("${nobody[@]}" readlink /proc/self/ns/user)
	exec {hold}>&-
	wait $first || true # read meets the end
	[ "$second" = "$(cat "${TMPDIR:-/tmp}/space.$$")" ] || fail "two programs of one user, two user namespaces"
	rm -f "${TMPDIR:-/tmp}/space.$$"
	if command -v ibv_rc_pingpong >/dev/null; then
		port_take
		talk=("${nobody[@]}" ibv_rc_pingpong -g 3 -n 50 -c -p "$port")
		"${talk[@]}" >/dev/null 2>&1 &
		until_true 20 listens $port || true
		"${talk[@]}" 127.0.0.1 >/dev/null 2>&1 || fail "two programs of nobody do not reach each other"
		wait $! || fail "two programs of nobody: the server failed"
	fi
fi
if command -v ibv_devinfo >/dev/null; then
	grep -q 'GID\[  3\]:.*::ffff:172.16.0.1, RoCE v2' <<<"$(run ibv_devinfo -v)" ||
		fail "ibv_devinfo does not show the GID"
	grep -q mlx5_1 <<<"$(run ibv_devices)" || fail "ibv_devices does not show mlx5_1"
fi
[ "$before" = "$(ls /dev /sys/class)" ] || fail "something of it is outside"
exit $rc
