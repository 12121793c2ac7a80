#ifndef HEADRACE_TESTS_SUPPORT_SESSION_H
#define HEADRACE_TESTS_SUPPORT_SESSION_H

/* A backend at work on a network, and random batches for it. */

#include "train/module.h"

struct session {
    const struct backend_ops *ops;
    const struct network *network; /* borrowed */
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
    struct plan_config config;
};

/* The cpu module; skips the test where it is not built, or where the processor does not compute in
 * `dtype`. A skipped test frees nothing, so it is called before anything is opened. */
const struct backend_module *cpu_module(void);
const struct backend_module *cpu_module_for(enum train_dtype dtype);

/* Opens both plans, whatever `config->mode` is. */
void session_open(struct session *s, const struct backend_module *module, enum train_dtype dtype,
                  const struct network *network, const struct plan_config *config);
void session_open_with(struct session *s, const struct backend_module *module,
                       const struct backend_config *backend, const struct network *network,
                       const struct plan_config *config);
void session_close(struct session *s);
/* γ around 1 and β around 0 rather than at them, so that nothing hides; with `zero_gamma` as a
 * training begins. */
void session_initialise(struct session *s, uint64_t seed, bool zero_gamma);

/* γ around 1 and β around 0, drawn from streams (seed, RANDOM_TEST, purpose, parameter). */
void norms_draw(const struct network *network, const struct backend_ops *ops, struct store *store,
                uint64_t seed, uint64_t purpose);

/* A batch in f32, bf16 and as it was drawn. */
struct batch {
    size_t count;
    float *f32;
    uint16_t *bf16;
    int32_t labels[16];
    uint32_t valid;
};

/* Images hold bf16 numbers, so that all types see the same. The last label of three or more is −1.
 */
void batch_make(struct batch *batch, const struct plan_config *config, uint32_t classes,
                uint64_t seed);
void batch_done(struct batch *batch);

/* The batch as a whole step. */
struct step_input session_input(const struct session *s, const struct batch *batch);
/* The metrics of the one step since the last call. */
struct step_metrics session_metrics(const struct session *s, struct plan *plan);
/* Gradients; a pass without; SGD with momentum .9 and decay 1e-3. */
struct step_metrics session_train(const struct session *s, const struct batch *batch);
struct step_metrics session_evaluate(const struct session *s, const struct batch *batch);
void session_update(const struct session *s, double learning_rate, bool nesterov);
/* A tensor, on the heap. */
double *session_read(const struct session *s, enum param_role role, size_t param);

#endif
