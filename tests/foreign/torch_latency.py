# SPDX-License-Identifier: BSD-3-Clause
# A loop of all-reduces in PyTorch, for torch.sh: minimum, median and maximum of 7 samples of 50 calls, us a call.
# Every sum is checked once, before the samples.
import os
import time

import torch
import torch.distributed as dist

SIZES = (8, 32 << 10, 4 << 20, 16 << 20, 64 << 20, 256 << 20)
CALLS, SAMPLES, WARMUP = 50, 7, 20


def sample(x):
    begun = time.perf_counter()
    for _ in range(CALLS):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) * 1e6 / CALLS


def measure(size, rank, ranks):
    x = torch.full((size // 4,), float(rank + 1), device="cuda")
    dist.all_reduce(x)
    wrong = int((x != ranks * (ranks + 1) / 2).sum())
    x.zero_()
    for _ in range(WARMUP):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    times = sorted(sample(x) for _ in range(SAMPLES))
    return times[0], times[SAMPLES // 2], times[-1], wrong


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for size in SIZES:
        least, median, most, wrong = measure(size, rank, ranks)
        if rank == 0:
            print(f"row all_reduce_{size}_B {least:.1f} {median:.1f} {most:.1f} {wrong}", flush=True)
    dist.destroy_process_group()


main()
