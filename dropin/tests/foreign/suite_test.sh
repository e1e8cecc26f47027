#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The verbs conformance suite through the drop-in libibverbs.so.1; and a random walk.
set -euo pipefail
build_dir=$1 source_dir=$2
suite=$build_dir/tests/verbs_suite
[ -x "$suite" ] && [ -e "$build_dir/verbs/libibverbs.so.1" ] || {
	echo "skipped: no drop-in, or no libibverbs to link with, in this build"
	exit 77
}
if grep -qE 'lib[at]san' <<<"$(ldd "$suite")"; then
	echo "skipped: the suite under sanitizers runs in process"
	exit 77
fi
list=$source_dir/tests/conformance/verbs/expected-dropin.txt
"$build_dir/doppel" verbs-run "$suite" --expected "$list" --timeout 120 | grep -v '^ok [0-9]* [^#]*$'
"$build_dir/doppel" verbs-run "$build_dir/tests/verbs_walk" --expected "$list" --seeds 3 --timeout 120
