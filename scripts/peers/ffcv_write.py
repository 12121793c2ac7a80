"""Writes an FFCV file from class folders: python ffcv_write.py FOLDER FILE jpg|proportion|raw.

Images are shrunk to 500 pixels and encoded at quality 90; `proportion` stores half of them as pixels, which is FFCV's
setting for ImageNet.
"""
import sys

import torchvision
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter


def main():
    folder, path, mode = sys.argv[1:]
    image = RGBImageField(write_mode=mode, max_resolution=500, compress_probability=.5, jpeg_quality=90)
    writer = DatasetWriter(path, {"image": image, "label": IntField()}, num_workers=2)
    writer.from_indexed_dataset(torchvision.datasets.ImageFolder(folder))


if __name__ == "__main__":
    main()
