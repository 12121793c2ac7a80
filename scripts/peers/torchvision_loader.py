"""torchvision's ImageFolder and DataLoader, as PyTorch's ImageNet example has them; with u8 without ToTensor and Normalize.

An index in the folder's place is read by headrace.ImageFolder: the only difference.
"""
import numpy
import torch
import torchvision
from torchvision import transforms

import contest


def to_bytes(image):
    return torch.from_numpy(numpy.array(image))


def image_folder(path):
    if not path.endswith(".idx"):
        return torchvision.datasets.ImageFolder
    import headrace
    return headrace.ImageFolder


def main():
    options = contest.arguments()
    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    if options.dtype == "u8":
        steps += [to_bytes]
    else:
        steps += [transforms.ToTensor(), transforms.Normalize([.485, .456, .406], [.229, .224, .225])]
    data = image_folder(options.data)(options.data, transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(data, batch_size=contest.BATCH, shuffle=True,
                                         num_workers=options.threads, persistent_workers=True)
    contest.serve(lambda: (len(images) for images, _ in loader))


if __name__ == "__main__":
    main()
