# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by ci/test: a line now and then with what is done and what is left. Plain text, for log files as well.
#
#	ci/test: 312 s: 5 of 13, tests (fake): 210 of 365 tests, 155 left; then: sweep, pairs, build (asan)

progress_every=30 # seconds
progress_pid='' progress_file=''

# progress_begin NAME...: the stages to come, in order
progress_begin() {
	progress_plan=("$@") progress_at=0
	progress_file=$(mktemp)
	progress_loop &
	progress_pid=$!
}

# progress_stage NAME [LOG]: the next stage begins; LOG is of ctest or of a build. A stage that is not the next one of
# the plan is an error of the script.
progress_stage() {
	if [ "${progress_plan[progress_at]:-}" != "$1" ]; then
		echo "stage '$1' is not planned; expected '${progress_plan[progress_at]:-nothing more}'" >&2
		return 1
	fi
	progress_at=$((progress_at + 1))
	printf '%s\n' "$progress_at" "${2:-}" >"$progress_file"
}

# What a log shows last: "210 of 365 tests, 155 left" of ctest, "45 % built" of a build
progress_of_log() {
	local last
	[ -f "$1" ] || return 0
	last=$(grep -oE '^ *[0-9]+/[0-9]+ Test|^\[ *[0-9]+%\]' "$1" | tail -1)
	case $last in
	*Test)
		last=${last% Test}
		echo ": $((${last%/*})) of ${last#*/} tests, $((${last#*/} - ${last%/*})) left"
		;;
	\[*) echo ": ${last//[^0-9]/} % built" ;;
	esac
}

progress_line() { # SECONDS so far
	local at log left=''
	{ read -r at && read -r log; } <"$progress_file" || return 0
	[ "$at" = ${#progress_plan[@]} ] || left=$(printf ', %s' "${progress_plan[@]:at}")
	echo "ci/test: $1 s: $at of ${#progress_plan[@]}, ${progress_plan[at - 1]}$(progress_of_log "$log")${left:+; then: ${left:2}}"
}

# Its sleep ends with it: what reads the output of the script would wait for it otherwise.
progress_loop() {
	local nap
	while :; do
		sleep "$progress_every" &
		nap=$!
		trap 'kill $nap 2>/dev/null; exit' TERM
		wait $nap
		progress_line "$SECONDS"
	done
}

progress_end() {
	[ -z "$progress_pid" ] || kill "$progress_pid" 2>/dev/null || true
	[ -z "$progress_file" ] || rm -f "$progress_file"
}
