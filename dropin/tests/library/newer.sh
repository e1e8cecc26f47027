# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For tests of names that the installed headers lack.

# newer_program LIBRARY NODE KIND NAME...: checks that a program that needs these names of that
# version node, like one built on a newer system, loads with every symbol bound, and that each call
# fails with EOPNOTSUPP. KIND is how a call fails: errno (returned), null, minus; none: it returns
# nothing.
newer_program() {
	local library=$1 node=$2 kind=$3 dir name
	shift 3
	dir=$(mktemp -d)
	{
		echo '#include <errno.h>'
		echo '#include <stdio.h>'
		for name in "$@"; do
			echo "long $name(long, long, long, long);"
			echo "__asm__(\".symver $name, $name@$node\");"
		done
		echo 'static int wrong;'
		echo 'static void probe(const char *name, long got)'
		echo '{'
		case $kind in
		errno) echo '	if ((int)got == EOPNOTSUPP && errno == EOPNOTSUPP) return;' ;;
		null) echo '	if (got == 0 && errno == EOPNOTSUPP) return;' ;;
		none) echo '	(void)got; if (errno == EOPNOTSUPP || errno == 0) return;' ;;
		minus) echo '	if ((int)got == -1 && errno == EOPNOTSUPP) return;' ;;
		esac
		echo '	printf("%s: %ld, errno %d\n", name, got, errno);'
		echo '	wrong = 1;'
		echo '}'
		echo 'int main(void)'
		echo '{'
		for name in "$@"; do
			echo "	errno = 0; probe(\"$name\", $name(0, 0, 0, 0));"
		done
		echo '	return wrong;'
		echo '}'
	} >"$dir/newer.c"
	"${CC:-cc}" -fno-builtin -o "$dir/newer" "$dir/newer.c" -Wl,--no-as-needed "$library"
	LD_BIND_NOW=1 LD_LIBRARY_PATH=${library%/*} "$dir/newer" >"$dir/out" 2>&1 || {
		cat "$dir/out"
		echo "$node: a program that needs $*"
		rm -rf "$dir"
		return 1
	}
	rm -rf "$dir"
	echo "$node: a program that needs $* loads"
}
