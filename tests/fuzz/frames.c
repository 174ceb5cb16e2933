/* Random bytes for libnvshare's reader of frames: socket.c cuts them, messages.c acts on them, gate.c and account.c are
 * the real ones; what lies beyond is played here and checks what it is given.
 *
 * Alone: `frames COUNT SEED` makes inputs by changing whole frames. With clang: -DNVS_LIBFUZZER -fsanitize=fuzzer. AFL++ and others: `frames -` reads one input. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "process.h"
#include "socket.h"
#include "turns.h"

struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
int nvs_gpu_count = 2;
static bool is_registered;
static unsigned long handled;

static void require(bool what, const char *words)
{
    if (!what) {
        fprintf(stderr, "does not hold: %s\n", words);
        abort();
    }
}

void nvs_helper_send(const void *frame, size_t bytes)
{
    struct nvs_head head;
    memcpy(&head, frame, sizeof head);
    require(bytes == head.length && bytes <= NVS_MAX_FRAME, "what we say is a frame");
}
bool nvs_helper_is_registered(void) { return is_registered; }
void nvs_helper_registered(bool scheduling_is_on)
{
    (void)scheduling_is_on;
    is_registered = true;
}
void nvs_session_answer(uint32_t ask, uint64_t granted) { (void)ask, (void)granted; }
void nvs_turns_apply(struct nvs_gpu *gpu, unsigned todo)
{
    require(gpu >= nvs_gpus && gpu < nvs_gpus + nvs_gpu_count, "the GPU is one of ours");
    require(!((todo & NVS_DO_OPEN) && (todo & NVS_DO_CLOSE)), "a gate is not opened and closed at once");
    require(nvs_turn_is_open(&gpu->turn) || !(todo & NVS_DO_OPEN), "an opened gate is open");
    handled++;
}
void nvs_turns_contended(struct nvs_gpu *gpu, bool contended) { gpu->turn.contended = contended; }
void nvs_turns_send_budget_return(struct nvs_gpu *gpu, uint32_t serial)
{
    (void)serial;
    require(gpu->account.budget >= gpu->account.used || gpu->account.keep == NVS_UNLIMITED, "a recall leaves what is in use");
}

static void reset(void)
{
    memset(nvs_gpus, 0, sizeof nvs_gpus);
    for (int i = 0; i < nvs_gpu_count; i++) {
        nvs_account_init(&nvs_gpus[i].account, 1ull << 34, 0, true);
        nvs_account_add(&nvs_gpus[i].account, 1ull << 30, true);
    }
    is_registered = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct nvs_link link;
    bool broken = false;
    reset();
    link.in_bytes = 0;
    while (size && !broken) {
        size_t at = 0, room = sizeof link.in - link.in_bytes, take = size < room ? size : room;
        const struct nvs_head *frame;
        memcpy(link.in + link.in_bytes, data, take);
        link.in_bytes += take;
        data += take, size -= take;
        while (!broken && (frame = nvs_link_next(&link, &at, &broken)))
            broken = !nvs_messages_handle(frame);
        if (!broken)
            nvs_link_consume(&link, at);
        require(broken || link.in_bytes < sizeof link.in, "a reader that is not broken has room for more");
    }
    return 0;
}

#ifndef NVS_LIBFUZZER
static uint64_t state;

static uint32_t chance(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static size_t make_input(uint8_t *input, size_t most)
{
    size_t bytes = 0;
    for (uint32_t frames = 1 + chance(8); frames && bytes + NVS_MAX_FRAME < most; frames--) {
        struct nvs_head head = {.length = (uint16_t)(4 + chance(80)), .type = (uint8_t)chance(22), .gpu = (uint8_t)chance(3)};
        if (!bytes && chance(4))
            head.type = NVS_SCHED_ON;
        for (size_t i = 0; i < head.length; i++)
            input[bytes + i] = (uint8_t)(chance(3) ? chance(256) : 0);
        memcpy(input + bytes, &head, sizeof head);
        bytes += head.length;
    }
    for (uint32_t changes = chance(3); changes; changes--)
        input[chance((uint32_t)bytes)] = (uint8_t)chance(256);
    return bytes - (chance(4) ? 0 : chance((uint32_t)bytes));
}

int main(int count, char **words)
{
    static uint8_t input[16 * NVS_MAX_FRAME];
    if (count == 2 && !strcmp(words[1], "-"))
        return LLVMFuzzerTestOneInput(input, fread(input, 1, sizeof input, stdin));
    unsigned long inputs = count > 1 ? strtoul(words[1], NULL, 10) : 1000000;
    state = (count > 2 ? strtoull(words[2], NULL, 10) : 1) * 0x9e3779b97f4a7c15ull + 1;
    for (unsigned long i = 0; i < inputs; i++)
        LLVMFuzzerTestOneInput(input, make_input(input, sizeof input));
    printf("%lu inputs, %lu turns changed\n", inputs, handled);
    return handled ? 0 : 1;
}
#endif
