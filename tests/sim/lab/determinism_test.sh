#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Same seed, same hash: run again, with another stack base and environment size, and under gdb. And
# seeds differ in the order in which completions are delivered, not only in their times.
# Usage: determinism_test.sh BUILD_DIR SOURCE_DIR [SEEDS] [GDB_SEEDS]   (ctest: a sample)
set -euo pipefail
doppel=$1/doppel
seeds=${3:-12} gdb_seeds=${4:-2}
args=(run all_reduce --hosts 2 --gpus 2 -b 1K -e 64K -f 64)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# the completions of a trace in their order, without times
order_of() {
	python3 -c 'import json, sys
events = json.load(open(sys.argv[1]))
events = events["traceEvents"] if isinstance(events, dict) else events
print(hash(tuple((e["name"], tuple(e["args"].values())) for e in events
    if e["ph"] == "i" and e["name"] in ("cqe", "proxy.received"))))' "$1"
}
export PYTHONHASHSEED=0
hash_of() { sed -n 's/^# trace hash //p'; }
for ((seed = 1; seed <= seeds; seed++)); do
	first=$("$doppel" "${args[@]}" --seed $seed | hash_of)
	# a stack base that moves: a large environment, and an odd argument vector length
	padding=$(head -c $((4096 + seed * 257)) /dev/zero | tr '\0' x)
	second=$(PADDING=$padding "$doppel" "${args[@]}" --seed $seed --trace-detail "$work/trace.json" | hash_of)
	order_of "$work/trace.json" >>"$work/orders"
	echo "$seed $first" >>"$work/hashes"
	if [ -z "$first" ] || [ "$first" != "$second" ]; then
		echo "seed $seed: '$first' and, with another environment, '$second'"
		bad=1
	fi
	if [ $seed -le "$gdb_seeds" ] && command -v gdb >/dev/null; then
		third=$(gdb -q -batch -ex 'set startup-with-shell off' -ex run --args "$doppel" "${args[@]}" \
			--seed $seed 2>/dev/null | hash_of)
		[ "$first" = "$third" ] || { echo "seed $seed: '$first' and, under gdb, '$third'"; bad=1; }
	fi
done
distinct=$(cut -d' ' -f2 "$work/hashes" | sort -u | wc -l)
[ "$distinct" -ge $((seeds / 2)) ] || { echo "only $distinct different runs among $seeds seeds"; bad=1; }
orders=$(sort -u "$work/orders" | wc -l)
[ "$orders" -ge $((seeds / 2)) ] || { echo "only $orders delivery orders among $seeds seeds"; bad=1; }

fifo=$(for seed in 1 2 3 4 5; do "$doppel" "${args[@]}" --strategy fifo --seed $seed | hash_of; done | sort -u)
[ "$(wc -l <<<"$fifo")" = 1 ] || { echo "fifo depends on the seed:" "$fifo"; bad=1; }
[ $bad = 0 ] && echo "$seeds seeds, one hash each, $distinct different, $orders delivery orders; fifo: $fifo"
exit $bad
