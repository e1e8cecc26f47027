#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A value in the environment that a variable cannot have is one error at the start, with variable,
# value and what is allowed, wherever it comes from; an unknown DOPPEL_* is a warning.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
# shellcheck source=tests/sim/cli/expect_usage.sh
. "$2/tests/sim/cli/expect_usage.sh"
test_begin "$1"
run=(run all_reduce --gpus 2 -e 8)
exhaust=(exhaust kill --k 3 --once --fifo)

# refused VARIABLE VALUE EXPECTED: as --env and as the caller's, by each command that reads it
refused() {
	expect "--env $1=$2" "$1 is '$2', expected $3" "${run[@]}" --env "$1=$2"
	export "$1=$2"
	expect "$1=$2 doppel run" "$1 is '$2', expected $3" "${run[@]}"
	expect "$1=$2 doppel sweep" "$1 is '$2', expected $3" sweep all_reduce --count 1 -e 8
	expect "$1=$2 doppel topo" "$1 is '$2', expected $3" topo show pcie-4gpu
	expect "$1=$2 doppel tune" "$1 is '$2', expected $3" tune -e 8
	expect "$1=$2 doppel exhaust" "$1 is '$2', expected $3" "${exhaust[@]}"
	unset "$1"
}
refused NCCL_DEBUG FOO 'NONE, VERSION, WARN, ATTN, INFO, ABORT or TRACE'
refused NCCL_DEBUG_SUBSYS NET,FOO 'a list of INIT'
refused NCCL_IB_TIMEOUT fast 'an integer from 0 to 31'
refused NCCL_IB_TIMEOUT 32 'an integer from 0 to 31'
refused NCCL_P2P_DISABLE yes '0 or 1'
refused NCCL_BUFFSIZE 4X 'an integer from 1'
refused NCCL_P2P_LEVEL FAR 'LOC, NVL'
refused NCCL_P2P_LEVEL pix 'LOC, NVL.*or a number'
refused NCCL_P2P_LEVEL 3x 'LOC, NVL'
refused NCCL_SHM_DISABLE yes '0 or 1'
refused NCCL_IB_ADDR_FAMILY AF_UNIX 'AF_INET or AF_INET6'
refused NCCL_IB_ADDR_RANGE 10.0.0.0/99 'a subnet such as'
refused DOPPEL_HCA_PERSONALITY foo 'a list of spec, mlx5, mlx5-ib or rxe'
refused DOPPEL_HCA_ORDER foo 'acknowledge, completion or draw'
refused DOPPEL_HCA_ATOMIC mlx5_0=foo 'a list of hca, glob or none'
refused DOPPEL_HCA_FAST_PATH maybe 'a list of on or off'
refused DOPPEL_HCA_PKEYS 0x8001,zz 'a list of P_Keys'
refused DOPPEL_VERBS_CHECK 'a b' 'a list of NAME'
refused DOPPEL_VERBS_CHECK -cq-smal 'a list of NAME'
refused DOPPEL_WARP 16 '1 or 32'
refused DOPPEL_FIRST_STEP -1 'an integer from 0'
expect 'a run that does not wait' 'NCCL_COMM_BLOCKING=0: the program of a run waits.*expected 1 or -1' \
	"${run[@]}" --env NCCL_COMM_BLOCKING=0
DOPPEL_HOST=9 expect 'DOPPEL_HOST' "DOPPEL_HOST is '9', expected an integer from 0 to 3" verbs-run true

# the machine of the environment is the one that runs
out=$(DOPPEL_MACHINE=pcie-4gpu "$doppel" "${run[@]}")
grep -q '/pcie-4gpu.xml$' <<<"$out" || { echo "DOPPEL_MACHINE is ignored: $(grep machine <<<"$out")"; bad=1; }
DOPPEL_MACHINE=nosuch expect 'DOPPEL_MACHINE' "machine 'nosuch' does not exist" "${run[@]}"
DOPPEL_MACHINE=nosuch expect 'DOPPEL_MACHINE, exhaust' "machine 'nosuch' does not exist" "${exhaust[@]}"
expect '--machine, exhaust' "machine 'nosuch' does not exist" "${exhaust[@]}" --machine nosuch
DOPPEL_MACHINE_DIR=/nosuch expect 'DOPPEL_MACHINE_DIR' \
	"machine 'h100-8nic' does not exist: DOPPEL_MACHINE_DIR is '/nosuch', expected a folder with topology XMLs" "${run[@]}"

# what ranks do not read is no --env
for e in MACHINE=pcie-4gpu MACHINE=nosuch MACHINE_DIR=/nosuch ENGINE=threads SEED=7 FAULTS=/nosuch TRACE=t HOST=1 FABRIC=x LEAKS=1; do
	expect "--env DOPPEL_$e" "--env DOPPEL_$e: the ranks do not read it; expected " "${run[@]}" --env "DOPPEL_$e"
	expect "exhaust --env DOPPEL_$e" "--env DOPPEL_$e: the ranks do not read it; expected " "${exhaust[@]}" --env "DOPPEL_$e"
	expect "exec --env DOPPEL_$e" "--env DOPPEL_$e: the ranks do not read it; expected " exec --env "DOPPEL_$e" true
done
for e in NAME =VALUE; do
	expect "--env $e" "--env $e: expected NAME=VALUE" "${run[@]}" --env "$e"
	expect "--env-odd $e" "--env-odd $e: expected NAME=VALUE" "${run[@]}" --env-odd "$e"
	expect "exhaust --env $e" "--env $e: expected NAME=VALUE" "${exhaust[@]}" --env "$e"
	expect "exec --env $e" "--env $e: expected NAME=VALUE" exec --env "$e" true
