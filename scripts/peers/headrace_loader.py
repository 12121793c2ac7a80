"""headrace.Loader, which makes whole batches by threads of the library; torch tensors over its memory."""
import contest
import headrace


def main():
    options = contest.arguments()
    loader = headrace.Loader(options.data, contest.BATCH, dtype=options.dtype, output="torch", threads=options.threads,
                             layout="nchw" if options.dtype == "f32" else "nhwc", drop_last=True)
    contest.serve(lambda: (len(images) for images, _ in loader))


if __name__ == "__main__":
    main()
