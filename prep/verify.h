#ifndef HEADRACE_PREP_VERIFY_H
#define HEADRACE_PREP_VERIFY_H

/* Checking prepared folders and archives against what is published: classes, images per class,
 * names, first bytes, and on request every pixel. Nothing is changed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/scope.h"
#include "base/status.h"
#include "image/source.h"
#include "prep/devkit.h"
#include "prep/image_name.h"
#include "prep/oddity.h"

enum finding_kind {
    FOUND_CLASS_MISSING,
    FOUND_CLASS_UNEXPECTED,
    FOUND_CLASS_EMPTY,
    FOUND_COUNT, /* of a class or of the whole set */
    FOUND_IMAGE_MISSING,
    FOUND_IMAGE_TWICE, /* the same number in two names */
    FOUND_DUPLICATE,   /* the same bytes under two names */
    FOUND_MISPLACED,
    FOUND_STRAY,
    FOUND_UNFINISHED, /* left by a killed extraction */
    FOUND_EMPTY_FILE,
    FOUND_NOT_AN_IMAGE,
    FOUND_TRUNCATED,
    FOUND_UNREADABLE,
    FOUND_MD5,
    FOUND_INDEX,  /* an index or a shard as a whole */
    FOUND_RECORD, /* one record of it */
    FINDING_KINDS,
};
/* "missing class", … */
const char *finding_kind_name(enum finding_kind kind);

struct finding {
    enum finding_kind kind;
    const char *path; /* relative to the set */
    const char *text;
    uint64_t record; /* its number in an index; UINT64_MAX: of none */
};

/* Not found fault with. */
struct oddity {
    enum oddity_kind kind;
    const char *path;
    bool is_known; /* ILSVRC2012 as published has it */
};

/* What was found out about one folder or archive of images. */
struct verify_set {
    char *path;
    const char *form; /* "class folders", "training archive", … */
    enum image_set set;
    bool is_flat;      /* images without class folders */
    bool is_own_split; /* a subset that mixes training and validation images */
    uint64_t classes, images, bytes;
    uint64_t decoded;
    bool is_compared;     /* with a published table */
    bool is_as_devkit;    /* compared with a whole table, and nothing is off or less */
    bool is_as_published; /* the same, and the table is that of ILSVRC2012 */
    struct finding *findings;
    size_t finding_count, finding_capacity;
    struct oddity *oddities;
    size_t oddity_count, oddity_capacity;
    const char **notes;
    size_t note_count, note_capacity;
    struct arena strings;
};

struct verify_report {
    char *path;
    struct verify_set *sets;
    size_t set_count;
};

struct verify_options {
    const char *path;
    const struct devkit *devkit; /* or NULL: the built-in table, where it fits */
    const char *prefix;          /* of class folders in an archive, or NULL */
    bool is_subset;              /* fewer images and classes than published are fine */
    bool has_expected;           /* instead of the published numbers: */
    uint64_t expected_classes, expected_images;
    bool decode;     /* every image */
    bool duplicates; /* looks for images with the same bytes */
    bool md5;        /* of an archive */
    unsigned threads;
};

/* Verifies a folder with class folders, a folder with train/ and val/, or an archive. Findings are
 * not failures: a report with findings comes with OK. Fails where nothing could be verified. */
struct status verify(const struct verify_options *options, struct verify_report **ret_report);
void verify_report_free(struct verify_report *report);
CLEANUP_POINTER(verify_report_free, struct verify_report)

/* For reports that are made elsewhere (of an index): a report with `set_count` empty sets, whose
 * `path` and `form` are to be set; a finding, and a note, whose texts are copied. Not thread-safe.
 */
struct status verify_report_new(const char *path, size_t set_count,
                                struct verify_report **ret_report);
struct status verify_found(struct verify_set *set, enum finding_kind kind, const char *path,
                           const char *format, ...) PRINTF_LIKE(4, 5);
struct status verify_note(struct verify_set *set, const char *format, ...) PRINTF_LIKE(2, 3);
struct status verify_oddity(struct verify_set *set, enum oddity_kind kind, const char *path,
                            bool is_known);
/* The path of an item in findings, on the heap: its class folder, where there is one, and its name.
 */
struct status verify_item_path(const struct verify_set *set, const struct source *source,
                               const struct source_item *item, char **ret_path);

uint64_t verify_finding_count(const struct verify_report *report);
/* Holds the numbers of a set against --expect. */
struct status verify_expected(struct verify_set *set, const struct verify_options *options);
/* OK, or STATUS_FOUND with one sentence. */
struct status verify_report_status(const struct verify_report *report);
/* For people: a few lines a set, each kind of finding cut after a few. */
struct status verify_report_text(const struct verify_report *report, struct buffer *text);
/* {"version": 1, "path", "ok", "findings": N, "sets": [{"path", "form", "set", "classes", "images",
 * "bytes", "decoded", "as_published", "notes": [text], "oddities": [{"kind", "path", "known"}],
 * "findings": [{"kind", "path", "text"}]}]}, all findings. */
struct json *verify_report_json(const struct verify_report *report);

#endif
