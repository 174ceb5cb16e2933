/* Whether a card has this much free memory. NVML is asked, because the driver cannot be asked while the process is suspended. NVML may
 * take seconds to start, or wait for the dynamic linker's lock, so a separate thread asks it. For the helper. */
#ifndef NVS_CARD_ROOM_H
#define NVS_CARD_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

enum nvs_card_room { NVS_ROOM_UNKNOWN, NVS_ROOM_LACKS, NVS_ROOM_SUFFICES };

/* UNKNOWN until there is an answer; then the helper is woken. SUFFICES also if there is no NVML, or no answer for a long time. */
enum nvs_card_room nvs_card_room(const struct nvs_gpu *gpu, uint64_t bytes, int64_t now_ns);
/* An earlier answer no longer counts. */
void nvs_card_room_forget(void);
void nvs_card_room_forked(void);

#endif
