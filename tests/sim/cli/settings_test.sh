#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Settings of the environment that have an effect wherever they are set, and those that have none, which get a line:
# files with one rank, the log's file in a world, names that are not read, values that are capped, edges of lists.
#	settings_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
cell=(run all_reduce -b 64 -e 64)

# one rank has no channels; the files are written all the same
for engine in sim threads; do
	rm -f topo.xml graph.xml
	"$doppel" "${cell[@]}" --gpus 1 --engine $engine --env NCCL_TOPO_DUMP_FILE="$PWD/topo.xml" \
		--env NCCL_GRAPH_DUMP_FILE="$PWD/graph.xml" >out 2>&1 || { fail "one rank, $engine: exit code $?"; cat out; }
	grep -q '<gpu ' topo.xml || fail "one rank, $engine: NCCL_TOPO_DUMP_FILE has no GPU"
	grep -q '<graphs ' graph.xml || fail "one rank, $engine: NCCL_GRAPH_DUMP_FILE has no graphs"
done

# each of the two files is written without the other, by one rank and by several
for size in 1 2; do
	for dump in NCCL_TOPO_DUMP_FILE:'<gpu ' NCCL_GRAPH_DUMP_FILE:'<graphs '; do
		rm -f dumped.xml
		"$doppel" "${cell[@]}" --gpus $size --env "${dump%%:*}=$PWD/dumped.xml" >out 2>&1 ||
			{ fail "${dump%%:*}, $size ranks: exit code $?"; cat out; }
		grep -q "${dump#*:}" dumped.xml || fail "${dump%%:*} alone, $size ranks: the file lacks ${dump#*:}"
	done
done

# the log goes into a file for each process, from its first line on
for engine in sim threads; do
	rm -f log.*
	"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --engine $engine --env NCCL_DEBUG=INFO \
		--env NCCL_DEBUG_FILE="$PWD/log.%h.%p" >out 2>&1 || fail "NCCL_DEBUG_FILE, $engine: exit code $?"
	grep -q 'NCCL INFO' out && fail "NCCL_DEBUG_FILE, $engine: lines are not in the file"
	[ "$(grep -l 'Init COMPLETE' log.host0.* log.host1.* | wc -l)" = 2 ] || fail "NCCL_DEBUG_FILE, $engine: $(ls)"
done
"$doppel" "${cell[@]}" --gpus 2 --env NCCL_DEBUG=INFO --env NCCL_DEBUG_FILE=/nosuch/log >out 2>&1
grep -q '^NCCL_DEBUG_FILE /nosuch/log: No such file or directory; logging to stderr$' out || fail 'NCCL_DEBUG_FILE: no reason'
grep -q 'Init COMPLETE' out || fail 'NCCL_DEBUG_FILE: the log is lost'

# more channels than there are: NCCL caps them
for e in NCCL_MIN_NCHANNELS=112 NCCL_MAX_CTAS=999 NCCL_NCHANNELS_PER_NET_PEER=65; do
	"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --env NCCL_DEBUG=INFO --env $e >out 2>&1 || { fail "$e: exit code $?"; tail -3 out; }
	grep -qE "config: [a-zA-Z]+ is ${e#*=}, expected 1 to 64; 64 is used" out || fail "$e: no line"
done

# processes of a host that differ about p2p: an error on both, whether they detect the machine or read a file. The
# one that is slower may learn only that the other one failed
for machine in h100-8nic pcie-4gpu; do
	for levels in PHB,LOC LOC,PHB; do
		for shm in 0 1; do
			for file in --env=NCCL_TOPO_FILE= --warmup=0; do
				"$doppel" "${cell[@]}" --machine $machine --gpus 2 --ranks-per-process 1 $file --env NCCL_SHM_DISABLE=$shm \
					--env NCCL_P2P_LEVEL=${levels%,*} --env-odd NCCL_P2P_LEVEL=${levels#*,} >out 2>&1
				[ $? = 2 ] && grep -q '^doppel: rank [01]: .*NCCL_P2P_LEVEL' out &&
					[ "$(grep -cE '^doppel: rank [01]: .*(NCCL_P2P_LEVEL|another rank failed)' out)" = 2 ] ||
					{ fail "$machine, $levels, NCCL_SHM_DISABLE=$shm, $file:"; tail -5 out; }
			done
		done
	done
done

# a GID that is not there is named as such
"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --env NCCL_IB_GID_INDEX=77 >out 2>&1 && fail 'NCCL_IB_GID_INDEX=77: success'
grep -qE 'NCCL_IB_GID_INDEX is 77: device mlx5_[0-9] port 1 has no GID there; its table has [0-9]+ entries' out ||
	{ fail 'NCCL_IB_GID_INDEX=77 is not named:'; grep WARN out; }

# the partition key: members of one partition reach each other, and an index beyond the table is named
"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --env DOPPEL_HCA_PKEYS=0x8001,0xffff --env NCCL_IB_PKEY=1 >out 2>&1 ||
	fail "NCCL_IB_PKEY=1: exit code $?"
"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --env NCCL_IB_PKEY=300 >out 2>&1 && fail 'NCCL_IB_PKEY=300: success'
grep -qE 'to INIT failed; NCCL_IB_PKEY is 300, the port has [0-9]+ partition keys' out || { fail 'NCCL_IB_PKEY=300 is not named:'; grep WARN out; }

# names that are not read: one line in each process
"$doppel" "${cell[@]}" --gpus 2 --env NCCL_NVLS_ENABLE=1 --env NCCL_IB_TIMOUT=1 --env NCCL_VERSION=2 >out 2>&1 || fail "names that are not read: exit code $?"
for line in 'NCCL_NVLS_ENABLE has no effect: this version has no reductions in NVSwitches (NVLS)$' \
	'NCCL_IB_TIMOUT is not a variable of NCCL 2.32 or of this version; nearest: NCCL_IB_TIMEOUT$'; do
	[ "$(grep -c " NCCL WARN $line" out)" = 2 ] || { fail "'$line' is not logged by both processes:"; grep WARN out; }
done
grep -q NCCL_VERSION out && fail 'NCCL_VERSION, of other programs, is a warning'

# lists without names
"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --env NCCL_IB_HCA== --env NCCL_DEBUG=WARN >out 2>&1 || fail "NCCL_IB_HCA==: exit code $?"
grep -q WARN out && fail 'NCCL_IB_HCA==: a warning'
"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --env NCCL_IB_HCA=^ --env NCCL_DEBUG=INFO >out 2>&1 || fail "NCCL_IB_HCA=^: exit code $?"
grep -q 'via NET/Socket' out || fail 'NCCL_IB_HCA=^ leaves HCAs'
for list in ^ = e eth0:1 =eth0:3; do
	"$doppel" "${cell[@]}" --gpus 1 --hosts 2 --env NCCL_SOCKET_IFNAME=$list >out 2>&1 || fail "NCCL_SOCKET_IFNAME=$list: exit code $?"
done
exit $bad
