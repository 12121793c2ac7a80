#include "image/jpeg_scan_blocks.h"

const struct scan_kernels scan_kernels_plain = {run_read, run_write};
