#include "tests/test.h"

#include <math.h>

#include "base/option.h"

enum encoding { ENCODING_JPEG, ENCODING_DCT };
static const char *const encoding_names[] = {"jpeg", "dct", NULL};
static const char *const long_names[] = {"resnet18", "resnet34", "resnet50", "resnet101", NULL};

struct arguments {
    int encoding;
    int arch;
    int64_t workers;
    uint64_t shard_bytes;
    double rate;
    bool upload;
    bool dry_run;
    const char *output;
    struct option_list classes;
    const char *secret;
};

#define FIELD(name) offsetof(struct arguments, name)
static const struct option table[] = {
    {"encoding", 0, OPT_ENUM, FIELD(encoding), .names = encoding_names,
     .help = "how records are stored (default %d)"},
    {"arch", 'a', OPT_ENUM, FIELD(arch), .names = long_names, .help = "the network"},
    {"workers", 'j', OPT_INT, FIELD(workers), .min = 1, .max = 1024,
     .help = "threads (default %d)"},
    {"shard-size", 0, OPT_SIZE, FIELD(shard_bytes), .min = 1000, .max = INFINITY,
     .help = "bytes of a shard (default %d), counted before the padding that follows each of the "
             "records"},
    {"learning-rate", 0, OPT_REAL, FIELD(rate), .alias = "lr", .min = 0, .max = 10,
     .help = "rate at the start (default %d)"},
    {"upload", 'u', OPT_FLAG, FIELD(upload), .help = "sends it"},
    {"dry-run", 'n', OPT_FLAG, FIELD(dry_run), .help = "says what would be done",
     .not_stored = true},
    {"output", 'o', OPT_STRING, FIELD(output), .value = "NAME.idx", .help = "the index to write"},
    {"classes", 0, OPT_LIST, FIELD(classes), .help = "only these (default %d)"},
    {"secret", 0, OPT_STRING, FIELD(secret), .hidden = true, .help = "never shown"},
    {0},
};

static const struct option_usage usage = {
    .command = "pack",
    .positionals = "SRC [MORE]",
    .min_positionals = 1,
    .max_positionals = 2,
    .summary = "Packs a source into an index and shards.",
    .details =
        "A paragraph that is long enough to be wrapped, since it has more letters than a line "
        "of help has room for.\n\nA second one:\n  kept   as it is\n",
    .example = "headrace pack train.tar -o train.idx\nheadrace pack val.tar -o val.idx",
};

static const struct arguments defaults = {.workers = 2,
                                          .shard_bytes = 1 << 30,
                                          .rate = 0.1,
                                          .upload = true};

/* Words of a command line, cut at spaces; they live until the next call. */
struct words {
    char text[512];
    char *argv[32];
    int argc;
};

