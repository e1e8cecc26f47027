#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# README shows a demo and a tour in gdb, each with the hash of its run: they are what one gets. Who
# changes the order of things takes both anew. And each command that `doppel` lists explains itself.
set -euo pipefail
build=$1 source=$2
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "the same hashes, in minutes"; exit 77 ;;
esac

# shown WORDS: the first hash in README below a line with these words
shown() {
	awk -v words="$1" 'index($0, words) {below = 1}
	     below && !hash && /^# trace hash 0x/ {hash = $4}
	     END {print hash}' "$source/README.md"
}

# check WORDS ARGS...: `doppel run ARGS...` ends with the hash that README shows below WORDS
check() {
	local words=$1 out hash
	shift
	out=$("$build/doppel" run "$@") || { tail -5 <<<"$out"; exit 1; }
	hash=$(sed -n 's/^# trace hash //p' <<<"$out")
	[ -n "$hash" ] && [ "$hash" = "$(shown "$words")" ] && return
	echo "README shows '$(shown "$words")' for: doppel run $*"
	echo "it is '$hash'"
	exit 1
}

demo=$(sed -n 's/^exec build.fake.doppel run \(.*\) "$@"$/\1/p' "$source/ci/demo")
tour=$(sed -n 's/^\$ doppel run \(.*\) --gdb$/\1/p' "$source/README.md")
[ -n "$demo" ] && [ -n "$tour" ] || { echo "ci/demo or README say it in other words now"; exit 1; }
# shellcheck disable=SC2086 # the arguments are words
check 'ci/demo' $demo
# shellcheck disable=SC2086
check "$tour --gdb" $tour
echo "README's demo and tour: the hashes that it shows"

commands=0
for command in $("$build/doppel" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'); do
	usage=$("$build/doppel" "$command" --help) && [[ $usage == "Usage: doppel $command "* ]] ||
		{ echo "doppel $command --help: $usage" | head -3; exit 1; }
	commands=$((commands + 1))
done
[ $commands -ge 8 ] || { echo "only $commands commands in doppel --help"; exit 1; }
commit=$("$build/doppel" --version | sed -n 's/^doppel \([^ ]*\) (build [0-9a-f]\{16\};.*/\1/p')
[ -n "$commit" ] || { echo "no commit and build in doppel --version"; exit 1; }
echo "$commands commands with help; commit $commit"
