#ifndef HEADRACE_TRAIN_MIRRORED_H
#define HEADRACE_TRAIN_MIRRORED_H

/* Evaluation of each image together with its mirror image, as FFCV's ImageNet trainer does: the
 * logits of both are added, which gives the same ranks as their mean. The loss is that of the mean:
 * of the sum it would be that of a network twice as sure. */

#include "base/scope.h"
#include "base/status.h"
#include "image/tensor.h"
#include "train/model.h"

struct mirrored;

/* Of the host, that one for such a plan takes. */
uint64_t mirrored_bytes(const struct plan_config *config, const struct tensor_format *format,
                        uint32_t classes);

/* For an EVAL plan of `model` (borrowed) of this shape; `format` is what it takes. */
struct status mirrored_open(const struct model *model, const struct plan_config *config,
                            const struct tensor_format *format, struct mirrored **ret_mirrored);
void mirrored_close(struct mirrored *mirrored);
CLEANUP_POINTER(mirrored_close, struct mirrored)

/* Evaluates a batch with that plan, and waits for the result. */
struct status mirrored_forward(struct mirrored *mirrored, struct plan *plan,
                               const struct step_input *input, struct step_metrics *ret_metrics);

#endif
