#include "index/curl.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CURL_DISABLE_DEPRECATION /* older libraries know the older names alone */
#define CURL_DISABLE_TYPECHECK   /* functions are called through pointers */
#include <curl/curl.h>

#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"

enum {
    HOST_CONNECTIONS = 32, /* to one server, whatever the number of callers */
    ALL_CONNECTIONS = 128,
    IDLE_HANDLES = 64,
    REDIRECTS = 5,
    ERROR_BODY_BYTES = 64 << 10, /* of an error page, read to its end to keep the connection */
    HEAD_BYTES = 256 << 10,      /* of an answer, with those of redirects before it */
    MOST_RETRY_AFTER_S = 86400,
    RECEIVE_BUFFER_BYTES = 128 << 10,
    POLL_MS = 1000,
    STOP_LOOK_MS = 50,
    OVERDUE_MS = 500, /* behind its deadline, of which libcurl tells more, a request is ended */
};

/* --- The library --- */

#define CURL_FUNCTIONS(apply)                                                                      \
    apply(global_init) apply(version_info) apply(easy_init) apply(easy_cleanup) apply(easy_reset)  \
        apply(easy_setopt) apply(easy_getinfo) apply(easy_strerror) apply(multi_init)              \
            apply(multi_cleanup) apply(multi_setopt) apply(multi_add_handle)                       \
                apply(multi_remove_handle) apply(multi_perform) apply(multi_poll)                  \
                    apply(multi_wakeup) apply(multi_info_read) apply(multi_strerror)               \
                        apply(slist_append) apply(slist_free_all)

#define CURL_POINTER(name) __typeof__(curl_##name) *name;
static struct {
    CURL_FUNCTIONS(CURL_POINTER)
    char missing[256]; /* why it cannot be used; "" if it can */
} curl;

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void fork_prepare(void);
static void fork_parent(void);
static void fork_child(void);

static void library_load(void)
{
    /* Never closed: its threads and those of the libraries below it have no end that could be
     * waited for. */
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *reason = dlerror();
        snprintf(curl.missing, sizeof curl.missing, "%s", reason ? reason : "not found");
        return;
    }
    const struct {
        const char *name;
        void *pointer;
    } functions[] = {
#define CURL_ROW(name) {"curl_" #name, &curl.name},
        CURL_FUNCTIONS(CURL_ROW)};
    for (size_t i = 0; i < ARRAY_LENGTH(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function) {
            snprintf(curl.missing, sizeof curl.missing, "it has no %s", functions[i].name);
            return;
        }
        memcpy(functions[i].pointer, &function, sizeof function);
    }
    const curl_version_info_data *version = curl.version_info(CURLVERSION_NOW);
    if (version->version_num < 0x074B00) /* CURLOPT_AWS_SIGV4 */
        snprintf(curl.missing, sizeof curl.missing, "it is version %s", version->version);
    else if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(curl.missing, sizeof curl.missing, "it does not start");
    else
        pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static struct status library_need(void)
{
    pthread_once(&curl_once, library_load);
    if (curl.missing[0])
        FAIL(STATUS_UNSUPPORTED,
             "URLs are read by libcurl 7.75 or newer (libcurl.so.4, Debian's package libcurl4), "
             "which cannot be used: %s",
             curl.missing);
    return OK;
}

/* --- One request --- */

/* Lives on its caller's stack while the client's thread works on it. */
struct job {
    const struct http_request *request;
    struct http_sink *sink;
    struct http_response *response;
    struct job *next; /* in the queue, or of those that libcurl works on */
    CURL *easy;
    double ends_s; /* on the clock, at the latest */
    struct curl_slist *fields;
    char error[CURL_ERROR_SIZE];
    bool is_accepted;
    uint64_t head_bytes;
    uint64_t discarded_bytes;  /* of an error page */
    bool is_done, is_unwanted; /* guarded by the client's mutex */
    pthread_cond_t done;
};

struct http_client {
    CURLM *multi; /* NULL in a child of fork until it asks for something */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t driving; /* held by the thread while it is in libcurl, but for waiting */
    pthread_mutex_t mutex;   /* guards the queue, all flags, and starting again */
    struct job *first, **last;
    bool closing;
    bool is_left;             /* a request waited in vain after the process was asked to stop */
    struct http_client *next; /* of all clients */

