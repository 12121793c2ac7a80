"""Writes tests/golden/real_images.txt: what torchvision and Pillow make of the thousand real images.

Run by hand, from the root of the checkout, with Pillow 11.3 and torchvision; HEADRACE_DATA names the data folder:

    python tests/oracle/real_golden.py

For each record: the crop of training in epoch 0 with seed 0 (torchvision's own code, fed with headrace's random numbers) and
that of evaluation, as the first eight digits of the MD5 of their bytes.
"""

import hashlib
import io
import os
import pathlib
import tarfile

import numpy as np
import torchvision.transforms.functional as functional
from PIL import Image

from pillow_golden import Stream, torchvision_crop, write

ARCHIVE = pathlib.Path(os.environ.get("HEADRACE_DATA", "../shared/data")) / "ILSVRC2012_img_train.tar"


def images_read():
    """(class, name, bytes) in the order of records."""
    images = []
    with tarfile.open(ARCHIVE) as outer:
        for member in outer:
            with tarfile.open(fileobj=outer.extractfile(member)) as inner:
                images += [(member.name, image.name, inner.extractfile(image).read()) for image in inner]
    return sorted(images)


def digest(image):
    return hashlib.md5(np.asarray(image).tobytes()).hexdigest()[:8]


def training_crop(image, record):
    stream = Stream(0, 0, record)
    flip = stream.double() < 0.5
    left, top, width, height = torchvision_crop(stream, image.size, (0.08, 1.0), (3 / 4, 4 / 3))
    resized = functional.resized_crop(image, top, left, height, width, [224, 224])
    return functional.hflip(resized) if flip else resized


def evaluation_crop(image):
    return functional.center_crop(functional.resize(image, 256), 224)


def main():
    lines = []
    for record, (_, name, data) in enumerate(images_read()):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        lines.append(f"{record} {name} {digest(training_crop(image, record))} {digest(evaluation_crop(image))}")
    write("real_images.txt", "224 x 224 crops of real images: record name, MD5 in training and in evaluation", lines)


if __name__ == "__main__":
    main()
