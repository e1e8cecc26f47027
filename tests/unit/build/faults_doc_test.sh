#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# docs/faults.md lists every fault site as the program does.
set -euo pipefail
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
exec python3 "$2/tests/unit/build/faults_doc.py" "$1/doppel" "$2/docs/faults.md"
