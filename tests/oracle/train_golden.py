#!/usr/bin/env python3
"""What PyTorch computes in float64 for one batch and ten steps of SGD: golden files for tests/support/parity.h.

Run by hand, with torch, torchvision and numpy installed, from the root of the repository:

    python tests/oracle/train_golden.py [NAME...]

It writes tests/golden/NAME.bin for each set in SETS, tests/golden/state_dict.txt (the parameters' names and
shapes), and prints how far PyTorch's own float32 is from its float64, which is what a bound for an f32 backend may
be based on. Weights and images come from the counter-based generator (philox.py), so that the files hold results only.

A golden file, little-endian; "digest" is norm, projection, and "gradient" a digest and samples:

    8 bytes     "HRGOLD01"
    16 bytes    architecture
    u32 × 4     classes, batch, side, steps
    f64 × 2     residual γ, label smoothing
    i32 × batch labels
    f64 × steps losses before each step (mean over labels ≥ 0)
    f64         sum of the losses of an evaluation after the first step's forward pass
    f64 × batch·classes  logits of the first step
    f64 × batch·classes  logits of that evaluation
    then for each tensor of the state_dict but num_batches_tracked
        digest  initial value
        digest  value after the first step's forward pass and backward pass; buffers only
        digest, samples  gradient of the first step; trained tensors only; no samples where the norm is 0

Norm: square root of the sum of squares. Projection: sum with the signs of stream (SEED, RANDOM_TEST, index, 2), bit
i % 32 of word i / 32 (1: +). Samples: 64 positions random_below(count) of stream (SEED, RANDOM_TEST, index, 1), or the whole
tensor if it has at most 64 elements. Images: (batch, side, side, 3), random_u32 >> 8 of stream (SEED, RANDOM_TEST, 0, 0) times
2^-22, minus 2. Index: the place in the state_dict.
SGD: learning rate .01, momentum .9, weight decay 1e-4 on everything.
"""

import struct
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision

sys.path.insert(0, str(Path(__file__).parent))
import philox  # noqa: E402

SEED = 1
CLASSES, SIDE, STEPS = 100, 64, 10
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.01, 0.9, 1e-4
SAMPLES = 64
GOLDEN = Path(__file__).parent.parent / "golden"

# name: (architecture, residual γ, label smoothing, labels; −1 counts for nothing). The smoothing is a float exactly.
SETS = {
    "resnet18": ("resnet18", 1.0, 0.125, [3, 17, 50, 99]),
    "resnet18_small": ("resnet18", 0.2, 0.0, [3, 17, 50, 99]),
    "resnet18_zero": ("resnet18", 0.0, 0.0, [3, -1, 50, 99]),
    "resnet50": ("resnet50", 1.0, 0.0, [3, 17, 50, 99]),
    "resnet50_zero": ("resnet50", 0.0, 0.125, [3, 17, 50, 99]),
    "resnet18_blur": ("resnet18-blur", 0.2, 0.0, [3, 17, 50, 99]),
}
ARCHS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]


def blur(conv, inputs):
    """What FFCV's recipes put before a convolution."""
    (x,) = inputs
    taps = torch.tensor([1, 2, 1], dtype=x.dtype) / 4
    weight = torch.outer(taps, taps).expand(conv.in_channels, 1, 3, 3)
    return (torch.nn.functional.conv2d(x, weight, padding=1, groups=conv.in_channels),)


def network(arch):
    name, _, blurs = arch.partition("-")
    model = getattr(torchvision.models, name)(num_classes=CLASSES)
    for module in model.modules():
        if blurs and isinstance(module, torch.nn.Conv2d) and module.stride[0] > 1 and module.in_channels >= 16:
            module.register_forward_pre_hook(blur)
    return model


def images(batch):
    words = philox.stream_u32(SEED, philox.RANDOM_TEST, 0, 0, batch * SIDE * SIDE * 3) >> np.uint64(8)
    values = (words.astype(np.float64) * 2.0**-22 - 2).reshape(batch, SIDE, SIDE, 3)
    return torch.from_numpy(values).permute(0, 3, 1, 2).contiguous()


