#ifndef HEADRACE_INDEX_RECORD_IMAGE_H
#define HEADRACE_INDEX_RECORD_IMAGE_H

/* From a record to pixels, whatever its encoding: the one place where the loader, contact sheets,
 * reports and verification decode. */

#include "base/scope.h"
#include "base/status.h"
#include "image/crop.h"
#include "image/decode.h"
#include "image/picture.h"
#include "image/pixels.h"
#include "image/tensor.h"
#include "index/cache_reader.h"
#include "index/index.h"
#include "index/prefetch.h"

/* Scratch of one thread, and the record that was read last. */
struct record_image;

/* `index` is borrowed. `pixels` is what record_image_tensor makes, whatever the encoding; but
 * what cannot be a `dct` record (PNG, progressive JPEG) has no planes at hand, and PIXELS_FAST
 * makes PIXELS_PILLOW of it. */
struct status record_image_open(struct index *index, enum pixels pixels,
                                struct record_image **ret_image);
void record_image_close(struct record_image *image);
CLEANUP_POINTER(record_image_close, struct record_image)

/* Has record_image_read read through a cache (cache_reader.h, borrowed). */
void record_image_read_through(struct record_image *image, struct cache_reader *cache);

/* Reads a record whole and checks its CRC; length and encoding of *ret_record are those of the
 * bytes that came. Failures name its place; those of the calls below do not. */
struct status record_image_read(struct record_image *image, uint64_t number,
                                struct record *ret_record);
/* The same through a prefetch (prefetch.h), at a place of its epoch. */
struct status record_image_fetch(struct record_image *image, struct prefetch *prefetch,
                                 uint64_t place, uint64_t number, struct record *ret_record);
/* What the stored bytes say of the image. */
struct status record_image_probe(struct record_image *image, struct image_info *ret_info);

/* Decodes at least `region` (NULL: all) of the record read last; the picture's origin and size say
 * what it holds. */
struct status record_image_decode(struct record_image *image, const struct rectangle *region,
                                  struct picture *picture);
/* Decodes, resizes and crops the record read last and writes crop->window, flipped if crop->flip,
 * as a tensor of `format`. */
struct status record_image_tensor(struct record_image *image, const struct crop *crop,
                                  const struct tensor_format *format, void *out);

/* An upper bound for the scratch that a record with an image of this size needs. */
uint64_t record_image_scratch_bytes(const struct record *record, uint32_t width, uint32_t height);
/* Frees what scratch has grown to. */
void record_image_shrink(struct record_image *image);

#endif
