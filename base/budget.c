#include "base/budget.h"

void budget_init(struct budget *budget, uint64_t capacity_bytes)
{
    *budget = (struct budget){.capacity_bytes = capacity_bytes};
    pthread_mutex_init(&budget->mutex, NULL);
    pthread_cond_init(&budget->given_back, NULL);
}

void budget_done(struct budget *budget)
{
    pthread_cond_destroy(&budget->given_back);
    pthread_mutex_destroy(&budget->mutex);
}

void budget_take(struct budget *budget, uint64_t bytes)
{
    pthread_mutex_lock(&budget->mutex);
    while (budget->taken_bytes && (budget->taken_bytes >= budget->capacity_bytes ||
                                   bytes > budget->capacity_bytes - budget->taken_bytes))
        pthread_cond_wait(&budget->given_back, &budget->mutex);
    budget->taken_bytes += bytes;
    if (budget->taken_bytes > budget->peak_bytes)
        budget->peak_bytes = budget->taken_bytes;
    pthread_mutex_unlock(&budget->mutex);
}

void budget_give_back(struct budget *budget, uint64_t bytes)
{
    pthread_mutex_lock(&budget->mutex);
    budget->taken_bytes -= bytes;
    pthread_cond_broadcast(&budget->given_back);
    pthread_mutex_unlock(&budget->mutex);
}

uint64_t budget_peak(struct budget *budget)
{
    pthread_mutex_lock(&budget->mutex);
    uint64_t peak = budget->peak_bytes;
    pthread_mutex_unlock(&budget->mutex);
    return peak;
}
