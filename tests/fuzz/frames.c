/* Fuzzing of libnvshare's helper thread: session, link, notices, work, asks, the client machine and memory are
 * the real ones; system.c and scheduler.c play what lies around them, world.c checks, story.c turns an input into what happens.
 *
 * With clang it is a libFuzzer program. Alone: `frames COUNT SEED` makes stories up, `frames -` reads one (AFL++). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world_tell(data, size);
    return 0;
}

#ifndef NVS_LIBFUZZER
static uint64_t state;

static uint8_t chance(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint8_t)((uint32_t)(state >> 32) % below);
}

/* Half of the acts are frames; one story in eight does without them and speaks only in raw bytes. */
static size_t make_story(uint8_t *into, size_t most)
{
    static const uint8_t answer[] = {0x00, 0x02, 0x00, 0x00, 0x00};
    bool is_polite = chance(8);
    size_t bytes = is_polite ? sizeof answer : 0;
    memcpy(into, answer, bytes);
    for (size_t end = bytes + 1 + chance(200); bytes < end && bytes + 4 < most;) {
        uint8_t act = is_polite && chance(2) ? 2 : chance(16);
        into[bytes++] = (uint8_t)(act | chance(16) << 4);
        if (act == 1 || act == 2 || act == 5)
            into[bytes++] = chance(act == 1 ? 40 : 256);
        if (act == 2)
            into[bytes++] = chance(256);
    }
    return bytes;
}

static int report(unsigned long stories)
{
    static const uint8_t from_scheduler[] = {NVS_SCHED_ON,     NVS_SCHED_OFF, NVS_LOCK_OK, NVS_DROP_LOCK,     NVS_WAIT_FOR_MEM, NVS_MEM_AVAILABLE,
                                             NVS_UPDATE_LIMIT, NVS_CONTENDED, NVS_BUDGET,  NVS_BUDGET_RECALL, NVS_LONG_WAIT, NVS_PONG,
                                             NVS_CAPACITY,     NVS_MOVE_IN,   NVS_MOVE_OUT,  NVS_KEEP_ON_HOST, NVS_LET_ONE};
    uint64_t frames = 0;
    for (size_t i = 0; i < sizeof from_scheduler; i++) {
        world_require(world_frames[from_scheduler[i]] || stories < 1000, "every message was heard");
        frames += world_frames[from_scheduler[i]];
    }
    printf("%lu stories, %llu frames\n", stories, (unsigned long long)frames);
    return 0;
}

int main(int count, char **words)
{
    static uint8_t story[1 << 16];
    if (count == 2 && !strcmp(words[1], "-"))
        return LLVMFuzzerTestOneInput(story, fread(story, 1, sizeof story, stdin));
    unsigned long stories = count > 1 ? strtoul(words[1], NULL, 10) : 1000000;
    state = (count > 2 ? strtoull(words[2], NULL, 10) : 1) * 0x9e3779b97f4a7c15ull + 1;
    for (unsigned long i = 0; i < stories; i++)
        LLVMFuzzerTestOneInput(story, make_story(story, 512));
    return report(stories);
}
#endif
