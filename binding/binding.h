#ifndef HEADRACE_BINDING_BINDING_H
#define HEADRACE_BINDING_BINDING_H

/* The library for other languages: opaque handles, numbers of fixed width, flat structs that are
 * never passed by value.
 *
 * A call that can fail returns 0 when it is done, else an enum status_code (base/status.h), and
 * binding_message says why. Strings end in a zero and are borrowed from their handle. Handles may
 * be used after a fork, in the child too, but loaders, whose threads stay in the parent, and
 * caches. */

#include <stdint.h>

#include "base/scope.h"
#include "index/access.h"
#include "index/cache_reader.h"
#include "index/index.h"
#include "index/loader.h"

/* Raised with every change of what stands in this file; another one's is not to be used. */
#define BINDING_VERSION 5
uint32_t binding_version(void);
/* "0.1.0" */
const char *binding_release(void);

/* What the calling thread's last failure was; borrowed until its next one. Where the library
 * advises an option of the command line, it has the name that a caller has for it: cache_size,
 * memory, … */
const char *binding_message(void);

/* What the calling thread calls from now on gives up as soon as it would wait, or waits, for a
 * server or another process and the byte at `closing` (borrowed; NULL: never) is not 0, which
 * another thread may change. The call then fails with STATUS_STOPPED and may be made again. */
void binding_follow(const uint8_t *closing);

/* ---- a node's cache ---- */

/* index/cache.h's, by its folder and a size such as "200G"; NULL: what the environment says, and it
 * has not to say anything: *ret_cache is NULL then. A child of fork may neither use nor close one
 * of its parent's, nor what was opened with it; it opens its own. */
int binding_cache_open(const char *folder, const char *size, struct cache **ret_cache);
/* After the readers and loaders that use it. */
void binding_cache_close(struct cache *cache);

/* Reads records of an index through a cache, in any order; both are borrowed and must outlive it.
 * Any thread. */
int binding_cache_reader_open(struct index *index, struct cache *cache,
                              struct cache_reader **ret_reader);
void binding_cache_reader_close(struct cache_reader *reader);

/* ---- an index ---- */

/* What indexes and shards behind URLs are reached with: origins ("URL,URL,…" or
 * "HOST,HOST:PORT,…"), a user and a password, a bearer token, a file of certificates. NULL: what
 * the environment says (index/access.h). */
int binding_access_open(const char *origins, const char *user, const char *password,
                        const char *token, const char *ca_file, struct access **ret_access);
/* After the indexes that were opened with it. */
void binding_access_close(struct access *access);

/* Opens an index or a packed shard, by path or URL, or the index of a folder of class folders
 * (folder_index_open). `access` is borrowed; NULL: the index has one of its own, with what the
 * environment says. */
int binding_index_open(const char *path, struct access *access, struct index **ret_index);
void binding_index_close(struct index *index);

struct binding_index {
    uint64_t count;
    uint32_t classes, shards;
    const char *path, *provenance; /* of the index's own file; JSON */
};
void binding_index_describe(const struct index *index, struct binding_index *ret_description);
/* A column of the index by FORMAT.md's number of its section, 4 … 11; borrowed, and only to be
 * read. Labels are numbers of classes. */
int binding_index_column(const struct index *index, uint32_t section, const void **ret_column);
/* Class `label` < classes: its WNID, and words that may be "". */
void binding_index_class(const struct index *index, uint32_t label, const char **ret_wnid,
                         const char **ret_words);
const char *binding_index_shard(const struct index *index, uint32_t shard);
/* The file name of record `i` < count. */
int binding_index_name(const struct index *index, uint64_t i, const char **ret_name);
/* The record of a class with this file name. */
int binding_index_find(const struct index *index, uint32_t label, const char *name,
                       uint64_t *ret_i);

/* ---- records ---- */

/* Scratch of one thread, and the record that was read last, which is not read again. `index` and
 * `cache` (of this index; NULL: none) are borrowed and must outlive it. `pixels` (pillow, pillow13,
 * fast) is what resizing gives. */
struct binding_reader;
int binding_reader_open(struct index *index, struct cache_reader *cache, const char *pixels,
                        struct binding_reader **ret_reader);
void binding_reader_close(struct binding_reader *reader);
CLEANUP_POINTER(binding_reader_close, struct binding_reader)

/* The original file of record `i` < count, bit for bit; borrowed until the reader's next call. */
int binding_reader_original(struct binding_reader *reader, uint64_t i, const uint8_t **ret_bytes,
                            uint64_t *ret_length);

