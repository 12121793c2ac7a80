#!/usr/bin/env bash
# Checks who includes whom: rooms only look downwards, a third-party library stays behind one file, and
# each header compiles alone (those of the CUDA backend where CUDA_FLAGS say how). `make lint` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

# Room: the rooms (or single headers) that its files may include.
may_include='
base            base
image           base image
prep            base image prep
index           base image index
binding         base image prep index binding
train           base image index train
train/reference base train/backend.h train/module.h train/comm.h train/network.h train/stepping.h train/reference
train/cpu       base train/backend.h train/backend_module.h train/comm.h train/logits.h train/network.h train/stepping.h train/cpu
train/mpi       base train/comm_internal.h train/mpi
train/cuda      base train/backend.h train/backend_module.h train/network.h train/comm.h train/cuda
cmd             base image prep index train cmd
demo            base image demo
tests           base image prep index binding train train/reference train/cpu train/cuda demo tests
'

# Third-party header: the files that may include it (a pattern); tests may include any.
owners='
archive.h          ^prep/archive[a-z0-9_]*\.[ch]$
archive_entry.h    ^prep/archive[a-z0-9_]*\.[ch]$
matio.h            ^demo/[a-z0-9_]*\.c$
zlib.h             ^base/deflate\.c$
jpeglib.h          ^image/jpeg[a-z0-9_]*\.[ch]$
jerror.h           ^image/jpeg[a-z0-9_]*\.[ch]$
png.h              ^image/png[a-z0-9_]*\.c$
jansson.h          ^base/json\.c$
md5.h              ^base/digest\.c$
sha2.h             ^base/digest\.c$
oneapi/dnnl/dnnl.h ^train/cpu/
omp.h              ^train/cpu/
mpi.h              ^train/mpi/mpi\.c$
cuda_runtime_api.h ^train/cuda/
cudnn.h            ^train/cuda/
nccl.h             ^train/cuda/collective\.c$
cmocka.h           ^tests/
curl/curl.h        ^index/curl\.c$
'

mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.c' '*.h')
[ ${#sources[@]} -gt 0 ] || exit 0

# Prints "file:line: complaint" for each include that points the wrong way.
check_direction()
{
    awk -v may_include="$may_include" -v owners="$owners" '
        # The room of a path: its folder, but all of tests/ is one room, and so are nested folders elsewhere.
        function room_of(path, parts) {
            split(path, parts, "/")
            if (parts[1] == "train" && parts[2] ~ /^(reference|cpu|cuda|mpi)$/)
                return parts[1] "/" parts[2]
            return parts[1]
        }
        BEGIN {
            count = split(may_include, lines, "\n")
            for (i = 1; i <= count; i++) {
                words = split(lines[i], word, " ")
                for (j = 2; j <= words; j++)
                    allowed[word[1], word[j]] = 1
                if (words) known[word[1]] = 1
            }
            count = split(owners, lines, "\n")
            for (i = 1; i <= count; i++)
                if (split(lines[i], word, " ") == 2)
                    owner[word[1]] = word[2]
        }
        FNR == 1 { room = room_of(FILENAME) }
        FNR == 1 && !(room in known) { print FILENAME ": stands in no known room"; failed = 1 }
        !/^[ \t]*#[ \t]*include[ \t]*["<]/ { next }
        {
            name = $0
            sub(/^[^"<]*["<]/, "", name)
            sub(/[">].*$/, "", name)
            where = FILENAME ":" FNR ": "
        }
        /"/ {
            if (name !~ "/") {
                print where "\"" name "\" is not named from the root of the repository"; failed = 1
            } else if (!((room, room_of(name)) in allowed) && !((room, name) in allowed)) {
                print where room " may not include " name; failed = 1
            }
            next
        }
        name in owner && FILENAME !~ owner[name] && room != "tests" {
            print where "<" name "> may only be included by " owner[name]; failed = 1
        }
        # A library is behind one file: the second one that includes it is one too many.
        # The demonstration writes with it what the library reads.
        name in owner && room != "tests" && room !~ /^train\/(cpu|cuda)$/ && room != "demo" {
            if (name in user && user[name] != FILENAME) {
                print where "<" name "> is already included by " user[name]; failed = 1
            }
            user[name] = FILENAME
        }
        END { exit failed }' "${sources[@]}"
}

check_headers_alone()
{
    local header failed=0
    for header in "${sources[@]}"; do
        [[ $header == *.h ]] || continue
        [[ $header != */cuda/* || -n ${CUDA_FLAGS:-} ]] || continue
        # shellcheck disable=SC2086 # several flags
        if ! "${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -I. -isystem build/deps/onednn/include ${CUDA_FLAGS:-} -Wall -Wextra -Werror \
            -fsyntax-only -include "$header" -x c /dev/null; then
            echo "$header: does not compile alone"
            failed=1
        fi
    done
    return $failed
}

status=0
check_direction || status=1
check_headers_alone || status=1
[ $status -ne 0 ] || echo "includes: ${#sources[@]} files, all in order"
exit $status
