#include "cmd/verify_index.h"

#include <inttypes.h>

#include "index/check.h"
#include "index/url.h"
#include "prep/archive_source.h"

static struct status fill_set(struct verify_set *set, const struct index *index,
                              const struct verify_options *options,
                              const struct check_report *check)
{
    TRY(string_copy(index_path(index), &set->path));
    set->form = "index";
    set->classes = class_table_count(index_classes(index));
    set->images = index_count(index);
    set->bytes = check->read_bytes;
    set->decoded = options->decode ? check->records : 0;
    if (check->crc_unknown)
        TRY(verify_note(set, "%" PRIu64 " records have no CRC to compare with",
                        check->crc_unknown));
    if (check->lossy)
        TRY(verify_note(set,
                        "%" PRIu64 " records were packed with --lossy: not the original images",
                        check->lossy));
    for (size_t i = 0; i < check->finding_count; i++) {
        const struct check_finding *finding = &check->findings[i];
        TRY(verify_found(set, finding->record == CHECK_NO_RECORD ? FOUND_INDEX : FOUND_RECORD,
                         finding->where, "%s", finding->what));
        if (finding->record != CHECK_NO_RECORD)
            set->findings[set->finding_count - 1].record = finding->record;
    }
    return verify_expected(set, options);
}

/* What is for folders and archives alone. */
static struct status options_check(const struct verify_options *options)
{
    CLEANUP(memory_free) char *shown = NULL;
    TRY(url_shown(options->path, &shown));
    if (options->md5)
        FAIL(STATUS_USAGE, "--md5 recognises published archives; %s is an index", shown);
    if (options->devkit)
        FAIL(STATUS_USAGE, "--devkit is for folders and archives; %s has a class table of its own",
             shown);
    if (options->prefix)
        return archive_fail_prefix(shown, "an index");
    if (options->duplicates)
        FAIL(STATUS_USAGE, "--duplicates is for folders and archives; %s is an index", shown);
    if (options->is_subset)
        FAIL(STATUS_USAGE,
             "--subset is for folders and archives; %s is an index, which may hold any part",
             shown);
    return OK;
}

struct status verify_index(const struct verify_options *options, struct access *access,
                           struct verify_report **ret_report)
{
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(check_report_done) struct check_report check = {0};
    CLEANUP(verify_report_free) struct verify_report *report = NULL;
    TRY(options_check(options));
    TRY(index_open_with(options->path, access, &index));
    TRY(index_check(index,
                    &(struct check_options){.read = true,
                                            .decode = options->decode,
                                            .threads = options->threads},
                    &check));
    TRY(verify_report_new(index_path(index), 1, &report));
    TRY(fill_set(&report->sets[0], index, options, &check));
    *ret_report = MOVE(report);
    return OK;
}