/* The same into memory of the caller's, of the file's length, which the index says of JPEG records:
 * these are read without a copy. Fails with STATUS_USAGE where the file has another length. */
int binding_reader_original_into(struct binding_reader *reader, uint64_t i, uint8_t *out,
                                 uint64_t length);

/* Pixels of record `i` < count; reads no more than it must. */
int binding_reader_size(struct binding_reader *reader, uint64_t i, uint32_t *ret_width,
                        uint32_t *ret_height);

/* 8-bit RGB, (height, width, 3), rows `stride_bytes` apart; borrowed until the reader's next call.
 */
struct binding_image {
    const uint8_t *pixels;
    uint64_t stride_bytes;
    uint32_t width, height;
};
/* The rectangle x, y, width, height of record `i` < count (NULL: all of it), decoded: the pixels of
 * Pillow's convert("RGB"). */
int binding_reader_image(struct binding_reader *reader, uint64_t i, const uint32_t region[4],
                         struct binding_image *ret_image);

/* image/crop.h's: rectangles are x, y, width, height. */
struct binding_crop {
    uint32_t box[4];                /* of the image */
    uint32_t out_width, out_height; /* that the box is resized to */
    uint32_t window[4];             /* of that */
    uint32_t flip;                  /* 1: mirrored left to right */
};
/* That part of record `i` < count: 8-bit RGB, (window height, window width, 3), without gaps. */
int binding_reader_crop(struct binding_reader *reader, uint64_t i, const struct binding_crop *crop,
                        uint8_t *out);

/* ---- batches ---- */

/* index/loader.h's options; the words are those of the command line. */
struct binding_loader_options {
    uint64_t size_bytes; /* of this struct */
    uint64_t seed, window, memory_bytes;
    const char *mode;         /* train, eval */
    const char *order;        /* shuffle, window, sequential */
    const char *pixels;       /* pillow, pillow13, fast */
    const char *dtype;        /* u8, f32, bf16, f16 */
    const char *layout;       /* nhwc, nchw */
    const char *on_error;     /* fail, skip */
    const int32_t *label_map; /* NULL, or one for each class; borrowed, must outlive the loader */
    struct cache *cache;      /* NULL: none; likewise */
    double scale_min, scale_max, ratio_min, ratio_max, flip_probability;
    float mean[3], std[3];
    uint32_t global_batch, rank, world_size, image_size, val_resize, val_crop, threads, slots;
    uint32_t background, drop_last; /* 0 or 1 */
};
/* The usual ones, but for size_bytes, which has to be set already. */
int binding_loader_options_init(struct binding_loader_options *options);

/* `index` is borrowed and must outlive the loader. Numbers out of range fail with STATUS_USAGE. */
int binding_loader_open(struct index *index, const struct binding_loader_options *options,
                        struct loader **ret_loader);
/* Stops the threads. Batches that are held stay valid until binding_loader_close. */
void binding_loader_stop(struct loader *loader);
/* Batches become invalid. */
void binding_loader_close(struct loader *loader);

uint64_t binding_loader_steps(const struct loader *loader);
/* Begins an epoch at a step. */
int binding_loader_start(struct loader *loader, uint64_t epoch, uint64_t first_step);

struct binding_batch {
    struct batch *batch; /* the handle, for binding_batch_release */
    uint64_t epoch, step;
    void *images;
    int32_t *labels;
    const uint64_t *records;      /* all bits set where the last batch is empty */
    uint64_t record_stride_bytes; /* from one to the next */
    uint32_t count, valid;        /* images; of them with a label */
};
enum binding_next { BINDING_BATCH = 0, BINDING_WAITING, BINDING_END };
/* The next batch, held until it is released; waits for it up to `wait_ms`. *ret_next is an enum
 * binding_next. One thread at a time. */
int binding_loader_next(struct loader *loader, uint32_t wait_ms, struct binding_batch *ret_batch,
                        uint32_t *ret_next);
/* Any thread, before binding_loader_close. */
void binding_batch_release(struct batch *batch);

/* Since the epoch's start; loader_statistics.h. */
struct binding_statistics {
    uint64_t images, bytes, bad_records, memory_bytes;
    double seconds, read_seconds, decode_seconds, wait_seconds;
    uint32_t threads;
};
void binding_loader_statistics(const struct loader *loader,
                               struct binding_statistics *ret_statistics);

#endif
