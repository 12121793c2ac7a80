#include "base/option.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/option_value.h"

struct row_set {
    uint64_t bits[4];
};

static bool row_in(const uint64_t bits[4], size_t row)
{
    return bits[row / 64] >> row % 64 & 1;
}

static void row_add(uint64_t bits[4], size_t row)
{
    bits[row / 64] |= (uint64_t)1 << row % 64;
}

/* A run over words: a command line, or one line of a text. */
struct parser {
    const struct option *table;
    const struct option_usage *usage; /* NULL: of a text */
    void *arguments;
    struct row_set locked; /* rows whose values stay */
    struct row_set given;  /* rows met in this run */
    char **next, **end;    /* the words left */
};

static const struct option *row_find(const struct option *table, const char *name, size_t length)
{
    for (const struct option *row = table; row->type != OPT_END; row++)
        if (option_name_equal(name, length, row->name) ||
            (row->alias && option_name_equal(name, length, row->alias)))
            return row;
    return NULL;
}

static const struct option *row_find_letter(const struct option *table, char letter)
{
    for (const struct option *row = table; row->type != OPT_END; row++)
        if (row->letter && row->letter == letter)
            return row;
    return NULL;
}

/* Other programs take their output with an option. */
static bool is_output_name(const char *typed)
{
    static const char *const names[] = {"o", "d", "C", "out", "output", "dest", "directory"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(typed, names[i]) == 0)
            return true;
    return false;
}

static bool takes_dest(const struct option_usage *usage)
{
    return usage->positionals && strstr(usage->positionals, "DEST");
}

/* Says how a command that knows no such option is told where its results go. */
static struct status output_unknown(const struct parser *parser, const char *word)
{
    const struct option_usage *usage = parser->usage;
    const char *positionals = usage->positionals ? usage->positionals : "";
    const struct option *out = row_find(parser->table, "out", strlen("out"));
    if (!out)
        out = row_find(parser->table, "output", strlen("output"));
    if (out)
        FAIL(STATUS_USAGE, "there is no option '%s'; did you mean '--%s'?", word, out->name);
    if (takes_dest(usage))
        FAIL(STATUS_USAGE, "there is no option '%s': DEST is given without one: headrace %s %s",
             word, usage->command, positionals);
    if (usage->output)
        FAIL(STATUS_USAGE, "there is no option '%s': %s", word, usage->output);
    FAIL(STATUS_USAGE,
         "there is no option '%s': results are printed; to have them in a file: headrace %s %s "
         ">FILE",
         word, usage->command, positionals);
}

static struct status option_unknown(const struct parser *parser, const char *word)
{
    const struct option *table = parser->table;
    const struct option_usage *usage = parser->usage;
    const char *typed = word + strspn(word, "-");
    if (usage && is_output_name(typed) && (takes_dest(usage) || typed[0] == 'o'))
        return output_unknown(parser, word);
    struct nearest nearest = nearest_begin(typed);
    for (const struct option *row = table; row->type != OPT_END; row++) {
        if (row->hidden)
            continue;
        nearest_offer(&nearest, row->name);
        if (row->alias)
            nearest_offer(&nearest, row->alias);
    }
    const char *suggestion = strlen(typed) > 1 ? nearest_found(&nearest) : NULL;
    if (suggestion)
        FAIL(STATUS_USAGE, "there is no option '%s'; did you mean '--%s'?", word, suggestion);
    FAIL(STATUS_USAGE, "there is no option '%s'; --help lists all", word);
}

/* Notes that a row is met; whether its value is to be set, and whether it was met before in this
 * run. */
static bool row_meet(struct parser *parser, const struct option *row, bool *ret_again)
{
    size_t index = (size_t)(row - parser->table);
    assert(index < 256);
    if (row_in(parser->locked.bits, index))
        return false;
    *ret_again = row_in(parser->given.bits, index);
    row_add(parser->given.bits, index);
    return true;
}

static struct status flag_take(struct parser *parser, const struct option *row, bool value,
                               const char *text)
{
    bool again;
    if (text)
        FAIL(STATUS_USAGE, "--%s takes no value, found '%s'; it is --%s or --no-%s", row->name,
             text, row->name, row->name);
    if (row_meet(parser, row, &again))
        option_value_set_flag(row, value, parser->arguments);
    return OK;
}

static struct status value_missing(const struct option *row)
{
    CLEANUP(buffer_done) struct buffer accepted = {0};
    const char *text;
    TRY(option_value_describe(row, &accepted));
    TRY(buffer_text(&accepted, &text));
    FAIL(STATUS_USAGE, "--%s needs a value: %s", row->name, text);
}

/* `text`: the value that stands in the option's own word, or NULL: it is the next word. */
static struct status value_take(struct parser *parser, const struct option *row, char *text)
{
    bool again;
    if (!text) {
        /* A word like --workers here is a value forgotten, and not a file of that name. */
        if (parser->next == parser->end || strncmp(*parser->next, "--", 2) == 0)
            return value_missing(row);
        text = *parser->next++;
    }
    if (!row_meet(parser, row, &again))
        return OK;
    return option_value_parse(row, text, again, parser->arguments);
}

static struct status long_take(struct parser *parser, char *word)
{
    char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    char *text = equals ? equals + 1 : NULL;

    const struct option *row = row_find(parser->table, name, length);
    if (row && row->type == OPT_FLAG)
        return flag_take(parser, row, true, text);
    if (row)
        return value_take(parser, row, text);

    if (length > 3 && option_name_equal(name, 3, "no-"))
        row = row_find(parser->table, name + 3, length - 3);
    if (row && row->type == OPT_FLAG)
        return flag_take(parser, row, false, text);
    if (equals)
        *equals = '\0'; /* the message shows the name alone */
    return option_unknown(parser, word);
}

