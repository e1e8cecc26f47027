#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Walks over two hosts in which a rank is absent from a suspend or a resume, and others abort, end. In the first seed
# one of four ranks would abort alone, and no neighbour in its ring could forward that (sim/lab/scene/walk_abort.c).
# Arguments: build folder, source folder.
set -euo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
test_begin "$1"
for seed in 0x876578bb9cd1aca6 1 2 3 4; do
	rc=0
	"$doppel" run all_reduce --hosts 2 --machine h100-2nic --gpus 2 --map-by seed -b 6 -e 6 -n 1 -w 0 --place out \
		--scenes 4 --ras 1 --env=NCCL_CUMEM_ENABLE=0 --env=NCCL_RAS_ENABLE=1 --budget-events 300000 \
		--budget-time 30 --seed $seed >log 2>&1 || rc=$?
	[ $rc = 0 ] || fail "seed $seed ended with $rc: $(grep FAIL log)"
done
exit $bad
