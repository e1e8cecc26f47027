#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every program that the scripts of ci/, tests/ and dropin/tests/ call is in Debian's minimal system, or in a package
# that ci/setup installs, or in one that such a package depends on.
set -euo pipefail
source_dir=$2
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need dpkg-query git
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The words where a shell expects a command, one per line; comments, here-documents and programs in
# quotes over several lines are left out.
commands() { # commands FILE...
	awk '
		FNR == 1 { end = ""; quoted = 0 }
		end != "" { if ($0 ~ "^\t*" end "$") end = ""; next }
		/^[ \t]*#/ { next }
		match($0, /<<-?'\''?[A-Z]+'\''?/) { end = substr($0, RSTART, RLENGTH); gsub(/[^A-Z]/, "", end) }
		{
			was = quoted
			line = $0
			gsub(/\\'\''/, "", line)
			gsub(/"[^"'\'']*'\''[^"'\'']*"/, "", line) # an apostrophe between double quotes
			quoted = (quoted + gsub(/'\''/, "&", line)) % 2
			if (was) next
			gsub(/'\''[^'\'']*'\''?/, "Q", line)
			gsub(/(&&|\|\||[|;&!({]|(^|[ \t])(then|do|else|if|while|until|xargs( -r)?|exec|need|nice|timeout( -[^ ]*)* [0-9]+|command -v|until_true [0-9]+|env)[ \t])/, "\n", line)
			n = split(line, parts, "\n")
			for (i = 1; i <= n; i++)
				if (parts[i] !~ /^[ \t]*[a-z]+ *([=<>+]=? |\+\+)/ && # arithmetic
				    match(parts[i], /^[ \t]*[a-z][a-zA-Z0-9_.+-]*([ \t)]|$)/)) {
					word = substr(parts[i], RSTART, RLENGTH)
					gsub(/[ \t)]/, "", word)
					print word
				}
		}' "$@" | sort -u
}

# Debian's minimal system, what ci/setup installs for a job, and all that these depend on.
allowed() { # allowed JOB: as the regular expression of its lists in ci/setup
	dpkg-query -W -f '${Package} ${Essential} ${Priority}\n' | awk '$2 == "yes" || $3 == "required" {print $1}'
	echo apt
	sed -nE "/^packages_($1)=\\(/,/\\)/p" "$source_dir/ci/setup" | sed 's/^packages_[a-z_]*=(//; s/)//' |
		tr ' \t' '\n\n' | sed 's/:.*//; /^$/d'
}
with_depends() { # the packages of stdin and what they depend on, as far as installed
	awk -F'\t' '
		NR == FNR { needs[$1] = needs[$1] "," $2; next }
		{ queue[++n] = $1 }
		END {
			for (i = 1; i <= n; i++) {
				if (seen[queue[i]]++) continue
				print queue[i]
				k = split(needs[queue[i]], each, /[,|]/)
				for (j = 1; j <= k; j++) {
					gsub(/^ +/, "", each[j])
					sub(/[ (:].*/, "", each[j])
					if (each[j] != "") queue[++n] = each[j]
				}
			}
		}' <(dpkg-query -W -f '${Package}\t${Pre-Depends}, ${Depends}\n') -
}

# PROGRAM and the installed package that has it, for those programs of stdin that a package has.
packages() {
	local program at
	while read -r program; do
		at=$(type -P "$program") || continue
		printf '%s %s\n' "$program" "$at" "$program" "/usr${at#/usr}" "$program" "${at#/usr}" \
			"$program" "$(realpath "$at")"
	done >"$dir/paths"
	xargs dpkg-query -S < <(cut -d' ' -f2 "$dir/paths") 2>/dev/null | sed 's/[:,][^/]* / /' >"$dir/owners" || true
	awk 'NR == FNR { owner[$2] = $1; next } $2 in owner { print $1, owner[$2] }' "$dir/owners" "$dir/paths" | sort -u
}

# The functions that a set of scripts defines: a call of one is no program's, whatever is installed.
functions() { # functions FILE...
	grep -hoE '^[a-z][a-zA-Z0-9_]*\(\)' "$@" | tr -d '()' | sort -u
}

bad=0 count=0
check() { # check JOB SCRIPT...: every program of these is in a package that the job has
	local program package found=0
	allowed "$1" | with_depends >"$dir/packages"
	while read -r program package; do
		count=$((count + 1))
		grep -qxF "$package" "$dir/packages" && continue
		echo "$program of package $package: not in Debian's minimal system, nor in ci/setup's list $1;" \
			"called by $(grep -lwF -- "$program" "${@:2}" | tr '\n' ' ')"
		found=1
	done < <(comm -23 <(commands "${@:2}") <(functions "${@:2}") | packages)
	[ $found = 0 ] || bad=1
}

cd "$source_dir"
check build ci/demo
check 'build|lint' ci/lint
check 'build|test|coverage' ci/coverage
check 'bare' ci/bare
check 'build|soft_roce' ci/soft-roce ci/soft-roce.d/guest ci/soft-roce.d/meet ci/soft-roce.d/*/*
mapfile -t scripts < <(git ls-files ci/test ci/full 'tests/*.sh' 'dropin/tests/*.sh')
check 'build|test|lint' "${scripts[@]}"
[ $bad = 0 ] || exit 1

# the check can fail: these programs are in no minimal system
printf 'if true; then\n\tgdb -q\nfi\nxargs ps <x | cat\npatch <x >/dev/null 2>&1\n' >"$dir/script"
planted=$(check none "$dir/script" | wc -l)
[ "$planted" = "$(packages < <(printf 'gdb\nps\npatch\n') | wc -l)" ] && [ "$planted" != 0 ] ||
	{ echo "the check finds $planted of 3 planted programs"; exit 1; }
[ $count -gt 100 ] || { echo "only $count programs in the scripts"; exit 1; }
echo "$count programs of the scripts of ci/, tests/ and dropin/tests/: each is in a listed package"
