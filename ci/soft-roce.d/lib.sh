# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the programs of ci/soft-roce.d, and for `guest`, to source in the folder of the repository: waits
# for events instead of times, and what a program leaves in its VM.

# shellcheck source=tests/lib.sh
. tests/lib.sh

packets_sent() { cat "/sys/class/infiniband/$DEVICE/ports/1/hw_counters/sent_pkts"; }

# until_packets NUMBER: waits until the device has sent so many more
packets_reach() { [ "$(packets_sent)" -ge "$1" ]; }
until_packets() { until_true 120 packets_reach $(($(packets_sent) + $1)); }

queue_pairs() { rdma resource show qp link "$DEVICE" | grep -v 'lqpn 1 ' || true; }

# Processes besides the caller, its ancestors and the kernel's threads: PID COMMAND, one per line.
processes_left() {
	local pid=$BASHPID parent keep=' ' proc
	while [ "$pid" != 0 ]; do
		keep+="$pid "
		read -r parent <"/proc/$pid/stat" || return
		read -r _ parent _ <<<"${parent##*) }"
		pid=$parent
	done
	for proc in /proc/[0-9]*; do
		pid=${proc#/proc/}
		[[ $keep = *" $pid "* ]] || [ ! -e "$proc/exe" ] || # a kernel's thread has none
			echo "$pid $(tr '\0' ' ' <"$proc/cmdline" 2>/dev/null)"
	done
}

# What a program leaves: processes, queue pairs, shared memory. One line each.
leavings() {
	local line
	while read -r line; do echo "process $line"; done < <(processes_left)
	while read -r line; do echo "queue pair $line"; done < <(queue_pairs)
	while read -r line; do echo "shared memory $line"; done < <(cd /dev/shm && find . -mindepth 1)
}
none_left() { [ -z "$(leavings)" ]; }

# What ends by itself may take a moment. Prints what is left after that; 1: something is.
nothing_left() {
	until_true 20 none_left || { leavings && return 1; }
}

# Removes what is left, for the next program; 1: it is still there after that.
clean() {
	local pid
	while read -r pid _; do kill -9 "$pid" 2>/dev/null; done < <(processes_left)
	find /dev/shm -mindepth 1 -delete
	until_true 60 none_left
}
