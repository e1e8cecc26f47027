#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# docs/using.md from a bare installation: installed to a prefix and below DESTDIR, moved, and used by a
# user who is not root; the program of examples/ is built there by every way that is written down, and
# runs in both engines, under gdb and with a fault. And a clone with its build folder that was moved.
set -euo pipefail
build_dir=$(cd "$1" && pwd) source_dir=$(cd "$2" && pwd)
# shellcheck source=tests/lib.sh
. "$source_dir/tests/lib.sh"
need_doubles "$build_dir"
need_plain "$build_dir"
test_begin "$build_dir"
chmod 755 "$work"
fail() { # ends the test, unlike that of lib.sh
	echo "install_test: $*"
	[ ! -f "$work/out" ] || sed 's/^/    /' "$work/out"
	exit 1
}

# ---- installing
if ! cmake --install "$build_dir" --prefix "$work/before" >"$work/out" 2>&1; then
	fail "cmake --install --prefix"
fi
DESTDIR=$work/dest cmake --install "$build_dir" --prefix /opt/doppel >"$work/out" 2>&1 ||
	fail "cmake --install with DESTDIR"
diff <(cd "$work/before" && find . | LC_ALL=C sort) <(cd "$work/dest/opt/doppel" && find . | LC_ALL=C sort) \
	>"$work/out" || fail "DESTDIR and --prefix install different files"
! grep -rIlE "$work|$build_dir" "$work/before" >"$work/out" || fail "a file names the folder it was installed to, or built in"

