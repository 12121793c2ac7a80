#include "train/run_state.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static const int64_t state_version = 1;

static struct json *sums_store(const struct metric_sums *sums)
{
    struct json *object = json_object_new();
    json_set_real(object, "loss", sums->loss);
    json_set_integer(object, "top1", (int64_t)sums->top1);
    json_set_integer(object, "top5", (int64_t)sums->top5);
    json_set_integer(object, "count", (int64_t)sums->count);
    return object;
}

static struct json *scale_store(const struct loss_scale *scale)
{
    struct json *object = json_object_new();
    json_set_real(object, "value", scale->value);
    json_set_integer(object, "clean_steps", scale->clean_steps);
    return object;
}

/* The hash is written as text: JSON's numbers are no 64-bit integers everywhere. */
static void hash_text(const struct class_table *classes, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, class_table_hash(classes));
}

static struct json *classes_store(const struct class_table *classes)
{
    struct json *object = json_object_new(), *wnids = json_array_new(), *words = json_array_new();
    char hash[17];
    hash_text(classes, hash);
    for (size_t i = 0; i < class_table_count(classes); i++) {
        json_append_string(wnids, class_table_at(classes, i)->wnid);
        json_append_string(words, class_table_at(classes, i)->words);
    }
    json_set_string(object, "hash", hash);
    json_set(object, "wnids", wnids);
    json_set(object, "words", words);
    return object;
}

void run_state_store(const struct run_state *state, const struct class_table *classes,
                     struct json *object)
{
    json_set_integer(object, "version", state_version);
    json_set_string(object, "arch", state->arch);
    json_set_integer(object, "classes", state->classes);
    json_set_integer(object, "epoch", (int64_t)state->epoch);
    json_set_integer(object, "step", (int64_t)state->step);
    json_set_integer(object, "steps_per_epoch", (int64_t)state->steps_per_epoch);
    json_set_integer(object, "train_images", (int64_t)state->train_images);
    json_set(object, "epoch_sums", sums_store(&state->epoch_sums));
    json_set_integer(object, "skipped_steps", (int64_t)state->skipped);
    json_set(object, "loss_scale", scale_store(&state->scale));
    json_set_real(object, "best_top1", state->best_top1);
    json_set_integer(object, "best_epoch", (int64_t)state->best_epoch);
    json_set_string(object, "backend", state->backend);
    json_set_string(object, "dtype", train_dtype_names[state->dtype]);
    json_set_integer(object, "threads", state->threads);
    json_set_integer(object, "device_batch", state->device_batch);
    json_set_string(object, "pixels", pixels_names[state->pixels]);
    json_set_integer(object, "val_resize", state->val_resize);
    json_set_integer(object, "val_crop", state->val_crop);
    json_set_boolean(object, "val_flip", state->val_flip);
    json_set(object, "class_table", classes_store(classes));
}

static struct status count_get(const struct json *object, const char *key, uint64_t max,
                               uint64_t *ret_value)
{
    int64_t value;
    TRY(json_get_integer(object, key, &value));
    if (value < 0 || (uint64_t)value > max)
        FAIL(STATUS_CORRUPT, "\"%s\" is %" PRId64 ", expected 0 to %" PRIu64, key, value, max);
    *ret_value = (uint64_t)value;
    return OK;
}

static struct status u32_get(const struct json *object, const char *key, uint32_t max,
                             uint32_t *ret_value)
{
    uint64_t value = 0;
    TRY(count_get(object, key, max, &value));
    *ret_value = (uint32_t)value;
    return OK;
}

static struct status text_get(const struct json *object, const char *key, char *ret_text,
                              size_t capacity)
{
    const char *text;
    TRY(json_get_string(object, key, &text));
    if (strlen(text) >= capacity)
        FAIL(STATUS_CORRUPT, "\"%s\" is longer than %zu bytes", key, capacity - 1);
    memcpy(ret_text, text, strlen(text) + 1);
    return OK;
}

/* The place of a name in a list that ends in NULL. */
static struct status name_get(const struct json *object, const char *key, const char *const *names,
                              int *ret_choice)
{
    const char *name;
    TRY(json_get_string(object, key, &name));
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        *ret_choice = i;
        return OK;
    }
    FAIL(STATUS_CORRUPT, "unknown \"%s\" '%s'", key, name);
}

