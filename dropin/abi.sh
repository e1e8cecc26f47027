# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Functions for the scripts that make a drop-in library's version script and stubs from its table
# abi.txt: ibverbs/abi.sh and mlx5dv/abi.sh. A row is a version node, a name, and how the call fails.

# abi_rows TABLE
abi_rows() { grep -v '^#' "$1"; }

# abi_nodes PREFIX ROWS: prints a version script's nodes; each node inherits the previous one
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

# abi_stub SYMBOL KIND REFUSAL [ATTRIBUTE]: prints a function that fails as KIND requires. REFUSAL
# is a C expression that sets errno and has its value. Other kinds have no stub.
abi_stub() {
	case $2 in
	errno) echo "$4int $1(void); $4int $1(void) { return $3; }" ;;
	minus) echo "$4long $1(void); $4long $1(void) { return $3, -1; }" ;;
	null) echo "$4void *$1(void); $4void *$1(void) { return $3, (void *)0; }" ;;
	none) echo "$4void $1(void); $4void $1(void) { $3; }" ;;
	data) echo "extern char $1; char $1;" ;;
	esac
}

# abi_symver SYMBOL NAME NODE AT: makes SYMBOL the NAME of NODE; AT is @@ for a name's default node,
# @ for its other nodes
abi_symver() { echo "__asm__(\".symver $1, $2$4$3\");"; }

# abi_replace FILE...: renames FILE.new to FILE if they differ
abi_replace() {
	local out
	for out in "$@"; do
		cmp -s "$out.new" "$out" || mv "$out.new" "$out"
		rm -f "$out.new"
	done
}
