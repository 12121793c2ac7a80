#ifndef HEADRACE_TESTS_SUPPORT_JPEG_BLOCKS_H
#define HEADRACE_TESTS_SUPPORT_JPEG_BLOCKS_H

/* A JPEG's coefficients as libjpeg reads them: the truth for what reads or uses coefficients. */

#include "image/coefficients.h"

/* Of any file with one or three components. Errors of libjpeg end the test program. */
struct status jpeg_blocks_read(const void *bytes, size_t length, struct coefficients *coefficients);

#endif
