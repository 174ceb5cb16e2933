/* A connection to the scheduler: frames in, frames out, never blocking, never a signal, never into somebody else's
 * descriptor. */
#ifndef NVS_SOCKET_H
#define NVS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform.h"
#include "wire.h"

struct nvs_link {
    struct nvs_owned_fd fd;
    size_t in_bytes, out_bytes;
    bool is_stuck; /* a frame found no room */
    uint8_t in[2 * NVS_MAX_FRAME];
    uint8_t out[8 * NVS_MAX_FRAME];
};

/* 0 or an errno; EAGAIN: the scheduler is there but too many knock at once. */
int nvs_link_connect(struct nvs_link *link, const char *path);
void nvs_link_close(struct nvs_link *link);
bool nvs_link_is_up(const struct nvs_link *link);
/* Queues a frame. If there is no room for it the scheduler has stopped reading, and the connection is of no use any more:
 * what was said on it would have a gap. */
void nvs_link_put(struct nvs_link *link, const void *frame, size_t bytes);
/* Sends and receives what can be had now; false if the connection is gone. */
bool nvs_link_flush(struct nvs_link *link);
bool nvs_link_receive(struct nvs_link *link);
/* The next whole frame, or NULL. `broken` if what came is no frame. Valid until the next call, and not aligned: frames may be
 * longer than we know them by any number of bytes. */
const uint8_t *nvs_link_next(struct nvs_link *link, size_t *at, bool *broken);
/* Frames before `at` have been dealt with. */
void nvs_link_consume(struct nvs_link *link, size_t at);

#endif
