#ifndef HEADRACE_TESTS_SUPPORT_FAULT_SERVER_H
#define HEADRACE_TESTS_SUPPORT_FAULT_SERVER_H

/* A process of tests/support/fault_server.py, which serves a folder on 127.0.0.1 with faults. */

#include <sys/types.h>

#include "base/scope.h"

struct fault_server {
    pid_t process;
    int input; /* its end ends the server */
    int port;
};

/* `arguments` ends in NULL: options of the script. */
struct fault_server fault_server_start(const char *folder, const char *const *arguments);
void fault_server_stop(struct fault_server *server);
CLEANUP_VALUE(fault_server_stop, struct fault_server)

/* "http://127.0.0.1:PORT/PATH", valid to the end of the process. */
const char *fault_server_url(const struct fault_server *server, const char *path);

#endif
