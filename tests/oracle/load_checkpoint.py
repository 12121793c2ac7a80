#!/usr/bin/env python3
"""Checkpoints as PyTorch sees them: strict loading, and the accuracy that torchvision's pipeline gives.

Run by hand, in a virtual environment with torch, torchvision, safetensors and Pillow 11:

    python tests/oracle/load_checkpoint.py RUN/model_best.safetensors VAL_FOLDER

The last line stands beside that of `headrace eval RUN/model_best.safetensors VAL_FOLDER --dtype f32`:
losses agree to rounding, counts are equal.
"""

import json
import pathlib
import sys

import torch
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file
from torchvision import transforms as T


def main(weights_path, folder):
    """Loads the weights and evaluates them on class folders as torchvision does."""
    state_path = pathlib.Path(weights_path).with_suffix(".state")
    with safe_open(state_path, "pt") as file:
        state = json.loads(file.metadata()["headrace_state"])
    model = getattr(torchvision.models, state["arch"])(num_classes=state["classes"])
    print(model.load_state_dict(load_file(weights_path), strict=True))
    model.eval()
    data = torchvision.datasets.ImageFolder(folder, T.Compose([
        T.Resize(state["val_resize"]), T.CenterCrop(state["val_crop"]), T.ToTensor(),
        T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    labels = [state["class_table"]["wnids"].index(name) for name in data.classes]
    loss, top1, top5 = 0.0, 0, 0
    with torch.inference_mode():
        for images, places in torch.utils.data.DataLoader(data, 64):
            target = torch.tensor([labels[place] for place in places])
            logits = model(images)
            loss += torch.nn.functional.cross_entropy(logits, target, reduction="sum").item()
            best = logits.topk(min(5, state["classes"])).indices == target[:, None]
            top1 += best[:, 0].sum().item()
            top5 += best.sum().item()
    print(json.dumps({"images": len(data), "loss": loss / len(data), "top1_count": top1,
                      "top5_count": top5}))


if __name__ == "__main__":
    main(*sys.argv[1:])
