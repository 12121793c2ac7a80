#include "tests/cuda/cudart_standin_fiber.h"

#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>

/* Whom the running stack was entered from: a thread's own stack gets its bounds when it is left. */
static struct stack *left;

static void announce_change(struct stack *from, const struct stack *to)
{
    left = from;
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->size_bytes);
}

static void finish_change(void *fake)
{
    __sanitizer_finish_switch_fiber(fake, &left->bottom, &left->size_bytes);
}
#else
static void announce_change(struct stack *from, const struct stack *to)
{
    (void)from, (void)to;
}

static void finish_change(void *fake)
{
    (void)fake;
}
#endif

#ifdef __x86_64__

/* Keeps the registers that belong to a caller (System V ABI, 3.2.1) on the running stack, stores
 * where they lie, and takes those of the other stack. */
void cudart_standin_swap(void **ret_position, void *position);
__asm__(".text\n"
        ".globl cudart_standin_swap\n"
        ".hidden cudart_standin_swap\n"
        ".type cudart_standin_swap, @function\n"
        "cudart_standin_swap:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size cudart_standin_swap, . - cudart_standin_swap\n");

void stack_init(struct stack *stack, void *memory, size_t size_bytes, void (*run)(void))
{
    enum { REGISTERS = 6 };
    /* At the top: the registers, `run` to return to, and that it was called from nowhere. */
    uintptr_t *top = (uintptr_t *)((char *)memory + size_bytes) - (REGISTERS + 2);
    for (int i = 0; i < REGISTERS; i++)
        top[i] = 0;
    top[REGISTERS] = (uintptr_t)run;
    top[REGISTERS + 1] = 0;
    *stack = (struct stack){.position = top, .bottom = memory, .size_bytes = size_bytes};
}

static void swap(struct stack *from, const struct stack *to)
{
    cudart_standin_swap(&from->position, to->position);
}

#else /* any other processor: two system calls a change */

#include <stdlib.h>
#include <ucontext.h>

/* The context of the running stack lies on it. */
void stack_init(struct stack *stack, void *memory, size_t size_bytes, void (*run)(void))
{
    size_t kept = (sizeof(ucontext_t) + 63) / 64 * 64;
    ucontext_t *context = (ucontext_t *)((char *)memory + size_bytes - kept);
    if (getcontext(context) != 0)
        abort();
    context->uc_stack.ss_sp = memory;
    context->uc_stack.ss_size = size_bytes - kept;
    makecontext(context, run, 0);
    *stack = (struct stack){.position = context, .bottom = memory, .size_bytes = size_bytes};
}

static void swap(struct stack *from, const struct stack *to)
{
    ucontext_t here;
    from->position = &here;
    if (swapcontext(&here, to->position) != 0)
        abort();
}

#endif

void stack_change(struct stack *from, struct stack *to)
{
    announce_change(from, to);
    swap(from, to);
    finish_change(from->fake);
}

void stack_arrive(void)
{
    finish_change(NULL);
}
