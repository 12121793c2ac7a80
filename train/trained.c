#include "train/trained.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/safetensors.h"

/* STEM of a checkpoint at `path`, on the heap; NULL: bare weights. */
static struct status stem_find(const char *path, char **ret_stem)
{
    CLEANUP(memory_free) char *stem = NULL;
    *ret_stem = NULL;
    TRY(checkpoint_stem(path, "model_best", &stem));
    if (path_is_folder(path) && !checkpoint_exists(stem)) {
        memory_free(MOVE(stem));
        TRY(checkpoint_stem(path, "checkpoint", &stem));
        if (!checkpoint_exists(stem))
            FAIL(STATUS_NOT_FOUND, "'%s' holds neither model_best.state nor checkpoint.state",
                 path);
    }
    if (checkpoint_exists(stem))
        *ret_stem = MOVE(stem);
    return OK;
}

static struct status checkpoint_take(struct trained *trained, const char *stem, const char *arch)
{
    TRY(string_format(&trained->path, "%s.safetensors", stem));
    TRY(checkpoint_load(stem, &trained->checkpoint));
    struct checkpoint *checkpoint = trained->checkpoint;
    if (arch && strcmp(arch, checkpoint->state.arch) != 0)
        FAIL(STATUS_USAGE, "'%s' is a %s, not a %s: leave out --arch", trained->path,
             checkpoint->state.arch, arch);
    trained->network = MOVE(checkpoint->network);
    trained->weights = MOVE(checkpoint->weights);
    trained->classes = MOVE(checkpoint->classes);
    trained->val_resize = checkpoint->state.val_resize;
    trained->val_crop = checkpoint->state.val_crop;
    trained->val_flip = checkpoint->state.val_flip;
    trained->pixels = checkpoint->state.pixels;
    return OK;
}

/* The classes of bare weights: as many as the last layer has rows. */
static struct status classes_guess(const struct safetensors *file, const char *path,
                                   const struct class_table *set, struct class_table **ret_classes)
{
    const struct safetensor *bias = safetensors_find(file, "fc.bias");
    if (!bias)
        bias = safetensors_find(file, "module.fc.bias");
    if (!bias || bias->rank != 1)
        FAIL(STATUS_CORRUPT, "'%s' has no 'fc.bias' of one dimension: not the weights of a ResNet",
             path);
    const struct class_table *imagenet = class_table_ilsvrc2012();
    if (bias->count == class_table_count(imagenet))
        return class_table_copy(imagenet, ret_classes);
    if (set && bias->count == class_table_count(set))
        return class_table_copy(set, ret_classes);
    size_t set_count = set ? class_table_count(set) : 0;
    FAIL(STATUS_USAGE,
         "'%s' has %" PRIu64
         " classes and no .state beside it that names them, and the set has %zu%s",
         path, bias->count, set_count,
         bias->count == set_count + 1
             ? ": if its class 0 is TensorFlow's background, leave that row of fc.weight and "
               "fc.bias out"
             : "");
}

static struct status bare_take(struct trained *trained, const char *path, const char *arch,
                               const struct class_table *set)
{
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    bool stripped;
    TRY(safetensors_open(path, &file));
    if (!arch)
        FAIL(STATUS_USAGE, "'%s' has no .state beside it that names the network: give --arch",
             path);
    TRY(string_copy(path, &trained->path));
    TRY(classes_guess(file, path, set, &trained->classes));
    TRY(network_open(arch, (uint32_t)class_table_count(trained->classes), &trained->network));
    TRY(weights_open(trained->network, &trained->weights));
    TRY(weights_from_safetensors(trained->weights, file, path, &stripped));
    if (stripped)
        log_note("'%s': the prefix \"module.\" was dropped from all names", path);
    return OK;
}

struct status trained_open(const char *path, const char *arch, const struct class_table *set,
                           struct trained **ret_trained)
{
    CLEANUP(trained_close) struct trained *trained = NULL;
    CLEANUP(memory_free) char *stem = NULL;
    TRY(memory_alloc(1, sizeof *trained, &trained));
    TRY(stem_find(path, &stem));
    if (stem)
        TRY(checkpoint_take(trained, stem, arch));
    else
        TRY(bare_take(trained, path, arch, set));
    *ret_trained = MOVE(trained);
    return OK;
}

void trained_close(struct trained *trained)
{
    if (!trained)
        return;
    weights_close(trained->weights);
    network_close(trained->network);
    class_table_free(trained->classes);
    checkpoint_free(trained->checkpoint);
    memory_free(trained->path);
    memory_free(trained);
}
