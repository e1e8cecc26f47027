# SPDX-License-Identifier: BSD-3-Clause
# Planted bugs, for scripts to source. A mutant is tests/mutants/NAME.patch, which touches core/
# alone, and NAME.run:
#
#   line 1   arguments of `doppel run`, all_reduce where they begin with an option; @ stands for this
#            folder, % for the build folder
#   line 2   the exit codes that it may end with when it is found, as 10|11; `crash`: ended by a
#            signal of a crash
#   line 3   what the output must name then (grep -E)
#   line 4   exit codes that the unmutated stack ends with (default 0; 2 where the plan makes a
#            call fail)
#
# Each is built beside the build folder given: a copy of core/ is patched, the objects that depend on
# what changed are compiled again with the build's own commands, and linked with all others to
# another libdoppel.so. Engine, doubles, lab and program are the build's, byte for byte.

# mutant_init BUILD_DIR SOURCE_DIR
mutant_init() {
	build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
	# shellcheck source=tests/lib.sh
	. "$source_dir/tests/lib.sh"
	need patch cc
	here=$source_dir/tests/mutants
	work=$build_dir/mutants
	mkdir -p "$work"
	[ -f "$build_dir/compile_commands.json" ] && [ -x "$build_dir/doppel" ] ||
		{ echo "$build_dir: not a build folder of the doubles"; return 1; }
	! grep -q fsanitize "$build_dir/compile_commands.json" ||
		{ echo "mutants are built without sanitizers"; exit 77; }
}

