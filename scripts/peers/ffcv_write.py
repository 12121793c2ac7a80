"""Writes an FFCV file from class folders: python ffcv_write.py FOLDER FILE jpg|proportion|raw [WORKERS].

Images are shrunk to 500 pixels and encoded at quality 90; `proportion` stores half of them as pixels, which is FFCV's
setting for ImageNet. Prints the seconds that the writer took, and those of processors, without its start.
"""
import multiprocessing
import os
import resource
import sys
import time

import torchvision
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter


def processor_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main():
    folder, path, mode = sys.argv[1:4]
    workers = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    image = RGBImageField(write_mode=mode, max_resolution=500, compress_probability=.5, jpeg_quality=90)
    writer = DatasetWriter(path, {"image": image, "label": IntField()}, num_workers=workers)
    images = torchvision.datasets.ImageFolder(folder)
    wall, processor = time.monotonic(), processor_seconds()
    writer.from_indexed_dataset(images)
    for worker in multiprocessing.active_children():  # what they used counts when they have ended
        worker.join()
    print(f"seconds {time.monotonic() - wall:.3f} processor {processor_seconds() - processor:.3f}", flush=True)
    os._exit(0)  # on one core its threads may never end


if __name__ == "__main__":
    main()
