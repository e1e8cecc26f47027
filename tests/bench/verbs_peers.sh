#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compares the drop-in between two processes with its peers, in one run: plain memcpy, Debian's
# perftest on the drop-in with and without the verbs sanitizer, and UCX over shared memory. Reports
# the smallest latency and the largest bandwidth of several runs, because other load only makes them
# worse.
# Usage: tests/bench/verbs_peers.sh [BUILD_DIR [RUNS]]
set -euo pipefail
build=${1:-build/fake} runs=${2:-5}
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
for program in ib_write_lat ib_write_bw ucx_perftest; do
	command -v $program >/dev/null || { echo "no $program: apt-get install perftest ucx-utils"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2154 # port_take sets port
# both COMMAND...: runs the server, and the client with 127.0.0.1 appended; prints the client's
# output
both() {
	"$@" >"$work/server" 2>&1 &
	local server=$!
	until_true 20 listens "$port"
	"$@" 127.0.0.1 2>&1
	wait $server
}
# perftest CHECK PROGRAM COLUMN ARGS...: prints that column of the only row
perftest() {
	local check=$1 program=$2 column=$3
	shift 3
	port_take
	DOPPEL_VERBS_CHECK=$check both "$build/doppel" verbs-run "$program" -F -x 3 -p "$port" "$@" |
		awk -v c="$column" '$1 ~ /^[0-9]+$/ && NF >= 5 {print $c}'
}
# ucx COLUMN ARGS...: prints that column of the last line
ucx() {
	local column=$1
	shift
	port_take
	UCX_LOG_LEVEL=error both ucx_perftest -p "$port" -d memory -x posix "$@" |
		awk -v c="$column" '$1 == "Final:" {print $c}'
}
best() { # best -g|-gr COMMAND...: the smallest or largest of the runs
	local order=$1 i
	shift
	for ((i = 0; i < runs; i++)); do "$@"; done | sort "$order" | sed -n 1p
}

echo "# machine: $(sed -n 's/^model name[^:]*: //p;' /proc/cpuinfo | sed -n 1p), $(nproc) CPUs, $(uname -sr)"
memcpy=$("$build/tests/verbs_bench" threads |
	sed -n 's/^threads: *64 KiB WRITE .* memcpy *\([0-9.]*\) GB.*/\1/p')
checked=$(best -g perftest '' ib_write_lat 5 -s 8 -n 20000)
plain=$(best -g perftest none ib_write_lat 5 -s 8 -n 20000)
shm=$(best -g ucx 3 -t put_lat -D short -s 8 -n 200000)
printf '8 B, one way, us:    ib_write_lat %s, without sanitizer %s; UCX shared memory put_lat %s\n' \
	"$checked" "$plain" "$shm"
checked=$(best -gr perftest '' ib_write_bw 4 -s 65536 -n 5000)
plain=$(best -gr perftest none ib_write_bw 4 -s 65536 -n 5000)
shm=$(best -gr ucx 6 -t put_bw -D short -s 65536 -n 20000)
awk -v c="$checked" -v p="$plain" -v u="$shm" -v m="$memcpy" 'BEGIN {
	mib = 1048576 / 1e9
	printf "64 KiB, GB/s:        ib_write_bw %.1f (%.0f %% of memcpy), without sanitizer %.1f; ", \
		c * mib, 100 * c * mib / m, p * mib
	printf "UCX shared memory put_bw %.1f; memcpy %.1f\n", u * mib, m}'