static void words_cut(struct words *words, const char *line)
{
    char *rest = NULL;
    snprintf(words->text, sizeof words->text, "pack %s", line);
    words->argc = 0;
    for (char *word = strtok_r(words->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words->argv[words->argc++] = word;
}

static struct words last_words;
static struct arguments arguments;
static struct option_parse parse;

static struct status parse_line(const char *line)
{
    words_cut(&last_words, line);
    option_list_done(&arguments.classes);
    arguments = defaults;
    return option_parse_arguments(&usage, table, last_words.argc, last_words.argv, &arguments,
                                  &parse);
}

static int forget(void **state)
{
    (void)state;
    option_list_done(&arguments.classes);
    return 0;
}

static void all_forms_are_read(void **state)
{
    (void)state;
    assert_ok(
        parse_line("first --encoding dct --workers=16 second -oout.idx --lr .5 --no-upload -n "
                   "--shard_size 64Mi --classes a,b --classes=c -a resnet50"));
    assert_int_equal(arguments.encoding, ENCODING_DCT);
    assert_int_equal(arguments.workers, 16);
    assert_string_equal(arguments.output, "out.idx");
    assert_true(arguments.rate == 0.5);
    assert_false(arguments.upload);
    assert_true(arguments.dry_run);
    assert_int_equal(arguments.shard_bytes, 64 << 20);
    assert_int_equal(arguments.classes.count, 3);
    assert_string_equal(arguments.classes.values[1], "b");
    assert_string_equal(arguments.classes.values[2], "c");
    assert_int_equal(arguments.arch, 2);
    assert_int_equal(parse.positional_count, 2);
    assert_string_equal(parse.positionals[0], "first");
    assert_string_equal(parse.positionals[1], "second");
    assert_true(option_given(&parse, table, "learning-rate"));
    assert_false(option_given(&parse, table, "secret"));
}

static void unusual_forms_are_read(void **state)
{
    (void)state;
    assert_ok(parse_line("-j 3 -j4 -o - -- --odd"));
    assert_int_equal(arguments.workers, 4); /* the last one counts */
    assert_string_equal(arguments.output, "-");
    assert_string_equal(parse.positionals[0], "--odd");
    assert_ok(parse_line("- --output=--name --no_upload --upload"));
    assert_string_equal(parse.positionals[0], "-");
    assert_string_equal(arguments.output, "--name");
    assert_true(arguments.upload);
    assert_ok(parse_line("x --output="));
    assert_string_equal(arguments.output, "");
    assert_ok(parse_line("--workers 4 --help --nonsense"));
    assert_true(parse.help);
    assert_ok(parse_line("-h"));
    assert_true(parse.help);
}

static void wrong_usage_is_explained(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"x --wrokers 3", "there is no option '--wrokers'; did you mean '--workers'?"},
        {"x --wrokers=3", "there is no option '--wrokers'; did you mean '--workers'?"},
        {"x --out y", "did you mean '--output'?"},
        {"x --secrte y", "there is no option '--secrte'; --help lists all"},
        {"x -q", "there is no option '-q'; --help lists all"},
        {"x --no-workers", "there is no option '--no-workers'"},
        {"x --workers", "--workers needs a value: a whole number from 1 to 1024"},
        {"x --output --workers 3", "--output needs a value: NAME.idx"},
        {"x -j 0", "--workers: expected a whole number from 1 to 1024, found '0'"},
        {"x -j 1025", "found '1025'"},
        {"x -j 3x", "found '3x'"},
        {"x -j -1", "found '-1'"},
        {"x --lr 1e2", "--learning-rate: expected a number from 0 to 10, found '1e2'"},
        {"x --shard-size 10", "such as 512M or 1Gi) of at least 1000, found '10'"},
        {"x --shard-size 1X", "found '1X'"},
        {"x --encoding jpg",
         "--encoding: expected one of jpeg, dct, found 'jpg'; did you mean 'jpeg'?"},
        {"x --encoding png2000", "expected one of jpeg, dct, found 'png2000'"},
        {"x --dry-run=yes", "--dry-run takes no value, found 'yes'"},
        {"x -nv", "--dry-run takes no value, found 'v'"},
        {"", "pack expects SRC [MORE], found 0 of them"},
        {"a b c", "pack expects SRC [MORE], found 'c' too; \"headrace pack --help\""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_fails(parse_line(cases[i].line), STATUS_USAGE, cases[i].message);
}

static void required_options_are_demanded(void **state)
{
    (void)state;
    static const struct option demanding[] = {
        {"output", 'o', OPT_STRING, FIELD(output), .value = "NAME.idx", .required = true},
        {0},
    };
    char command[] = "pack", source[] = "src", option[] = "-ox";
    char *argv[] = {command, source, option, NULL};
    assert_fails(option_parse_arguments(&usage, demanding, 2, argv, &arguments, &parse),
                 STATUS_USAGE, "the option --output NAME.idx is missing");
    assert_ok(option_parse_arguments(&usage, demanding, 3, argv, &arguments, &parse));
}

static void text_gives_way_to_the_command_line(void **state)
{
    (void)state;
    char text[] = "# a recipe\r\n"
                  "--workers 8 --lr 0.25   # and a remark\n"
                  "\n"
                  "   --output 'a b'.idx --classes \"x,y z\"\n"
                  "--classes w --no-upload\n"
                  "--output=\"#1\"";
    assert_ok(parse_line("src --workers 3"));
    assert_ok(option_parse_text(table, text, "recipe", &arguments, &parse));
    assert_int_equal(arguments.workers, 3);
    assert_true(arguments.rate == 0.25);
    assert_string_equal(arguments.output, "#1");
    assert_int_equal(arguments.classes.count, 3);
    assert_string_equal(arguments.classes.values[1], "y z");
    assert_false(arguments.upload);
    assert_true(option_given(&parse, table, "output"));
}

static void text_is_checked_line_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"--workers 8\n--lr fast", "'recipe', line 2: --learning-rate: expected a number"},
        {"--workers\n8", "'recipe', line 1: --workers needs a value"},
        {"\nworkers 8", "'recipe', line 2: expected an option, found 'workers'"},
        {"--output 'a", "'recipe', line 1: a ' is not closed"},
        {"--help", "there is no option '--help'"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[128];
        snprintf(text, sizeof text, "%s", cases[i].text);
        assert_ok(parse_line("src"));
        assert_fails(option_parse_text(table, text, "recipe", &arguments, &parse), STATUS_USAGE,
                     cases[i].message);
    }
}

