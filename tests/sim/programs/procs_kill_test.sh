#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# 20 kills at random moments of real processes that share a world. 500 are a few minutes:
# procs_kill_test.sh BUILD_DIR SOURCE_DIR 500 SEED
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
need python3 unshare
exec python3 "$2/tests/sim/programs/procs_kill.py" "$(cd "$1" && pwd)/doppel" "${3:-20}" "${4:-1}"
