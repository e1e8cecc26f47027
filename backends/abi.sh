# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the scripts that make a drop-in library's version script and stubs from its table abi.txt: dropin/abi.sh
# and mlx5dv/abi.sh. A row of a table is a version node, a name, and how the call fails.

# abi_rows TABLE
abi_rows() { grep -v '^#' "$1"; }

# abi_nodes PREFIX ROWS: a version script's nodes, each after the one before it
abi_nodes() {
	local node name names before=
	for node in $(awk '{print $1}' <<<"$2" | sort -u -t. -k2,2n); do
		names=
		while read -r name; do
			names+=" $name;"
		done < <(awk -v n="$node" '$1 "" == n "" {print $2}' <<<"$2")
		if [ -z "$before" ]; then
			echo "$1_$node { global:$names local: *; };"
		else
			echo "$1_$node { global:$names } $before;"
		fi
		before=$1_$node
	done
}

# abi_stub SYMBOL KIND REFUSAL [ATTRIBUTE]: a call that fails in the way of its kind; REFUSAL is an expression in C that
# sets errno, and is its value. Other kinds have no stub.
abi_stub() {
	case $2 in
	errno) echo "$4int $1(void); $4int $1(void) { return $3; }" ;;
	minus) echo "$4long $1(void); $4long $1(void) { return $3, -1; }" ;;
	null) echo "$4void *$1(void); $4void *$1(void) { return $3, (void *)0; }" ;;
	none) echo "$4void $1(void); $4void $1(void) { $3; }" ;;
	data) echo "extern char $1; char $1;" ;;
	esac
}

# abi_symver SYMBOL NAME NODE AT: NAME of NODE is SYMBOL; AT is @@ for the default node of a name, @ for the others
abi_symver() { echo "__asm__(\".symver $1, $2$4$3\");"; }

# abi_replace FILE...: FILE.new becomes FILE, if it is different
abi_replace() {
	local out
	for out in "$@"; do
		cmp -s "$out.new" "$out" || mv "$out.new" "$out"
		rm -f "$out.new"
	done
}
