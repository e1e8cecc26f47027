#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# At NCCL_DEBUG=INFO a communicator prints one line for each channel, by rank 0 alone, whatever the number of
# ranks: with all ranks in order of the ring, or as many as fit into 384 characters. Each connection has a line too.
#	channels_log_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need python3
test_begin "$1"
for hosts in 1 8 16; do
	"$doppel" run all_reduce --hosts $hosts --place in -b 64 -e 64 --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=INIT,GRAPH \
		>out 2>&1 || fail "$hosts hosts: exit code $?"
	python3 - $hosts <<'PY' || fail "$hosts hosts: lines of the channels"
import re, sys
ranks = 8 * int(sys.argv[1])
lines = re.findall(r"Channel (\d+)/(\d+) :((?: \d+)+)$", open("out").read(), re.M)
assert lines, "none"
n = int(lines[0][1])
assert [(int(c), int(of)) for c, of, _ in lines] == [(c, n) for c in range(n)], (n, lines[:3], len(lines))
for _, _, text in lines:
    ring = [int(r) for r in text.split()]
    assert len(set(ring)) == len(ring) and set(ring) <= set(range(ranks)) and len(text) < 384, text
    assert len(ring) == ranks or len(text) > 360, text
print("%d ranks: %d channels, %d lines, %d ranks in each" % (ranks, n, len(lines), len(ring)))
PY
done

# the connections of messages: two for each direction of a pair over the network, or as many as the environment has
for n in -2 1 5 64; do
	"$doppel" run all_to_all --hosts 2 --gpus 1 --place out -b 1M -e 1M --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=INIT,NET \
		--env NCCL_MIN_NCHANNELS=8 --env NCCL_NCHANNELS_PER_NET_PEER=$n >out 2>&1 || fail "$n channels: exit code $?"
	case $n in -2) expected=4 ;; 64) expected=16 ;; *) expected=$((2 * n)) ;; esac
	found=$(grep -cE 'Channel 0[0-9]/1 : .* -> .* via NET' out)
	[ "$found" = $expected ] || fail "NCCL_NCHANNELS_PER_NET_PEER=$n: $found connections, expected $expected"
done

# where NVLink joins all ranks, a power of two of channels, 24 of which have rings; as many as rings if the user limits them
for most in -2 24 20; do
	"$doppel" run all_to_all --hosts 1 --gpus 4 --place out -b 4M -e 4M -n 1 -w 0 --env NCCL_DEBUG=INFO \
		--env NCCL_DEBUG_SUBSYS=INIT,GRAPH --env NCCL_MAX_NCHANNELS=$most >out 2>&1 || fail "$most channels at most: exit code $?"
	case $most in -2) rings=24 messages=32 ;; *) rings=$most messages=$most ;; esac
	found=$(grep -oE 'Channel [0-9]+/[0-9]+ :( [0-9])+$' out | wc -l)
	[ "$found" = $rings ] || fail "NCCL_MAX_NCHANNELS=$most: $found channels with rings, expected $rings"
	found=$(grep -oE 'Channel [0-9]+/1 : 0\[0\] -> 1' out | sort -u | wc -l)
	[ "$found" = $messages ] || fail "NCCL_MAX_NCHANNELS=$most: $found channels of messages, expected $messages"
done

# in real time no more channels than a rank has CPUs, unless the user sets a number
limited() { # limited EXPECTED ARGS...
	local expected=$1
	shift
	"$doppel" run all_reduce --hosts 1 --gpus 2 -b 1M -e 1M --env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=INIT,GRAPH \
		"$@" >out 2>&1 || fail "$*: exit code $?"
	grep -oE '^# engine threads: .*|Channel 00/[0-9]+ : 0 1$' out | tr '\n' ' ' >found
	[ "$(cat found)" = "$expected" ] || fail "$*: '$(cat found)', expected '$expected'"
}
limited '# engine threads: NCCL_MAX_NCHANNELS=1, by default, for 2 ranks on 1 CPUs Channel 00/01 : 0 1 ' --engine threads --workers 1
limited '# engine threads: NCCL_MAX_NCHANNELS=3, by default, for 2 ranks on 6 CPUs Channel 00/03 : 0 1 ' --engine threads --workers 6
limited 'Channel 00/05 : 0 1 ' --engine threads --workers 6 --env NCCL_MAX_NCHANNELS=5
limited 'Channel 00/32 : 0 1 '
exit $bad
