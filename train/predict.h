#ifndef HEADRACE_TRAIN_PREDICT_H
#define HEADRACE_TRAIN_PREDICT_H

/* What a trained network says of single images. */

#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "image/tensor.h"
#include "train/model.h"
#include "train/trained.h"

enum { PREDICTION_TOP = 5 };

struct prediction {
    int32_t top[PREDICTION_TOP]; /* labels, the likeliest first; -1 beyond the classes */
    float share[PREDICTION_TOP]; /* their probabilities */
    double loss;                 /* cross-entropy of the image's label; 0 for label -1 */
};

struct predictor;

/* A network on a device for images of size x size pixels. `trained` must outlive the predictor. */
struct status predictor_open(const struct trained *trained, const char *device,
                             const struct backend_config *config, uint32_t size,
                             struct predictor **ret_predictor);
void predictor_close(struct predictor *predictor);
CLEANUP_POINTER(predictor_close, struct predictor)

/* The form in which predictor_run takes images. */
struct tensor_format predictor_format(const struct predictor *predictor);

/* `images`: (count, H, W, 3) in the format; `labels`: (count), -1: none. Every image is looked at
 * on its own, so results do not depend on its neighbours. */
struct status predictor_run(struct predictor *predictor, const void *images, const int32_t *labels,
                            uint32_t count, struct prediction *ret_predictions);

#endif
