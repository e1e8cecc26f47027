#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each run of ci/full has its row in docs/testing.md, and each run that a row names exists. A name that
# does not exist is an error that lists the names. What the runs call is in the tree.
set -euo pipefail
cd "$2"
rc=0
fail() { echo "$*"; rc=1; }
listed=$(ci/full --list | cut -d' ' -f1 | sort)
shown=$(sed -n '/^| what | sample (ctest) | `ci\/full` |$/,/^$/p' docs/testing.md | tail -n +3 |
	sed 's/ |$//; s/.*| //' | grep -o '`[a-z-]*`' | tr -d '`' | grep -vx tsan | sort)
[ -n "$listed" ] || fail "ci/full --list prints nothing"
[ "$listed" = "$shown" ] || fail "ci/full --list (<) and docs/testing.md (>): $(diff <(echo "$listed") <(echo "$shown"))"
while read -r program; do
	[ -x "$program" ] || fail "ci/full calls $program, which is not there or not executable"
done < <(ci/full --list | grep -oE '(ci|docs|tests|dropin)/[A-Za-z_/-]+(\.sh)?' | grep -vE '^ci/full|^ci/soft-roce\.d|^tests/(verbs_walk|kill_peers|matrix_test|net_verbs_|topo_)' | sort -u)
got=0
text=$(ci/full no-such-run 2>&1) || got=$?
[ $got = 1 ] && [[ $text == *"no run is called 'no-such-run'"*mutants* ]] || fail "an unknown run: exit code $got: $text"
exit $rc
