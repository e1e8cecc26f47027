# SPDX-License-Identifier: BSD-3-Clause
# Training steps of a small transformer in PyTorch, data parallel (DDP) and sharded (FSDP2), for torch.sh: minimum,
# median and maximum of 30 steps, ms. The last column is 0 where the loss fell and is a number, on every rank.
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

WIDTH, LAYERS, BATCH, LENGTH = 1024, 12, 8, 256
STEPS, WARMUP = 40, 10


def make_model():
    torch.manual_seed(1)
    layers = [nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, 0.0, batch_first=True) for _ in range(LAYERS)]
    return nn.Sequential(*layers).cuda().bfloat16()


def sharded(model):
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def measure(model, rank):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(100 + rank)
    x = torch.randn(BATCH, LENGTH, WIDTH, device="cuda").bfloat16()
    times, losses = [], []
    for step in range(STEPS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        loss = model(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if step >= WARMUP:
            times.append((time.perf_counter() - begun) * 1e3)
        losses.append(loss.item())
    times.sort()
    bad = torch.tensor([0.0 if losses[-1] < losses[0] else 1.0], device="cuda")
    dist.all_reduce(bad)
    return times[0], times[len(times) // 2], times[-1], int(bad.item())


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    ddp = nn.parallel.DistributedDataParallel
    for name, wrap in (("ddp", lambda m: ddp(m, device_ids=[rank])), ("fsdp2", sharded)):
        least, median, most, wrong = measure(wrap(make_model()), rank)
        if rank == 0:
            print(f"row {name} {least:.2f} {median:.2f} {most:.2f} {wrong}", flush=True)
    dist.destroy_process_group()


main()