    /* The thread's own */
    CURL *idle[IDLE_HANDLES];
    size_t idle_count;
    struct job *running;
};

static size_t header_take(char *line, size_t size, size_t count, void *context)
{
    struct job *job = context;
    job->head_bytes += size * count;
    if (job->head_bytes > HEAD_BYTES)
        return 0;
    http_head_take(&job->response->head, line, size * count);
    return size * count;
}

/* Whether the body is wanted. */
static bool body_accept(struct job *job)
{
    struct http_response *response = job->response;
    if (job->is_accepted)
        return true;
    response->status = job->request->accept(job->request->context, &response->head);
    job->is_accepted = response->status.code == STATUS_DONE;
    return job->is_accepted;
}

static bool has_file(const struct http_head *head)
{
    return head->status == 200 || head->status == 206;
}

/* Fewer bytes than there were end the request. */
static size_t body_take(char *bytes, size_t size, size_t count, void *context)
{
    struct job *job = context;
    struct http_sink *sink = job->sink;
    size_t length = size * count;
    if (!has_file(&job->response->head)) {
        job->discarded_bytes += length;
        return job->discarded_bytes <= ERROR_BODY_BYTES ? length : 0;
    }
    if (!body_accept(job) || length > sink->capacity_bytes - sink->received_bytes)
        return 0;
    memcpy(sink->bytes + sink->received_bytes, bytes, length);
    sink->received_bytes += length;
    return length;
}

static struct status field_add(struct job *job, const char *text)
{
    struct curl_slist *longer = curl.slist_append(job->fields, text);
    if (!longer)
        FAIL(STATUS_NO_MEMORY, "out of memory");
    job->fields = longer;
    return OK;
}

/* curl signs, but does not say of which body: an empty one. */
static struct status s3_prepare(struct job *job)
{
    CLEANUP(memory_free) char *provider = NULL;
    CLEANUP(memory_free) char *session = NULL;
    const struct http_request *request = job->request;
    TRY(string_format(&provider, "aws:amz:%s:s3", request->s3_region));
    curl.easy_setopt(job->easy, CURLOPT_AWS_SIGV4, provider);
    TRY(field_add(job, "x-amz-content-sha256: "
                       "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    if (!request->s3_session)
        return OK;
    TRY(string_format(&session, "x-amz-security-token: %s", request->s3_session));
    return field_add(job, session);
}

static struct status credentials_prepare(struct job *job)
{
    const struct http_request *request = job->request;
    CURL *easy = job->easy;
    if (request->token) {
        curl.easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl.easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, request->token);
        return OK;
    }
    if (request->user) {
        curl.easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl.easy_setopt(easy, CURLOPT_USERNAME, request->user);
        curl.easy_setopt(easy, CURLOPT_PASSWORD, request->password ? request->password : "");
    } else if (request->netrc) {
        curl.easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl.easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
        curl.easy_setopt(easy, CURLOPT_NETRC_FILE, request->netrc);
    }
    return request->is_s3 && request->user ? s3_prepare(job) : OK;
}

static void transport_prepare(const struct job *job)
{
    const struct http_request *request = job->request;
    CURL *easy = job->easy;
    bool is_https = strncasecmp(request->url, "https:", 6) == 0;
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl.easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS,
                     (long)(is_https ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS));
    /* A signature is of one host and path. */
    curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, request->is_s3 ? 0L : 1L);
    curl.easy_setopt(easy, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    /* No CURLOPT_PIPEWAIT: to share a connection that was not answered on yet, it makes requests
     * wait one for another, past their deadlines, and for ever if that one is dead. */
    curl.easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER_BYTES);
    curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)request->connect_ms);
    curl.easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->total_ms);
    curl.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)HTTP_LEAST_BYTES_PER_SECOND);
    curl.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)request->idle_s);
    if (request->ca_file)
        curl.easy_setopt(easy, CURLOPT_CAINFO, request->ca_file);
}

