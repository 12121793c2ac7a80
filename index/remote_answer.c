#include "index/remote_answer.h"

#include <inttypes.h>
#include <string.h>

static struct status size_check(uint64_t size_bytes, const struct answer_expected *expected)
{
    if (expected->size_bytes && size_bytes != expected->size_bytes)
        FAIL(STATUS_CORRUPT,
             "the file has %" PRIu64 " bytes where %" PRIu64
             " were recorded: it was changed or replaced; pack it again",
             size_bytes, expected->size_bytes);
    return OK;
}

/* Of 206. */
static struct status part_check(const struct http_head *head,
                                const struct answer_expected *expected)
{
    if (!head->has_range || !head->has_total)
        FAIL(STATUS_UNSUPPORTED, "the answer does not say which bytes of how many it holds");
    TRY(size_check(head->total_bytes, expected));
    uint64_t length = head->last - head->first + 1;
    if (head->first == expected->offset && length < expected->length &&
        head->last + 1 == head->total_bytes)
        FAIL(STATUS_CORRUPT, "the file ends after %" PRIu64 " bytes", head->total_bytes);
    if (head->first != expected->offset || length != expected->length)
        FAIL(STATUS_UNSUPPORTED,
             "the server answers with the %" PRIu64 " bytes at offset %" PRIu64
             ", which were not asked for",
             length, head->first);
    if (head->has_length && head->length_bytes != length)
        FAIL(STATUS_UNSUPPORTED, "the answer has %" PRIu64 " bytes and says that they are %" PRIu64,
             head->length_bytes, length);
    return OK;
}

/* Of 200: the whole file. */
static struct status whole_check(const struct http_head *head,
                                 const struct answer_expected *expected)
{
    if (head->has_length)
        TRY(size_check(head->length_bytes, expected));
    if (!head->has_length || expected->offset != 0 || head->length_bytes != expected->length)
        FAIL(STATUS_UNSUPPORTED,
             "the server does not know byte ranges and answers with the whole file; expected one "
             "that does, nginx or S3 for instance");
    return OK;
}

struct status answer_check(const struct http_head *head, const struct answer_expected *expected)
{
    if (head->is_encoded)
        FAIL(STATUS_UNSUPPORTED,
             "the server compresses the file; turn that off for it, so that its bytes stay");
    TRY(head->status == 206 ? part_check(head, expected) : whole_check(head, expected));
    const char *before, *now = http_version_differs(&head->version, &expected->version, &before);
    if (now)
        FAIL(STATUS_CORRUPT,
             "the file was changed since it was first read: it is %s now and was %s; begin again",
             now, before);
    return OK;
}

bool answer_may_pass(const struct http_response *response)
{
    switch (response->outcome) {
    case HTTP_UNREACHABLE:
    case HTTP_BROKEN:
        return true;
    case HTTP_ANSWERED: {
        int status = response->head.status;
        return status == 0 || status == 408 || status == 425 || status == 429 ||
               (status >= 500 && status != 501 && status != 505);
    }
    default:
        return false;
    }
}

static struct status refused(int code, const struct http_request *request)
{
    if (request->is_s3)
        FAIL(STATUS_FAILED, "the server refuses (%d): %s", code,
             request->user ? "is the key right, and may it read this?"
                           : "no key is known; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                             "put them into ~/.aws/credentials");
    if (request->token)
        FAIL(STATUS_FAILED, "the server refuses the token (%d)", code);
    if (request->user)
        FAIL(STATUS_FAILED, "the server refuses the user '%s' with this password (%d)",
             request->user, code);
    FAIL(STATUS_FAILED,
         "the server asks who we are (%d): give --user and --password-file, --token-file, or a "
         "netrc file",
         code);
}

/* Of an answer that is none of a file server in good health. */
static struct status other_failure(const struct http_response *response)
{
    int code = response->head.status;
    if (code == 407)
        FAIL(STATUS_FAILED, "the proxy asks who we are (407): http_proxy and https_proxy may hold "
                            "a user, and no_proxy names hosts that are asked directly");
    if (response->retry_after_s > 0)
        FAIL(STATUS_IO,
             "the server answers %d, and asks to wait %u s; others may have the same "
             "files: --origins",
             code, response->retry_after_s);
    if (code == 429 || code >= 500)
        FAIL(STATUS_IO,
             "the server answers %d; its log says why, and others may have the same "
             "files: --origins",
             code);
    FAIL(STATUS_IO, "the server answers %d, expected 206 with bytes of a file; is the URL right?",
         code);
}

static struct status status_failure(const struct http_response *response,
                                    const struct http_request *request)
{
    const struct http_head *head = &response->head;
    switch (head->status) {
    case 401:
    case 403:
        return refused(head->status, request);
    case 404:
    case 410:
        FAIL(STATUS_NOT_FOUND, "it is not there (the server answers %d)", head->status);
    case 416:
        if (head->has_total)
            FAIL(STATUS_CORRUPT,
                 "the file ends after %" PRIu64
                 " bytes (the server answers 416): it was changed or replaced",
                 head->total_bytes);
        FAIL(STATUS_CORRUPT, "the file ends before them (the server answers 416): it was changed "
                             "or replaced");
    case 301:
    case 307:
    case 308:
        if (request->is_s3)
            FAIL(STATUS_FAILED,
                 "the server points elsewhere (%d): is the bucket in another region than '%s'? "
                 "Set AWS_REGION",
                 head->status, request->s3_region);
        break;
    default:
        break;
    }
    return other_failure(response);
}

struct status answer_failure(struct http_response *response, const struct http_request *request)
{
    struct status status = response->status;
    switch (response->outcome) {
    case HTTP_ANSWERED:
        if (response->head.status == 200 || response->head.status == 206)
            return OK;
        return status_failure(response, request);
    case HTTP_DECLINED:
        response->status = OK;
        return status;
    case HTTP_DISTRUSTED:
        FAIL(STATUS_FAILED,
             "the server's certificate is not trusted: %s; --ca-file names who signed it",
             response->reason);
    case HTTP_UNREACHABLE:
        FAIL(STATUS_IO, "%s; is the server running, and are its name and port right?",
             response->reason);
    case HTTP_IMPOSSIBLE:
        FAIL(STATUS_IO, "%s; is the URL right?", response->reason);
    default:
        FAIL(STATUS_IO,
             "%s; is that a server of HTTP, and what does its log say? --timeout and "
             "--idle-timeout give it longer",
             response->reason);
    }
}
