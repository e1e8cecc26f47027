#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The benchmark beside NCCL, on the doubles, with our library as both: its results are right, and wrong
# arguments are refused. Its times mean nothing here.
set -euo pipefail
compare=$1/tests/nccl_compare library=$1/libnccl.so.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DOPPEL_MACHINE=h100-8nic DOPPEL_ENGINE=threads NCCL_COMPARE_CALLS=2

rc=0
must() { # must WHAT STATUS ARGUMENTS...: the output has WHAT
	local what=$1 want=$2 status=0
	shift 2
	"$compare" "$@" >"$work/out" 2>&1 || status=$?
	[ "$status" = "$want" ] && grep -qE -- "$what" "$work/out" && return
	echo "nccl_compare $*: exit status $status, expected $want and a line with '$what':"
	cat "$work/out"
	rc=1
}
for mode in one threads; do
	must "^# send_recv, $mode" 0 -g 3 -b 24 -e 6K -f 16 -m $mode "$library" "$library"
	rows=$(grep -cE '^ +[0-9]+ +[0-9.]+ +[0-9.]+ +0 +[0-9.]+ +[0-9.]+ +0 +[0-9.]+$' "$work/out") || rows=0
	[ "$rows" = 18 ] || { echo "$mode: $rows rows without wrong elements, expected 18"; cat "$work/out"; rc=1; }
done
for wait in poll watchdog; do
	must "wait $wait" 0 -g 2 -b 24 -e 6K -f 16 -c all_reduce,send_recv -m one,threads -w $wait "$library"
	rows=$(grep -cE '^ +[0-9]+ +[0-9.]+ +[0-9.]+ +0$' "$work/out") || rows=0
	[ "$rows" = 12 ] || { echo "-w $wait: $rows rows without wrong elements, expected 12"; cat "$work/out"; rc=1; }
done
must '^ +600 ' 0 -g 2 -b 24 -e 600 -f 16 -c all_reduce -m one "$library"
must '^ +8 .* 0$' 0 -g 2 -e 8 -c all_reduce -m one-graph "$library"
must 'no_such_library' 1 "$work/no_such_library.so"
must '^usage:.*LIB' 1
must '^MODE: all one one-graph' 1 -m two "$library"
must '^COLLECTIVE: all_reduce' 1 -c all_reduce,none "$library"
must '^WAIT: sync poll watchdog' 1 -w spin "$library"
must '^GPUS: 1 to 16' 1 -g 17 "$library"
must '^GPUS:.*BYTES: at least 4' 1 -b 2 "$library"
exit $rc
