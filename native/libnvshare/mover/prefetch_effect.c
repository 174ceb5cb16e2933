#include "mover/prefetch_effect.h"

/* A smaller move says nothing. */
#define TELLING_BYTES (UINT64_C(256) << 20)

/* Links: PCIe 5 has 64 GB/s each way, NVLink-C2C 450 GB/s. A prefetch that moves nothing takes some microseconds. */
#define LINK_MOST_BYTES_PER_MS 1000e6
#define PCIE_MOST_BYTES_PER_MS 64e6

bool nvs_prefetch_effect_was_slow(uint64_t bytes, double ms) { return ms * PCIE_MOST_BYTES_PER_MS >= (double)bytes; }

enum nvs_took nvs_prefetch_effect_took(uint64_t bytes, double ms, double submit_ms)
{
    if ((ms - submit_ms) * LINK_MOST_BYTES_PER_MS >= (double)bytes)
        return NVS_TOOK_TIME;
    return submit_ms * PCIE_MOST_BYTES_PER_MS >= (double)bytes ? NVS_TOOK_UNKNOWN : NVS_TOOK_NO_TIME;
}

bool nvs_prefetch_effect_moved(struct nvs_prefetch_effect *effect, int64_t now, uint64_t asked_bytes, uint64_t moved_bytes)
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

bool nvs_prefetch_effect_is_off(const struct nvs_prefetch_effect *effect, int64_t now) { return now < effect->off_until_ns; }
