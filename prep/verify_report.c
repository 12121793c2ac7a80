#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/progress.h"
#include "prep/verify.h"

static const size_t max_shown = 5;

const char *finding_kind_name(enum finding_kind kind)
{
    static const char *const names[FINDING_KINDS] = {
        [FOUND_CLASS_MISSING] = "missing class",
        [FOUND_CLASS_UNEXPECTED] = "unexpected class",
        [FOUND_CLASS_EMPTY] = "empty class",
        [FOUND_COUNT] = "image count",
        [FOUND_IMAGE_MISSING] = "missing image",
        [FOUND_IMAGE_TWICE] = "image twice",
        [FOUND_DUPLICATE] = "same bytes",
        [FOUND_MISPLACED] = "misplaced image",
        [FOUND_STRAY] = "stray",
        [FOUND_UNFINISHED] = "unfinished folder",
        [FOUND_EMPTY_FILE] = "empty file",
        [FOUND_NOT_AN_IMAGE] = "not an image",
        [FOUND_TRUNCATED] = "truncated image",
        [FOUND_UNREADABLE] = "unreadable",
        [FOUND_MD5] = "MD5",
        [FOUND_INDEX] = "index or shard",
        [FOUND_RECORD] = "record",
    };
    return names[kind];
}

static const char *set_name(enum image_set set)
{
    static const char *const names[] = {
        [IMAGE_SET_OTHER] = "images",
        [IMAGE_SET_TRAIN] = "training images",
        [IMAGE_SET_VAL] = "validation images",
        [IMAGE_SET_TEST] = "test images",
    };
    return names[set];
}

uint64_t verify_finding_count(const struct verify_report *report)
{
    uint64_t count = 0;
    for (size_t i = 0; i < report->set_count; i++)
        count += report->sets[i].finding_count;
    return count;
}

/* Numbers that --expect gave are of no class. */
static bool is_whole_set(const struct finding *finding)
{
    return strcmp(finding->path, ".") == 0;
}

/* Of something less than what is published. */
static bool is_less(const struct finding *finding)
{
    return finding->kind == FOUND_CLASS_MISSING || finding->kind == FOUND_IMAGE_MISSING ||
           (finding->kind == FOUND_COUNT && !is_whole_set(finding));
}

static bool is_of_index(const struct finding *finding)
{
    return finding->kind == FOUND_INDEX || finding->kind == FOUND_RECORD;
}

static uint64_t count_if(const struct verify_report *report, bool (*is)(const struct finding *))
{
    uint64_t count = 0;
    for (size_t i = 0; i < report->set_count; i++)
        for (size_t k = 0; k < report->sets[i].finding_count; k++)
            count += is(&report->sets[i].findings[k]);
    return count;
}

struct status verify_report_status(const struct verify_report *report)
{
    uint64_t count = verify_finding_count(report);
    const char *advice = "";
    if (count == 0)
        return OK;
    if (count_if(report, is_less) == count)
        advice = "; if it is meant to be a part of the published data only, say --subset";
    else if (count_if(report, is_of_index) > 0)
        advice =
            "; bring the files back from a copy or pack the set again (headrace pack --force); "
            "headrace train --on-error skip goes on without bad records";
    FAIL(STATUS_FOUND, "%s: %" PRIu64 " finding%s%s", report->path, count, count == 1 ? "" : "s",
         advice);
}

/* "2 CMYK or YCCK (n01739381/n01739381_1309.JPEG, …)" of one kind, known or not; nothing if none.
 */
static struct status text_oddities(const struct verify_set *set, enum oddity_kind kind,
                                   bool is_known, const char *before, const char *after,
                                   struct buffer *text)
{
    const char *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < set->oddity_count; i++) {
        const struct oddity *oddity = &set->oddities[i];
        if (oddity->kind != kind || oddity->is_known != is_known)
            continue;
        if (!first)
            first = oddity->path;
        count++;
    }
    if (!count)
        return OK;
    return buffer_append_text(text, "  note: %s%zu %s (%s%s)%s\n", before, count,
                              oddity_kind_name(kind), first, count > 1 ? ", …" : "", after);
}

static struct status text_all_oddities(const struct verify_set *set, struct buffer *text)
{
    static const char known[] = "known oddity of ILSVRC2012: ", odd[] = "images that are odd: ";
    static const char decodes[] = "; headrace decodes them to RGB";
    TRY(text_oddities(set, ODDITY_PNG, true, known, "", text));
    TRY(text_oddities(set, ODDITY_CMYK, true, known, "", text));
    TRY(text_oddities(set, ODDITY_PNG, false, odd, decodes, text));
    TRY(text_oddities(set, ODDITY_CMYK, false, odd, decodes, text));
    return text_oddities(set, ODDITY_CONVERTED, false,
                         "not as published: ", ": published as PNG or CMYK, JPEG in RGB here",
                         text);
}

