"""headrace.Loader, which makes whole batches by threads of the library; torch tensors over its memory.

It makes nothing ahead between passes, so whole passes count, as in `headrace bench`.
"""
import contest
import headrace


def main():
    options = contest.arguments()
    loader = headrace.Loader(options.data, contest.BATCH, dtype=options.dtype, output="torch", threads=options.threads,
                             layout="nchw" if options.dtype == "f32" else "nhwc", drop_last=True)
    contest.serve(lambda: (len(images) for images, _ in loader), uncounted=0)


if __name__ == "__main__":
    main()
