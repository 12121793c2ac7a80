/* headrace pack: an index, and shards unless in place, from images wherever they are. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "cmd/open_source.h"
#include "cmd/problems.h"
#include "index/index.h"
#include "index/pack.h"
#include "index/summary.h"

static const char *const encoding_names[] = {"jpeg", "dct", NULL};
static const char *const on_error_names[] = {"fail", "skip", "keep", NULL};

struct pack_arguments {
    const char *out, *devkit, *prefix;
    int encoding, on_error;
    bool in_place, crc, decode, lossy, dry_run, force, json, quiet;
    uint64_t shard_size;
    int64_t jobs, max_side, quality;
    struct access_options access;
};

#define FIELD(name) offsetof(struct pack_arguments, name)
static const struct option pack_options[] = {
    {"out", 'o', OPT_STRING, FIELD(out), .value = "NAME.idx|DIR/", .required = true,
     .help = "the index to write; a folder: train.idx and val.idx in it"},
    {"encoding", 0, OPT_ENUM, FIELD(encoding), .names = encoding_names,
     .help =
         "how records are stored: jpeg keeps the files' own bytes; dct keeps their coefficients, "
         "which load several times faster and give the same files back (default %d)"},
    {"lossy", 0, OPT_FLAG, FIELD(lossy),
     .help = "allow --max-side and --quality, which change the images"},
    {"max-side", 0, OPT_INT, FIELD(max_side), .min = 16, .max = 65500, .value = "PIXELS",
     .help = "shrink images whose longer side has more pixels"},
    {"quality", 0, OPT_INT, FIELD(quality), .min = 1, .max = 100, .value = "Q",
     .help = "encode all images anew as JPEG of this quality (without it: only those that are "
             "shrunk, with quality 90)"},
    {"in-place", 0, OPT_FLAG, FIELD(in_place),
     .help = "copy nothing: the index points into the archive or folder, whose headers alone are "
             "read"},
    {"crc", 0, OPT_FLAG, FIELD(crc),
     .help = "with --in-place: read all images for their CRCs and sizes"},
    {"devkit", 0, OPT_STRING, FIELD(devkit), .value = "PATH",
     .help = "devkit, archive or folder, that says the classes of validation images"},
    {"prefix", 0, OPT_STRING, FIELD(prefix), .value = "PREFIX",
     .help = "take the class folders below PREFIX of an archive"},
    {"decode", 0, OPT_FLAG, FIELD(decode),
     .help = "decode every image in full, to find the damaged ones"},
    {"on-error", 0, OPT_ENUM, FIELD(on_error), .names = on_error_names,
     .help = "images that cannot be read: end, leave them out, or pack them as they are "
             "(default %d)"},
    {"shard-size", 0, OPT_SIZE, FIELD(shard_size), .min = 65536, .max = 1e15, .value = "BYTES",
     .help = "bytes of images in a shard (default %d)"},
    {"dry-run", 'n', OPT_FLAG, FIELD(dry_run), .help = "say what would be written, write nothing"},
    {"force", 'f', OPT_FLAG, FIELD(force), .help = "replace an index that holds something else"},
    COMMAND_JOBS(jobs),
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print one JSON object for each index"},
    {"quiet", 'q', OPT_FLAG, FIELD(quiet), .help = "no progress"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage pack_usage = {
    .command = "pack",
    .positionals = "SRC",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Makes an index of images, and shards that hold them.",
    .details =
        "SRC is the training archive, the validation archive, an archive of class folders, "
        "a folder "
        "of class folders, an index, or a folder that has a training and a validation part. "
        "The same "
        "images give the same shards to the byte, whatever SRC was and however many threads work.",
    .example = "headrace pack ILSVRC2012_img_train.tar -o train.idx\n"
               "headrace pack ILSVRC2012_img_val.tar --devkit ILSVRC2012_devkit_t12.tar.gz -o "
               "val.idx\n"
               "headrace pack data/ --in-place -o data/",
};

static void plan_note(const struct source *source, const char *path,
                      const struct pack_prediction *prediction)
{
    char from[16], index[16], shards[16];
    format_bytes(prediction->source_bytes, from);
    format_bytes(prediction->index_bytes, index);
    format_bytes(prediction->shard_bytes, shards);
    if (source->ignored > 0)
        log_note("%" PRIu64 " files and folders that are no images in class folders are ignored",
                 source->ignored);
    if (prediction->shards == 0)
        log_note("%s: %" PRIu64 " images (%s) stay where they are; the index takes about %s", path,
                 prediction->images, from, index);
    else
        log_note("%s: %" PRIu64 " images (%s) make %s%" PRIu64
                 " shard%s of %s in all; the index takes about %s",
                 path, prediction->images, from, prediction->is_estimate ? "about " : "",
                 prediction->shards, prediction->shards == 1 ? "" : "s", shards, index);
}

/* Labels count the classes that are there: with one less or more than a model knows, all that
 * follow mean others. */