static void help_is_laid_out(void **state)
{
    (void)state;
    static const char expected[] =
        "Usage: headrace pack SRC [MORE] [OPTION]...\n"
        "\n"
        "Packs a source into an index and shards.\n"
        "\n"
        "Options:\n"
        "      --encoding jpeg|dct     how records are stored (default jpeg)\n"
        "  -a, --arch NAME             the network: one of resnet18, resnet34, resnet50, "
        "resnet101\n"
        "  -j, --workers N             threads (default 2)\n"
        "      --shard-size SIZE       bytes of a shard (default 1Gi), counted before the padding\n"
        "                              that follows each of the records\n"
        "      --learning-rate X       rate at the start (default 0.1) (also --lr)\n"
        "  -u, --[no-]upload           sends it\n"
        "  -n, --dry-run               says what would be done\n"
        "  -o, --output NAME.idx       the index to write\n"
        "      --classes A,B,..        only these (default none)\n"
        "  -h, --help                  shows this\n"
        "\n"
        "A paragraph that is long enough to be wrapped, since it has more letters than a line of "
        "help\n"
        "has room for.\n"
        "\n"
        "A second one:\n"
        "  kept   as it is\n"
        "\n"
        "Example:\n"
        "  headrace pack train.tar -o train.idx\n"
        "  headrace pack val.tar -o val.idx\n"
        "\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage, 3 a check found something, 75 stopped on\n"
        "request and resumable.\n";
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *found;
    assert_ok(option_help(&usage, table, &defaults, &text));
    assert_ok(buffer_text(&text, &found));
    assert_string_equal(found, expected);
}

static void values_are_stored_and_restored(void **state)
{
    (void)state;
    CLEANUP(json_free) struct json *object = json_object_new();
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *written;
    assert_ok(parse_line("src --encoding dct -j 7 --lr 0.3 --classes a,b -n --output x.idx"));
    assert_ok(option_store(table, &arguments, object));
    assert_ok(json_write(object, false, &text));
    assert_ok(buffer_text(&text, &written));
    assert_string_equal(
        written, "{\"encoding\": \"dct\", \"arch\": \"resnet18\", \"workers\": 7, \"shard-size\": "
                 "1073741824, \"learning-rate\": 0.29999999999999999, \"upload\": true, "
                 "\"output\": \"x.idx\", \"classes\": [\"a\", \"b\"], \"secret\": null}");

    assert_ok(parse_line("src --workers 5 --secret s"));
    assert_ok(option_restore(table, object, &arguments, &parse));
    assert_int_equal(arguments.encoding, ENCODING_DCT);
    assert_int_equal(arguments.workers, 5); /* given */
    assert_true(arguments.rate == 0.3);
    assert_false(arguments.dry_run); /* not stored */
    assert_string_equal(arguments.output, "x.idx");
    assert_int_equal(arguments.classes.count, 2);
    assert_string_equal(arguments.classes.values[1], "b");
    assert_string_equal(arguments.secret, "s");
}

static void stored_values_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"workers\": 0}", "stored option \"workers\": 0 is out of range"},
        {"{\"workers\": 1.5}", "stored option \"workers\": expected an integer"},
        {"{\"workers\": \"3\"}", "expected a number, found a string"},
        {"{\"encoding\": \"png\"}", "stored option \"encoding\": --encoding: expected one of"},
        {"{\"encoding\": null}", "expected a string, found null"},
        {"{\"classes\": \"a\"}", "expected an array"},
        {"{\"classes\": [1]}", "expected a string, found a number"},
        {"{\"upload\": 1}", "expected true or false"},
        {"{\"shard-size\": -5}", "out of range"},
        {"{\"output\": 5}", "expected a string"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(json_free) struct json *object = NULL;
        assert_ok(json_parse(cases[i].text, strlen(cases[i].text), "state", &object));
        assert_ok(parse_line("src"));
        assert_fails(option_restore(table, object, &arguments, &parse), STATUS_CORRUPT,
                     cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_are_read),
        cmocka_unit_test(unusual_forms_are_read),
        cmocka_unit_test(wrong_usage_is_explained),
        cmocka_unit_test(required_options_are_demanded),
        cmocka_unit_test(text_gives_way_to_the_command_line),
        cmocka_unit_test(text_is_checked_line_by_line),
        cmocka_unit_test(help_is_laid_out),
        cmocka_unit_test(values_are_stored_and_restored),
        cmocka_unit_test(stored_values_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
