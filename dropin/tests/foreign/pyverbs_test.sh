#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# pyverbs' own tests on the drop-in, as Debian ships them (dropin/tests/pyverbs/run.py).
set -euo pipefail
build_dir=$1 source_dir=$2
[ -x "$build_dir/doppel" ] && [ -e "$build_dir/verbs/libibverbs.so.1" ] || {
	echo "skipped: no drop-in in this build"
	exit 77
}
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need python3 ip
if grep -qE 'lib[at]san' <<<"$(ldd "$build_dir/verbs/libibverbs.so.1")"; then
	echo "skipped: python is not built with the sanitizer that this library is"
	exit 77
fi
"$build_dir/doppel" verbs-run --fabric "pyverbs-$$" /usr/bin/python3 "$source_dir/dropin/tests/pyverbs/run.py" --dev mlx5_0 --gid 3 \
	--jobs 2 --required "$source_dir/dropin/tests/pyverbs/required.txt" | grep -v '^skipped'
