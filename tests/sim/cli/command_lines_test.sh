#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# 300 generated command lines and environments, options times garbage (command_lines.py); 60 of them under
# AddressSanitizer.
#	command_lines_test.sh BUILD_DIR SOURCE_DIR [LINES [SEED]]
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
test_begin "$1"
# a failing run, for replay and shrink
echo 'fabric.packet prob=1/1 drop' >plan
"$doppel" run all_reduce --hosts 2 --gpus 1 -b 64 -e 64 --place out --faults plan --env NCCL_IB_TIMEOUT=22 \
	--budget-time 1 --fail-dir failed >/dev/null 2>&1 || true
# and a sweep, for sweep-merge
"$doppel" sweep all_reduce --gpus 2 -e 64 --seeds 1..2 -j 1 --twice 0 --json sweep.json >/dev/null 2>&1
lines=300
[[ $(readelf -d "${doppel%/*}/libdoppel-rt.so") != *libasan* ]] || lines=60
python3 "$2/tests/sim/cli/command_lines.py" "$doppel" "${3:-$lines}" "${4:-1}" "$(echo failed/*)" --lost-output
