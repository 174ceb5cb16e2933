/* A connection to the scheduler: frames in, frames out. It never blocks, never raises a signal, and never writes to a descriptor that
 * is not ours. */
#ifndef NVS_LINK_H
#define NVS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fd.h"
#include "client/client.h"
#include "wire.h"

struct nvs_link {
    struct nvs_owned_fd fd;
    size_t in_bytes, out_bytes;
    bool is_stuck; /* there was no room for a frame */
    bool was_filled; /* the last nvs_link_receive took as much as there was room for */
    uint8_t in[2 * NVS_MAX_FRAME];
    uint8_t out[8 * NVS_MAX_FRAME];
};

/* 0 or an errno; EAGAIN: the scheduler's backlog is full. */
int nvs_link_connect(struct nvs_link *link, const char *path);
/* What an error of nvs_link_connect says about the scheduler. */
enum nvs_absence nvs_link_absence(int error, const char *path);
void nvs_link_close(struct nvs_link *link);
bool nvs_link_is_up(const struct nvs_link *link);
/* Queues a frame. If there is no room for it, the scheduler has stopped reading. The connection is then given up, because a frame
 * would be missing. */
void nvs_link_put(struct nvs_link *link, const void *frame, size_t bytes);
/* Send and receive as much as possible without waiting; false if the connection is gone. */
bool nvs_link_flush(struct nvs_link *link);
bool nvs_link_receive(struct nvs_link *link);
/* Whether more may have come than the last nvs_link_receive has taken. */
bool nvs_link_may_have_more(const struct nvs_link *link);
/* The next whole frame, or NULL. `broken` if what came is no frame. Valid until the next call, and not aligned: frames may be
 * longer than we know them by any number of bytes. */
const uint8_t *nvs_link_next(struct nvs_link *link, size_t *at, bool *broken);
/* Whether a whole frame of this type has come and was not dealt with. */
bool nvs_link_has(struct nvs_link *link, uint8_t type);
/* Frames before `at` have been dealt with. */
void nvs_link_consume(struct nvs_link *link, size_t at);

#endif