def run(set_name, weights, dtype):
    """Ten steps; returns what the golden file holds, tensors in float64."""
    arch, _, smoothing, labels = SETS[set_name]
    model = network(arch).to(dtype)
    tracked = {k: v for k, v in model.state_dict().items() if k.endswith("num_batches_tracked")}
    model.load_state_dict({**tracked, **{k: torch.from_numpy(v).to(dtype) for k, v in weights.items()}})
    x, y = images(len(labels)).to(dtype), torch.tensor(labels)
    sgd = torch.optim.SGD(model.parameters(), LEARNING_RATE, MOMENTUM, weight_decay=WEIGHT_DECAY)
    cross_entropy = torch.nn.functional.cross_entropy
    result = {"losses": [], "gradients": []}
    for step in range(STEPS):
        model.train()
        sgd.zero_grad()
        logits = model(x)
        loss = cross_entropy(logits, y, ignore_index=-1, label_smoothing=smoothing)
        loss.backward()
        result["losses"].append(loss.item())
        result["gradients"].append({k: v.grad.double().numpy().copy() for k, v in model.named_parameters()})
        if step == 0:
            result["logits"] = logits.detach().double().numpy()
            result["buffers"] = {k: v.double().numpy().copy() for k, v in model.named_buffers()}
            model.eval()
            with torch.no_grad():
                logits = model(x)
                loss = cross_entropy(logits, y, ignore_index=-1, reduction="sum")
            result["eval_logits"] = logits.double().numpy()
            result["eval_loss"] = loss.item()
        sgd.step()
    return result


def digest(values, index):
    values = values.reshape(-1)
    words = philox.stream_u32(SEED, philox.RANDOM_TEST, index, 2, (values.size + 31) // 32)
    bits = (words[:, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)
    signs = bits.reshape(-1)[: values.size].astype(np.float64) * 2 - 1
    return struct.pack("<2d", np.sqrt(np.sum(values * values)), np.sum(values * signs))


def samples(values, index):
    values = values.reshape(-1)
    if not values.any():
        return b""
    if values.size > SAMPLES:
        values = values[philox.stream_below(SEED, philox.RANDOM_TEST, index, 1, values.size, SAMPLES)]
    return values.astype("<f8").tobytes()


def golden_bytes(set_name, names, weights, result):
    arch, gamma, smoothing, labels = SETS[set_name]
    parts = [
        b"HRGOLD01",
        arch.encode().ljust(16, b"\0"),
        struct.pack("<4I", CLASSES, len(labels), SIDE, STEPS),
        struct.pack("<2d", gamma, smoothing),
        struct.pack(f"<{len(labels)}i", *labels),
        struct.pack(f"<{STEPS}d", *result["losses"]),
        struct.pack("<d", result["eval_loss"]),
        result["logits"].astype("<f8").tobytes(),
        result["eval_logits"].astype("<f8").tobytes(),
    ]
    for index, name in enumerate(names):
        if name.endswith("num_batches_tracked"):
            continue
        parts.append(digest(weights[name], index))
        if name in result["buffers"]:
            parts.append(digest(result["buffers"][name], index))
        else:
            gradient = result["gradients"][0][name]
            parts += [digest(gradient, index), samples(gradient, index)]
    return b"".join(parts)


def distance(a, b):
    """The largest relative distance of one tensor, over tensors that are not zero."""
    return max(np.linalg.norm(b[k] - v) / np.linalg.norm(v) for k, v in a.items() if v.any())


def write_set(set_name):
    arch, gamma, _, _ = SETS[set_name]
    names = list(network(arch).state_dict())
    shapes = [(k, tuple(v.shape)) for k, v in network(arch).state_dict().items()]
    weights = philox.initial_weights(shapes, SEED, gamma)
    weights = {k: v for k, v in weights.items() if not k.endswith("num_batches_tracked")}
    double, single = (run(set_name, weights, dtype) for dtype in (torch.float64, torch.float32))
    (GOLDEN / f"{set_name}.bin").write_bytes(golden_bytes(set_name, names, weights, double))
    losses = zip(double["losses"], single["losses"])
    print(
        f"{set_name}: float32 is off by {distance(double['gradients'][0], single['gradients'][0]):.1e} in the first "
        f"step's gradients, {max(abs(a - b) / a for a, b in losses):.1e} in the losses of {STEPS} steps"
    )


def write_state_dicts():
    with open(GOLDEN / "state_dict.txt", "w", encoding="ascii") as out:
        for arch in ARCHS:
            print(arch, file=out)
            for name, value in network(arch).state_dict().items():
                print(" ", name, *value.shape, file=out)


def main():
    GOLDEN.mkdir(exist_ok=True)
    for set_name in sys.argv[1:] or SETS:
        write_set(set_name)
    write_state_dicts()


if __name__ == "__main__":
    main()
