#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Configuration files of simulated and of real processes: which are read, and what ranks log of them.
#	conf_files_test.sh BUILD_DIR SOURCE_DIR
set -uo pipefail
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
need_doubles "$1"
build_dir=$(realpath "$1") source_dir=$(realpath "$2")
test_begin "$1"

mkdir home
printf 'NCCL_IB_TIMEOUT=17\nNCCL_IB_SL=2\n' >home/.nccl.conf
printf '# of the cluster\nNCCL_IB_TIMEOUT=18\nNCCL_BUFFSIZE=1M\nthis is no line\nNCCL_IB_TC=300\n' >user.conf
printf 'NCCL_IB_TIMEOUT=19\nNCCL_IB_RETRY_CNT=3\nNCCL_BUFFSIZE=2M\n' >etc.conf
export HOME=$PWD/home

run=("$doppel" run all_reduce --hosts 2 --gpus 1 -b 64K -e 64K --seed 7)
# has TIMES PATTERN: so many lines of the log
has() {
	local n
	n=$(grep -cE -- "$2" all)
	[ "$n" = "$1" ] || { fail "$n lines have '$2', expected $1:"; head -20 all; }
}

# ---- simulated processes read only named files: those of this machine do not change a seed's run
"${run[@]}" >all 2>&1 || fail "without a file: exit code $?"
has 0 'nccl\.conf'
hash=$(grep -oE 'trace hash 0x[0-9a-f]+' all)
HOME=/nonexistent "${run[@]}" >all 2>&1
[ -n "$hash" ] && [ "$hash" = "$(grep -oE 'trace hash 0x[0-9a-f]+' all)" ] || fail "HOME changes the run's hash"

conf=(--env NCCL_CONF_FILE=user.conf --env DOPPEL_ETC_CONF=etc.conf --env NCCL_BUFFSIZE=4M)
for engine in sim threads; do
	"${run[@]}" "${conf[@]}" --engine $engine --env NCCL_DEBUG=INFO >all 2>&1 || fail "two files: exit code $?"
	has 2 'NCCL_IB_TIMEOUT set by user\.conf:2 to 18\.$'
	has 2 'NCCL_IB_RETRY_CNT set by etc\.conf:2 to 3\.$'
	has 2 'NCCL_BUFFSIZE set by environment to 4M\.$'
	has 2 "NCCL WARN user\.conf:4: 'this is no line', expected NAME=VALUE or # COMMENT; the line has no effect$"
	has 2 "NCCL WARN user\.conf:5: NCCL_IB_TC is '300', expected an integer from 0 to 255; the default 0 is used$"
	has 2 'user\.conf:3: NCCL_BUFFSIZE has no effect: the environment sets it$'
	has 2 'etc\.conf:1: NCCL_IB_TIMEOUT has no effect: user\.conf sets it$'
	has 2 'etc\.conf:3: NCCL_BUFFSIZE has no effect: '
done

# ---- a variable of a file acts as one of the environment
"${run[@]}" --env NCCL_BUFFSIZE=64K >all 2>&1 || fail "NCCL_BUFFSIZE: exit code $?"
direct=$(grep -oE 'trace hash 0x[0-9a-f]+' all)
echo NCCL_BUFFSIZE=64K >small.conf
"${run[@]}" --env NCCL_CONF_FILE=small.conf >all 2>&1 || fail "small.conf: exit code $?"
[ "$direct" = "$(grep -oE 'trace hash 0x[0-9a-f]+' all)" ] || fail "NCCL_BUFFSIZE of a file gives another run than --env"
[ "$direct" != "$hash" ] || fail "NCCL_BUFFSIZE has no effect"

# ---- files that cannot be read refuse the run
refuses() { # FILE REASON
	local rc=0
	"${run[@]}" --env NCCL_CONF_FILE="$1" >all 2>&1 || rc=$?
	[ $rc = 1 ] || fail "$1: exit code $rc, expected 1"
	has 1 "^doppel: NCCL_CONF_FILE is '$1', which cannot be read: $2$"
}
refuses none.conf 'No such file or directory'
refuses home 'Is a directory'
truncate -s 17M large.conf
refuses large.conf 'File too large'

# ---- a program of `doppel exec` reads the files of this machine
cat >program.c <<'END'
#include <nccl.h>
char *getenv(const char *name);
int atoi(const char *text);
int main(void)
{
	const char *rank = getenv("RANK"), *ranks = getenv("WORLD_SIZE");
	ncclComm_t comm;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	config.maxCTAs = 4;
	config.netName = "Socket";
	return ncclGetUniqueId(&id) ||
	       ncclCommInitRankConfig(&comm, ranks ? atoi(ranks) : 1, id, rank ? atoi(rank) : 0, &config) ||
	       ncclCommDestroy(comm);
}
END
if ! grep -q fsanitize "$build_dir/compile_commands.json"; then # else its libraries need a sanitizer
	cc -o program program.c -I"$source_dir/core/include" -I"$source_dir/backends/fakecuda/include" -L"$build_dir" -lnccl -lcudart ||
		fail 'the program does not compile'
	NCCL_DEBUG=INFO "$doppel" exec ./program >all 2>&1 || fail "exec: exit code $?"
	has 1 "NCCL_IB_TIMEOUT set by $HOME/\.nccl\.conf:1 to 17\.$"
	has 1 "NCCL_IB_SL set by $HOME/\.nccl\.conf:2 to 2\.$"
	NCCL_DEBUG=INFO NCCL_CONF_FILE=etc.conf "$doppel" exec ./program >all 2>&1 || fail "exec, NCCL_CONF_FILE: exit code $?"
	has 1 'NCCL_IB_TIMEOUT set by etc\.conf:1 to 19\.$'
	has 0 'NCCL_IB_SL set'
	has 0 'of the program is'
	printf 'NCCL_MAX_CTAS=2\nNCCL_NET=IB\n' >over.conf
	NCCL_DEBUG=INFO NCCL_CONF_FILE=over.conf "$doppel" exec ./program >all 2>&1 || fail "exec, over.conf: exit code $?"
	has 1 'config: maxCTAs set by the program to 4$'
	has 1 'NCCL_MAX_CTAS set by over\.conf:1 to 2\.$'
	has 1 'config: maxCTAs of the program is 4; a variable overrides it with 2$'
	has 1 'config: netName of the program is Socket; NCCL_NET overrides it with IB$'
	NCCL_DEBUG=INFO "$doppel" exec --hosts 2 ./program >all 2>&1 || fail "exec of a job: exit code $?"
	has 2 "NCCL_IB_TIMEOUT set by $HOME/\.nccl\.conf:1 to 17\.$"
fi

# ---- doppel env names the file, too; the commands of doppel read named files only
NCCL_CONF_FILE=etc.conf "$doppel" env >all || fail "env: exit code $?"
has 1 '^NCCL_IB_RETRY_CNT .*\[now: 3\] \[from etc\.conf:2\]$'
"$doppel" env >all
has 0 '\[from'
exit $bad
