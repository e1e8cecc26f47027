# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For test scripts to source: what several of them do to others on the same machine, done so that no
# two are in each other's way, and waits that are as long as it takes.

# The program has plugins of the lab's own, and a test's library may export the same names: AddressSanitizer takes that for
# a violation.
export ASAN_OPTIONS=detect_odr_violation=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}

# need TOOL...: a test whose tools are not installed is skipped, and names them
need() {
	local tool missing=()
	for tool in "$@"; do command -v "$tool" >/dev/null || missing+=("$tool"); done
	[ ${#missing[@]} = 0 ] && return
	echo "not installed: ${missing[*]} (ci/setup test installs every tool of the tests)"
	exit 77
}

# test_begin BUILD_DIR: for a test of the program. Sets `doppel`, goes to `work`, an empty folder that is
# removed at the end, and sets `bad` to 0, which is what the script exits with.
# shellcheck disable=SC2034 # the scripts read them
test_begin() {
	doppel=$(cd "$1" && pwd)/doppel
	work=$(mktemp -d) || exit 1
	trap 'rm -rf "$work"' EXIT
	cd "$work" || exit 1
	bad=0
}

# need_doubles BUILD_DIR: a build with real GPUs or HCAs skips the test
need_doubles() {
	[ -f "$1/libfakecuda.so" ] && [ -f "$1/libfakeverbs.so" ] && return
	echo "not a build of both doubles"
	exit 77
}

# need_plain BUILD_DIR: so does one with a sanitizer
need_plain() {
	grep -q fsanitize "$1/compile_commands.json" || return 0
	echo "a program without the sanitizer cannot load these libraries"
	exit 77
}

# fail TEXT...: the test goes on, and fails. Prints the ends of the files that `fail_shows` lists, too.
fail_shows=()
# shellcheck disable=SC2034 # the scripts read `bad`
fail() {
	local file
	echo "$*"
	for file in ${fail_shows[@]+"${fail_shows[@]}"}; do
		[ ! -s "$file" ] || tail -n 8 -v "$file"
	done
	bad=1
}

# drawn COUNT ITEM...: prints COUNT of the items, one a line. The commit draws them, so that the commits of
# a branch take all of them in the long run; without git they are the first ones.
drawn() {
	local count=$1 commit at
	shift
	commit=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse HEAD 2>/dev/null) || commit=0
	for ((at = 16#${commit:0:7} % $#; count > 0; at = (at + 1) % $#, count--)); do
		echo "${@:at + 1:1}"
	done
}

# listens PORT: is there a server?
listens() { grep -qE ":$(printf %04X "$1") 0+:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# port_take: sets `port` to a TCP port that nobody has, and that no other test takes before this
# script has ended. Below what the kernel gives to connections.
port_take() {
	local try lock
	for ((try = 0; try < 12000; try++)); do
		port=$((20000 + ($$ * 17 + ${port_tries:-0}) % 12000))
		port_tries=$((${port_tries:-0} + 1))
		listens $port && continue
		{ exec {lock}>"${TMPDIR:-/tmp}/doppel-port-$port"; } 2>/dev/null || continue
		flock -n "$lock" && return
		exec {lock}>&-
	done
	echo "no free port"
	return 1
}

# until_true SECONDS COMMAND...: tries it until it succeeds, so long at most
until_true() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $until ] || return 1
		sleep 0.05
	done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# pass_ms MILLISECONDS: for tests that kill at a random moment. Never to wait for an event: until_true.
pass_ms() { sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

# clock_unfit FILE...: does perftest say there that it could not measure its processor's clock? It
# fits a line through 200 pairs of cycles and microseconds, and on a busy machine may find none.
clock_unfit() { grep -q "Correlation coefficient r^2" "$@"; }

# shm_left BEFORE: what is in /dev/shm, was not before (the list of then), and stays: other programs
# have names there too, for a moment. Waits as long as something is left, 20 seconds at most.
shm_list() { (cd /dev/shm && find . -mindepth 1 | LC_ALL=C sort); }
shm_left() {
	local left try
	left=$(LC_ALL=C comm -13 <(echo "$1") <(shm_list))
	for ((try = 0; try < 200; try++)); do
		[ -n "$left" ] || return 0
		sleep 0.1
		left=$(LC_ALL=C comm -12 <(echo "$left") <(shm_list))
	done
	echo "$left"
}
