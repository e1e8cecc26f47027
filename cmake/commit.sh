#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Writes the file that names the commit, when it changed.   commit.sh SOURCE_DIR FILE.c
set -eu
commit=$(git -C "$1" describe --always --dirty --abbrev=12 2>/dev/null || echo none)
line="extern const char lab_commit[64]; const char lab_commit[64] = \"$commit\";"
if [ ! -f "$2" ] || [ "$(cat "$2")" != "$line" ]; then
	printf '%s\n' "$line" >"$2"
fi
