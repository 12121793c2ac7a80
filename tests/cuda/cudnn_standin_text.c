#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudnn_standin_internal.h"

/* Programs as text: all that they are of, number after number, so that another process, or a later
 * run, has the same program from it. */

/* Puts numbers into a file, or takes them from it. */
struct text {
    FILE *file;
    bool reads, fails;
};

/* A number of `least` to `most`. */
static int64_t number_pass(struct text *text, int64_t value, int64_t least, int64_t most)
{
    if (text->reads)
        text->fails |= fscanf(text->file, " %" SCNd64, &value) != 1;
    else
        fprintf(text->file, " %" PRId64, value);
    text->fails |= value < least || value > most;
    return text->fails ? least : value;
}

static void tensor_pass(struct text *text, struct tensor *tensor)
{
    tensor->id = number_pass(text, tensor->id, INT64_MIN, INT64_MAX);
    tensor->type = (cudnnDataType_t)number_pass(text, tensor->type, 0, INT16_MAX);
    for (int i = 0; i < 4; i++)
        tensor->dims[i] = number_pass(text, tensor->dims[i], 1, INT32_MAX);
    tensor->is_virtual = number_pass(text, tensor->is_virtual, 0, 1) != 0;
    tensor->by_value = number_pass(text, tensor->by_value, 0, 1) != 0;
    tensor->writer = (int)number_pass(text, tensor->writer, -1, PROGRAM_NODES - 1);
    tensor->read = number_pass(text, tensor->read, 0, 1) != 0;
}

static void node_pass(struct text *text, struct node *node)
{
    node->type = (cudnnBackendDescriptorType_t)number_pass(text, node->type, 0, INT16_MAX);
    node->mode = (int)number_pass(text, node->mode, INT16_MIN, INT16_MAX);
    for (int i = 0; i < NODE_SLOTS; i++)
        node->slots[i] = (int)number_pass(text, node->slots[i], -1, PROGRAM_TENSORS - 1);
    for (int i = 0; i < 2; i++) {
        node->window[i] = number_pass(text, node->window[i], 0, INT32_MAX);
        node->stride[i] = number_pass(text, node->stride[i], 0, INT32_MAX);
        node->padding[i] = number_pass(text, node->padding[i], 0, INT32_MAX);
    }
}

static void program_pass(struct text *text, struct program *program)
{
    program->tensor_count = (int)number_pass(text, program->tensor_count, 0, PROGRAM_TENSORS);
    for (int i = 0; i < program->tensor_count; i++)
        tensor_pass(text, &program->tensors[i]);
    program->node_count = (int)number_pass(text, program->node_count, 0, PROGRAM_NODES);
    for (int i = 0; i < program->node_count; i++)
        node_pass(text, &program->nodes[i]);
}

void program_write(const struct program *program, FILE *file)
{
    struct text text = {.file = file};
    struct program copy;
    memcpy(&copy, program, sizeof copy);
    program_pass(&text, &copy);
}

struct program *program_read(FILE *file)
{
    struct text text = {.file = file, .reads = true};
    struct program *program = calloc(1, sizeof *program);
    program->references = 1;
    program_pass(&text, program);
    if (!text.fails)
        return program;
    program_release(program);
    return NULL;
}
