#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A fault plan's selectors: ports are counted on each host, NICs go by their names, moments from the start of
# a collective; and a plan that never fires can be an error.
#	fault_selectors_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
world=(all_reduce --hosts 2 --gpus 2 -b 1M -e 1M --place out --env NCCL_MIN_NCHANNELS=4) # both NICs have a part

# fires CODE PLAN [ARGS...]: ends so; a plan that fires is not named as one that did not
fires() {
	local code=$1 rc=0
	printf '%s\n' "$2" >plan
	shift 2
	"$doppel" run "${world[@]}" --faults plan --faults-must-fire "$@" >out 2>err || rc=$?
	[ $rc = "$code" ] || { fail "$(cat plan): exit code $rc, expected $code"; head -3 err; }
	[ $code = 1 ] || ! grep -q 'never fired' err || fail "$(cat plan): $(grep 'never fired' err)"
}
for engine in sim threads; do
	for host in 0 1; do
		fires 0 "fabric.link host=$host port=1 slow factor=2" --engine $engine
		fires 0 "fabric.link host=$host nic=mlx5_1 slow factor=2" --engine $engine
	done
	fires 0 'fabric.packet host=0 peer_host=1 peer_nic=mlx5_0 delay by=5us' --engine $engine
	fires 0 'verbs.cqe nic=mlx5_1 late by=5us' --engine $engine
	fires 0 'fabric.packet after=collective+1us delay by=5us' --engine $engine
	fires 1 'fabric.link host=1 port=9 down' --engine $engine
	fires 1 'fabric.link nic=mlx5_77 down' --engine $engine
	grep -q 'plan:1: this fault never fired (matched 0 times): fabric.link nic=mlx5_77 down' err || fail 'not named'
	grep -q -- '--faults-must-fire: 1 lines of the plan never fired' err || fail 'no reason for the exit code'
done
# a third operation begins later than a first; a fourth never does
fires 0 'fabric.packet after=collective:2+0us delay by=5us' -n 2
fires 1 'fabric.packet after=collective:9+0us delay by=5us' -n 2
# its own error goes before
fires 2 $'verbs.request rank=2 nth=4 refuse why=ACCESS\nfabric.link nic=mlx5_77 down'
# the default stays
"$doppel" run "${world[@]}" --faults plan >/dev/null 2>&1
echo 'fabric.link nic=mlx5_77 down' >plan
"$doppel" run "${world[@]}" --faults plan >out 2>err || fail "without --faults-must-fire: exit code $?"
grep -q 'this fault never fired' err || fail 'no line about the plan'
"$doppel" sweep "${world[@]}" --faults plan --seeds 1..2 --twice 0 >out 2>err || fail "a sweep: exit code $?"
"$doppel" sweep "${world[@]}" --faults plan --seeds 1..2 --twice 0 --faults-must-fire >out 2>err
[ $? = 1 ] || fail 'a sweep whose plan fired in no seed did not end with 1'
"$doppel" faults >out
grep -A1 '^fabric:' out | grep -qx '  selectors: host= rank= peer= channel= port= nic= peer_host= peer_port= peer_nic= number= step=' ||
	fail "selectors of the fabric: $(grep -A1 '^fabric:' out)"
exit $bad
