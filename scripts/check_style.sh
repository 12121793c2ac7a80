#!/usr/bin/env bash
# The style gate: formatting, banned functions, lengths of files and functions, stray bytes, shell scripts.
# `make lint` runs it; `make format` mends the formatting.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

max_file_lines=800
max_function_lines=70

list() { git ls-files --cached --others --exclude-standard "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }
mapfile -t c_files < <(list '*.c' '*.h')
mapfile -t cuda_files < <(list '*.cu' '*.cuh')
mapfile -t shell_files < <(list '*.sh' '*.sbatch' .ci/run)
mapfile -t text_files < <(list '*.c' '*.h' '*.cu' '*.cuh' '*.py' '*.sh' '*.sbatch' '*.md' .ci/run Makefile Containerfile)

failed=0
complain() { echo "$*"; failed=1; }

# Complains about each line of the C files outside EXCEPT that matches PATTERN; comment lines are not looked at.
ban() # PATTERN EXCEPT WHY
{
    local hits
    hits=$(printf '%s\n' "${c_files[@]}" | grep -vE "$2" | xargs -r grep -nE "$1" /dev/null | grep -vE '^[^:]*:[0-9]+: *(/?\*|//)')
    [ -z "$hits" ] || complain "$hits"$'\n'"    ^ $3"
}
call() { echo "(^|[^a-zA-Z0-9_.>])($1)\("; } # NAME|NAME...

check_formatting()
{
    local tool=clang-format version file
    command -v clang-format-14 >/dev/null && tool=clang-format-14
    version=$("$tool" --version 2>/dev/null | grep -oE 'version [0-9]+')
    if [ "$version" != "version 14" ]; then
        echo "style: formatting is not checked: clang-format 14 is needed, this is \"${version:-none}\""
        return
    fi
    for file in "${c_files[@]}" "${cuda_files[@]}"; do
        "$tool" "$file" | cmp -s - "$file" || complain "$file: not formatted (make format)"
    done
}

check_banned()
{
    ban "$(call 'strcpy|strncpy|strcat|strncat|sprintf|vsprintf|gets|strtok')" '^$' "no ceiling, or hidden state: use base/bytes.h"
    ban "$(call 'atoi|atol|atoll|atof')" '^$' "errors go unseen: parse with a check"
    ban "$(call 'sscanf')" '^tests/' "errors go unseen: parse with a check"
    ban "$(call 'alloca|tmpnam|mktemp|rand|srand|random|asctime|ctime|localtime|gmtime|strerror')" '^$' "unsafe or not reproducible"
    ban "$(call 'system|popen')" '^tests/' "runs a shell"
    ban "$(call 'malloc|calloc|realloc|strdup|strndup|asprintf|vasprintf')" '^(tests/|base/(memory|status)\.c$)' "use base/memory.h"
    ban "$(call 'exit|_exit|_Exit|abort|quick_exit')" '^(cmd/main\.c$|base/stop\.c$|train/comm_watch\.c$|tests/)' "only main ends the process"
    ban "$(call 'printf|vprintf|puts|putchar|perror')|fprintf\((stdout|stderr)" '^(cmd/|demo/main\.c$|base/(log|progress)\.c$|tests/)' "only commands print"
    ban 'typedef (struct|union|enum) [a-z0-9_]*( ?\{| [a-z0-9_]+;)' '^$' "structs have no typedefs"
    ban '(TODO|FIXME|XXX)' '^$' "say it in a test or an issue"
    ban '"/(usr|home|opt|work|root|tmp|etc|var)' '^tests/' "absolute path"
}

check_lengths()
{
    local long
    long=$(printf '%s\n' "${text_files[@]}" | grep -E '\.(c|h|cuh?|py|sh)$' | xargs -r wc -l |
        awk -v max=$max_file_lines '$2 != "total" && $1 > max { print $2 ": " $1 " lines, at most " max }')
    [ -z "$long" ] || complain "$long"
    long=$(printf '%s\n' "${c_files[@]}" |
        ctags -f - -L - --languages=C --kinds-C=f --fields=+ne --excmd=number 2>/dev/null |
        awk -F'\t' -v max=$max_function_lines '{
            for (i = 4; i <= NF; i++) {
                if ($i ~ /^line:/) line = substr($i, 6)
                if ($i ~ /^end:/) end = substr($i, 5)
            }
            if (end - line >= max) print $2 ":" line ": " $1 " has " end - line + 1 " lines, at most " max
        }')
    [ -z "$long" ] || complain "$long"
}

check_bytes()
{
    local hits
    hits=$(printf '%s\n' "${text_files[@]}" | grep -v '^Makefile$' | xargs -r grep -nP '\t' /dev/null)
    [ -z "$hits" ] || complain "$hits"$'\n'"    ^ tab"
    hits=$(grep -nE '[[:space:]]+$' /dev/null "${text_files[@]}")
    [ -z "$hits" ] || complain "$hits"$'\n'"    ^ trailing space"
    hits=$(grep -nE '(^|[^a-zA-Z0-9_.])/(home|root|work)/' /dev/null "${text_files[@]}")
    [ -z "$hits" ] || complain "$hits"$'\n'"    ^ a path of one machine"
}

for tool in ctags shellcheck git; do
    command -v $tool >/dev/null || complain "style: $tool is missing: run scripts/setup.sh --test"
done
check_formatting
check_banned
check_lengths
check_bytes
shellcheck -x -e SC2012 "${shell_files[@]}" || failed=1

[ $failed -ne 0 ] || echo "style: ${#text_files[@]} files, all in order"
exit $failed