done

# warns NAME PATTERN ARGS...: exit 0, and a warning that is the only line on stderr
warns() {
	local name=$1 pattern=$2 rc=0
	shift 2
	"$doppel" "$@" >out 2>err || rc=$?
	[ $rc = 0 ] && [ "$(wc -l <err)" = 1 ] && grep -qE "^doppel: warning: $pattern\$" err && return
	echo "$name: exit code $rc, expected 0 and one warning '$pattern'"
	head -3 err
	bad=1
}
for e in ENGINE=threads SEED=7 FAULTS=/nosuch TRACE=/nosuch/t HOST=1 LEAKS=1; do
	export "DOPPEL_$e"
	for command in "${run[*]}" "${exhaust[*]}" 'tune -e 8' 'topo show pcie-4gpu'; do
		# shellcheck disable=SC2086 # words
		warns "DOPPEL_$e doppel $command" "DOPPEL_${e%%=*} has no effect on doppel ${command%% *}; it is read by: [a-z -]*" $command
	done
	unset "DOPPEL_${e%%=*}"
done
for command in 'tune -e 8' 'topo show pcie-4gpu'; do
	# shellcheck disable=SC2086 # words
	NCCL_TOPO_FILE=none.xml warns "NCCL_TOPO_FILE doppel $command" "NCCL_TOPO_FILE has no effect on doppel ${command%% *}; .*" $command
done
DOPPEL_MACHINE=pcie-4gpu warns 'DOPPEL_MACHINE doppel topo' 'DOPPEL_MACHINE has no effect on doppel topo; .*' topo show a100-4nic
unknown='DOPPEL_HCA_PERSONALTY is not a variable of Doppel; nearest: DOPPEL_HCA_PERSONALITY'
warns 'an unknown --env' "$unknown" "${run[@]}" --env DOPPEL_HCA_PERSONALTY=mlx5
warns 'an unknown --env, exhaust' "$unknown" "${exhaust[@]}" --env DOPPEL_HCA_PERSONALTY=mlx5
DOPPEL_HCA_PERSONALTY=mlx5 warns 'an unknown variable, exhaust' "$unknown" "${exhaust[@]}"

# values that are right
for e in NCCL_DEBUG=warn NCCL_DEBUG_SUBSYS=^net,init NCCL_P2P_LEVEL=5 NCCL_P2P_LEVEL=17 NCCL_SHM_DISABLE=1 DOPPEL_HCA_PERSONALITY=mlx5,rxe \
	DOPPEL_HCA_ATOMIC=mlx5_0=glob,none NCCL_IB_ADDR_RANGE=fd00::/16 NCCL_IB_TIMEOUT= \
	DOPPEL_VERBS_CHECK=-cq-overrun,wc-fields=warn DOPPEL_HCA_PKEYS=0xffff,0x8001; do
	"$doppel" "${run[@]}" --env "$e" >out 2>err || { echo "$e: refused"; head -3 err; bad=1; }
done

# an unknown one
rc=0
DOPPEL_HCA_PERSONALTY=mlx5 "$doppel" "${run[@]}" >out 2>err || rc=$?
[ $rc = 0 ] && grep -qx 'doppel: warning: DOPPEL_HCA_PERSONALTY is not a variable of Doppel; nearest: DOPPEL_HCA_PERSONALITY' err ||
	{ echo "an unknown variable: exit code $rc"; head -3 err; bad=1; }

# the user's topology file: read where the user has it, errors name it
"$doppel" topo show a100-4nic >/dev/null
cp "$2/sim/world/machines/h100-8nic.xml" mine.xml
NCCL_TOPO_FILE=mine.xml "$doppel" "${run[@]}" >out 2>err || { echo 'NCCL_TOPO_FILE=mine.xml:'; head -5 err; bad=1; }
sed '5,$d' mine.xml >cut.xml
rc=0
NCCL_TOPO_FILE=cut.xml "$doppel" "${run[@]}" >out 2>err || rc=$?
[ $rc = 2 ] && grep -q 'WARN cut.xml:' err || { echo "NCCL_TOPO_FILE=cut.xml: exit code $rc"; head -5 err; bad=1; }
NCCL_TOPO_FILE=none.xml expect 'NCCL_TOPO_FILE=none.xml' \
	"NCCL_TOPO_FILE is 'none.xml', which cannot be read: No such file" "${run[@]}"
for how in 'kill --k 3 --once --fifo' 'kill --once --fifo --most 2'; do
	# shellcheck disable=SC2086 # words
	NCCL_TOPO_FILE=none.xml expect "NCCL_TOPO_FILE=none.xml exhaust $how" \
		"NCCL_TOPO_FILE is 'none.xml', which cannot be read: No such file" exhaust $how
	rc=0
	# shellcheck disable=SC2086
	"$doppel" exhaust $how --env NCCL_TOPO_FILE=none.xml >out 2>err || rc=$?
	[ $rc = 1 ] && [ "$(cat out err | wc -l)" = 1 ] || { echo "exhaust $how --env NCCL_TOPO_FILE: exit code $rc, expected 1 and one line"; cat out err; bad=1; }
done
# what the caller has reaches the ranks of exhaust, and the command that repeats a run has it
[ "$(NCCL_DEBUG=INFO "$doppel" "${exhaust[@]}" 2>&1 | grep -c 'NCCL INFO')" -gt 10 ] || { echo 'NCCL_DEBUG=INFO doppel exhaust: no lines'; bad=1; }
[ $bad = 0 ] && echo "$cases cases, one clear error each"
exit $bad
