#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A failing run of eight ranks with three faults is cut to the two ranks and the one fault that show
# it, with hardly a choice left; doppel replay fails in the same way at the same step. What does not
# fail, or is of another build, is refused.
set -euo pipefail
doppel=$(cd "$1" && pwd)/doppel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "$1"; [ -z "${2:-}" ] || tail -20 "$2"; exit 1; }

# Every packet is lost from some time on, and the HCAs' patience is longer than ours.
cat >plan <<'P'
fabric.packet prob=1/60 delay by=20us
fabric.packet after=9ms count=1000000 drop
os.alloc nth=90000 fail
P
rc=0
"$doppel" run all_reduce --hosts 2 --gpus 4 -b 1K -e 64K -f 8 --seed 1 --faults plan \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --fail-dir fail >out 2>err || rc=$?
[ $rc = 10 ] || die "the run ended with $rc, expected 10" err
dir=$(echo fail/*)
before=$(find "$dir" -type f | sort | xargs cksum)
"$doppel" shrink "$dir" --time 12s --seeds 20 --no-stacks >shrunk 2>err || die "shrink ended with $?" err
[ "$before" = "$(find "$dir" -type f | sort | xargs cksum)" ] || die "the original was touched"
for line in 'ranks +8 \(2 hosts x 4\) -> 2 \(2 hosts x 1\)' 'faults +3 -> 1' 'bytes +1024 to 65536 -> 8'; do
	grep -qE "^  $line\$" shrunk || die "no line '$line'" shrunk
done
grep -q 'fabric.packet after=9ms count=1000000 drop' "$dir-min/config" || die "another fault" "$dir-min/config"
read -r special left < <(sed -nE 's/^  special choices +([0-9]+) -> ([0-9]+)$/\1 \2/p' shrunk)
[ "$left" -lt $((special / 10)) ] || die "$left of $special choices are left" shrunk
rc=0
"$doppel" replay -q "$dir-min" >out 2>err || rc=$?
[ $rc = 10 ] && grep -q '^# same failure: ' out || die "the replay ended with $rc" err
for file in config choices trace.json tasks.core explain.txt; do
	[ -s "$dir-min/$file" ] || die "no $file"
done

# What any collective shows is shown by the simplest.
rc=0
"$doppel" run reduce_scatter --hosts 2 --gpus 1 -b 64K -e 64K --place in --seed 1 --faults plan \
	--env NCCL_IB_TIMEOUT=22 --budget-time 1 --fail-dir other_fail >out 2>err || rc=$?
[ $rc = 10 ] || die "the run of reduce_scatter ended with $rc, expected 10" err
grep -q '^collective reduce_scatter$' other_fail/*/config || die "no collective in its config"
"$doppel" shrink other_fail/* --time 5s --seeds 5 --no-stacks >simpler 2>err || die "shrink of reduce_scatter" err
grep -qE '^  collective +reduce_scatter -> all_reduce$' simpler || die "another collective" simpler
"$doppel" replay -q other_fail/*-min >out 2>err && die "the replay passed" out
grep -q '^# same failure: ' out || die "another failure" err

# It stays as it is when it does not fail again.
cp -r "$dir" other
sed -i 's/^build .*/build 0123456789abcdef/' other/config
rc=0
"$doppel" shrink other --time 5s >out 2>err || rc=$?
[ $rc = 1 ] && grep -q 'another build' err || die "another build: $rc" err
cp -r "$dir" fixed
sed -i '/^plan/,$d' fixed/config
rm fixed/choices
rc=0
"$doppel" shrink fixed --force --time 5s >out 2>err || rc=$?
[ $rc = 1 ] && grep -q 'does not fail' err || die "fixed: $rc" err

# a disk that is full, and one that fills up: its own error, and not a folder that is bad
for room in 8 120; do
	mkdir -p disk && mount -t tmpfs -o "size=$(($(du -sk "$dir" | cut -f1) + room + 16))k" none disk 2>/dev/null ||
		{ echo "no full disk: this user cannot mount"; break; }
	cp -r "$dir" disk/run
	rc=0
	"$doppel" shrink disk/run --time 3s --seeds 2 --no-stacks >out 2>err || rc=$?
	umount disk
	[ $rc = 1 ] && grep -qE '^doppel shrink: cannot write (to )?disk/run-min' err || die "$room KiB of room: $rc" err
done
sed -n '1,/special/p' shrunk
