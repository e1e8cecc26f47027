#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kills one process of `doppel run --procs` with SIGKILL at a random moment, many times.

Each survivor must end by itself with an error of a call, within the deadline. Nothing may remain: no
process, no zombie, no file in /dev/shm or /tmp, no name of a socket. One kill in eight hits the
launcher: then all processes must end.

Usage: procs_kill.py DOPPEL [COUNT [SEED]]
"""
import ctypes
import os
import random
import re
import signal
import subprocess
import sys
import time

TIMEOUT_MS = 2000  # DOPPEL_TIMEOUT_MS of the job
LIMIT_S = 30  # bound of an end: deadline, a quarter, three requests of 5 s, and a busy machine
MOMENT_S = 0.8  # kills are so long after the start
SHAPES = (
    ["--hosts", "2", "--gpus", "2"],
    ["--hosts", "1", "--gpus", "4"],
    ["--hosts", "2", "--gpus", "2", "--ranks-per-process", "2"],
    ["--hosts", "3", "--gpus", "1"],
)
COLLECTIVES = ("all_reduce", "all_to_all", "all_gather")
PR_SET_CHILD_SUBREAPER = 36


def in_own_folders():
    """Gives this process empty /dev/shm and /tmp, if the kernel permits it. Returns their paths."""
    folders = ["/dev/shm"]
    if not os.path.realpath(sys.argv[1]).startswith("/tmp/"):
        folders.append("/tmp")
    if "PROCS_KILL_FOLDERS" in os.environ:
        for folder in folders:
            if subprocess.call(["mount", "-t", "tmpfs", "none", folder]):
                sys.exit(f"no tmpfs on {folder}")
        return folders
    if subprocess.call(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL):
        print("no mount namespace: files that remain are not checked")
        return []
    os.environ["PROCS_KILL_FOLDERS"] = "1"
    os.execvp("unshare", ["unshare", "-rm", sys.executable, *sys.argv])


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(seconds, true):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def reap():
    """Takes the exit status of orphans. Returns whether a child remains."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    except ChildProcessError:
        return False


class Job:
    def __init__(self, doppel, draw):
        shape = draw.choice(SHAPES)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "DOPPEL_"))}
        env["DOPPEL_TIMEOUT_MS"] = str(TIMEOUT_MS)
        self.command = [doppel, "run", draw.choice(COLLECTIVES), "--procs", *shape]
        self.command += ["-b", "64K", "-e", "64K", "-n", "10000000", "-c", "0"]
        hosts, gpus = int(shape[1]), int(shape[3])
        self.each = int(shape[5]) if len(shape) > 4 else 1
        self.count = hosts * gpus // self.each
        self.begin = time.monotonic()
        self.launcher = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        self.pids = []
        while len(self.pids) < self.count:
            line = self.launcher.stdout.readline()
            if not line:
                raise SystemExit(f"the launcher ended: {self.launcher.stderr.read()}")
            found = re.match(r"# process \d+: pid (\d+),", line)
            if found:
                self.pids.append(int(found.group(1)))

    def end(self):
        """Waits for the launcher. Returns what is wrong."""
        try:
            _, self.err = self.launcher.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            _, self.err = self.launcher.communicate()
            return [f"it has not ended {LIMIT_S} s after the kill"]
        return []

    def left(self, folders):
        wrong = []
        if not until(5, lambda: not reap() and not any(map(alive, self.pids))):
            wrong.append("processes or zombies remain")
        for folder in folders:
            if os.listdir(folder):
                wrong.append(f"in {folder}: {os.listdir(folder)}")
        with open("/proc/net/unix", encoding="ascii", errors="replace") as f:
            if f"/procs-{self.launcher.pid}/" in f.read():
                wrong.append("a name of a socket remains")
        return wrong

    def survivors(self, victim):
        """Checks how the processes other than the victim ended."""
        wrong = []
        if self.launcher.returncode != -signal.SIGKILL:
            wrong.append(f"the launcher ended with {self.launcher.returncode}")
        for i in range(self.count):
            if i == victim:
                continue
            if not re.search(rf"process {i} \(rank \d+, pid \d+\) ended with 2$", self.err, re.M):
                wrong.append(f"process {i} did not end with 2")
            first = i * self.each
            ranks = "|".join(str(r) for r in range(first, first + self.each))
            if not re.search(rf"^doppel: rank ({ranks}): ", self.err, re.M):
                wrong.append(f"process {i} named no call that failed")
        return wrong


def kill_one(doppel, draw, folders):
    """Returns (time from the kill to the end in s, whether the launcher was killed, errors, job)."""
    job = Job(doppel, draw)
    launcher = draw.random() < 1 / 8
    victim = draw.randrange(job.count)
    moment = draw.random() * MOMENT_S
    time.sleep(max(0, job.begin + moment - time.monotonic()))
    os.kill(job.launcher.pid if launcher else job.pids[victim], signal.SIGKILL)
    killed = time.monotonic()
    wrong = job.end()
    took = time.monotonic() - killed
    if not launcher and not wrong:
        wrong += job.survivors(victim)
    wrong += job.left(folders)
    what = "the launcher" if launcher else f"process {victim}"
    job.text = f"{' '.join(job.command)}: {what} after {moment * 1000:.0f} ms"
    return took, launcher, wrong, job


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    folders = in_own_folders()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    draw = random.Random(seed)
    times, launchers, bad = [], 0, 0
    for i in range(count):
        took, launcher, wrong, job = kill_one(sys.argv[1], draw, folders)
        launchers += launcher
        if not launcher:
            times.append(took)
        if wrong:
            bad += 1
            print(f"kill {i} of seed {seed}: {job.text}: {'; '.join(wrong)}\n{job.err}", flush=True)
    times.sort()
    print(
        f"{count - bad} of {count} kills: {count - launchers} of a process, {launchers} of the launcher; "
        f"survivors ended after {times[len(times) // 2]:.2f} s (median), {times[-1]:.2f} s (last); "
        + (f"nothing left in {' and '.join(folders)}" if not bad and folders else "")
    )
    return bad != 0


sys.exit(main())
