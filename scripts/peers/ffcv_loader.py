"""FFCV: its file, its random crop and flip, bytes as they leave its decoder; normalising is left to the GPU there."""
import numpy
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip

import contest


def main():
    options = contest.arguments()
    loader = Loader(options.data, batch_size=contest.BATCH, num_workers=options.threads, order=OrderOption.RANDOM,
                    os_cache=True, drop_last=True, pipelines={
                        "image": [RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip()],
                        "label": [IntDecoder()]})

    def start_pass():
        for images, _ in loader:
            assert images.dtype == numpy.uint8 and images.shape[1:] == (224, 224, 3)
            yield len(images)
    contest.serve(start_pass)


if __name__ == "__main__":
    main()