mutant_names() { (cd "$here" && ls ./*.patch) | sed 's|^\./||; s|\.patch$||'; }
# None with $drawn: every seed draws its world, its collective and its settings.
# Where the .run names none: protocol SIMPLE and rings, because small calls would take LL and other
# algorithms. Results of any size go into the outputs.
mutant_args() {
	[ -z "${drawn:-}" ] || return 0
	sed -n "1s|^-|all_reduce -|;1s|@|$here|g;1s|%|$build_dir|g;1p" "$here/$1.run"
	grep -q NCCL_PROTO "$here/$1.run" || echo "--env NCCL_PROTO=Simple"
	grep -q NCCL_ALGO "$here/$1.run" || echo "--env NCCL_ALGO=Ring"
	echo "--env DOPPEL_RESULT_BYTES=1"
}
mutant_codes() { sed -n 2p "$here/$1.run"; }
mutant_pattern() { sed -n 3p "$here/$1.run"; }
mutant_clean_codes() { local c; c=$(sed -n 4p "$here/$1.run"); echo "${c:-0}"; }
mutant_is_code() { grep -qxE "($2)" <<<"$1"; }

# Mutants that no run finds today, one a line, each explained in results/.
mutant_missed() { sed -n 's/^| `\([a-z0-9_]*\)` .*| not found |.*/\1/p' "$source_dir"/results/mutants*.md; }

# mutant_applies NAME: does the patch touch core alone, and apply to the core of today? Without fuzz: a hunk has one
# line of context, and without it the hunk fits in other places too.
mutant_applies() {
	local name=$1 changed
	changed=$(mutant_files "$name")
	if [ -z "$changed" ] || grep -qv '^core/' <<<"$changed"; then
		echo "$name: a mutant touches core, and nothing else; this one: $changed"
		return 1
	fi
	patch -s -p1 -F0 --dry-run -f -d "$source_dir" <"$here/$name.patch" >"$work/patch.log" 2>&1 && return 0
	echo "tests/mutants/$name.patch does not apply to core as it is:"
	sed 's/^/    /' "$work/patch.log"
	return 1
}
mutant_files() { sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$here/$1.patch"; }

# mutant_build NAME: makes $work/NAME/libdoppel.so, and leaves the patched core/ beside it when
# $keep_source is set. Says so and returns 1 when the patch does not apply to the core of today, or
# what it makes does not compile.
mutant_build() {
	local name=$1 dir=$work/$1 changed objects=() object command file depends compiled=0
	rm -rf "$dir"
	mkdir -p "$dir"
	mutant_applies "$name" || return 1
	changed=$(mutant_files "$name")
	cp -r "$source_dir/core" "$dir/core"
	patch -s -p1 -F0 -d "$dir" <"$here/$name.patch" >/dev/null
	while IFS=$'\t' read -r command file; do
		object=$(sed -n 's|.* -o \([^ ]*\) -c .*|\1|p' <<<"$command")
		case $object in
		CMakeFiles/core_*) ;;
		*) continue ;;
		esac
		depends=$(cat "$build_dir/$object.d" 2>/dev/null || echo "$changed")
		if grep -qF "$changed" <<<"$depends"; then
			mkdir -p "$dir/$(dirname "$object")"
			# relative: gdb then says mutants/NAME/core/..., and finds it
			command=${command/ -I/ -Imutants/$name -I}
			command=${command/-o $object/-o $dir/$object}
			command=${command/-c $source_dir\//-c mutants/$name/}
			# a mutant may leave things unused; the DWARF of optimised code is enough
			if ! (cd "$build_dir" && eval "$command -w") >"$dir/build.log" 2>&1; then
				echo "$name: does not compile any more"
				tail -5 "$dir/build.log"
				return 1
			fi
			object=$dir/$object
			compiled=$((compiled + 1))
		else
			object=$build_dir/$object
		fi
		objects+=("$object")
	done < <(sed -n 's|^  "command": "\(.*\)",$|\1|p; s|^  "file": "\(.*\)",\{0,1\}$|\1|p' \
		"$build_dir/compile_commands.json" | sed 's|\\"|"|g' | paste - -)
	[ $compiled != 0 ] || { echo "$name: no object of $build_dir depends on $changed"; return 1; }
	mutant_link "$dir" "${objects[@]}" ||
		{ echo "$name: does not link"; tail -5 "$dir/build.log"; return 1; }
	rm -rf "$dir/CMakeFiles"
	[ -n "${keep_source:-}" ] || rm -rf "$dir/core"
}

# mutant_link DIR OBJECT...: links DIR/libdoppel.so of all objects of the library
mutant_link() {
	local dir=$1
	shift
	cc -shared -o "$dir/libdoppel.so" -Wl,-soname,libdoppel.so \
		-Wl,--version-script="$source_dir/core/api/exports.map" "$@" \
		-L"$build_dir" -Wl,-rpath,"$build_dir" -lfakecuda -lfakeverbs -ldoppel-rt -lm >"$dir/build.log" 2>&1
}

# mutant_seed NAME SEED [ARGUMENT...]: runs one seed of the mutant, or of the unmutated stack when
# NAME has no library; the exit code is in $rc, the output in $work/NAME/out.
mutant_seed() {
	local name=$1 seed=$2
	shift 2
	mkdir -p "$work/$name"
	rc=0
	# shellcheck disable=SC2046 # the arguments are words
	LD_LIBRARY_PATH=${stock:-$work/$name} timeout 300 "$build_dir/doppel" run \
		$(mutant_args "$name") --seed "$seed" "$@" >"$work/$name/out" 2>&1 || rc=$?
	! mutant_is_crash $rc || rc=crash
}

# The signals of the engine's report of a crash, as the shell shows them.
mutant_is_crash() {
	local signal
	for signal in SEGV BUS FPE ILL ABRT; do
		[ "$1" != $((128 + $(kill -l $signal))) ] || return 0
	done
	return 1
}

# Would a sweep see it? It takes an exit code that the mutant may end with for a pass, where the
# unmutated stack may end with it too.
mutant_sweeps() {
	! mutant_is_code 0 "$(mutant_codes "$1")" &&
		! { mutant_is_code 2 "$(mutant_clean_codes "$1")" && mutant_is_code 2 "$(mutant_codes "$1")"; }
}

# mutant_sweep NAME FROM TO SECONDS [ARGUMENT...]: all seeds in one process, several times as fast.
# The first that fails is in $found (0: none of them) with its line in $failed, and $seed - 1 were
# passed before.
mutant_sweep() {
	local name=$1 from=$2 to=$3 limit=$4 said
	shift 4
	# shellcheck disable=SC2046 # the arguments are words
	said=$(LD_LIBRARY_PATH=$work/$name "$build_dir/doppel" sweep $(mutant_args "$name") \
		--seeds "$from..$to" --time "${limit}s" -j 1 --max-failures 1 --twice 0 \
		--fail-dir "$work/$name/fail" "$@" 2>&1) || true
	rm -rf "$work/$name/fail"
	failed=$(grep -m1 '^seed 0x' <<<"$said" || true)
	found=$(sed -n 's/^seed \(0x[0-9a-f]*\) .*/\1/p' <<<"$failed")
	found=$((${found:-0}))
	seed=$((from + $(sed -n 's/^\([0-9]*\) seeds: .*/\1/p' <<<"$said" | head -1)))
	[ $found = 0 ] || seed=$found
}

# mutant_find NAME SEEDS [ARGUMENT...]: the first seed from 1 that does not end as the unmutated
# stack does, in $found (0: none of them) with $rc; $seed - 1 were passed before. Stops after LIMIT_S
# seconds. Returns 1 when what it ends with is not what NAME.run says.
mutant_find() {
	local name=$1 seeds=$2 clean until=$((SECONDS + ${LIMIT_S:-100000}))
	shift 2
	found=0
	clean=$(mutant_clean_codes "$name")
	for ((seed = 1; seed <= seeds && SECONDS <= until; seed++)); do
		if [ $seed = 4 ] && mutant_sweeps "$name"; then
			mutant_sweep "$name" $seed "$seeds" $((until - SECONDS + 1)) "$@"
			[ $found != 0 ] || return 0
			found=0
		fi
		mutant_seed "$name" $seed "$@"
		if mutant_is_code "$rc" "$clean" && ! mutant_named "$name"; then
			continue
		fi
		found=$seed
		if ! mutant_is_code "$rc" "$(mutant_codes "$name")" &&
			! { [ "$rc" = 11 ] && mutant_named "$name"; }; then
			echo "$name, seed $seed: exit code $rc, expected $(mutant_codes "$name")"
			return 1
		fi
		if ! mutant_named "$name"; then
			echo "$name, seed $seed: exit code $rc as expected, but nothing in the output matches" \
				"$(mutant_pattern "$name")"
			return 1
		fi
		return 0
	done
	return 0
}

# The ways to explore that this build has, separated by `;`.
mutant_ways() {
	local help ways="--strategy portfolio;--strategy uniform;--strategy pct;--strategy starve"
	help=$("$build_dir/doppel" run --help)
	! grep -q -- --memory-order <<<"$help" || ways="$ways;--memory-order on;--memory-order off"
	! grep -q -- --races <<<"$help" || ways="$ways;--races"
	echo "$ways"
}

# The line that names it.
mutant_said() {
	{ grep -m1 -E "$(mutant_pattern "$1")" "$work/$1/out" || grep -m1 '^data race:' "$work/$1/out"; } |
		cut -c1-160
}

# Does the output name what it must? A verdict that the unmutated stack has too says nothing alone.
# The happens-before check sees nearly all of them before they do harm; that is found, too, where
# the check is no part of the mutant's own arguments.
mutant_named() {
	grep -qE "$(mutant_pattern "$1")" "$work/$1/out" && return 0
	! grep -q -- --races "$here/$1.run" && grep -qE '^FAIL data-race|^data race:' "$work/$1/out"
}
