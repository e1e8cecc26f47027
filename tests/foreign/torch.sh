#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A PyTorch script of this folder on NCCL's library, as PyTorch brings it, and on ours, a process a GPU, in turn.
#
#	tests/foreign/torch.sh BUILD GPUS SCRIPT.py [ROUNDS]
#
# A script prints lines "row NAME MINIMUM MEDIAN MAXIMUM WRONG". The table has, for each name, the median over the
# rounds of each figure for both libraries, and the ratio of ours to NCCL's median and maximum. Exit status: 0, 1 where
# a run fails, 11 where a result is wrong, 77 without PyTorch.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/foreign/lib.sh
. "$here/lib.sh"
[ $# -ge 3 ] || { echo "usage: $0 BUILD GPUS SCRIPT.py [ROUNDS]" >&2 && exit 1; }
build=$(cd "$1" && pwd) gpus=$2 script=$here/$3 rounds=${4:-3}
torch=$(python3 -c 'import torch, os; print(os.path.join(os.path.dirname(torch.__file__), "lib"))' 2>/dev/null) ||
	{ echo "skipped: python3 has no torch"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
require_functions "$build/libnccl.so.2" "$torch"/libtorch_cuda.so

run() { # run LIBRARY PRELOAD
	local rc=0
	LD_PRELOAD=$2 OMP_NUM_THREADS=4 timeout 240 python3 -m torch.distributed.run --standalone --nproc-per-node "$gpus" \
		"$script" >"$work/out" 2>&1 || rc=$?
	sed -n "s/^row /$1 /p" "$work/out" >>"$work/rows"
	[ $rc = 0 ] && return
	echo "$3 on $1: exit status $rc" && tail -20 "$work/out"
	exit 1
}
for ((i = 0; i < rounds; i++)); do
	run nccl '' "$3"
	run doppel "$build/libnccl.so.2" "$3"
done
awk '
	{ key = $1 SUBSEP $2; if (!(key in n) && $1 == "nccl") name[++names] = $2
	  n[key]++; for (i = 3; i <= 5; i++) v[key, i, n[key]] = $i; wrong[$1] += $6 }
	function median(key, i, k, m, a, t) {
		for (k = 1; k <= n[key]; k++) a[k] = v[key, i, k]
		for (k = 2; k <= n[key]; k++) for (m = k; m > 1 && a[m] < a[m - 1]; m--) { t = a[m]; a[m] = a[m - 1]; a[m - 1] = t }
		return a[int((n[key] + 1) / 2)]
	}
	END {
		printf "%-24s %10s %10s %10s   %10s %10s %10s  %8s %8s\n", "#", "NCCL min", "median", "max", "Doppel min", "median", "max", "median/", "max/"
		for (i = 1; i <= names; i++) {
			a = "nccl" SUBSEP name[i]; b = "doppel" SUBSEP name[i]
			printf "%-24s %10.2f %10.2f %10.2f   %10.2f %10.2f %10.2f  %8.3f %8.3f\n", name[i],
				median(a, 3), median(a, 4), median(a, 5), median(b, 3), median(b, 4), median(b, 5),
				median(b, 4) / median(a, 4), median(b, 5) / median(a, 5)
		}
		printf "# wrong: NCCL %d, Doppel %d\n", wrong["nccl"], wrong["doppel"]
		exit wrong["doppel"] ? 11 : 0
	}' "$work/rows"
