#ifndef HEADRACE_TRAIN_MODULE_H
#define HEADRACE_TRAIN_MODULE_H

/* Finds backends: the reference one is built in; the others are shared objects beside the program
 * (or in ../lib/headrace), opened only when asked for, so that no command loads a library it does
 * not use. */

#include "train/backend.h"

/* What --device takes; ends in NULL. */
enum device_name { DEVICE_AUTO = 0, DEVICE_CPU, DEVICE_CUDA, DEVICE_REFERENCE };
extern const char *const device_names[]; /* by value: "auto", "cpu", "cuda", "reference" */

/* The module of a device name. "auto" takes cuda where anything says that there is an NVIDIA device
 * (/dev/nvidiactl, CUDA_VISIBLE_DEVICES, what Slurm sets), which then must work; else cpu, and else
 * the reference; it says which and why unless that is cpu. Fails with STATUS_NOT_FOUND, the folders
 * looked in and how to build it; or when the module cannot be loaded or its build id differs from
 * the program's. HEADRACE_MODULES in the environment names the one folder to look in instead.
 * Modules stay loaded. */
struct status module_find(const char *device, const struct backend_module **ret_module);

/* headrace-mpi.so (train/comm_internal.h); NULL where there is no such file. Fails as module_find
 * does. */
struct mpi_module;
struct status module_find_mpi(const struct mpi_module **ret_module);

/* The plain-loop backend (train/reference/). */
const struct backend_module *reference_backend_module(void);

#endif
