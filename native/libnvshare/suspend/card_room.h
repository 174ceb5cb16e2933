/* Whether a card has this much free memory, by NVML: the driver cannot be asked while the process is suspended. */
#ifndef NVS_CARD_ROOM_H
#define NVS_CARD_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

/* True also if NVML is not there or does not say. */
bool nvs_card_room_suffices(const struct nvs_gpu *gpu, uint64_t bytes);

#endif
