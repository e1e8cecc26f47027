#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Interfaces of a real network: one without a carrier is left out, and an address of NCCL_COMM_ID may have a scope. In a
# network namespace of its own, with pairs of veth. Arguments: build folder, source folder.
set -euo pipefail
build_dir=$1
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
if [ -z "${INTERFACES_TEST_INSIDE-}" ]; then
	unshare -rn ip link add va type veth peer name vb 2>/dev/null || { echo "skipped: no network namespace with veth"; exit 77; }
	INTERFACES_TEST_INSIDE=1 exec unshare -rn bash "$0" "$@"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
run() { timeout 400 "$build_dir/doppel" run all_reduce -b 8 -e 8 --processes 1 --gpus 2 --limit 300 --env NCCL_DEBUG=INFO >"$out/log" 2>&1; }
failed() { echo "$1 in"; cat "$out/log"; exit 1; }

ip link set lo up
# va comes first, and is up; the other end of its cable is not
for name in v w; do ip link add ${name}a type veth peer name ${name}b; done
ip addr add 10.1.1.1/24 dev va
ip addr add 10.2.2.2/24 dev wa
ip addr add fe80::17/64 dev wa nodad
ip link set va up
ip link set wa up && ip link set wb up

run || failed "the run failed"
grep -q 'root at 10\.2\.2\.2:' "$out/log" || failed "expected a root at 10.2.2.2"
NCCL_SOCKET_IFNAME=va run && failed "expected an error: va has no carrier"
grep -q 'NCCL_SOCKET_IFNAME' "$out/log" || failed "expected an error that names NCCL_SOCKET_IFNAME"

# with the carrier it is the first one
ip link set vb up
run || failed "the run failed"
grep -q 'root at 10\.1\.1\.1:' "$out/log" || failed "expected a root at 10.1.1.1"

# an address of a link, which has a meaning on an interface alone
port_take
NCCL_COMM_ID="[fe80::17%wa]:$port" run || failed "the run failed"
grep -q "\[fe80::17\]:$port" "$out/log" || failed "expected a root at fe80::17"
NCCL_COMM_ID="[fe80::17%va]:$port" run && failed "expected an error: fe80::17 is not va's"
NCCL_COMM_ID="[fe80::17%nosuch]:$port" run && failed "expected an error: there is no interface nosuch"
grep -q "fe80::17%nosuch has no address" "$out/log" || failed "expected an error that names the address"