static struct status sums_restore(const struct json *object, struct metric_sums *sums)
{
    if (!object)
        FAIL(STATUS_CORRUPT, "no \"epoch_sums\"");
    TRY(json_get_real(object, "loss", &sums->loss));
    TRY(count_get(object, "top1", INT64_MAX, &sums->top1));
    TRY(count_get(object, "top5", INT64_MAX, &sums->top5));
    return count_get(object, "count", INT64_MAX, &sums->count);
}

static struct status classes_restore(const struct json *object, uint32_t expected,
                                     struct class_table **ret_classes)
{
    const struct json *wnids = json_get(object, "wnids"), *words = json_get(object, "words");
    size_t count = json_length(wnids);
    if (!wnids || !words || count != expected || json_length(words) != count)
        FAIL(STATUS_CORRUPT, "a class table of %zu classes, expected %u", count, expected);
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    CLEANUP(class_table_free) struct class_table *classes = NULL;
    TRY(memory_alloc(count, sizeof *entries, &entries));
    for (size_t i = 0; i < count; i++) {
        TRY(json_as_string(json_at(wnids, i), &entries[i].wnid));
        TRY(json_as_string(json_at(words, i), &entries[i].words));
    }
    TRY(class_table_make(entries, count, &classes));
    char hash[17], expected_hash[17];
    hash_text(classes, hash);
    TRY(text_get(object, "hash", expected_hash, sizeof expected_hash));
    if (strcmp(hash, expected_hash) != 0)
        FAIL(STATUS_CORRUPT, "a class table with hash %s, expected %s", hash, expected_hash);
    *ret_classes = MOVE(classes);
    return OK;
}

/* Where the updates stand. An older program's state has no such members: it skipped no step. */
static struct status updates_restore(const struct json *object, struct run_state *state)
{
    const struct json *scale = json_get(object, "loss_scale");
    state->scale.value = 1;
    if (!scale)
        return OK;
    uint64_t done = state->epoch * state->steps_per_epoch + state->step;
    TRY(count_get(object, "skipped_steps", done, &state->skipped));
    TRY(json_get_real(scale, "value", &state->scale.value));
    if (!(state->scale.value > 0 && state->scale.value <= (double)FLT_MAX))
        FAIL(STATUS_CORRUPT, "a loss scale of %g, expected one that f32 holds", state->scale.value);
    return u32_get(scale, "clean_steps", UINT32_MAX, &state->scale.clean_steps);
}

static struct status position_restore(const struct json *object, struct run_state *state)
{
    const uint64_t max = INT64_MAX;
    TRY(count_get(object, "epoch", max, &state->epoch));
    TRY(count_get(object, "steps_per_epoch", max, &state->steps_per_epoch));
    TRY(count_get(object, "step", state->steps_per_epoch, &state->step));
    TRY(count_get(object, "train_images", max, &state->train_images));
    TRY(sums_restore(json_get(object, "epoch_sums"), &state->epoch_sums));
    TRY(updates_restore(object, state));
    TRY(json_get_real(object, "best_top1", &state->best_top1));
    return count_get(object, "best_epoch", max, &state->best_epoch);
}

struct status run_state_restore(const struct json *object, struct run_state *ret_state,
                                struct class_table **ret_classes)
{
    struct run_state state = {0};
    int64_t version;
    int choice = 0;
    TRY(json_get_integer(object, "version", &version));
    if (version != state_version)
        FAIL(STATUS_UNSUPPORTED,
             "state of version %" PRId64 ", this program reads version %" PRId64, version,
             state_version);
    TRY(text_get(object, "arch", state.arch, sizeof state.arch));
    TRY(u32_get(object, "classes", 1 << 24, &state.classes));
    TRY(position_restore(object, &state));
    TRY(text_get(object, "backend", state.backend, sizeof state.backend));
    TRY(name_get(object, "dtype", train_dtype_names, &choice));
    state.dtype = (enum train_dtype)choice;
    TRY(u32_get(object, "threads", 1 << 20, &state.threads));
    if (json_get(object, "device_batch")) /* an older program's state has none */
        TRY(u32_get(object, "device_batch", UINT32_MAX, &state.device_batch));
    TRY(name_get(object, "pixels", pixels_names, &choice));
    state.pixels = (enum pixels)choice;
    TRY(u32_get(object, "val_resize", 1 << 20, &state.val_resize));
    TRY(u32_get(object, "val_crop", 1 << 20, &state.val_crop));
    if (json_get(object, "val_flip")) /* an older program's state has none */
        TRY(json_get_boolean(object, "val_flip", &state.val_flip));
    TRY(classes_restore(json_get(object, "class_table"), state.classes, ret_classes));
    *ret_state = state;
    return OK;
}
