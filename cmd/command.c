#include "cmd/command.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/pool.h"

struct status command_parse(const struct option_usage *usage, const struct option *table, int argc,
                            char **argv, void *arguments, struct option_parse *ret_parse)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(option_parse_arguments(usage, table, argc, argv, arguments, ret_parse));
    if (!ret_parse->help)
        return OK;
    TRY(option_help(usage, table, arguments, &text));
    fwrite(text.data, 1, text.length, stdout);
    return OK;
}

struct status command_print_json(const struct json *value)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(json_write(value, false, &text));
    TRY(buffer_append_u8(&text, '\n'));
    fwrite(text.data, 1, text.length, stdout);
    return OK;
}

unsigned command_threads(int64_t jobs)
{
    return jobs > 0 ? (unsigned)jobs : cores_available();
}
