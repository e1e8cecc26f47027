#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel run as a process that mpirun, torchrun or srun started: Open MPI itself, and the variables of the
# others. Arguments: build folder, source folder.
# shellcheck disable=SC2031 # only the second job has another folder
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
fail_shows=("$work/out" "$work/err")

# ---- the variables of a launcher, for `count` processes on this computer
count=3
# started VARIABLES_OF ARGUMENTS...: starts the processes; the function sets the variables of process $i
started() {
	local variables=$1 pids=() pid rc=0
	shift
	for ((i = 0; i < count; i++)); do
		($variables && exec timeout 120 "$doppel" run all_reduce "$@" -b 8 -e 64K -f 32) \
			>"$work/out.$i" 2>"$work/err.$i" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || rc=$?; done
	cat "$work"/out.? >"$work/out"
	cat "$work"/err.? >"$work/err"
	[ $rc = 0 ] || fail "$variables, $*: a process ended with $rc"
	[ "$(grep -c '^# Out of bounds values : 0 OK$' "$work/out")" = 1 ] || fail "$variables: not one table"
	grep -q '0 OK$' "$work/out.0" || fail "$variables: the table is not rank 0's"
	grep -q "^# nRanks $((count * ${each:-1})) nHosts ${hosts:-1} " "$work/out" || fail "$variables: wrong shape"
}
# shellcheck disable=SC2317 # called by name
torchrun() { export RANK=$i WORLD_SIZE=$count LOCAL_RANK=$i LOCAL_WORLD_SIZE=$count TORCHELASTIC_RUN_ID=t$$ MASTER_PORT=29500; }
# shellcheck disable=SC2317
srun() {
	export SLURM_PROCID=$i SLURM_STEP_NUM_TASKS=$count SLURM_LOCALID=$i SLURM_STEP_TASKS_PER_NODE="$count(x1)"
	export SLURM_JOB_ID=1$$ SLURM_STEP_ID=0 PMIX_RANK=$i
}
# shellcheck disable=SC2317
mpich() { export PMI_RANK=$i PMI_SIZE=$count MPI_LOCALRANKID=$i MPI_LOCALNRANKS=$count PMI_ID=$$; }
started torchrun
hosts=3 started torchrun --hosts 3
started srun --gpus 3
started mpich
each=2 started srun -t 2
# two jobs at the same time do not meet
count=2
(started torchrun; exit $bad) >"$work/first" 2>&1 &
first=$!
mkdir "$work/second"
# shellcheck disable=SC2030,SC2031 # the second job has a folder of its own
(work=$work/second && started srun; exit $bad) || fail "the second job"
wait $first || { cat "$work/first"; fail "the first job"; }

# ---- refusals
# refused TEXT VARIABLE... [-- ARGUMENTS...]
refused() {
	local text=$1 set=() rc=0
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do set+=("$1") && shift; done
	env "${set[@]}" timeout 60 "$doppel" run all_reduce "${@:2}" >"$work/out" 2>"$work/err" || rc=$?
	[ $rc = 1 ] && grep -qF -- "$text" "$work/err" || fail "${set[*]}: ended with $rc, expected 1 and '$text'"
}
refused 'PMIX_RANK is set, and no variable has the number of processes' PMIX_RANK=0
refused "OMPI_COMM_WORLD_RANK is '3', expected a number below 2" \
	OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0
refused "WORLD_SIZE is 'two', expected a number" RANK=0 WORLD_SIZE=two LOCAL_RANK=0
refused 'torchrun started 1 of 2 processes on this computer; doubles of several computers' \
	RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
refused '--gpus 8, but srun started 2 processes of 1 ranks for each host' \
	SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 -- --gpus 8
refused 'started 3 processes for 2 hosts: expected a multiple' RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 -- --hosts 2
# rank 0's process does not come: the deadline ends the other
rc=0
RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 DOPPEL_TIMEOUT_MS=300 timeout 60 "$doppel" run all_reduce >"$work/out" 2>"$work/err" || rc=$?
[ $rc = 2 ] && grep -q "no unique id after 300 ms: rank 0's process has ended" "$work/err" ||
	fail "no rank 0: ended with $rc, expected 2"

# a launcher of one process is none, and options take precedence
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 "$doppel" run all_reduce --gpus 2 -b 8 -e 8 >"$work/out" 2>"$work/err" || fail "one process"
grep -q 'engine sim' "$work/out" || fail "a launcher of one process: expected a world in one process"
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 timeout 100 "$doppel" run all_reduce --processes 2 -b 8 -e 8 >"$work/out" 2>"$work/err" ||
	fail "--processes under a launcher"
grep -q '^# process 1: pid' "$work/out" || fail "--processes does not take precedence"

# ---- Open MPI
if ! command -v mpirun >/dev/null; then
	echo "no mpirun: Open MPI is not tested (ci/setup test installs it)"
	exit $bad
fi
mpi=(timeout 240 mpirun --allow-run-as-root --oversubscribe)
rc=0
"${mpi[@]}" -n 4 "$doppel" run all_reduce -b 8 -e 64K -f 32 >"$work/out" 2>"$work/err" || rc=$?
[ $rc = 0 ] && [ "$(grep -c '0 OK$' "$work/out")" = 1 ] || fail "mpirun -n 4: $rc"
"${mpi[@]}" -n 4 "$doppel" run all_to_all --hosts 2 -b 8 -e 64K -f 32 >"$work/out" 2>"$work/err" || rc=$?
[ $rc = 0 ] && grep -q '^# nRanks 4 nHosts 2 ' "$work/out" || fail "mpirun -n 4 --hosts 2: $rc"
"${mpi[@]}" -n 2 "$doppel" run all_reduce -b 8 -e 8 --env NCCL_TOPO_FILE=/nowhere >"$work/out" 2>"$work/err" || rc=$?
[ $rc = 2 ] || fail "mpirun of ranks that fail: ended with $rc, expected 2"
exit $bad