static struct status short_take(struct parser *parser, char *word)
{
    const struct option *row = row_find_letter(parser->table, word[1]);
    char *text = word[2] ? word + 2 : NULL;
    if (!row)
        return option_unknown(parser, word);
    if (row->type == OPT_FLAG)
        return flag_take(parser, row, true, text);
    return value_take(parser, row, text);
}

static struct status option_take(struct parser *parser, char *word)
{
    return word[1] == '-' ? long_take(parser, word) : short_take(parser, word);
}

static struct status positionals_check(const struct option_usage *usage,
                                       const struct option_parse *parse)
{
    if (parse->positional_count < usage->min_positionals)
        FAIL(STATUS_USAGE,
             "%s expects %s, found %zu of them; \"headrace %s --help\" has an example",
             usage->command, usage->positionals, parse->positional_count, usage->command);
    return OK;
}

static struct status positional_take(const struct option_usage *usage, struct option_parse *parse,
                                     const char *word)
{
    const char *expected = usage->max_positionals ? usage->positionals : "options only";
    if (parse->positional_count == usage->max_positionals ||
        parse->positional_count == ARRAY_LENGTH(parse->positionals))
        FAIL(STATUS_USAGE, "%s expects %s, found '%s' too; \"headrace %s --help\" has an example",
             usage->command, expected, word, usage->command);
    parse->positionals[parse->positional_count++] = word;
    return OK;
}

static struct status required_check(const struct option *table, const struct option_parse *parse)
{
    for (size_t i = 0; table[i].type != OPT_END; i++)
        if (table[i].required && !row_in(parse->given, i))
            FAIL(STATUS_USAGE, "the option --%s%s%s is missing", table[i].name,
                 table[i].value ? " " : "", table[i].value ? table[i].value : "");
    return OK;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

struct status option_parse_arguments(const struct option_usage *usage, const struct option *table,
                                     int argc, char **argv, void *arguments,
                                     struct option_parse *ret_parse)
{
    struct parser parser = {.table = table,
                            .usage = usage,
                            .arguments = arguments,
                            .next = argv + 1,
                            .end = argv + argc};
    bool options_end = false;
    *ret_parse = (struct option_parse){0};
    while (parser.next < parser.end) {
        char *word = *parser.next++;
        if (options_end || word[0] != '-' || word[1] == '\0') {
            TRY(positional_take(usage, ret_parse, word));
        } else if (strcmp(word, "--") == 0) {
            options_end = true;
        } else if (is_help(word)) {
            ret_parse->help = true;
            return OK;
        } else {
            TRY(option_take(&parser, word));
        }
    }
    memcpy(ret_parse->given, parser.given.bits, sizeof ret_parse->given);
    TRY(positionals_check(usage, ret_parse));
    return required_check(table, ret_parse);
}

/* Cuts one word off the line at *text, in place: quotes ('…' or "…") hold spaces together and
 * vanish. NULL at the end of the line or before a comment. */
static struct status word_cut(char **text, char **ret_word)
{
    char *from = *text + strspn(*text, " \t\r"), *to = from, quote = '\0';
    *ret_word = NULL;
    if (*from == '\0' || *from == '#')
        return OK;
    *ret_word = from;
    for (; *from && (quote || !strchr(" \t\r", *from)); from++) {
        if (*from == quote)
            quote = '\0';
        else if (!quote && (*from == '\'' || *from == '"'))
            quote = *from;
        else
            *to++ = *from;
    }
    if (quote)
        FAIL(STATUS_USAGE, "a %c is not closed", quote);
    *text = *from ? from + 1 : from;
    *to = '\0';
    return OK;
}

static struct status line_parse(struct parser *parser, char *line)
{
    CLEANUP(memory_free) char **words = NULL;
    size_t count = 0, capacity = 0;
    char *word;
    for (;;) {
        TRY(word_cut(&line, &word));
        if (!word)
            break;
        TRY(memory_grow(count + 1, sizeof *words, &words, &capacity));
        words[count++] = word;
    }
    parser->next = words;
    parser->end = words + count;
    while (parser->next < parser->end) {
        word = *parser->next++;
        if (word[0] != '-' || word[1] == '\0')
            FAIL(STATUS_USAGE, "expected an option, found '%s'", word);
        TRY(option_take(parser, word));
    }
    return OK;
}

struct status option_parse_text(const struct option *table, char *text, const char *name,
                                void *arguments, struct option_parse *parse)
{
    struct parser parser = {.table = table, .arguments = arguments};
    memcpy(parser.locked.bits, parse->given, sizeof parse->given);
    for (unsigned line = 1; text; line++) {
        char *end = strchr(text, '\n');
        if (end)
            *end = '\0';
        TRY(status_context(line_parse(&parser, text), "'%s', line %u", name, line));
        text = end ? end + 1 : NULL;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(parse->given); i++)
        parse->given[i] |= parser.given.bits[i];
    return OK;
}

bool option_given(const struct option_parse *parse, const struct option *table, const char *name)
{
    const struct option *row = row_find(table, name, strlen(name));
    assert(row);
    return row_in(parse->given, (size_t)(row - table));
}

struct status option_store(const struct option *table, const void *arguments, struct json *object)
{
    for (const struct option *row = table; row->type != OPT_END; row++)
        if (!row->not_stored)
            option_value_store(row, arguments, object);
    return OK;
}

struct status option_restore(const struct option *table, const struct json *object, void *arguments,
                             const struct option_parse *parse)
{
    for (size_t i = 0; table[i].type != OPT_END; i++) {
        const struct json *value = json_get(object, table[i].name);
        if (value && !table[i].not_stored && !row_in(parse->given, i))
            TRY(option_value_restore(&table[i], value, arguments));
    }
    return OK;
}
