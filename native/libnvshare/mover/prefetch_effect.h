/* Whether prefetches have an effect on this GPU. Pure.
 *
 * On some drivers a prefetch succeeds and does nothing. One move that takes no time does not show it: the driver may have evicted the
 * memory before we moved it out, or page faults may have brought it back before we moved it in. On a busy machine both happen, but
 * not in every move. So several moves in a row, in either direction, must take no time; a wrong answer ends after ten minutes. */
#ifndef NVS_PREFETCH_EFFECT_H
#define NVS_PREFETCH_EFFECT_H

#include <stdbool.h>
#include <stdint.h>

enum { NVS_EMPTY_MOVES = 4 };
#define NVS_NO_EFFECT_NS (600 * INT64_C(1000000000))

struct nvs_prefetch_effect {
    uint32_t empty_moves; /* one after the other */
    int64_t off_until_ns;
};

enum nvs_took { NVS_TOOK_NO_TIME, NVS_TOOK_TIME, NVS_TOOK_UNKNOWN };

/* Whether a slice took as long as PCIe 5 needs: then it was moved, wherever it was before. With faster links, more is moved than is
 * reported. */
bool nvs_prefetch_effect_was_slow(uint64_t bytes, double ms);
/* What the time of a slice that had to move shows. It counts as moved unless it was faster than any link: a prefetch without effect
 * that is taken for a move costs some calls, the reverse costs all moves. On a stream without work the time includes the delays of
 * our thread between its calls (`submit_ms` from the first to the last): they are subtracted, and if they are long, the time shows
 * nothing. */
enum nvs_took nvs_prefetch_effect_took(uint64_t bytes, double ms, double submit_ms);
/* A move has ended: `asked_bytes` had to move, and `moved_bytes` of them took time. True: prefetches are off from now on. */
bool nvs_prefetch_effect_moved(struct nvs_prefetch_effect *effect, int64_t now, uint64_t asked_bytes, uint64_t moved_bytes);
bool nvs_prefetch_effect_is_off(const struct nvs_prefetch_effect *effect, int64_t now);

#endif
