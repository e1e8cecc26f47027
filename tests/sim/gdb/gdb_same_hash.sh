# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests that drive `doppel run` in gdb. Skips (77) where gdb or its Python is missing;
# then $doppel, $source_dir and $work (a folder of its own) are set, and:
#
#   gdb_same_hash SCRIPT.py LAST_LINE ARGS...
#
# runs `doppel ARGS` alone and under gdb with the script, wants the script to come to its last line
# ("LAST_LINE: ...", which is printed), and both runs to print the same trace hash.
set -euo pipefail
doppel=$1/doppel source_dir=$2
command -v gdb >/dev/null || { echo "no gdb: skipped"; exit 77; }
[ "$(gdb -q -batch -ex 'python print(1)' 2>/dev/null)" = 1 ] || { echo "gdb has no python: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

doppel_gdb() { gdb -q -batch -iex 'set debuginfod enabled off' -x "$source_dir/sim/gdb/doppel.py" "$@"; }

hash_of() { sed -n 's/^# trace hash //p' "$1"; }

gdb_same_hash() {
	local script=$1 last=$2 rc=0
	shift 2
	"$doppel" "$@" >"$work/plain"
	export -f doppel_gdb
	export source_dir
	timeout 600 bash -c 'doppel_gdb "$@"' gdb -x "$source_dir/tests/sim/gdb/$script" --args "$doppel" "$@" \
		>"$work/gdb" 2>&1 || rc=$?
	if [ $rc != 0 ] || ! grep -q "^$last: " "$work/gdb"; then
		tail -40 "$work/gdb"
		echo "$script ended with $rc"
		exit 1
	fi
	if [ -z "$(hash_of "$work/plain")" ] || [ "$(hash_of "$work/plain")" != "$(hash_of "$work/gdb")" ]; then
		echo "trace hash '$(hash_of "$work/plain")' and, with $script, '$(hash_of "$work/gdb")'"
		exit 1
	fi
	grep "^$last: " "$work/gdb"
	echo "trace hash $(hash_of "$work/plain") with and without"
}
