#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# doppel verbs-run where `/` is not a mount point, as in a chroot to a folder. The program gets the
# device nodes and the /sys tree, and nothing of them appears outside. If /dev is not a mount point
# either, nothing can be mounted on it: the reason is printed, and the program runs without them.
set -euo pipefail
build=$(realpath "$1") source_dir=$(realpath "$2")
[ -e "$build/verbs/libibverbs.so.1" ] || { echo "no drop-in in this preset"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
unshare --mount true 2>/dev/null || { echo "no new mount namespace with a shared / can be made here"; exit 77; }
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
rc=0
fail() { echo "$*"; rc=1; }

# Makes a root of this machine's folders. The kind `mounts` has /dev and /sys as mounts, `folders`
# has not. All mounts are shared, so that a mount that escapes is visible.
make='
set -e
kind=$1 root=$2 build=$3 source_dir=$4
shift 4
mount --make-rshared /
for at in usr etc proc dev sys tmp; do mkdir -p "$root/$at"; done
for at in bin lib lib64 sbin; do [ ! -L "/$at" ] || cp -P "/$at" "$root/$at"; done
for at in bin lib lib64 sbin; do
	[ -d "/$at" ] && [ ! -L "/$at" ] || continue
	mkdir -p "$root/$at"
	mount --bind "/$at" "$root/$at"
done
for at in "$source_dir" "$build"; do
	mkdir -p "$root$at"
	mount --bind "$at" "$root$at"
done
mount --bind /usr "$root/usr"
mount --bind /proc "$root/proc"
if [ "$kind" = mounts ]; then
	mount --rbind /dev "$root/dev"
	mount --bind /sys "$root/sys"
else
	mkdir -p "$root/sys/class/net"
fi
before=$(wc -l </proc/self/mountinfo)
chroot "$root" "$build/doppel" verbs-run "$@" || { echo "the program ended with $?"; exit 1; }
[ "$before" = "$(wc -l </proc/self/mountinfo)" ] || { echo "outside are mounts that were not there"; exit 1; }
'
inside() { unshare --mount /bin/bash -c "$make" bash "$1" "$root" "$build" "$source_dir" "${@:2}" 2>&1; }

look='test -c /dev/infiniband/uverbs0 && cat /sys/class/infiniband/mlx5_0/ports/1/state /sys/class/infiniband_verbs/uverbs1/ibdev'
seen=$(inside mounts sh -c "$look") || fail "a chroot with mounts: $seen"
[ "$seen" = "4: ACTIVE
mlx5_1" ] || fail "a chroot with mounts: the program sees: $seen"
rm -rf --one-file-system "$root" && mkdir "$root"
seen=$(inside folders echo runs) || fail "a chroot without mounts: $seen"
for at in /dev /sys/class; do
	grep -q "no $at/infiniband: neither / nor the folder around it is a mount point" <<<"$seen" ||
		fail "a chroot without mounts, about $at: $seen"
done
grep -qx runs <<<"$seen" || fail "a chroot without mounts: the program does not run: $seen"
exit $rc
