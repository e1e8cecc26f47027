# SPDX-License-Identifier: BSD-3-Clause
# Groups that PyTorch makes from others, for torch.sh: minimum, median and maximum of 5 times, ms, to make a group, to
# use it once and to destroy it. The last column counts ranks with a wrong sum.
#
#	new_group	a new communicator of the first half of the ranks, and one of the second half
#	split_group	the same by ncclCommSplit
#	mesh		a mesh of two dimensions, as for HSDP, by ncclCommSplit
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

ROUNDS = 5


def halves(ranks):
    return [list(range(ranks // 2)), list(range(ranks // 2, ranks))]


def new_group(rank, ranks):
    groups = [dist.new_group(half) for half in halves(ranks)]
    return [groups[rank // (ranks // 2)]]


def split_group(rank, ranks):
    return [dist.split_group(split_ranks=halves(ranks))]


def mesh(rank, ranks):
    both = init_device_mesh("cuda", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
    return [both.get_group("replicate"), both.get_group("shard")]


def wrong(group, rank):
    x = torch.full((1000,), float(rank + 1), device="cuda")
    dist.all_reduce(x, group=group)
    want = sum(r + 1 for r in dist.get_process_group_ranks(group))
    return float((x != want).any())


def measure(make, rank, ranks):
    times, bad = [], torch.zeros(1, device="cuda")
    for _ in range(ROUNDS):
        dist.barrier()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        groups = make(rank, ranks)
        bad += sum(wrong(group, rank) for group in groups)
        torch.cuda.synchronize()
        if make is not mesh:  # a mesh keeps its groups, and the default one may be among them
            dist.destroy_process_group(groups[0])
        times.append((time.perf_counter() - begun) * 1e3)
    dist.all_reduce(bad)
    times.sort()
    return times[0], times[len(times) // 2], times[-1], int(bad.item())


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for make in (new_group, split_group, mesh):
        least, median, most, bad = measure(make, rank, ranks)
        if rank == 0:
            print(f"row {make.__name__} {least:.2f} {median:.2f} {most:.2f} {bad}", flush=True)
    dist.destroy_process_group()


main()