static void classes_note(const struct source *source)
{
    const struct class_table *classes = source->classes, *published = class_table_ilsvrc2012();
    size_t count = class_table_count(classes), known = 0;
    const char *unknown = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *wnid = class_table_at(classes, i)->wnid;
        if (class_table_find(published, wnid) >= 0)
            known++;
        else if (!unknown)
            unknown = wnid;
    }
    if (unknown && known > count / 2)
        log_warning(
            "%zu of the %zu classes are ILSVRC2012's, others (%s, …) are not: labels are not "
            "those of models of ImageNet",
            known, count, unknown);
    else if (!unknown && known < ILSVRC2012_CLASSES)
        log_note("%zu of ILSVRC2012's %d classes are there: labels count these only, 0 … %zu",
                 known, ILSVRC2012_CLASSES, known - 1);
}

static void images_note(const struct pack_report *report)
{
    if (report->png_count > 0)
        log_note("%" PRIu64 " of the images are PNG files", report->png_count);
    if (report->shrunk > 0)
        log_note("%" PRIu64 " images were shrunk", report->shrunk);
}

/* Says which images are not `dct` and why. */
static struct status refusals_note(const struct pack_report *report)
{
    CLEANUP(buffer_done) struct buffer reasons = {0};
    const char *text;
    uint64_t refused = 0;
    for (unsigned reason = 0; reason < JPEG_REFUSALS; reason++) {
        if (report->refusals[reason] == 0)
            continue;
        TRY(buffer_append_text(&reasons, "%s%" PRIu64 " %s", refused ? ", " : "",
                               report->refusals[reason], jpeg_refusal_name(reason)));
        refused += report->refusals[reason];
    }
    TRY(buffer_text(&reasons, &text));
    if (refused > 0)
        log_note("%" PRIu64 " of %" PRIu64 " images are kept as jpeg: %s", refused, report->images,
                 text);
    return OK;
}

static void report_add_encodings(struct json *object, const struct pack_report *report)
{
    struct json *encodings = json_object_new(), *refusals = json_object_new();
    for (unsigned i = 0; i < ENCODINGS; i++)
        json_set_integer(encodings, record_encoding_name((uint8_t)i),
                         (int64_t)report->encodings[i]);
    for (unsigned reason = 0; reason < JPEG_REFUSALS; reason++) {
        if (report->refusals[reason] > 0)
            json_set_integer(refusals, jpeg_refusal_name(reason),
                             (int64_t)report->refusals[reason]);
    }
    json_set(object, "encodings", encodings);
    json_set(object, "kept_as_jpeg", refusals);
    json_set_integer(object, "shrunk", (int64_t)report->shrunk);
}

static struct status report_print_json(const char *path, const struct source *source,
                                       const struct pack_report *report, bool is_written,
                                       const struct pack_arguments *arguments)
{
    CLEANUP(json_free) struct json *object = json_object_new();
    json_set_integer(object, "version", 1);
    json_set_string(object, "index", path);
    json_set_boolean(object, "written", is_written);
    json_set_integer(object, "images", (int64_t)report->images);
    json_set_integer(object, "classes", (int64_t)class_table_count(source->classes));
    json_set_integer(object, "image_bytes", (int64_t)report->image_bytes);
    json_set_integer(object, "shards", (int64_t)report->shards);
    json_set_integer(object, "shard_bytes", (int64_t)report->written_bytes);
    json_set_integer(object, "ignored", (int64_t)source->ignored);
    json_set_integer(object, "png", (int64_t)report->png_count);
    report_add_encodings(object, report);
    json_set_string(object, "on_error", on_error_names[arguments->on_error]);
    problems_store(&report->problems, object);
    return command_print_json(object);
}

