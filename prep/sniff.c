#include "prep/sniff.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

#define TAR_BLOCK_BYTES 512
#define TAR_CHECKSUM_OFFSET 148
#define TAR_CHECKSUM_LENGTH 8

static bool is_all_zero(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i])
            return false;
    return true;
}

/* Old tars summed signed characters, everybody else unsigned ones. */
static bool has_tar_checksum(const uint8_t *header)
{
    const uint8_t *field = header + TAR_CHECKSUM_OFFSET;
    long stored = 0, unsigned_sum = 0, signed_sum = 0;
    size_t i = 0;
    while (i < TAR_CHECKSUM_LENGTH && field[i] == ' ')
        i++;
    if (i == TAR_CHECKSUM_LENGTH || field[i] < '0' || field[i] > '7')
        return false;
    for (; i < TAR_CHECKSUM_LENGTH && field[i] >= '0' && field[i] <= '7'; i++)
        stored = stored * 8 + (field[i] - '0');
    for (i = 0; i < TAR_BLOCK_BYTES; i++) {
        bool is_field = i >= TAR_CHECKSUM_OFFSET && i < TAR_CHECKSUM_OFFSET + TAR_CHECKSUM_LENGTH;
        unsigned_sum += is_field ? ' ' : header[i];
        signed_sum += is_field ? ' ' : (int8_t)header[i];
    }
    return stored == unsigned_sum || stored == signed_sum;
}

/* The page that a server sends instead of the file: after a login ran out, or an error. */
static bool is_markup(const uint8_t *bytes, size_t length)
{
    static const char *const starts[] = {"<!doctype", "<html", "<head", "<?xml", "<body"};
    size_t at = 0;
    if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < length && strchr(" \t\r\n", bytes[at]))
        at++;
    for (size_t i = 0; i < ARRAY_LENGTH(starts); i++) {
        size_t n = strlen(starts[i]);
        if (length - at >= n && strncasecmp((const char *)bytes + at, starts[i], n) == 0)
            return true;
    }
    return false;
}

/* Lists, notes and scripts are ASCII nearly always; other text stays data of no known kind. */
static bool is_plain_text(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] > '~' || (bytes[i] < ' ' && !memchr("\t\r\n", bytes[i], 3)))
            return false;
    return true;
}

static const struct {
    const char *magic;
    size_t offset, length;
    const char *description;
} magics[] = {
    {"PK\3\4", 0, 4,
     "a zip file; Kaggle's of ILSVRC2012 is taken by headrace prep and extract, others "
     "need to be unpacked with unzip first"},
    {"PK\5\6", 0, 4, "an empty zip file"},
    {"\x89HDF\r\n\x1a\n", 0, 8, "an HDF5 file"},
    {"\x89HDF\r\n\x1a\n", 512, 8, "a MATLAB 7.3 (HDF5) file"},
    {"MATLAB 5.0 MAT-file", 0, 19, "a MATLAB 5.0 file"},
    {"BZh", 0, 3, "a bzip2 file: unpack it with bunzip2 first"},
    {"\xfd"
     "7zXZ",
     0, 6, "an xz file: unpack it with unxz first"},
    {"\x28\xb5\x2f\xfd", 0, 4, "a Zstandard file: unpack it with unzstd first"},
    {"7z\xbc\xaf\x27\x1c", 0, 6, "a 7z file: unpack it first"},
    {"Rar!", 0, 4, "a RAR file: unpack it first"},
    {"PAR1", 0, 4,
     "a Parquet file, as Hugging Face hands data sets out: take the tar.gz archives of the same "
     "data "
     "set and sort them with headrace organize, or write the files in its column image into class "
     "folders (its labels count the sorted WNIDs)"},
    {"HEADRACE", 0, 8, "an index of headrace: headrace unpack INDEX DEST writes its images"},
    {"HRSHARD", 0, 8, "a packed shard of headrace: headrace unpack SHARD DEST writes its images"},
    {"\xff\xd8\xff", 0, 3, "a JPEG image"},
    {"\x89PNG", 0, 4, "a PNG image"},
    {"GIF8", 0, 4, "a GIF image"},
    {"WEBP", 8, 4, "a WebP image"},
    {"BM", 0, 2, "a BMP image"},
    {"II*\0", 0, 4, "a TIFF image"},
    {"MM\0*", 0, 4, "a TIFF image"},
    {"%PDF", 0, 4, "a PDF document"},
    {"d8:announce", 0, 11, "a torrent file: it describes a download, it is not one"},
    {"version https://git-lfs", 0, 23,
     "a Git LFS pointer: fetch the file itself with git lfs pull"},
};

enum sniff_kind sniff(const void *bytes, size_t length, const char **ret_description)
{
    const uint8_t *head = bytes;
    const char *ignored;
    if (!ret_description)
        ret_description = &ignored;
    *ret_description = is_plain_text(head, length) ? "plain text" : "data of no known kind";

    if (length >= TAR_BLOCK_BYTES &&
        (has_tar_checksum(head) || is_all_zero(head, TAR_BLOCK_BYTES))) {
        *ret_description = "a tar archive";
        return SNIFF_TAR;
    }
    if (length >= 3 && memcmp(head, "\x1f\x8b\x08", 3) == 0) {
        *ret_description = "a gzip file";
        return SNIFF_GZIP;
    }
    if (length == 0)
        *ret_description = "empty";
    else if (is_markup(head, length))
        *ret_description = "an HTML page: log in where you got it and download it again";
    else
        for (size_t i = 0; i < ARRAY_LENGTH(magics); i++)
            if (length >= magics[i].offset + magics[i].length &&
                memcmp(head + magics[i].offset, magics[i].magic, magics[i].length) == 0)
                *ret_description = magics[i].description;
    return SNIFF_OTHER;
}
