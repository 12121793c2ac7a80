"""NVIDIA DALI on the CPU, as its ResNet-50 example has it."""
from nvidia.dali import fn, pipeline_def, types

import contest


@pipeline_def(batch_size=contest.BATCH, device_id=None, seed=1)
def training_pipeline(root, dtype):
    files, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(files, device="cpu", random_area=[.08, 1.],
                                           random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
    images = fn.resize(images, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
    mirror = fn.random.coin_flip()
    if dtype == "u8":
        return fn.flip(images, horizontal=mirror), labels
    return fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mirror=mirror,
        mean=[.485 * 255, .456 * 255, .406 * 255], std=[.229 * 255, .224 * 255, .225 * 255]), labels


def main():
    options = contest.arguments()
    pipeline = training_pipeline(options.data, options.dtype, num_threads=options.threads)
    pipeline.build()
    batches = pipeline.epoch_size("reader") // contest.BATCH
    contest.serve(lambda: (len(pipeline.run()[0]) for _ in range(batches)))


if __name__ == "__main__":
    main()
