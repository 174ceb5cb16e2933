#include "mover/effect.h"

/* A smaller move says nothing. */
#define TELLING_BYTES (UINT64_C(256) << 20)

bool nvs_effect_moved(struct nvs_effect *effect, int64_t now, uint64_t asked_bytes, uint64_t moved_bytes)
{
    if (asked_bytes < TELLING_BYTES)
        return false;
    effect->empty_moves = moved_bytes > asked_bytes / 4 ? 0 : effect->empty_moves + 1;
    if (effect->empty_moves < NVS_EMPTY_MOVES)
        return false;
    effect->empty_moves = 0;
    effect->off_until_ns = now + NVS_NO_EFFECT_NS;
    return true;
}

bool nvs_effect_is_off(const struct nvs_effect *effect, int64_t now) { return now < effect->off_until_ns; }
