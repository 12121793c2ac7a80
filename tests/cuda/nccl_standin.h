#ifndef HEADRACE_TESTS_CUDA_NCCL_STANDIN_H
#define HEADRACE_TESTS_CUDA_NCCL_STANDIN_H

/* NCCL on the CPU, for tests: the symbols that train/cuda/collective.c uses, between threads of one
 * process and between processes of one machine. A sum runs when all ranks have come to it in their
 * streams; until then none of them blocks a thread. Ranks are added in their order, so the sum is
 * the same bits however they are spread over processes.
 *
 * The ranks of one id meet in a file named by it, in TMPDIR or /tmp, which is gone from its folder
 * as soon as all have joined. */

/* From now on every communicator of this process says that a remote process is lost, and their sums
 * wait for ever, as NCCL does when a network connection breaks; until standin_nccl_mend. */
void standin_nccl_break(void);
void standin_nccl_mend(void);

#endif
