#ifndef HEADRACE_BASE_STAGE_H
#define HEADRACE_BASE_STAGE_H

/* Filling a folder with class folders so that a kill at any moment leaves nothing half-done.
 *
 * A unit is a class folder in the making (or, with the name "", the destination itself). Its files
 * are written to DEST/.NAME.partial. A finished unit waits until about a gigabyte of finished ones
 * is there; then the file system is synced once and each unit is published: by renaming the whole
 * folder, or, where DEST/NAME exists from an earlier run, file by file. So what stands under its
 * final name is complete and on disk. Files that are there already with the right size are kept;
 * what a killed run left in .partial folders is removed by the next run.
 *
 * One process at a time: the destination is locked, where its file system can. Units may be used by
 * one thread each. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

struct stage;
struct stage_unit;

/* Creates `dest` (its parents too), locks it and removes leftovers. Fails when another process is
 * writing there. Folders that were created are removed by stage_close if nothing came into them. */
struct status stage_open(const char *dest, struct stage **ret_stage);
/* Units that were finished but not published are discarded. */
void stage_close(struct stage *stage);
CLEANUP_POINTER(stage_close, struct stage)
/* Publishes all finished units. */
struct status stage_publish(struct stage *stage);
/* Whether DEST/NAME exists, that is, was published by an earlier run. */
struct status stage_has_unit(const struct stage *stage, const char *name, bool *ret_has);
/* What is to be written: bytes in whole blocks of the file system, files and folders. */
struct stage_need {
    uint64_t bytes, files;
};
/* Adds a file. */
void stage_need_add(struct stage_need *need, const struct stage *stage, uint64_t size_bytes);
/* Adds `files` files of `bytes` bytes in all, each of which leaves half a block empty. */
void stage_need_guess(struct stage_need *need, const struct stage *stage, uint64_t bytes,
                      uint64_t files);
/* Whether the file system has so many bytes and inodes left, or does not say. */
bool stage_has_room(const struct stage *stage, const struct stage_need *need);
/* Fails with STATUS_NO_SPACE, saying how much is needed and there, if it has not. */
struct status stage_check_space(const struct stage *stage, const struct stage_need *need);

/* `name` is a file name (a class), or "" for the destination itself. */
struct status stage_unit_open(struct stage *stage, const char *name, struct stage_unit **ret_unit);
/* The published folder, borrowed. */
const char *stage_unit_path(const struct stage_unit *unit);
/* Discards what was written. NULL is fine. */
void stage_unit_free(struct stage_unit *unit);
CLEANUP_POINTER(stage_unit_free, struct stage_unit)
/* Whether the published folder has the file already, with this size. */
struct status stage_unit_keeps(struct stage_unit *unit, const char *name, uint64_t size_bytes,
                               bool *ret_keeps);
/* Begins a file, appends to it, ends it. A name that was written before fails with STATUS_CORRUPT.
 */
struct status stage_unit_begin(struct stage_unit *unit, const char *name);
struct status stage_unit_write(struct stage_unit *unit, const void *bytes, size_t length);
struct status stage_unit_end(struct stage_unit *unit);
/* Files in the published folder that stage_unit_keeps and stage_unit_begin were not called for;
 * hidden ones do not count. */
uint64_t stage_unit_extra(const struct stage_unit *unit);
/* Hands a complete unit to the stage, which owns it from then on. Publishes when enough has come
 * together. */
struct status stage_unit_finish(struct stage_unit *unit);

#endif
