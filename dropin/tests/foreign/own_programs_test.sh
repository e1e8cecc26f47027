#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs that use verbs like any other user's (programs/*.c), built against the distribution's
# headers and libraries, run on the drop-in: on each kind of HCA and on two hosts. Each ends with 0
# if everything was right. Arguments: build folder, source folder.
set -euo pipefail
build=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
[ -e "$build/verbs/libmlx5.so.1" ] || { echo "no drop-in libmlx5 in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rc=0 ran=0

# program NAME ARGUMENTS...: runs it under each personality, on the first host and on the last
program() {
	local name=$1 kind host got
	shift
	cc -O1 -o "$work/$name" "$source_dir/dropin/tests/programs/$name.c" -L"$build/verbs" -Wl,--as-needed \
		-l:libibverbs.so.1 -l:librdmacm.so.1 -l:libmlx5.so.1 -pthread
	for kind in spec mlx5 mlx5-ib rxe; do
		[ "$kind-${name%%_*}" != mlx5-ib-cm ] || continue # InfiniBand ports have no IP addresses here
		for host in 0 3; do
			got=0
			DOPPEL_HCA_PERSONALITY=$kind timeout 300 "$build/doppel" verbs-run --host $host \
				--fabric "own-$$-$kind" "$work/$name" "$@" >"$work/out" 2>&1 || got=$?
			ran=$((ran + 1))
			[ $got != 0 ] || continue
			echo "$name ($kind, host $host) ended with $got"
			head -n 20 "$work/out"
			rc=1
		done
	done
}

for source in "$source_dir"/dropin/tests/programs/*.c; do
	case $(basename "$source" .c) in
	dlclose) program dlclose libibverbs.so.1 librdmacm.so.1 ;;
	*) program "$(basename "$source" .c)" ;;
	esac
done
echo "$ran runs"
exit $rc
