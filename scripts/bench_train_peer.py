"""Times PyTorch on one network for scripts/bench_train.py; the counterpart of tests/bench_backend.c.

    bench_train_peer.py eager|compile|ipex ARCH f32|bf16 BATCH train|eval

Says one line when it is ready. Then each line of stdin is a number of steps; the answer is the seconds
they took. Each form of PyTorch is used as its makers advise for the CPU.
"""
import os
import sys
import time

import torch
import torchvision

IMAGE_SIZE = 224
CLASSES = 1000


def prepare_training(form, model, dtype):
    """A function that does one step, on images in f32."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss()
    half = dtype is torch.bfloat16
    if form == "ipex":
        import intel_extension_for_pytorch as ipex

        model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=dtype)
    elif form == "compile":
        model = torch.compile(model)

    def step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = criterion(model(images).float(), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def prepare_evaluation(form, model, dtype, example):
    model.eval()
    half = dtype is torch.bfloat16
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=half)
    if form == "ipex":
        import intel_extension_for_pytorch as ipex

        model = ipex.optimize(model, dtype=dtype)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=half, cache_enabled=False):
            model = torch.jit.freeze(torch.jit.trace(model, example))
        autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=False)
    elif form == "compile":
        from torch._inductor import config

        config.freezing = True
        model = torch.compile(model)
    elif half:
        # Weights in bf16 once, rather than cast in every step.
        model = model.to(torch.bfloat16)
        autocast = torch.autocast("cpu", enabled=False)
        example = example.to(torch.bfloat16)
    cast = torch.bfloat16 if half and form in ("eager", "ipex") else torch.float32

    def step(images, _labels):
        with torch.no_grad(), autocast:
            return model(images.to(cast)).float().sum()

    return step


def main():
    form, arch, dtype_name, batch, mode = sys.argv[1:6]
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    dtype = torch.bfloat16 if dtype_name == "bf16" else torch.float32
    images = torch.randn(int(batch), 3, IMAGE_SIZE, IMAGE_SIZE).to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (int(batch),))
    model = getattr(torchvision.models, arch)().to(memory_format=torch.channels_last)
    step = prepare_training(form, model, dtype) if mode == "train" else prepare_evaluation(form, model, dtype, images)
    for _ in range(2):
        step(images, labels).item()
    print(f"{form}: PyTorch {torch.__version__}", flush=True)
    for line in sys.stdin:
        start = time.monotonic()
        for _ in range(int(line)):
            step(images, labels).item()
        print(f"{time.monotonic() - start:.6f}", flush=True)


main()
