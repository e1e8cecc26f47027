# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For tests of bad input to source. They begin by test_begin (tests/lib.sh).
# shellcheck disable=SC2034 # the scripts read them
cases=0

# expect NAME PATTERN ARGS...: exit 1, stderr matches PATTERN, in a few lines
expect() {
	local name=$1 pattern=$2 rc=0
	shift 2
	cases=$((cases + 1))
	# shellcheck disable=SC2154 # the script sets it
	"$doppel" "$@" >out 2>err </dev/null || rc=$?
	if [ $rc != 1 ]; then
		echo "$name: exit code $rc, expected 1"
		head -5 err
		bad=1
	elif ! grep -qE -- "$pattern" err; then
		echo "$name: stderr does not match '$pattern':"
		head -5 err
		bad=1
	elif [ "$(grep -vcE 'Try .*--help|Usage:|^ |^$|^Commands' err)" -gt 3 ]; then
		echo "$name: more than a few lines:"
		cat err
		bad=1
	fi
	rm -f out err
}
