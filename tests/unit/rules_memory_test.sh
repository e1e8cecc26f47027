#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# CUDA memory is allocated, freed, opened and closed by core/mem alone, whose header has the places where
# that may be. The objects are read with nm. Arguments: build folder.
set -euo pipefail
cd "$1/CMakeFiles/core_host.dir/core"
names='(cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister|Ipc)|cuMem(Address|Create|Release|Retain|Map|Unmap|Set|Export|Import))[A-Za-z]*'

# calls_of ROOM...: "object name" for each such call of objects in those folders
calls_of() {
	find "$@" -name '*.c.o' | LC_ALL=C sort | xargs nm -A --undefined-only |
		sed -nE "s/^([^:]*)\.o:.* U ($names)$/\1 \2/p"
}

mapfile -t rooms < <(find . -mindepth 1 -maxdepth 1 -type d ! -name mem)
[ ${#rooms[@]} -ge 5 ] || { echo "only ${#rooms[@]} rooms in $PWD: the test looks in the wrong place" && exit 1; }
own=$(calls_of mem | wc -l) others=$(calls_of "${rooms[@]}")
# the check can fail
[ "$own" -ge 7 ] || { echo "only $own calls of core/mem are found" && exit 1; }
if [ -n "$others" ]; then
	echo "only core/mem may make these calls (core/mem/mem.h); expected its functions:"
	echo "$others"
	exit 1
fi
echo "$own calls, all of core/mem"
