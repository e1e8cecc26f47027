#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compares the threads engine with Open MPI in one run: 2, 4 and 8 ranks on one host, 8 B to 64 MiB;
# all-reduce of float sums, all-gather and all-to-all; out of place, real time. Prints a Markdown
# table per collective. With PLOT.svg (gnuplot) it also draws time over size.
# Usage: tests/bench/threads_vs_mpi.sh [BUILD_DIR] [MAX_BYTES] [PLOT.svg]
set -euo pipefail
build=${1:-build/fake}
max=${2:-67108864}
plot=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
command -v mpicc >/dev/null || { echo "no mpicc: apt-get install openmpi-bin libopenmpi-dev"; exit 77; }
[ -z "$plot" ] || command -v gnuplot >/dev/null || { echo "no gnuplot: apt-get install gnuplot-nox"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc -O2 -o "$work/mpi_collectives" "$here/mpi_collectives.c"

# COLLECTIVE RANKS FIRST LAST ITERATIONS WARM-UP
rows() {
	"$build/doppel" run "$1" --engine threads --gpus "$2" --ranks-per-process "$2" --place out -n "$5" \
		-w "$6" -c 0 -b "$3" -e "$4" -f 2 | awk '$1 ~ /^[0-9]+$/ {print $1, $6}' >>"$work/doppel"
	mpirun --allow-run-as-root --oversubscribe -n "$2" "$work/mpi_collectives" "$1" "$3" "$4" "$5" "$6" \
		>>"$work/mpi"
}

echo "# machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) CPUs, $(uname -sr)"
for collective in all_reduce all_gather all_to_all; do
	for ranks in 2 4 8; do
		first=$((4 * ranks)) # one float per rank
		[ "$collective" != all_reduce ] || first=8
		: >"$work/doppel"
		: >"$work/mpi"
		rows "$collective" "$ranks" "$first" $((max < 1 << 20 ? max : 1 << 20)) 200 20
		((max <= 1 << 20)) || rows "$collective" "$ranks" $((2 << 20)) "$max" 20 5
		awk 'NR == FNR {us[$1] = $2; next} $1 in us {print $1, $2, us[$1]}' "$work/mpi" "$work/doppel" \
			>"$work/$collective.$ranks"
		[ -s "$work/$collective.$ranks" ] || { echo "$collective, $ranks ranks: no row of both"; exit 1; }
	done
	printf '\n%s\n\n' "$collective, us"
	echo "| bytes | 2 ranks: Doppel | Open MPI | ratio | 4 ranks: Doppel | Open MPI | ratio | 8 ranks: Doppel | Open MPI | ratio |"
	echo "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
	for ranks in 2 4 8; do
		sed "s/^/$ranks /" "$work/$collective.$ranks"
	done | awk '{
		cell[$2, $1] = sprintf(" %.1f | %.1f | %.2f |", $3, $4, $3 / $4)
		if (!seen[$2]++) size[n++] = $2
	} END {
		for (i = 0; i < n; i++) {
			line = "| " size[i] " |"
			for (r = 2; r <= 8; r *= 2)
				line = line ((size[i], r) in cell ? cell[size[i], r] : " | | |")
			print line
		}
	}'
done

[ -n "$plot" ] || exit 0
{
	echo "set terminal svg size 1100,900 font 'sans,11' background 'white'; set output '$plot'"
	echo "set logscale x 2; set logscale y 10; set key top left; set grid; set mxtics 1; set mytics 1"
	echo "set xtics ('8 B' 8, '1 KiB' 2**10, '32 KiB' 2**15, '1 MiB' 2**20, '64 MiB' 2**26); set ytics 10"
	echo "set xrange [8:2**26]; unset xlabel"
	echo "set multiplot layout 3,3"
	for collective in all_reduce all_gather all_to_all; do
		for ranks in 2 4 8; do
			echo "set title '${collective//_/-}, $ranks ranks'; set ylabel 'us'"
			echo "plot '$work/$collective.$ranks' using 1:2 with lines linewidth 2 title 'Doppel'," \
				"'' using 1:3 with lines linewidth 2 title 'Open MPI'"
		done
	done
	echo "unset multiplot"
} | gnuplot
