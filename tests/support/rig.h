#ifndef HEADRACE_TESTS_SUPPORT_RIG_H
#define HEADRACE_TESTS_SUPPORT_RIG_H

/* A backend at work beside the reference in double (replicas.h): one network, a training and an
 * evaluation plan, and how far the two are apart. */

#include "tests/support/replicas.h"

struct rig {
    const struct backend_ops *ops;
    struct network *network;
    struct plan_config config;
    struct backend *backend;
    struct store *store;
    struct plan *train, *eval;
};

/* Takes `network` over; parameters start as initialise_parameters makes them, with seed 1. */
void rig_open(struct rig *rig, const struct backend_module *module, struct network *network,
              const struct plan_config *plan, const struct backend_config *config);
void rig_close(struct rig *rig);

/* A batch as a step's only micro-batch takes it; borrows it. */
struct step_input rig_input(const struct pixel_batch *batch);
/* A step's only micro-batch, mixed as the batch says; metrics of it. The update is left to the
 * caller. */
struct step_metrics rig_train(const struct rig *rig, const struct pixel_batch *batch);
struct step_metrics rig_evaluate(const struct rig *rig, const struct pixel_batch *batch);

/* |ours / scale − theirs| / |theirs| over tensors of a role, with ROLE_VALUE over running
 * statistics too; infinite where something is not a number. */
struct rig_distance {
    double furthest; /* of single tensors */
    double whole;    /* of all together */
};
struct rig_distance rig_distance(const struct rig *rig, struct replicas *reference,
                                 enum param_role role, double scale);

/* The reference goes on from our values and momenta: in 16 bits a step's rounding is soon another
 * training. */
void rig_lead(const struct rig *rig, struct replicas *reference);

#endif
