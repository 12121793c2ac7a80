#ifndef HEADRACE_INDEX_SAMPLER_H
#define HEADRACE_INDEX_SAMPLER_H

/* One record to one image of a batch: read, probe, crop, decode, resample, normalise. The crop is a
 * pure function of (seed, epoch, record), so whoever computes it gets the same pixels. A sampler is
 * the scratch of one thread. */

#include "base/budget.h"
#include "base/scope.h"
#include "base/status.h"
#include "index/loader.h"
#include "index/prefetch.h"

struct sampler;

/* Both are borrowed and must outlive the sampler. */
struct status sampler_open(struct index *index, const struct loader_options *options,
                           struct sampler **ret_sampler);
void sampler_close(struct sampler *sampler);
CLEANUP_POINTER(sampler_close, struct sampler)

/* Bounds the sampler's scratch: what an image needs beyond `kept_bytes` is taken from `budget`
 * (borrowed), which may have to be waited for, and freed after it. */
void sampler_bound(struct sampler *sampler, struct budget *budget, uint64_t kept_bytes);

/* Has sampler_run read through `prefetch` (borrowed). */
void sampler_read_through(struct sampler *sampler, struct prefetch *prefetch);

/* Height and width of every image that the options produce. */
uint32_t sampler_output_size(const struct loader_options *options);

/* Seconds and bytes of what a sampler did, added up. */
struct sampler_work {
    uint64_t place; /* set before: of the record in the prefetch's epoch; not used without one */
    uint64_t bytes;
    uint64_t scratch_bytes; /* of the last image, without what was taken from a budget */
    double read_seconds, decode_seconds;
};

/* Writes the record's image to `out` (tensor_image_bytes) and where it came from to *ret_sample.
 * Failures name the record. */
struct status sampler_run(struct sampler *sampler, uint64_t epoch, uint64_t record, void *out,
                          struct batch_sample *ret_sample, struct sampler_work *work);

/* Only where the image comes from. Reads the record if the index does not know its size. */
struct status sampler_crop(struct sampler *sampler, uint64_t epoch, uint64_t record,
                           struct crop *ret_crop);

#endif
