#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The threads engine beside Open MPI, in one run: 2, 4 and 8 ranks on one host, 8 B to 64 MiB.
# Usage: tests/bench/threads_vs_mpi.sh [BUILD_DIR] [MAX_BYTES]
set -euo pipefail
build=${1:-build/fake}
max=${2:-67108864}
here=$(cd "$(dirname "$0")" && pwd)
command -v mpicc >/dev/null || { echo "no mpicc: apt-get install openmpi-bin libopenmpi-dev"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc -O2 -o "$work/mpi_all_reduce" "$here/mpi_all_reduce.c"

echo "# machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) CPUs, $(uname -sr)"
for ranks in 2 4 8; do
	echo "# all_reduce float sum, $ranks ranks on one host, 5 iterations, out of place, real time"
	printf '#%11s %14s %14s %8s\n' bytes 'doppel us' 'openmpi us' ratio
	"$build/doppel" run all_reduce --engine threads --gpus "$ranks" --ranks-per-process "$ranks" \
		--place out -n 5 -w 1 -c 0 -b 8 -e "$max" -f 2 |
		awk '$1 ~ /^[0-9]+$/ {print $1, $6}' >"$work/doppel"
	mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$work/mpi_all_reduce" 8 "$max" 5 \
		>"$work/mpi"
	awk 'NR == FNR {us[$1] = $2; next}
	     $1 in us {printf "%12d %14.2f %14.2f %8.2f\n", $1, $2, us[$1], (us[$1] > 0 ? $2 / us[$1] : 0)}' \
		"$work/mpi" "$work/doppel"
done
