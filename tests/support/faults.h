#ifndef HEADRACE_TESTS_SUPPORT_FAULTS_H
#define HEADRACE_TESTS_SUPPORT_FAULTS_H

/* Runs that are killed or whose disk fails, at places spread over all of them; run again they have
 * to end as if nothing had been. */

#include <signal.h>
#include <stdbool.h>

#include "base/status.h"

struct fault_scenario {
    void (*prepare)(void);          /* a fresh start */
    struct status (*run)(void);     /* in a process of its own where it may end early */
    void (*check_unfinished)(void); /* what a run may leave that did not end well; NULL: anything */
    void (*check)(void);            /* what a finished run leaves */
    unsigned places;                /* of each kind of fault, and moments of a signal; 0: 50 */
};

/* Each kind of fault of base/disk.h at `places` calls, one in each equal part of the run. */
void faults_run(const struct fault_scenario *scenario);

/* A signal at each of `places` moments, drawn from the time that a whole run takes, to a run that
 * listens to stop_install's. SIGKILL may leave temporary files, other signals only what
 * `check_stopped` accepts. */
void faults_run_signals(const struct fault_scenario *scenario, int signal_number,
                        void (*check_stopped)(void));

/* Several runs at once, a few times; those that do not succeed say that another one is writing. */
void faults_run_together(const struct fault_scenario *scenario);

#endif
