#!/usr/bin/env python3
"""Accuracy on CIFAR-10 beside PyTorch's: the same recipe (train/recipes/cifar10.recipe), five seeds each.

Run by hand, in a virtual environment with torch, torchvision and Pillow 11, from the repository's root
after `make`; takes about an hour and a half of one core, which --seeds and --only share out over several:

    python tests/oracle/cifar10_parity.py --seeds 1 2 3 4 5

Prints the top-1 of each seed and the means. The figures in the README come from here.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tarfile

import torch
import torchvision
from torchvision import transforms as T

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("HEADRACE_DATA", ROOT / "../shared/data"))
WORK = ROOT / "build/cifar10_parity"
EPOCHS, BATCH, LR, MOMENTUM, DECAY, WARMUP = 15, 128, 0.02, 0.9, 5e-4, 1
NORMALIZE = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def learning_rate(step, steps_per_epoch):
    """Linear warm-up over the first epoch, then a cosine to 0, step by step, as train/schedule.c."""
    warm, total = WARMUP * steps_per_epoch, EPOCHS * steps_per_epoch
    if step < warm:
        return LR * (1e-4 + (1 - 1e-4) * step / warm)
    return LR * 0.5 * (1 + torch.cos(torch.tensor((step - warm) / (total - warm) * torch.pi)).item())


def pytorch_top1(folder, seed):
    """Trains torchvision's resnet18 and returns its top-1 in percent."""
    torch.manual_seed(seed)
    train = torchvision.datasets.ImageFolder(folder / "train", T.Compose(
        [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor(), NORMALIZE]))
    val = torchvision.datasets.ImageFolder(folder / "val", T.Compose([T.ToTensor(), NORMALIZE]))
    model = torchvision.models.resnet18(num_classes=10)
    loader = torch.utils.data.DataLoader(train, BATCH, shuffle=True, num_workers=1)
    optimizer = torch.optim.SGD(model.parameters(), LR, MOMENTUM, weight_decay=DECAY)
    loss = torch.nn.CrossEntropyLoss()
    step = 0
    for _ in range(EPOCHS):
        model.train()
        for images, labels in loader:
            optimizer.param_groups[0]["lr"] = learning_rate(step, len(loader))
            optimizer.zero_grad()
            loss(model(images), labels).backward()
            optimizer.step()
            step += 1
    model.eval()
    with torch.inference_mode():
        correct = sum((model(images).argmax(1) == labels).sum().item()
                      for images, labels in torch.utils.data.DataLoader(val, BATCH))
    return 100 * correct / len(val)


def headrace(*arguments):
    """Runs the program and returns what it printed."""
    done = subprocess.run([ROOT / "build/headrace", *map(str, arguments)], check=True, text=True,
                          stdout=subprocess.PIPE)
    return done.stdout


def headrace_top1(seed):
    """Trains with the recipe and returns the last checkpoint's top-1 in percent."""
    run = WORK / f"run{seed}"
    subprocess.run(["rm", "-rf", run], check=True)
    headrace("train", "--train", WORK / "train.idx", "--val", WORK / "val.idx", "--recipe",
             ROOT / "train/recipes/cifar10.recipe", "--seed", seed, "--threads", 1, "--out", run)
    result = headrace("eval", run / "checkpoint.safetensors", WORK / "val.idx", "--json")
    return json.loads(result)["top1"]


def prepare():
    """Packs and unpacks the archive, unless an earlier run did."""
    WORK.mkdir(parents=True, exist_ok=True)
    archive = DATA / "cifar10.tar"
    for part in ("train", "val"):
        if not (WORK / f"{part}.idx").exists():
            headrace("pack", archive, "--prefix", part, "-o", WORK / f"{part}.idx", "--encoding", "jpeg")
    if not (WORK / "images").exists():
        with tarfile.open(archive) as tar:
            tar.extractall(WORK / "images", filter="data")


def main():
    trainers = {"headrace": headrace_top1, "PyTorch": lambda seed: pytorch_top1(WORK / "images", seed)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--only", choices=trainers, help="one of the two")
    options = parser.parse_args()
    torch.set_num_threads(1)
    prepare()
    results = {name: [] for name in trainers if options.only in (None, name)}
    for seed in options.seeds:
        for name, values in results.items():
            values.append(trainers[name](seed))
            print(f"{name}, seed {seed}: {values[-1]:.2f} %", flush=True)
    for name, values in results.items():
        print(f"{name}: mean {statistics.mean(values):.2f} %, standard deviation "
              f"{statistics.stdev(values) if len(values) > 1 else 0:.2f}")


if __name__ == "__main__":
    main()