static struct status job_prepare(struct job *job)
{
    const struct http_request *request = job->request;
    CURL *easy = job->easy;
    char range[64];
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, request->offset,
             request->offset + request->length - 1);
    curl.easy_setopt(easy, CURLOPT_PRIVATE, job);
    curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, job->error);
    curl.easy_setopt(easy, CURLOPT_USERAGENT, "headrace/" HEADRACE_VERSION);
    curl.easy_setopt(easy, CURLOPT_RANGE, range);
    curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, header_take);
    curl.easy_setopt(easy, CURLOPT_HEADERDATA, job);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, body_take);
    curl.easy_setopt(easy, CURLOPT_WRITEDATA, job);
    transport_prepare(job);
    TRY(credentials_prepare(job));
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, job->fields);
    if (curl.easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK)
        FAIL(STATUS_NO_MEMORY, "out of memory");
    return OK;
}

static enum http_outcome outcome_of(CURLcode code)
{
    switch (code) {
    case CURLE_OK:
        return HTTP_ANSWERED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return HTTP_UNREACHABLE;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
        return HTTP_DISTRUSTED;
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_LOGIN_DENIED:
        return HTTP_IMPOSSIBLE;
    case CURLE_ABORTED_BY_CALLBACK:
        return HTTP_STOPPED;
    default:
        return HTTP_BROKEN;
    }
}

/* What became of a request, into its response. */
static void response_fill(struct job *job, CURLcode code)
{
    struct http_response *response = job->response;
    curl_off_t retry_after = 0;
    if (code == CURLE_OK && has_file(&response->head) && !body_accept(job))
        code = CURLE_WRITE_ERROR; /* an answer without a body */
    response->outcome = response->status.code == STATUS_DONE ? outcome_of(code) : HTTP_DECLINED;
    /* libcurl takes a line of its head for memory, and refuses one of 100 kB. */
    bool is_endless =
        job->head_bytes > HEAD_BYTES || (code == CURLE_OUT_OF_MEMORY && response->head.status);
    if (code == CURLE_WRITE_ERROR && !is_endless && !has_file(&response->head))
        response->outcome = HTTP_ANSWERED; /* by an error page that is too long */
    if (is_endless)
        snprintf(response->reason, sizeof response->reason, "the head of the answer is too long");
    else if (code == CURLE_WRITE_ERROR && job->is_accepted)
        snprintf(response->reason, sizeof response->reason, "more bytes came than were announced");
    else /* of a proxy's or redirect's URL libcurl may show a user and a password */
        snprintf(response->reason, sizeof response->reason, "%s",
                 job->error[0] && !strchr(job->error, '@') ? job->error : curl.easy_strerror(code));
    curl.easy_getinfo(job->easy, CURLINFO_RETRY_AFTER, &retry_after);
    if (retry_after > MOST_RETRY_AFTER_S)
        retry_after = MOST_RETRY_AFTER_S;
    response->retry_after_s = retry_after > 0 ? (unsigned)retry_after : 0;
}

/* --- The thread --- */

static void job_finish(struct http_client *client, struct job *job, CURLcode code)
{
    if (job->easy) {
        response_fill(job, code);
        curl.easy_reset(job->easy);
        if (client->idle_count < IDLE_HANDLES)
            client->idle[client->idle_count++] = job->easy;
        else
            curl.easy_cleanup(job->easy);
    } else {
        job->response->outcome = HTTP_BROKEN;
        snprintf(job->response->reason, sizeof job->response->reason, "out of memory");
    }
    curl.slist_free_all(job->fields);
    pthread_mutex_lock(&client->mutex);
    job->is_done = true;
    pthread_cond_signal(&job->done);
    pthread_mutex_unlock(&client->mutex);
}

static void job_start(struct http_client *client, struct job *job)
{
    job->easy = client->idle_count ? client->idle[--client->idle_count] : curl.easy_init();
    struct status status = job->easy ? job_prepare(job) : OK;
    bool is_ready = job->easy && status.code == STATUS_DONE;
    status_ignore(status);
    if (is_ready && curl.multi_add_handle(client->multi, job->easy) == CURLM_OK) {
        job->ends_s = clock_seconds() + (job->request->total_ms + (double)OVERDUE_MS) / 1000;
        job->next = client->running;
        client->running = job;
    } else {
        job_finish(client, job, CURLE_OUT_OF_MEMORY);
    }
}