static const char *verdict(const struct verify_set *set)
{
    if (set->is_as_published)
        return "as published";
    return set->is_as_devkit ? "as the devkit says" : "nothing is wrong";
}

/* Findings are sorted by kind: shows one kind, from `first` on, and returns where the next begins.
 */
static struct status text_kind(const struct verify_set *set, size_t first, struct buffer *text,
                               size_t *ret_next)
{
    enum finding_kind kind = set->findings[first].kind;
    size_t end = first;
    while (end < set->finding_count && set->findings[end].kind == kind)
        end++;
    TRY(buffer_append_text(text, "  %s (%zu):\n", finding_kind_name(kind), end - first));
    size_t shown_end = end - first <= max_shown + 1 ? end : first + max_shown;
    for (size_t i = first; i < shown_end; i++) {
        const struct finding *finding = &set->findings[i];
        TRY(buffer_append_text(text, "    %s%s%s\n", is_whole_set(finding) ? "" : finding->path,
                               is_whole_set(finding) ? "" : ": ", finding->text));
    }
    if (shown_end < end)
        TRY(buffer_append_text(text, "    … and %zu more (headrace verify --json lists all)\n",
                               end - shown_end));
    *ret_next = end;
    return OK;
}

static struct status text_set(const struct verify_set *set, struct buffer *text)
{
    char bytes[16];
    TRY(buffer_append_text(text, "%s: %s\n  %" PRIu64 " %s", set->path, set->form, set->images,
                           set_name(set->set)));
    if (!set->is_flat)
        TRY(buffer_append_text(text, " in %" PRIu64 " classes", set->classes));
    TRY(buffer_append_text(text, ", %s%s\n", format_bytes(set->bytes, bytes),
                           set->decoded ? ", all decoded" : ""));
    for (size_t i = 0; i < set->note_count; i++)
        TRY(buffer_append_text(text, "  note: %s\n", set->notes[i]));
    TRY(text_all_oddities(set, text));
    for (size_t i = 0; i < set->finding_count;)
        TRY(text_kind(set, i, text, &i));
    if (set->finding_count)
        return OK;
    return buffer_append_text(text, "  %s\n", verdict(set));
}

struct status verify_report_text(const struct verify_report *report, struct buffer *text)
{
    for (size_t i = 0; i < report->set_count; i++)
        TRY(text_set(&report->sets[i], text));
    return OK;
}

static struct json *json_set_of(const struct verify_set *set)
{
    struct json *object = json_object_new(), *notes = json_array_new(),
                *oddities = json_array_new(), *findings = json_array_new();
    json_set_string(object, "path", set->path);
    json_set_string(object, "form", set->form);
    json_set_string(object, "set", set_name(set->set));
    json_set_integer(object, "classes", (int64_t)set->classes);
    json_set_integer(object, "images", (int64_t)set->images);
    json_set_integer(object, "bytes", (int64_t)set->bytes);
    json_set_integer(object, "decoded", (int64_t)set->decoded);
    json_set_boolean(object, "as_published", set->is_as_published);
    for (size_t i = 0; i < set->note_count; i++)
        json_append_string(notes, set->notes[i]);
    json_set(object, "notes", notes);
    for (size_t i = 0; i < set->oddity_count; i++) {
        struct json *oddity = json_object_new();
        json_set_string(oddity, "kind", oddity_kind_name(set->oddities[i].kind));
        json_set_string(oddity, "path", set->oddities[i].path);
        json_set_boolean(oddity, "known", set->oddities[i].is_known);
        json_append(oddities, oddity);
    }
    json_set(object, "oddities", oddities);
    for (size_t i = 0; i < set->finding_count; i++) {
        struct json *finding = json_object_new();
        json_set_string(finding, "kind", finding_kind_name(set->findings[i].kind));
        json_set_string(finding, "path", set->findings[i].path);
        json_set_string(finding, "text", set->findings[i].text);
        if (set->findings[i].record != UINT64_MAX)
            json_set_integer(finding, "record", (int64_t)set->findings[i].record);
        json_append(findings, finding);
    }
    json_set(object, "findings", findings);
    return object;
}

struct json *verify_report_json(const struct verify_report *report)
{
    struct json *object = json_object_new(), *sets = json_array_new();
    uint64_t count = verify_finding_count(report);
    json_set_integer(object, "version", 1);
    json_set_string(object, "path", report->path);
    json_set_boolean(object, "ok", count == 0);
    json_set_integer(object, "findings", (int64_t)count);
    for (size_t i = 0; i < report->set_count; i++)
        json_append(sets, json_set_of(&report->sets[i]));
    json_set(object, "sets", sets);
    return object;
}
