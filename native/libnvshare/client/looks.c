#include "client/looks.h"

#include <string.h>

enum { ALIKE = 8, LONG_ALIKE = 64 };

/* The finalizer of murmur3. */
static uint64_t hash(uint64_t number)
{
    number ^= number >> 33;
    number *= UINT64_C(0xff51afd7ed558ccd);
    number ^= number >> 33;
    number *= UINT64_C(0xc4ceb9fe1a85ec53);
    return number ^ number >> 33;
}

static int64_t instant(uint64_t look) { return (int64_t)look * NVS_LOOK_NS + (int64_t)(hash(look) % NVS_LOOK_NS); }

uint64_t nvs_look_at(int64_t now_ns)
{
    uint64_t look = (uint64_t)(now_ns / NVS_LOOK_NS);
    return now_ns >= instant(look) || !look ? look : look - 1;
}

/* How many looks the next answer counts for. */
static uint64_t block(const struct nvs_looks *looks)
{
    return looks->alike < ALIKE ? 1 : looks->alike < LONG_ALIKE ? NVS_LOOKS_BLOCK : NVS_LOOKS_LONG_BLOCK;
}

int64_t nvs_looks_next(const struct nvs_looks *looks, int64_t now_ns)
{
    uint64_t first = looks->block_end + 1;
    return instant(looks->is_begun ? first + hash(~first) % block(looks) : nvs_look_at(now_ns) + 1);
}

static void take(struct nvs_looks *looks, uint64_t first, struct nvs_look_report *report)
{
    *report = looks->report;
    memset(&looks->report, 0, sizeof looks->report);
    looks->report.first = first;
}

static void add(struct nvs_look_report *report, bool busy)
{
    report->busy[report->count / 64] |= (uint64_t)busy << report->count % 64;
    report->count++;
}

static void note(struct nvs_looks *looks, uint64_t look, uint64_t block_end, bool busy)
{
    looks->alike = looks->is_begun && looks->was_busy == busy ? looks->alike + 1 : 1;
    if (!busy && (!looks->is_begun || looks->was_busy))
        looks->idle_since = look;
    looks->last = look;
    looks->block_end = block_end;
    looks->was_busy = busy;
    looks->is_begun = true;
}

/* The looks from the last answer up to this one; returns the last look that this one counts for. */
static uint64_t fill(struct nvs_looks *looks, uint64_t look, bool busy)
{
    uint64_t before = looks->block_end, end = before + block(looks);
    if (look > end)
        before += (look - before) / 2;
    for (uint64_t at = looks->last + 1; at < look; at++)
        add(&looks->report, at <= before ? looks->was_busy : busy);
    return look > looks->block_end && look < end ? end : look;
}

bool nvs_looks_saw(struct nvs_looks *looks, int64_t now_ns, bool busy, struct nvs_look_report *report)
{
    uint64_t look = nvs_look_at(now_ns), missed = look - looks->last;
    bool is_full = false, is_gap = !looks->is_begun || missed > NVS_LOOKS_MOST;
    if (looks->is_begun && look <= looks->last)
        return false;
    if (is_gap || looks->report.count + missed > NVS_LOOKS_MOST) {
        is_full = looks->report.count > 0;
        take(looks, is_gap ? look : looks->last + 1, report);
    }
    uint64_t block_end = is_gap ? look : fill(looks, look, busy);
    add(&looks->report, busy);
    note(looks, look, block_end, busy);
    if (is_full || looks->report.count < NVS_LOOKS_DUE)
        return is_full;
    take(looks, look + 1, report);
    return true;
}

bool nvs_looks_are_quiet(const struct nvs_looks *looks)
{
    return looks->is_begun && !looks->was_busy && looks->last - looks->idle_since >= NVS_LOOKS_QUIET;
}

bool nvs_looks_end(struct nvs_looks *looks, struct nvs_look_report *report)
{
    *report = looks->report;
    memset(looks, 0, sizeof *looks);
    return report->count > 0;
}