/* Takes a job from libcurl. */
static void job_end(struct http_client *client, struct job *job, CURLcode code)
{
    struct job **link = &client->running;
    while (*link != job)
        link = &(*link)->next;
    *link = job->next;
    curl.multi_remove_handle(client->multi, job->easy);
    job_finish(client, job, code);
}

static void finished_take(struct http_client *client)
{
    CURLMsg *message;
    int left;
    while ((message = curl.multi_info_read(client->multi, &left))) {
        struct job *job = NULL;
        CURLcode code = message->data.result; /* the message is gone with its handle */
        curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &job);
        job_end(client, job, code);
    }
}

static bool job_is_unwanted(struct http_client *client, const struct job *job)
{
    pthread_mutex_lock(&client->mutex);
    bool is_unwanted = job->is_unwanted;
    pthread_mutex_unlock(&client->mutex);
    return is_unwanted;
}

/* Ends those that nobody waits for any more, and those at their deadline, since what waits for a
 * connection has none in libcurl. */
static void useless_end(struct http_client *client)
{
    double now = clock_seconds();
    for (struct job *next = client->running; next;) {
        struct job *job = next;
        next = job->next;
        if (job_is_unwanted(client, job))
            job_end(client, job, CURLE_ABORTED_BY_CALLBACK);
        else if (now > job->ends_s)
            job_end(client, job, CURLE_OPERATION_TIMEDOUT);
    }
}

/* The queue, which is empty afterwards; *ret_closing: no more will come. */
static struct job *queue_take(struct http_client *client, bool *ret_closing)
{
    pthread_mutex_lock(&client->mutex);
    struct job *jobs = client->first;
    client->first = NULL;
    client->last = &client->first;
    *ret_closing = client->closing;
    pthread_mutex_unlock(&client->mutex);
    return jobs;
}

static void *thread_main(void *context)
{
    struct http_client *client = context;
    for (;;) {
        bool closing;
        int running;
        struct job *next = queue_take(client, &closing);
        pthread_mutex_lock(&client->driving);
        while (next) {
            struct job *job = next;
            next = job->next;
            job_start(client, job);
        }
        curl.multi_perform(client->multi, &running);
        finished_take(client);
        useless_end(client);
        pthread_mutex_unlock(&client->driving);
        if (closing && !client->running)
            return NULL;
        curl.multi_poll(client->multi, NULL, 0, POLL_MS, NULL);
    }
}

/* Signals are the other threads'; a connection that the server closed must not end the process. */
static struct status thread_start(struct http_client *client)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&client->thread, NULL, thread_main, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return status_errno(error, "cannot start the thread that reads URLs");
    client->has_thread = true;
    return OK;
}

static struct status multi_open(struct http_client *client)
{
    client->multi = curl.multi_init();
    if (!client->multi)
        FAIL(STATUS_NO_MEMORY, "out of memory");
    curl.multi_setopt(client->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)HOST_CONNECTIONS);
    curl.multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)ALL_CONNECTIONS);
    curl.multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)ALL_CONNECTIONS);
    return thread_start(client);
}

/* --- fork: a child has no thread, and must leave its parent's connections alone --- */

static pthread_mutex_t clients_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct http_client *clients;

static void clients_add(struct http_client *client)
{
    pthread_mutex_lock(&clients_mutex);
    client->next = clients;
    clients = client;
    pthread_mutex_unlock(&clients_mutex);
}

static void clients_remove(const struct http_client *client)
{
    pthread_mutex_lock(&clients_mutex);
    struct http_client **link = &clients;
    while (*link && *link != client)
        link = &(*link)->next;
    if (*link)
        *link = client->next;
    pthread_mutex_unlock(&clients_mutex);
}

/* Waits until all threads are out of libcurl, so that the child finds its locks open. */
static void fork_prepare(void)
{
    pthread_mutex_lock(&clients_mutex);
    for (struct http_client *client = clients; client; client = client->next) {
        pthread_mutex_lock(&client->driving);
        pthread_mutex_lock(&client->mutex);
    }
}

