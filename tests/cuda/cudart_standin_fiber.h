#ifndef HEADRACE_TESTS_CUDA_CUDART_STANDIN_FIBER_H
#define HEADRACE_TESTS_CUDA_CUDART_STANDIN_FIBER_H

/* Stacks that a thread of the CPU goes to and fro between, one thread at a time. A kernel's block
 * has up to 1024 of them and changes at every barrier and shuffle, so that a change costs a few
 * instructions; longjmp would not do, which AddressSanitizer follows with a system call and by
 * clearing what it knows of the whole stack. */

#include <stddef.h>

/* A stack while something else runs on the thread's processor. {0} for the thread's own stack. */
struct stack {
    void *position; /* of the stack pointer */
    const void *bottom;
    size_t size_bytes;
    void *fake; /* AddressSanitizer's, of who left */
};

/* A stack of `size_bytes` at `memory`, aligned to 16 bytes, on which `run` begins at the first
 * change to it. `run` never returns. */
void stack_init(struct stack *stack, void *memory, size_t size_bytes, void (*run)(void));

/* Goes on where `to` was left, and returns once somebody changes back to `from`. */
void stack_change(struct stack *from, struct stack *to);

/* What `run` does first. */
void stack_arrive(void);

#endif
