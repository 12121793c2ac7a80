"""Times PyTorch's training step of a ResNet for scripts/gpu_check_speed.py, in the form of tests/bench_backend.c.

    gpu_check_peer.py ARCH fp16|bf16|tf32|f32 BATCH SIZE eager|compile

Channels last, autocast with a GradScaler for fp16, cuDNN's benchmark mode, torch.compile: what PyTorch's own guides
advise. Says one line when it is ready. Then each line of stdin is a number of steps; the answer is the seconds they
took. The network is written out here, since torchvision may be missing. Without a GPU it runs on the CPU.
"""
import fcntl
import sys
import time

import torch
from torch import nn

CLASSES = 1000
# Blocks in each stage; whether they are bottlenecks (He, Zhang, Ren, Sun, 2016; stride in the 3x3: version 1.5).
ARCHS = {
    "resnet18": ([2, 2, 2, 2], False),
    "resnet34": ([3, 4, 6, 3], False),
    "resnet50": ([3, 4, 6, 3], True),
    "resnet101": ([3, 4, 23, 3], True),
    "resnet152": ([3, 8, 36, 3], True),
}


def conv_bn(channels_in, channels_out, kernel, stride=1):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(channels_out),
    )


class Block(nn.Module):
    def __init__(self, channels_in, width, stride, bottleneck):
        super().__init__()
        channels_out = 4 * width if bottleneck else width
        if bottleneck:
            parts = [conv_bn(channels_in, width, 1), conv_bn(width, width, 3, stride), conv_bn(width, channels_out, 1)]
        else:
            parts = [conv_bn(channels_in, width, 3, stride), conv_bn(width, channels_out, 3)]
        layers = [layer for part in parts for layer in (*part, nn.ReLU(inplace=True))]
        self.branch = nn.Sequential(*layers[:-1])
        same = stride == 1 and channels_in == channels_out
        self.shortcut = nn.Identity() if same else conv_bn(channels_in, channels_out, 1, stride)
        self.channels_out = channels_out

    def forward(self, x):
        return torch.relu(self.branch(x) + self.shortcut(x))


def resnet(arch):
    depths, bottleneck = ARCHS[arch]
    layers = [*conv_bn(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        for i in range(depth):
            block = Block(channels, 64 << stage, 2 if stage > 0 and i == 0 else 1, bottleneck)
            layers.append(block)
            channels = block.channels_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def main():
    arch, dtype_name, batch, size, form = sys.argv[1:6]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype_name)
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype_name != "f32"
    shape = (int(batch), 3, int(size), int(size))
    images = torch.randn(shape, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (int(batch),), device=device)
    model = resnet(arch).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler(device, enabled=dtype_name == "fp16")
    if form == "compile":
        model = torch.compile(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=half, enabled=half is not None):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    step().item()  # compiles
    # cuDNN's algorithms are timed while no other of these processes uses the device.
    with open(__file__, encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        torch.backends.cudnn.benchmark = True
        for _ in range(3):
            step().item()
    gigabytes = torch.cuda.max_memory_reserved() / 1e9 if device == "cuda" else 0
    print(f"PyTorch {torch.__version__} {form} on {device}, {gigabytes:.2f} GB", flush=True)
    for line in sys.stdin:
        start = time.monotonic()
        for _ in range(int(line)):
            loss = step()
        loss.item()  # waits for the device
        print(f"{time.monotonic() - start:.6f} loss", flush=True)


main()
