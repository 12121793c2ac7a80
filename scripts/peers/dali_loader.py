"""NVIDIA DALI on the CPU, as its ResNet-50 example has it; an index in the folder's place is read by headrace.dali.Source.
"""
from nvidia.dali import fn, pipeline_def, types

import contest


@pipeline_def(batch_size=contest.BATCH, device_id=None, seed=1)
def training_pipeline(root, source, dtype):
    if source:
        files, labels = fn.external_source(source=source, num_outputs=2, batch=False, parallel=True,
                                           dtype=[types.UINT8, types.INT32])
    else:
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


def index_source(path):
    from headrace.dali import Source

    class Endless(Source):
        """Epoch after epoch without a stop between them, as DALI's own reader goes on."""

        def __call__(self, info):
            epoch, step = divmod(info.iteration, len(self))
            place = step * self.batch_size + info.idx_in_batch
            return super().__call__(types.SampleInfo(place, info.idx_in_batch, step, epoch))

    return Endless(path, contest.BATCH)


def main():
    options = contest.arguments()
    source = index_source(options.data) if options.data.endswith(".idx") else None
    pipeline = training_pipeline(options.data, source, options.dtype, num_threads=options.threads)
    pipeline.build()
    batches = len(source) if source else pipeline.epoch_size("reader") // contest.BATCH
    contest.serve(lambda: (len(pipeline.run()[0]) for _ in range(batches)),
                  cold_files=contest.files_of(options.data) if options.cold else ())


if __name__ == "__main__":
    main()
