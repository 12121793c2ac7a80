#ifndef HEADRACE_TESTS_SUPPORT_JPEG_FOLDER_H
#define HEADRACE_TESTS_SUPPORT_JPEG_FOLDER_H

/* Class folders of small random JPEGs, for the tests of packing and of what comes after it. */

#include <stdint.h>

#include "base/bytes.h"
#include "image/source.h"

/* The JPEG of a number: 8 … 67 pixels a side, random colours. */
void jpeg_folder_image(uint64_t number, struct buffer *bytes);
void jpeg_folder_add(const char *folder, const char *class_name, const char *name,
                     const struct buffer *bytes);
/* Makes FOLDER/{a,b,c} with x_0.JPEG … x_39.JPEG in all. */
void jpeg_folder_make(const char *folder);
/* Class folders as a source. */
struct source *jpeg_folder_open(const char *folder);

#endif
