"""A training program that knows nothing of opprof, for `opprof run`. Needs a GPU; under torchrun it trains on every rank.

    opprof run -o out benchmarks/train_transformer.py STEPS [steps] [raise]

`steps` puts an NVTX range round each step, by which a report knows it; `raise` ends the program with an exception.
"""

import os
import sys

import torch
import torch.distributed

rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
model: torch.nn.Module = torch.nn.Sequential(
    *[torch.nn.TransformerEncoderLayer(512, 8, batch_first=True) for _ in range(4)]
).cuda()
distributed = "RANK" in os.environ
if distributed:
    torch.distributed.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters())
nvtx = torch.cuda.nvtx
for number in range(int(sys.argv[1])):
    if "steps" in sys.argv:
        nvtx.range_push(f"ProfilerStep#{number}")
    x = torch.randn(16, 128, 512).cuda()
    nvtx.range_push("forward")
    loss = model(x).square().mean()
    nvtx.range_pop()
    nvtx.range_push("backward")
    loss.backward()
    nvtx.range_pop()
    nvtx.range_push("optimizer")
    optimizer.step()
    optimizer.zero_grad()
    nvtx.range_pop()
    if number % 10 == 0:
        print("loss", loss.item(), flush=True)
    if "steps" in sys.argv:
        nvtx.range_pop()
if distributed:
    torch.distributed.destroy_process_group()
if "raise" in sys.argv:
    raise ValueError("the user's own")
