#ifdef __x86_64__

#include "image/jpeg_scan_blocks.h"

const struct scan_kernels scan_kernels_avx2 = {run_read, run_write};

#endif