# ---- moved, and marked: what is found now is found from where the libraries are
prefix=$work/here
mv "$work/before" "$prefix"
sed 's/h100/moved/' "$prefix/share/doppel/machines/h100-8nic.xml" >"$prefix/share/doppel/machines/moved.xml"
echo 'print("commands of the moved folder")' >>"$prefix/share/doppel/gdb/doppel.py"
lib=$(dirname "$(find "$prefix" -name libnccl.so.2)")
[ -f "$lib/libnccl.so.2" ] && [ ! -L "$lib/libnccl.so.2" ] || fail "libnccl.so.2 is no library of its own"
for so in "$lib"/*.so* "$lib"/doppel/verbs/*.so*; do
	[ -L "$so" ] && continue
	soname=$(readelf -d "$so" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
	[ "$soname" = "$(basename "$so")" ] || fail "$so has the soname '$soname'"
	! readelf -d "$so" | grep -E 'R(UN)?PATH' | grep -v '\[\$ORIGIN\]' >"$work/out" || fail "$so has another path than \$ORIGIN"
done

# ---- as somebody else: an empty environment, a folder of its own
mkdir "$work/user"
as_user=()
if [ "$(id -u)" = 0 ]; then
	chown nobody "$work/user"
	as_user=(setpriv --reuid nobody --clear-groups)
fi
user() { (cd "$work/user" && "${as_user[@]}" env -i HOME="$work/user" PATH="$prefix/bin:/usr/bin:/bin" "$@"); }
# gives CODE "PATTERN" COMMAND...: ends so, and prints that
gives() {
	local code=$1 pattern=$2 rc=0
	shift 2
	user timeout 300 "$@" >"$work/out" 2>&1 || rc=$?
	[ $rc = "$code" ] || fail "$*: ended with $rc, expected $code"
	[ -z "$pattern" ] || grep -qE -- "$pattern" "$work/out" || fail "$*: expected '$pattern'"
}

# the programs of docs/using.md are installed beside it
examples=$(dirname "$(find "$prefix/share/doc" -name using.md)")/examples
install -m 644 "$examples"/*.c "$work/user"
lines=$(grep -vcE '^[[:space:]]*(/\*.*)?$' "$examples/all_reduce.c")
[ "$lines" -le 40 ] || fail "examples/all_reduce.c has $lines lines of code, expected 40 at most"
gives 0 '' cc -Wall -Wextra -Werror -o by_hand all_reduce.c -I"$prefix/include" -L"$lib" -Wl,-rpath,"$lib" -lnccl -lcudart
# without a path in it: `doppel exec` knows where the libraries are
gives 0 '' cc -o all_reduce all_reduce.c -I"$prefix/include" -L"$lib" -lnccl -lcudart
if command -v pkg-config >/dev/null; then
	flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs doppel)
	# shellcheck disable=SC2086 # words
	gives 0 '' cc -o by_pkg_config all_reduce.c $flags
	gives 0 ', 0 wrong' env DOPPEL_MACHINE=moved ./by_pkg_config 64 0 1
	flags=$(PKG_CONFIG_PATH=$build_dir pkg-config --cflags --libs doppel)
	# shellcheck disable=SC2086 # words
	cc -o "$work/in_place" "$work/user/all_reduce.c" $flags >"$work/out" 2>&1 &&
		DOPPEL_MACHINE=pcie-4gpu "$work/in_place" 64 0 1 >"$work/out" 2>&1 || fail "with doppel.pc of the build folder"
fi
cat >"$work/user/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(example LANGUAGES C)
find_package(Doppel 0.1 REQUIRED)
add_executable(by_cmake all_reduce.c)
target_link_libraries(by_cmake PRIVATE Doppel::nccl)
EOF
gives 0 '' cmake -S . -B cmake -DCMAKE_PREFIX_PATH="$prefix"
gives 0 '' cmake --build cmake
gives 0 ', 0 wrong' env DOPPEL_MACHINE=moved cmake/by_cmake 64 0 1

# ---- running
gives 0 '4 GPUs, 250000 floats each, 0 wrong' doppel exec ./all_reduce 1000000 0 1 2 3
gives 0 'trace hash 0x' doppel exec --machine moved --seed 5 ./all_reduce 4096 7 0
gives 0 '2 GPUs, 250000 floats each, 0 wrong' doppel exec --engine threads ./all_reduce 1000000 0 1
gives 0 ', 0 wrong' env DOPPEL_MACHINE=pcie-4gpu ./by_hand 64 0 3
gives 0 '' cc -o hosts hosts.c -I"$prefix/include" -L"$lib" -lnccl -lcudart
gives 0 'process 1 of 2: 2 GPUs, 250000 floats each, 0 wrong' doppel exec --hosts 2 --machine moved ./hosts 1000000 2
echo 'cuda.launch_ex nth=1 fail' | user tee plan.txt >/dev/null
gives 1 'matched 1, fired 1' doppel exec --faults plan.txt ./all_reduce 4096 0 1
if command -v gdb >/dev/null; then
	user tee commands >/dev/null <<'EOF'
set confirm off
break ncclAllReduce
run
info tasks
continue 3
EOF
	gives 0 ', 0 wrong' bash -c 'doppel exec --gdb ./all_reduce 4096 0 1 2 <commands'
	grep -q 'commands of the moved folder' "$work/out" || fail "gdb read other commands"
	grep -q 'ncclAllReduce:' "$work/out" || fail "info tasks shows no task in ncclAllReduce"
fi
gives 0 'validation' doppel run all_reduce --machine moved --hosts 2 --gpus 2 -e 64
# ibv_devices is ibverbs-utils'; any program shows where the library comes from
gives 0 "$lib/doppel/verbs" doppel verbs-run --bare env

# ---- CUDA source: compiled with the installed headers and libraries
if command -v clang++-19 >/dev/null; then
	install -m 644 "$examples"/cuda/*.cu "$work/user"
	gives 0 '' doppel cc -Wp,-MD,vadd.d vadd.cu -o vadd
	gives 0 'vadd of 10000: no error, 0 wrong' doppel exec --machine moved ./vadd
	gives 0 '' doppel cc -Wp,-MD,nccl.d nccl.cu -lnccl -o nccl
	! grep -F "$source_dir/" "$work"/user/*.d >"$work/out" || fail "doppel cc reads headers of the clone"
	gives 0 ' 0 wrong' doppel exec ./nccl
	gives 0 '' doppel cc device_api.cu -lnccl -o device_api
	gives 0 'device API: 0 wrong' doppel exec ./device_api
	for program in vadd nccl; do
		readelf -d "$work/user/$program" | grep -qF "[$lib]" || fail "$program does not find $lib"
	done
else
	echo "doppel cc is not checked: no clang++-19 (apt-get install clang-19)"
fi

# ---- manual and completion
for command in $(user doppel --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'); do
	grep -q "^\.SS doppel $command\$" "$prefix/share/man/man1/doppel.1" || fail "doppel.1 has no $command"
done
completes() { # WORDS...: what the last one is completed to
	user bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _doppel; printf "%s\n" "${COMPREPLY[@]}"' \
		"$prefix/share/bash-completion/completions/doppel" "$@" >"$work/out" 2>&1
}
completes doppel ru && grep -qx run "$work/out" || fail "completion of 'doppel ru'"
completes doppel exec --fau && grep -qx -- --faults "$work/out" || fail "completion of 'doppel exec --fau'"
completes doppel exec --proc && grep -qx -- --processes-per-host "$work/out" || fail "completion of 'doppel exec --proc'"
completes doppel run --machine mov && grep -qx moved "$work/out" || fail "completion of '--machine mov'"

# ---- a clone with its build folder, under another name
clone=$work/clone
mkdir -p "$clone/build/fake" "$clone/sim/world"
cp -a "$build_dir"/doppel "$build_dir"/*.so* "$build_dir/verbs" "$clone/build/fake/"
cp -a "$source_dir/sim/gdb" "$clone/sim/"
cp -a "$source_dir/sim/world/machines" "$clone/sim/world/"
cp "$prefix/share/doppel/machines/moved.xml" "$clone/sim/world/machines/cloned.xml"
! readelf -d "$clone"/build/fake/doppel "$clone"/build/fake/*.so | grep -E 'R(UN)?PATH' | grep -E '\[/|:/|::|:\]|\[:' >"$work/out" ||
	fail "a path in the build folder is absolute, or empty"
gives 0 'machines/cloned.xml' "$clone/build/fake/doppel" run all_reduce --machine cloned --gpus 2 -e 64
gives 0 "$clone/build/fake/verbs" "$clone/build/fake/doppel" verbs-run --bare env

# ---- what ci/demo builds: the program alone; the others' targets are named
rm -r "$clone/build/fake/verbs" "$clone"/build/fake/libnccl.so*
gives 1 'is not built.*--target dropin rdmacm' "$clone/build/fake/doppel" verbs-run --bare env
gives 1 'is not built.*--target products' "$clone/build/fake/doppel" exec ./all_reduce 64 0
echo "installed, moved and used${as_user:+ by nobody}"
