#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Planted bugs, each a patch of core alone (tests/mutants): the doubles and the checkers stay
# byte-identical, and find it. Every patch must apply to the core of today; four that the commit draws
# from a sample of all kinds are built and must be found within SEEDS seeds, with the verdict and the object that NAME.run says, and
# the unmutated stack must pass the same seeds.
# Usage: mutants_test.sh BUILD_DIR SOURCE_DIR [SEEDS] [all | NAME...]
#   SEEDS  how many at most (default 60)
#   all    every mutant that results/ lists as found, instead of the sample
# tests/mutants/measure.sh measures how many seeds each takes.
set -euo pipefail
# shellcheck source=tests/mutants/mutant.sh
. "$2/tests/mutants/mutant.sh"
mutant_init "$1" "$2"
seeds=${3:-60}
shift $(($# > 3 ? 3 : $#))
# one of each kind, those that are built and found fastest
sample=(weak_cas_by_value gpu_flush_removed recv_credit_too_late retry_skews_turn gather_lost_wakeup
	batch_mixes_numbers registered_after_published leak_gather_scratch proxy_ignores_abort
	message_of_wrong_rank short_write local_ranks_are_consecutive)
names=("$@")
[ $# != 0 ] || mapfile -t names < <(drawn 4 "${sample[@]}")
[ "${names[0]}" != all ] || mapfile -t names < <(mutant_names | grep -vxFf <(mutant_missed))
bad=0 found_count=0

for name in $(mutant_names); do
	mutant_applies "$name" || bad=1
done
for name in "${names[@]}"; do
	if ! mutant_build "$name"; then
		bad=1
		continue
	fi
	mutant_find "$name" "$seeds" || bad=1
	rm -f "$work/$name/libdoppel.so"
	if [ "$found" = 0 ]; then
		echo "$name: not found in $seeds seeds"
		bad=1
		continue
	fi
	found_count=$((found_count + 1))
	echo "$name: found at seed $found, exit code $rc: $(mutant_said "$name")"
	for ((seed = 1; seed <= (found < 3 ? 3 : found); seed++)); do
		stock=$build_dir mutant_seed "$name" $seed
		mutant_is_code "$rc" "$(mutant_clean_codes "$name")" && ! mutant_named "$name" && continue
		echo "unmutated, arguments of $name, seed $seed: exit code $rc"
		tail -3 "$work/$name/out"
		bad=1
		break
	done
done
echo "$found_count of ${#names[@]} mutants found; every patch of $(mutant_names | wc -l) was tried"
exit $bad
