"""webdataset: a tar of JPEGs with labels, shuffled in a buffer, decoded by PIL."""
import pathlib

import torch
import webdataset
from torchvision import transforms

import contest


def main():
    options = contest.arguments()
    torch.set_num_threads(1)
    transform = transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([.485, .456, .406], [.229, .224, .225])])
    shards = sorted(str(path) for path in pathlib.Path(options.data).glob("*.tar"))
    data = (webdataset.WebDataset(shards, shardshuffle=False).shuffle(1000).decode("pil").to_tuple("jpg", "cls")
            .map_tuple(transform, int).batched(contest.BATCH))
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=options.threads, persistent_workers=True)
    contest.serve(lambda: (len(images) for images, _ in loader))


if __name__ == "__main__":
    main()
