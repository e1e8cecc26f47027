#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The personality rxe against what was seen on the device: the suite, with the device's list of
# differences less those that personality-rxe.txt keeps out. A difference that is missing fails the run
# as much as one too many.
#	personality_rxe_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
suite=$1/tests/verbs_suite_world lists=$2/tests/conformance/verbs
[ -x "$suite" ] || { echo "skipped: no HCA double in this build"; exit 77; }
rows() { sed 's/#.*//; s/[[:space:]]*$//' "$1" | grep .; }
expected=$(mktemp)
trap 'rm -f "$expected"' EXIT

unknown=$(grep -vxF -f <(rows "$lists/expected-rxe.txt") <(rows "$lists/personality-rxe.txt") || true)
[ -z "$unknown" ] || { echo "personality-rxe.txt has lines that expected-rxe.txt has not: $unknown"; exit 1; }
grep -vxF -f <(rows "$lists/personality-rxe.txt") <(rows "$lists/expected-rxe.txt") >"$expected"
rc=0
logged=$(DOPPEL_HCA_PERSONALITY=rxe "$suite" --engine sim --timeout 300 --expected "$expected" --except 'world_*') || rc=$?
grep -vE "^ok" <<<"$logged" || true
exit $rc
