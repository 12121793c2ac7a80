#include "train/setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/path.h"
#include "train/backend.h"
#include "train/ranks.h"

static const size_t recipe_ceiling_bytes = 1 << 20;

static bool given(const struct option_parse *parse, const char *name)
{
    return option_given(parse, train_option_table, name);
}

/* Where recipes that come with the program stand, as seen from its folder: an installation, a
 * build. */
static const char *const recipe_folders[] = {"../share/headrace/recipes", "../train/recipes"};

/* The file that --recipe means, on the heap: a path, or the name of a recipe that comes with the
 * program. */
static struct status recipe_find(const char *name, char **ret_path)
{
    if ((path_exists(name) && !path_is_folder(name)) || strchr(name, '/'))
        return string_copy(name, ret_path);
    CLEANUP(memory_free) char *beside = NULL;
    TRY(path_program_folder(&beside));
    for (size_t i = 0; i < ARRAY_LENGTH(recipe_folders); i++) {
        CLEANUP(memory_free) char *path = NULL;
        TRY(string_format(&path, "%s/%s/%s.recipe", beside, recipe_folders[i], name));
        if (path_exists(path)) {
            *ret_path = MOVE(path);
            return OK;
        }
    }
    FAIL(STATUS_NOT_FOUND,
         "there is no file '%s', and no recipe of this name in %s/%s: --recipe takes a file of "
         "flags or the name of a recipe that comes with the program",
         name, beside, recipe_folders[0]);
}

static struct status recipe_apply(struct train_options *options, struct option_parse *parse,
                                  struct buffer *recipe)
{
    if (!options->recipe)
        return OK;
    CLEANUP(memory_free) char *path = NULL;
    const char *text;
    TRY(recipe_find(options->recipe, &path));
    TRY(file_read_all(path, recipe_ceiling_bytes, recipe));
    TRY(buffer_text(recipe, &text));
    return option_parse_text(train_option_table, (char *)recipe->data, path, options, parse);
}

/* Where --resume points: STEM on the heap, or NULL when "auto" finds nothing to continue. */
static struct status resume_find(const struct train_options *options, char **ret_stem)
{
    CLEANUP(memory_free) char *stem = NULL;
    bool automatic = strcmp(options->resume, "auto") == 0;
    *ret_stem = NULL;
    TRY(automatic ? path_join(options->out, "checkpoint", &stem)
                  : checkpoint_stem(options->resume, "checkpoint", &stem));
    if (checkpoint_exists(stem)) {
        *ret_stem = MOVE(stem);
        return OK;
    }
    if (!automatic)
        FAIL(STATUS_NOT_FOUND,
             "there is no checkpoint '%s.state' to resume from (weights alone start a new run: "
             "--weights FILE)",
             stem);
    if (options->evaluate)
        FAIL(STATUS_NOT_FOUND, "there is no checkpoint '%s.state' to evaluate", stem);
    log_note("there is no checkpoint in '%s' yet: the run starts anew", options->out);
    return OK;
}

/* Takes over what the command line did not say otherwise. */
static struct status checkpoint_apply(struct train_options *options, struct option_parse *parse,
                                      const struct checkpoint *checkpoint)
{
    bool new_data = given(parse, "data") || parse->positional_count;
    bool new_train = given(parse, "train"), new_val = given(parse, "val");
    bool new_dtype = given(parse, "dtype");
    TRY(option_restore(train_option_table, checkpoint_options(checkpoint), options, parse));
    if (strcmp(train_options_arch(options), checkpoint->state.arch) != 0)
        FAIL(STATUS_USAGE, "the checkpoint is of %s, not of %s: leave out --arch",
             checkpoint->state.arch, train_options_arch(options));
    if (new_data && !new_train)
        options->train = NULL;
    if (new_data && !new_val)
        options->val = NULL;
    if (!new_dtype)
        options->dtype = (int)checkpoint->state.dtype;
    return OK;
}

/* The checkpoint that --resume means; NULL when "auto" finds none. */
static struct status resume_load(const struct train_options *options,
                                 struct checkpoint **ret_checkpoint)
{
    CLEANUP(memory_free) char *stem = NULL;
    TRY(resume_find(options, &stem));
    if (!stem)
        return OK;
    if (!options->evaluate)
        TRY(checkpoint_recover(stem));
    return checkpoint_load(stem, ret_checkpoint);
}

/* Without --out a run goes on where its checkpoint lies. */
static struct status resume_apply(struct comm *comm, struct train_options *options,
                                  struct option_parse *parse, struct checkpoint **ret_checkpoint)
{
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    if (!options->resume)
        return OK;
    if (comm_rank(comm) == 0)
        TRY(resume_load(options, &checkpoint));
    TRY(ranks_share_checkpoint(comm, &checkpoint));
    if (!checkpoint)
        return OK;
    TRY(checkpoint_apply(options, parse, checkpoint));
    if (!given(parse, "out"))
        options->out = checkpoint->folder;
    *ret_checkpoint = MOVE(checkpoint);
    return OK;
}

struct status setup_make(struct comm *comm, struct train_options *options,
                         struct option_parse *parse, struct buffer *recipe,
                         struct checkpoint **ret_checkpoint)
{
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    if (parse->positional_count && given(parse, "data"))
        FAIL(STATUS_USAGE, "the data was named twice, '%s' and --data %s", parse->positionals[0],
             options->data);
    TRY(recipe_apply(options, parse, recipe));
    /* They decide who waits for whom from here on. */
    TRY(ranks_agree_options(comm, options));
    TRY(resume_apply(comm, options, parse, &checkpoint));
    if (parse->positional_count)
        options->data = parse->positionals[0];
    if (options->evaluate && !checkpoint && !options->weights)
        FAIL(STATUS_USAGE, "--evaluate needs weights: --weights FILE or --resume PATH");
    TRY(train_options_check(options));
    *ret_checkpoint = MOVE(checkpoint);
    return OK;
}