static struct status report_print(const char *path, const struct source *source,
                                  const struct pack_report *report,
                                  const struct pack_arguments *arguments)
{
    char bytes[16];
    problems_warn(&report->problems, arguments->on_error == PACK_SKIP ? "left out" : "kept");
    images_note(report);
    TRY(refusals_note(report));
    if (arguments->json)
        return report_print_json(path, source, report, true, arguments);
    printf("%s: %" PRIu64 " images in %zu classes, %s%s\n", path, report->images,
           class_table_count(source->classes),
           format_bytes(arguments->in_place ? report->image_bytes : report->written_bytes, bytes),
           arguments->in_place ? ", in place" : "");
    return OK;
}

/* Whether an index is there already and complete. One that holds something else is refused. */
static struct status output_check(const struct source *source, const char *path,
                                  const struct pack_options *options, bool *ret_done)
{
    *ret_done = false;
    if (!path_exists(path))
        return OK;
    if (!pack_is_done(source, path, options))
        FAIL(STATUS_FAILED,
             "'%s' exists and is not what packing this would make; give --force to replace it, or "
             "another name",
             path);
    *ret_done = true;
    log_note("%s is complete already; nothing to do (--force packs again)", path);
    return OK;
}

/* What an index that is there holds. */
static struct status existing_report(const char *path, struct pack_report *report)
{
    CLEANUP(index_close) struct index *index = NULL;
    struct index_summary summary;
    TRY(index_open(path, &index));
    TRY(index_summarise(index, &summary));
    report->images = summary.records;
    report->image_bytes = summary.record_bytes;
    memcpy(report->encodings, summary.encodings, sizeof report->encodings);
    for (size_t i = 0; i < index_shard_count(index); i++) {
        const struct source_shard *shard = index_shard(index, i);
        report->shards += shard->kind == SHARD_PACKED;
        report->written_bytes += shard->kind == SHARD_PACKED ? shard->size_bytes : 0;
    }
    return OK;
}

/* For programs: what is there, or would be. People read the note. */
static struct status unwritten_print(const struct source *source, const char *path, bool is_done,
                                     const struct pack_prediction *prediction,
                                     const struct pack_arguments *arguments)
{
    struct pack_report report = {
        .images = prediction->images,
        .image_bytes = prediction->source_bytes,
        .shards = prediction->shards,
        .written_bytes = prediction->shard_bytes,
    };
    if (!arguments->json)
        return OK;
    if (is_done) {
        report = (struct pack_report){0};
        TRY(existing_report(path, &report));
    }
    return report_print_json(path, source, &report, false, arguments);
}

/* Whether --out is a folder, for both parts. */
static bool output_is_pair(const char *out)
{
    size_t length = strlen(out);
    return path_is_folder(out) || (length > 0 && out[length - 1] == '/');
}

static struct status pack_one(const struct source *source, const char *path,
                              const struct pack_arguments *arguments)
{
    CLEANUP(pack_report_done) struct pack_report report = {0};
    struct pack_prediction prediction;
    struct pack_options options = {
        .encoding = (enum record_encoding)arguments->encoding,
        .in_place = arguments->in_place,
        .crc = arguments->crc,
        .decode = arguments->decode,
        .force = arguments->force,
        .on_error = (enum pack_on_error)arguments->on_error,
        .shard_bytes = arguments->shard_size,
        .threads = command_threads(arguments->jobs),
        .max_side = (uint32_t)arguments->max_side,
        .quality = (uint32_t)arguments->quality,
        .prediction = &prediction,
    };
    bool is_done = false;
    if (!arguments->force)
        TRY(output_check(source, path, &options, &is_done));
    TRY(pack_predict(source, &options, &prediction));
    if (!is_done)
        plan_note(source, path, &prediction);
    classes_note(source);
    if (arguments->dry_run && !is_done)
        TRY(pack_check_output(source, path, output_is_pair(arguments->out), &options));
    if (is_done || arguments->dry_run)
        return unwritten_print(source, path, is_done, &prediction, arguments);
    TRY(pack_run(source, path, &options, &report));
    return report_print(path, source, &report, arguments);
}

