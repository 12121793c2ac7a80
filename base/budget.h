#ifndef HEADRACE_BASE_BUDGET_H
#define HEADRACE_BASE_BUDGET_H

/* A number of bytes that threads share: each takes what it is about to use, and waits until so much
 * is free. */

#include <pthread.h>
#include <stdint.h>

struct budget {
    pthread_mutex_t mutex; /* guards the numbers below */
    pthread_cond_t given_back;
    uint64_t capacity_bytes, taken_bytes, peak_bytes;
};

void budget_init(struct budget *budget, uint64_t capacity_bytes);
void budget_done(struct budget *budget);
/* More than the whole budget is granted to a thread when no other holds any. A thread that holds
 * some takes no more before it has given that back. */
void budget_take(struct budget *budget, uint64_t bytes);
void budget_give_back(struct budget *budget, uint64_t bytes);
/* The most that was taken at a time. */
uint64_t budget_peak(struct budget *budget);

#endif
