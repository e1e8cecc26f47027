#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The programs of nccl-tests, as they are built for NCCL's library, on that and on ours, with their own defaults.
#
#	tests/foreign/nccl_tests.sh BUILD LIBNCCL FOLDER GPUS [OPTIONS of the programs]
#
# FOLDER holds the *_perf programs. Prints each program's rows side by side: size, type, operation, root, then time and
# number of wrong elements out of place and in place for NCCL's library and for ours. Exit status: 0, 1 where a program
# fails on ours and not on NCCL's, 11 where a result is wrong.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/foreign/lib.sh
. "$here/lib.sh"
[ $# -ge 4 ] || { echo "usage: $0 BUILD LIBNCCL FOLDER GPUS [OPTIONS]" >&2 && exit 1; }
build=$(cd "$1" && pwd) nccl=$2 folder=$3 gpus=$4
shift 4
[ $# -gt 0 ] || set -- -b 8 -e 64M -f 8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rc=0

run() { # run PRELOAD PROGRAM OPTIONS...: the rows, without what differs between the programs' columns
	local status=0
	LD_PRELOAD=$1 timeout 120 "${@:2}" >"$work/out" 2>&1 || status=$?
	sed -nE 's/^ +([0-9]+ +[0-9]+ +.*)/\1/p' "$work/out" |
		awk '{ wrong_out = $(NF - 4); wrong_in = $NF; print $1, $3, $4, $5, $6, wrong_out, $(NF - 3), wrong_in }'
	return $status
}
for program in "$folder"/*_perf; do
	name=$(basename "$program")
	require_functions "$build/libnccl.so.2" "$program"
	run "$nccl" "$program" -g "$gpus" "$@" >"$work/nccl" || { echo "# $name: fails on NCCL's library" && tail -2 "$work/out"; continue; }
	if ! run "$build/libnccl.so.2" "$program" -g "$gpus" "$@" >"$work/doppel"; then
		echo "# $name: fails on Doppel" && tail -5 "$work/out"
		rc=1
		continue
	fi
	echo "# $name: NCCL us, wrong, in place us, wrong | Doppel us, wrong, in place us, wrong | NCCL/Doppel, in place"
	paste -d ' ' "$work/nccl" "$work/doppel" | awk '
		{ printf "%12d %9s %7s %4d  %9.2f %4s %9.2f %4s | %9.2f %4s %9.2f %4s | %6.2f %6.2f\n", $1, $2, $3, $4,
			$5, $6, $7, $8, $13, $14, $15, $16, $5 / $13, $7 / $15
		  if ($14 + $16 > 0) bad = 1 }
		END { exit bad }' || rc=11
done
exit $rc