static struct status pack_pair(const struct source_request *request,
                               const struct pack_arguments *arguments)
{
    CLEANUP(source_free) struct source *train = NULL;
    CLEANUP(source_free) struct source *val = NULL;
    CLEANUP(memory_free) char *train_path = NULL;
    CLEANUP(memory_free) char *val_path = NULL;
    CLEANUP(memory_free) char *made = NULL;
    TRY(source_open_pair(request, &train, &val));
    if (!arguments->dry_run)
        TRY(folder_make(arguments->out, &made));
    TRY(path_join(arguments->out, "train.idx", &train_path));
    TRY(path_join(arguments->out, "val.idx", &val_path));
    struct status status = pack_one(train, train_path, arguments);
    if (status.code == STATUS_DONE)
        status = pack_one(val, val_path, arguments);
    if (status.code != STATUS_DONE)
        folder_unmake(arguments->out, made);
    return status;
}

static struct status in_place_check(const struct option_parse *parse,
                                    struct pack_arguments *arguments, bool is_lossy)
{
    if (!arguments->crc && !arguments->decode && option_given(parse, pack_options, "on-error"))
        FAIL(STATUS_USAGE, "--on-error with --in-place goes with --crc or --decode: no image is "
                           "read without them");
    if (option_given(parse, pack_options, "shard-size"))
        FAIL(STATUS_USAGE, "--shard-size is for shards that are written; --in-place writes none");
    if (is_lossy || arguments->lossy)
        FAIL(STATUS_USAGE, "--in-place copies nothing, so --lossy cannot go with it");
    if (!option_given(parse, pack_options, "encoding"))
        arguments->encoding = ENCODING_JPEG;
    if (arguments->encoding != ENCODING_JPEG)
        FAIL(STATUS_USAGE, "--in-place leaves images as they are, so --encoding can only be jpeg");
    return OK;
}

static struct status arguments_check(const struct option_parse *parse,
                                     struct pack_arguments *arguments)
{
    bool is_lossy = arguments->max_side > 0 || arguments->quality > 0;
    if (arguments->in_place)
        return in_place_check(parse, arguments, is_lossy);
    if (arguments->crc)
        FAIL(STATUS_USAGE, "--crc goes with --in-place: packed records always have their CRCs");
    if (is_lossy && !arguments->lossy)
        FAIL(STATUS_USAGE, "--max-side and --quality change the images; add --lossy to allow that");
    if (arguments->lossy && !is_lossy)
        FAIL(STATUS_USAGE,
             "--lossy says that images may change; add --max-side or --quality to say "
             "how");
    return OK;
}

struct status cmd_pack(int argc, char **argv)
{
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(memory_free) char *shard_prefix = NULL;
    struct option_parse parse;
    struct pack_arguments arguments = {.encoding = ENCODING_DCT, .shard_size = PACK_SHARD_BYTES};
    access_options_init(&arguments.access);
    TRY(command_parse(&pack_usage, pack_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    progress_set_quiet(arguments.quiet);
    TRY(arguments_check(&parse, &arguments));
    TRY(command_check_output(arguments.out));
    TRY(access_open(&arguments.access, &access));
    const struct source_request request = {
        .path = parse.positionals[0],
        .devkit = arguments.devkit,
        .prefix = arguments.prefix,
        .threads = command_threads(arguments.jobs),
        .access = access,
    };
    if (output_is_pair(arguments.out))
        return pack_pair(&request, &arguments);
    TRY(pack_prefix(arguments.out, &shard_prefix));
    TRY(source_open_any(&request, &source));
    return pack_one(source, arguments.out, &arguments);
}
