#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Shared words are touched only through their accessors: no other atomic, volatile or __sync in
# core. And no clock, thread, socket, random number or environment of the C library there either:
# those go through os.h. Comments and strings do not count. Headers for kernels of programs
# (core/include/nccl_device) are not code of core.
set -euo pipefail
source_dir=$2
cd "$source_dir"
bad=0

# Copies of the files below a new directory, without comments, includes, and what is in quotes.
stripped=$(mktemp -d)
trap 'rm -rf "$stripped"' EXIT
strip() {
	python3 - "$stripped" "$@" <<'PYTHON'
import os, re, sys
for path in sys.argv[2:]:
    text = open(path).read()
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\\n])*"',
                  lambda m: '""' if m.group(0)[0] == '"' else "\n" * m.group(0).count("\n") + " ",
                  text, flags=re.S)
    out = os.path.join(sys.argv[1], path.lstrip("/"))
    os.makedirs(os.path.dirname(out), exist_ok=True)
    open(out, "w").write(re.sub(r'(?m)^[ \t]*#[ \t]*(include|error|pragma)[^\n]*', '', text))
PYTHON
}

# where the accessors themselves live, and the real halves of os.h; os_conf.c has memory of a world half,
# which creates it before the process has an arena
accessors='core/base/shared.h|core/base/shared_types.h|core/device/shim/shim_cuda.h|core/device/shim/words_cuda.h|core/device/shim/shim_fake.h'
seams='core/os/os_posix.*\.[ch]|core/os/os_real.*\.[ch]|core/os/os.c|core/os/os_conf.c|core/os/os_ops.h'
# the verbs API reports through errno, and base reads numbers with strtoll: nothing waits between
# the call and the look
verbs='core/transport/net_verbs/net_verbs[a-z_]*\.c'
atomics='_Atomic|__atomic_[a-z_]+|__sync_[a-z_]+|volatile|atomic_(load|store|fetch)[a-z_]*'
banned='clock_gettime|gettimeofday|time\(|nanosleep|usleep|sleep\(|pthread_[a-z_]+|socket\(|accept\(|connect\(|getenv|setenv|rand\(|random\(|getrandom|malloc|calloc|realloc|free\(|fopen|shm_open|mmap|sched_yield|poll\(|select\(|epoll_[a-z]+|gethostname|getpid|getifaddrs|qsort'
mapfile -t files < <(find core -name '*.[ch]' -not -path 'core/include/nccl_device/*' | LC_ALL=C sort)
strip "${files[@]}"
for file in "${files[@]}"; do
	text=$(<"$stripped/$file")
	if ! grep -qE "^($accessors|$seams)\$" <<<"$file"; then
		if hits=$(grep -nwE "$atomics" <<<"$text"); then
			echo "$file: shared words only through their accessors:"
			printf '    %s\n' "${hits//$'\n'/$'\n'    }"
			bad=1
		fi
	fi
	if ! grep -qE "^($seams|core/base/[a-z_]+\.[ch])\$" <<<"$file"; then
		if hits=$(grep -nE "(^|[^A-Za-z0-9_.>])($banned)" <<<"$text"); then
			echo "$file: the outside only through os.h:"
			printf '    %s\n' "${hits//$'\n'/$'\n'    }"
			bad=1
		fi
	fi
	if ! grep -qE "^($seams|$verbs|core/base/[a-z_]+\.c)\$" <<<"$file" && grep -nw errno <<<"$text"; then
		echo "$file: errno is for the seams"
		bad=1
	fi
done
# the check can fail: a planted line must be found
planted=$stripped/planted.c
printf 'int f(void);\nint f(void) { volatile int x = 0; return x; } /* volatile */\n' >"$planted"
strip "$planted"
[ "$(grep -cwE "$atomics" "$stripped$planted")" = 1 ] || { echo "the lint finds nothing"; exit 1; }
[ $bad = 0 ] && echo "core touches shared words and the outside only through its seams"
exit $bad
