#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Doppel's libmlx5.so.1 exports the names of the installed one, each in its version node.
set -euo pipefail
ours=$1/verbs/libmlx5.so.1
[ -e "$ours" ] || { echo "no $ours in this preset"; exit 77; }
known=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
theirs=$(awk '$1 == "libmlx5.so.1" && !seen++ {print $NF}' <<<"$known")
[ -n "$theirs" ] || { echo "no libmlx5.so.1 installed"; exit 77; }
names() { nm -D --defined-only "$1" | awk '{print $3}' | LC_ALL=C sort; }
[ "$(names "$theirs" | wc -l)" -gt 120 ] || { echo "the installed library has too few names"; exit 1; }
missing=$(LC_ALL=C comm -23 <(names "$theirs") <(names "$ours"))
[ -z "$missing" ] || { printf 'not exported: %s\n' "$missing"; exit 1; }
extra=$(names "$ours" | grep -vE '@MLX5_[0-9.]+$|^MLX5_' || true)
[ -z "$extra" ] || { printf 'exported without a version: %s\n' "$extra"; exit 1; }
echo "$(names "$ours" | wc -l) names, in their nodes"
