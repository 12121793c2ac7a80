#ifndef HEADRACE_TRAIN_RANKS_H
#define HEADRACE_TRAIN_RANKS_H

/* What processes that train together settle among themselves before they start. Alone, each of
 * these is nothing to do. */

#include "base/status.h"
#include "train/checkpoint.h"
#include "train/comm.h"
#include "train/options.h"

/* Divides this machine's cores among its processes: cores_available() is from now on this one's
 * share, of the cores that it is bound to. Messages of all but rank 0 begin with their rank. */
struct status ranks_settle(struct comm *comm);

/* Fails on every rank, naming the first rank whose text is not that of rank 0 and showing both,
 * when they differ. `what` begins the message: "the data". Texts are cut at 255 bytes. */
struct status ranks_agree(struct comm *comm, const char *what, const char *text);

/* The same for options, after which all ranks go the same way: STATUS_USAGE with the first one that
 * differs and both its values. Left out is what may differ from machine to machine, such as paths.
 */
struct status ranks_agree_options(struct comm *comm, const struct train_options *options);

/* Whether any rank says yes. */
struct status ranks_vote(struct comm *comm, bool yes, bool *ret_any);
/* Whether all stop, since a rank says so or what it waited for ended with STATUS_STOPPED. Any other
 * failure in `waited`, which is the callee's, is returned. */
struct status ranks_vote_stop(struct comm *comm, bool yes, struct status waited,
                              bool *ret_stopping);

/* Sums over all processes, in place. */
struct status sums_join(struct comm *comm, struct metric_sums *sums, size_t count);

/* A text of rank 0 for all; on the heap, *text is rank 0's own and is set on the others. */
struct status ranks_share_text(struct comm *comm, char **text);

/* Gives rank 0's checkpoint (NULL: none) to all others, which own their copies. */
struct status ranks_share_checkpoint(struct comm *comm, struct checkpoint **checkpoint);

#endif
