#include "train/ema.h"

#include <math.h>

double ema_rescaled_decay(const struct ema *ema)
{
    double factor = (double)ema->batch * (double)ema->every / fmax((double)ema->epochs, 1);
    return 1 - fmin(1, (1 - ema->decay) * factor);
}

bool ema_is_due(const struct ema *ema, uint64_t epoch, uint64_t step, double *ret_decay)
{
    if (ema->decay == 0 || step % ema->every != 0)
        return false;
    /* torchvision forgets during the warm-up that there was an update, so that the one behind it
     * begins anew. */
    double before = (double)epoch - (step == 0);
    *ret_decay = before < ema->warmup_epochs ? 0 : ema_rescaled_decay(ema);
    return true;
}
