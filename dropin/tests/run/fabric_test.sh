#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A program checks memory that it finds under a fabric's name. It refuses a truncated, an unsealed
# and a foreign segment with one line each, and creates its own. Faults of a plan apply between
# processes. A wrong machine or an invalid name is reported.
set -euo pipefail
build=$1
doppel=$build/doppel
[ -e "$build/verbs/libibverbs.so.1" ] || { echo "no drop-in in this preset"; exit 77; }
command -v ibv_devices >/dev/null && command -v ibv_rc_pingpong >/dev/null || { echo "no ibverbs-utils"; exit 77; }
case $(readelf -d "$build/libdoppel-rt.so") in
*libasan* | *libtsan*) echo "foreign programs carry no sanitizer"; exit 77 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rc=0
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
fail() { echo "$*"; rc=1; }
run() { timeout 300 "$doppel" verbs-run --bare "$@"; }

cat >"$dir/segment.py" <<'P'
import fcntl, mmap, os, socket, subprocess, sys
kind, name, command = sys.argv[1], sys.argv[2], sys.argv[3:]
size = 4096 if kind == "truncated" else 4 << 30
fd = os.memfd_create("doppel-fabric", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(fd, size)
if kind != "unsealed":
    fcntl.fcntl(fd, 1033, 0x2 | 0x4)  # F_ADD_SEALS: shrink, grow
if kind == "foreign":
    mmap.mmap(fd, 4096)[:16] = b"not a fabric, no"
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
space = os.stat("/proc/self/ns/pid").st_ino
s.bind("\0doppel-fabric/%d/%d/%s/%d/%d" % (os.geteuid(), space, name, os.getpid(), fd))
sys.exit(subprocess.run(command).returncode)
P
for kind in truncated unsealed foreign; do
	logged=$(python3 "$dir/segment.py" $kind bad-$$ timeout 300 "$doppel" verbs-run --bare --fabric bad-$$ ibv_devices 2>&1) ||
		fail "$kind: the program failed"
	grep -q "is refused: it\( is\|s size or seals are\) " <<<"$logged" || fail "$kind is not refused: $logged"
	grep -q mlx5_1 <<<"$logged" || fail "$kind: no devices: $logged"
done

# two PID namespaces on one network, like two containers of a pod: same PIDs, same fabric name
apart=(unshare --pid --fork --kill-child --mount-proc)
if "${apart[@]}" true 2>/dev/null && command -v ibv_asyncwatch >/dev/null; then
	"${apart[@]}" "$doppel" verbs-run --bare --fabric apart-$$ ibv_asyncwatch >"$dir/first" 2>&1 &
	first=$!
	until_true 60 grep -q "doppel-fabric/.*/apart-$$/" /proc/net/unix || { fail "the first namespace:"; cat "$dir/first"; }
	logged=$("${apart[@]}" "$doppel" verbs-run --bare --fabric apart-$$ ibv_devices 2>&1) || fail "the second namespace"
	grep -q mlx5_1 <<<"$logged" && ! grep -q doppel: <<<"$logged" || fail "the second namespace: $logged"
	kill -9 $first # unshare ignores SIGTERM, and so does the first process of a namespace
	wait $first 2>/dev/null || true
fi

# names and machines
got=$(run --fabric a/b ibv_devices 2>&1) && fail "a name with a slash is taken"
grep -q "expected a name without '/'" <<<"$got" || fail "about a slash: $got"
got=$(run --machine /no/such.xml ibv_devices 2>&1) && fail "a machine that is not there is taken"
got=$(run --host 7 ibv_devices 2>&1) && fail "host 7 is taken"

# faults: every packet between two hosts is lost; the requester reports it after its retries
printf 'fabric.packet forever drop\nverbs.cqe nth=9999 error\n' >"$dir/plan"
pair() { # options of both
	port_take
	# not through run(): the kill below must hit the program, not a shell around it
	timeout 300 "$doppel" verbs-run --bare --fabric faults-$$ --host 0 "$@" ibv_rc_pingpong -g 3 -n 50 -p $port \
		>"$dir/server" 2>&1 &
	local server=$! got=0
	until_true 20 listens $port || true
	run --fabric faults-$$ --host 1 "$@" ibv_rc_pingpong -g 3 -n 50 -p $port 127.0.0.1 >"$dir/client" 2>&1 || got=$?
	[ $got = 0 ] || kill $server 2>/dev/null || true # it waits for what will never come
	wait $server || got=$?
	return $got
}
pair --trace "$dir/trace.json" || { fail "two hosts without faults"; cat "$dir/server" "$dir/client"; }
grep -q post.send "$dir/trace.json" || fail "no trace"
if pair --faults "$dir/plan"; then fail "nothing was lost"; fi
grep -q "transport retry counter exceeded" "$dir/client" || { fail "no retry error:"; tail -n 3 "$dir/client"; }
grep -Eq "^$dir/plan:2: this fault never fired \(matched [0-9]+ times\): verbs.cqe nth=9999 error$" "$dir/client" ||
	{ fail "no line for the fault that never fired:"; tail -n 3 "$dir/client"; }
! grep -q "^$dir/plan:1:" "$dir/client" || fail "a fault that fired is reported"
wait
exit $rc