static void fork_parent(void)
{
    for (struct http_client *client = clients; client; client = client->next) {
        pthread_mutex_unlock(&client->mutex);
        pthread_mutex_unlock(&client->driving);
    }
    pthread_mutex_unlock(&clients_mutex);
}

/* What the thread had is left behind: to close it would say goodbye to the parent's servers. */
static void fork_child(void)
{
    for (struct http_client *client = clients; client; client = client->next) {
        client->multi = NULL;
        client->has_thread = false;
        client->idle_count = 0;
        client->running = NULL;
        client->first = NULL;
        client->last = &client->first;
    }
    fork_parent();
}

/* Starts anew in a child of fork. The caller holds the mutex. */
static bool client_revive(struct http_client *client)
{
    if (client->multi)
        return true;
    struct status status = multi_open(client);
    if (status.code != STATUS_DONE && client->multi) {
        curl.multi_cleanup(client->multi);
        client->multi = NULL;
    }
    status_ignore(status);
    return client->multi;
}

/* --- */

struct status http_client_open(struct http_client **ret_client)
{
    CLEANUP(http_client_close) struct http_client *client = NULL;
    TRY(library_need());
    TRY(memory_alloc(1, sizeof *client, &client));
    pthread_mutex_init(&client->driving, NULL);
    pthread_mutex_init(&client->mutex, NULL);
    client->last = &client->first;
    clients_add(client);
    TRY(multi_open(client));
    *ret_client = MOVE(client);
    return OK;
}

void http_client_close(struct http_client *client)
{
    if (!client)
        return;
    clients_remove(client);
    pthread_mutex_lock(&client->mutex);
    client->closing = true;
    pthread_mutex_unlock(&client->mutex);
    if (client->has_thread) {
        curl.multi_wakeup(client->multi);
        pthread_join(client->thread, NULL);
    }
    for (size_t i = 0; i < client->idle_count; i++)
        curl.easy_cleanup(client->idle[i]);
    if (client->multi)
        curl.multi_cleanup(client->multi);
    pthread_mutex_destroy(&client->mutex);
    pthread_mutex_destroy(&client->driving);
    memory_free(client);
}

/* Whether the caller's thread waits in vain. A server that answers has some time for that after the
 * process was asked to stop, so that what is under way ends well; one that let one request wait so
 * long keeps nobody else. The caller holds the mutex. */
static bool is_in_vain(struct http_client *client, double *stopped_s)
{
    if (stop_is_closing() || !stop_requested())
        return stop_is_closing();
    if (*stopped_s == 0)
        *stopped_s = clock_seconds();
    if ((clock_seconds() - *stopped_s) * 1000 > HTTP_STOP_PATIENCE_MS)
        client->is_left = true;
    return client->is_left;
}

/* Waits until a job of the queue is done. The caller holds the mutex. */
static void job_await(struct http_client *client, struct job *job)
{
    double stopped_s = 0;
    while (!job->is_done) {
        struct timespec until = clock_after_ms(STOP_LOOK_MS);
        pthread_cond_timedwait(&job->done, &client->mutex, &until);
        if (job->is_done || job->is_unwanted || !is_in_vain(client, &stopped_s))
            continue;
        job->is_unwanted = true;
        curl.multi_wakeup(client->multi);
    }
}

void http_client_get(struct http_client *client, const struct http_request *request,
                     struct http_sink *sink, struct http_response *response)
{
    struct job job = {
        .request = request,
        .sink = sink,
        .response = response,
    };
    clock_cond_init(&job.done);
    *response = (struct http_response){0};
    pthread_mutex_lock(&client->mutex);
    if (client_revive(client)) {
        *client->last = &job;
        client->last = &job.next;
        curl.multi_wakeup(client->multi);
        job_await(client, &job);
    } else {
        response->outcome = HTTP_BROKEN;
        snprintf(response->reason, sizeof response->reason, "no thread can be started");
    }
    pthread_mutex_unlock(&client->mutex);
    pthread_cond_destroy(&job.done);
}
