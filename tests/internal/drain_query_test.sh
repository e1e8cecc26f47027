#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# core/comm/close.c as it is compiled for real GPUs: a destroy or finalize that polls an event or a stream
# sleeps between two queries, which never wait themselves; the double's queries take their time. CUDA and the os
# calls are stubs that count.
#	drain_query_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build_dir=$1 source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need cc python3
! grep -qE 'fsanitize|coverage' "$build_dir/compile_commands.json" ||
	{ echo "the same code, and the sanitizer's or coverage's library is missing"; exit 77; }
test_begin "$build_dir"
cat >stubs.c <<'END'
#include <stdio.h>

#include "core/comm/comm_internal.h"
#include "core/os/os.h"
#include "core/os/site.h"
#undef OS_PROBE
#define OS_PROBE(...) ((void)0)
#include "core/comm/close.c"

#define CHECK(x) ((x) || (fprintf(stderr, "not so: %s\n", #x), __builtin_trap(), 0))

static int queries, pauses, done_after;

static cudaError_t query(void)
{
	(void)CHECK(queries == pauses); /* one pause for each query before */
	return ++queries > done_after ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { (void)event; return query(); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { (void)stream; return query(); }
void shared_hook_point(const void *p, size_t n, enum shared_access a, enum shared_order o) { (void)p, (void)n, (void)a, (void)o; }
void os_sleep_ns(uint64_t ns) { (void)ns; pauses++; }
ncclResult_t comm_async_error(struct ncclComm *comm) { (void)comm; return ncclSuccess; }

int main(void)
{
	static shared_u32 aborted;
	static struct ncclComm comm = {.launched = true, .abort = &aborted};

	for (comm.nranks = 1; comm.nranks <= 2; comm.nranks++) {
		queries = pauses = 0;
		done_after = 3;
		(void)CHECK(comm_drain_watching(&comm) == ncclSuccess);
		(void)CHECK(queries == 4 && pauses == 3);
		queries = pauses = 0;
		(void)CHECK(comm_drain_look(&comm) == ncclInProgress && !pauses);
	}
	comm.launched = false;
	(void)CHECK(comm_drain_look(&comm) == ncclSuccess && queries == 1);
	printf("3 queries without a result, 3 pauses\n");
	return 0;
}
END
# the build's own command, without the double
command=$(python3 - "$build_dir/compile_commands.json" <<'PY'
import json, shlex, sys
c = next(c for c in json.load(open(sys.argv[1])) if c["file"].endswith("/core/comm/close.c"))
words = shlex.split(c["command"])
del words[words.index("-o"):words.index("-o") + 2], words[words.index("-c"):]
print(" ".join(shlex.quote(w) for w in words if not w.startswith("-DDOPPEL_FAKECUDA")))
PY
)
eval "$command -o stubs.o -c stubs.c"
# what a look does not call is not there
cc -static -o drain stubs.o -Wl,--unresolved-symbols=ignore-all
./drain || fail "looks at launched work"
exit $bad
