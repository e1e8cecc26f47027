#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Without `patch` the tests of mutants are skipped, and the last line names it. A patch that does not
# apply is a failure with patch's own words, also where only a line of context is another; one that touches more than
# core is refused.
#	mutant_tools_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build_dir=$1 source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
test_begin "$build_dir"
build_dir=${doppel%/doppel} folder=$work

# every program but patch
mkdir bin
for dir in /usr/local/bin /usr/bin /bin; do
	for program in "$dir"/*; do
		[ "${program##*/}" = patch ] || [ -e "bin/${program##*/}" ] || ln -s "$program" bin/
	done
done
rc=0
PATH=$folder/bin bash "$source_dir/tests/sim/lab/mutants_test.sh" "$build_dir" "$source_dir" >out 2>&1 || rc=$?
[ $rc = 77 ] && tail -n 1 out | grep -q '^not installed: patch (ci/setup test' ||
	fail "without patch: exit code $rc, expected 77: $(tail -n 2 out)"

# shellcheck source=tests/mutants/mutant.sh
. "$source_dir/tests/mutants/mutant.sh"
mutant_init "$build_dir" "$source_dir"
# shellcheck disable=SC2034 # mutant.sh reads them
here=$folder work=$folder
cat >stale.patch <<'END'
--- a/core/base/word.h
+++ b/core/base/word.h
@@ -1,3 +1,3 @@
 one line that is not there
-another one
+something else
 a third one
END
sed 's|core/base/word.h|core/base/no_such_file.h|' stale.patch >gone.patch
sed 's|core/base/word.h|sim/engine/sim.h|' stale.patch >outside.patch
{
	printf '%s\n' '--- a/core/base/hash.h' '+++ b/core/base/hash.h' '@@ -2,3 +2,3 @@' ' one line that is not there'
	sed -n '3s/^/-/p' "$source_dir/core/base/hash.h"
	printf '+%s\n' 'something else'
	sed -n '4s/^/ /p' "$source_dir/core/base/hash.h"
} >fuzzy.patch
refused() { # refused NAME PATTERN...
	local name=$1 pattern rc=0
	shift
	mutant_applies "$name" >out 2>&1 || rc=$?
	[ $rc = 1 ] || fail "$name.patch: $rc, expected 1"
	for pattern; do
		grep -qE -- "$pattern" out || fail "$name.patch: expected '$pattern': $(cat out)"
	done
}
refused stale '^tests/mutants/stale.patch does not apply to core as it is:$' '^    .*(FAILED|failed)'
refused fuzzy '^tests/mutants/fuzzy.patch does not apply to core as it is:$' '^    .*(FAILED|failed)'
refused gone '^tests/mutants/gone.patch does not apply to core as it is:$' "^    .*(No file to patch|can't find file)"
refused outside '^outside: a mutant touches core, and nothing else; this one: sim/engine/sim.h$'
exit $bad
