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

enum finding_kind {
    FOUND_CLASS_MISSING,
    FOUND_CLASS_UNEXPECTED,
    FOUND_CLASS_EMPTY,
    FOUND_COUNT, /* of a class or of the whole set */
    FOUND_IMAGE_MISSING,
    FOUND_IMAGE_TWICE,
    FOUND_MISPLACED,
    FOUND_STRAY,
    FOUND_UNFINISHED, /* left by a killed extraction */
    FOUND_EMPTY_FILE,
    FOUND_NOT_AN_IMAGE,
    FOUND_UNREADABLE,
    FOUND_MD5,
    FINDING_KINDS,
};
/* "missing class", … */
const char *finding_kind_name(enum finding_kind kind);

struct finding {
    enum finding_kind kind;
    const char *path; /* relative to the set */
    const char *text;
};

/* What was found out about one folder or archive of images. */
struct verify_set {
    char *path;
    const char *form; /* "class folders", "training archive", … */
    enum image_set set;
    bool is_flat;
    uint64_t classes, images, bytes;
    uint64_t decoded;
    bool is_compared;     /* with a published table */
    bool is_as_published; /* compared, and nothing is off or less */
    struct finding *findings;
    size_t finding_count, finding_capacity;
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
    bool decode; /* every image */
    bool md5;    /* of an archive */
    unsigned threads;
};

/* Verifies a folder with class folders, a folder with train/ and val/, or an archive. Findings are
 * not failures: a report with findings comes with OK. Fails where nothing could be verified. */
struct status verify(const struct verify_options *options, struct verify_report **ret_report);
void verify_report_free(struct verify_report *report);
CLEANUP_POINTER(verify_report_free, struct verify_report)

uint64_t verify_finding_count(const struct verify_report *report);
/* OK, or STATUS_FOUND with one sentence. */
struct status verify_report_status(const struct verify_report *report);
/* For people: a few lines a set, each kind of finding cut after a few. */
struct status verify_report_text(const struct verify_report *report, struct buffer *text);
/* {"version": 1, "path", "ok", "findings": N, "sets": [{"path", "form", "set", "classes", "images",
 * "bytes", "decoded", "as_published", "notes": [text], "findings": [{"kind", "path", "text"}]}]},
 * all findings. */
struct json *verify_report_json(const struct verify_report *report);

#endif
