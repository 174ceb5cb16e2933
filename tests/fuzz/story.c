/* An input is a story. Each byte is an act: its lower half says what, its upper half which GPU or how much, and some
 * acts take further bytes. The scheduler says any bytes, or a well-formed frame; it reads slowly, hangs up, cannot be
 * reached; bytes arrive in pieces; threads come to the gate, launch, allocate, free, begin and end contexts; time
 * passes. When the story is told, the scheduler is gone for good, and everybody at a gate must be let through. */
#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#include "gate/streams.h"
#include "helper/asks.h"
#include "helper/helper.h"
#include "helper/joining.h"
#include "helper/wake.h"
#include "memory/entries.h"
#include "world.h"

enum { MAX_ALLOCATIONS = 32, LAST_MS = 12000, MANY_RECALLS = 246 };

static const uint8_t *story;
static size_t left;
static jmp_buf told; /* where the world goes when the story has ended */
static int64_t end_ns; /* of the world, once the story is told; 0: it is not */
static uint32_t allocated[WORLD_GPUS]; /* how many; they are freed in reverse */

static uint8_t next(void) { return left ? left--, *story++ : 0; }

/* ---- acts of the scheduler ---- */

static void say_bytes(struct nvs_gpu *gpu, uint8_t how)
{
    size_t count = next();
    (void)gpu, (void)how;
    count = count < left ? count : left;
    world_say(story, count);
    story += count, left -= count;
}

/* One frame, or so many recalls that a helper whose scheduler does not read has no room for its answers. */
static void say_frame(struct nvs_gpu *gpu, uint8_t how)
{
    uint8_t frame[WORLD_FRAME], kind = next(), value = next();
    size_t bytes = world_make_frame(frame, how & 3 ? gpu->index : how / 4, kind, value);
    for (int times = kind == MANY_RECALLS ? 1000 : 1; times; times--)
        world_say(frame, bytes);
}

static void cut_in_pieces(struct nvs_gpu *gpu, uint8_t how) { (void)gpu, world.piece = how; }
static void hang_up(struct nvs_gpu *gpu, uint8_t how) { (void)gpu, (void)how, world.is_hung_up = true; }
static void read_slowly(struct nvs_gpu *gpu, uint8_t how) { (void)gpu, world.send_room = how < 12 ? how : SIZE_MAX; }

static void answer_calls(struct nvs_gpu *gpu, uint8_t how)
{
    static const int errors[] = {0, EAGAIN, ECONNREFUSED, ENOENT};
    (void)gpu;
    world.connect_error = errors[how % 4];
}

/* ---- acts of the program ---- */

static void come_to_gate(struct nvs_gpu *gpu, uint8_t how)
{
    (void)how;
    if (world.gpus[gpu->index].is_open)
        return;
    atomic_fetch_add(&gpu->waiters, 1);
    nvs_wake_helper();
}

static void launch(struct nvs_gpu *gpu, uint8_t how)
{
    struct world_gpu *state = &world.gpus[gpu->index];
    (void)how;
    if (state->is_watched && atomic_load(&gpu->is_known_idle))
        nvs_wake_helper();
    state->is_watched = false;
}

static uint64_t context_of(const struct nvs_gpu *gpu) { return (uint64_t)gpu->index + 1; }
static uint64_t address_of(const struct nvs_gpu *gpu) { return context_of(gpu) << 32 | allocated[gpu->index]; }

static void allocate(struct nvs_gpu *gpu, uint8_t how)
{
    uint64_t bytes = world_size(next());
    const struct nvs_account *account = &gpu->account;
    bool swappable = how & 2, is_fact = how == 15, is_free = !account->limit && account->oversubscribe && bytes <= NVS_MAX_BYTES;
    if (allocated[gpu->index] == MAX_ALLOCATIONS || (is_fact && bytes > NVS_MAX_BYTES))
        return;
    if (is_fact) {
        nvs_memory_add(gpu, bytes, swappable);
    } else if (nvs_memory_reserve(gpu, bytes, swappable) == CUDA_SUCCESS) {
        world_require(!account->limit || (account->used <= account->limit && account->used <= account->budget),
                      "what is allocated is within limit and budget");
        world_require(account->oversubscribe || account->used <= nvs_account_usable(account), "what is allocated is within the card");
    } else {
        world_require(!is_free || account->limit, "without a limit there is room");
        return;
    }
    nvs_entries_note(&(struct nvs_ledger_entry){.key = address_of(gpu), .bytes = bytes, .owner = context_of(gpu), .gpu = (uint16_t)gpu->index,
                                        .kind = NVS_KIND_MEMORY, .swappable = swappable});
    allocated[gpu->index]++;
}

static void give_back(struct nvs_gpu *gpu, uint8_t how)
{
    struct nvs_ledger_entry taken;
    (void)how;
    if (!allocated[gpu->index])
        return;
    allocated[gpu->index]--;
    world_require(nvs_entries_take(NVS_KIND_MEMORY, address_of(gpu), &taken), "what was allocated is found again");
    nvs_memory_return(gpu, taken.bytes, taken.swappable);
}

static void end_context(struct nvs_gpu *gpu)
{
    nvs_entries_context_gone((CUcontext)(uintptr_t)context_of(gpu));
    allocated[gpu->index] = 0;
    world_require(!gpu->account.used && !gpu->account.unswappable, "a context takes its memory with it");
}

static void have_contexts(struct nvs_gpu *gpu, uint8_t how)
{
    atomic_store(&gpu->contexts, how == 15 ? 1u << 20 : how / 2);
    if (how < 2) {
        end_context(gpu);
        world.gpus[gpu->index].has_yielded = true;
    }
    nvs_memory_changed(gpu);
}

static void be_busy(struct nvs_gpu *gpu, uint8_t how)
{
    world.gpus[gpu->index].is_busy = how & 2;
    world.gpus[gpu->index].is_inside = how & 4;
    atomic_store(&nvs_streams_lock.word, how >> 3);
}

static void close_everything(struct nvs_gpu *gpu, uint8_t how) { (void)gpu, (void)how, world.is_stolen = true; }
static void ask_for_others(struct nvs_gpu *gpu, uint8_t how) { (void)how, nvs_asks_refresh(gpu); }
static void wait_for_answer(struct nvs_gpu *gpu, uint8_t how) { (void)gpu, (void)how, nvs_joining_wait_done(); }

static void answer(uint8_t gpu, uint8_t how)
{
    extern uint32_t __real_nvs_client_receive(struct nvs_client *, int64_t, const uint8_t *, size_t, struct nvs_account *);
    uint8_t frame[WORLD_FRAME];
    struct nvs_client_out *out = &nvs_helper_client.out;
    size_t bytes = world_make_frame(frame, gpu, 5, how);
    uint32_t todo = __real_nvs_client_receive(&nvs_helper_client, world.now_ns, frame, bytes, &nvs_gpus[gpu].account);
    world_require(!(todo & NVS_CLIENT_SAY_BROKEN), "an answer is understood");
    if (todo & NVS_CLIENT_ANSWER)
        nvs_asks_answer(out->ask, out->granted);
    out->todo &= ~(uint32_t)NVS_CLIENT_ANSWER;
}

/* While a thread waits, the helper sends its question, and an answer comes, or time passes. */
void world_thread_waits(int64_t timeout_ns)
{
    uint8_t what = nvs_session_is_registered() && !end_ns ? next() : 0;
    if (nvs_session_is_registered())
        nvs_asks_tick();
    if (!(what & 8)) /* or the helper cannot run */
        nvs_asks_refuse_overdue(world.now_ns);
    if (what % 4 == 1)
        answer(what >> 2 & 1, next() | 128);
    else if (what % 4 == 2)
        nvs_asks_lost();
    else
        world.now_ns += what % 4 == 3 ? timeout_ns / 2 + 1 : timeout_ns;
}

/* ---- the story ---- */

typedef void act(struct nvs_gpu *gpu, uint8_t how);
static act *const acts[16] = {NULL, /* time passes, and the helper looks */
                              say_bytes, say_frame, cut_in_pieces, come_to_gate, allocate, give_back, have_contexts, be_busy, launch,
                              hang_up, read_slowly, answer_calls, close_everything, ask_for_others, wait_for_answer};

static void pass_time(uint8_t how, int64_t most_ns)
{
    static const int64_t times_us[16] = {0, 1, 200, 1000, 5000, 10000, 20000, 100000, 200000, 1000000, 5000000, 5000001,
                                         10000000, 30000000, 60000000, 660000000};
    int64_t time_ns = times_us[how] * 1000;
    world.now_ns += time_ns < most_ns || how & 1 ? time_ns : most_ns; /* odd: the machine is busy and wakes us late */
}

static void pass_gates(void)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (world.gpus[i].is_open)
            atomic_store(&nvs_gpus[i].waiters, 0);
}

static void begin_the_end(void)
{
    end_ns = world.now_ns + LAST_MS * NVS_MS;
    world.is_hung_up = true;
    world.connect_error = ENOENT;
    world.send_room = SIZE_MAX;
    for (int i = 0; i < nvs_gpu_count; i++) {
        be_busy(&nvs_gpus[i], 0);
        come_to_gate(&nvs_gpus[i], 0);
    }
}

static void end(int64_t timeout_ns)
{
    world.now_ns += timeout_ns;
    if (world.now_ns < end_ns)
        return;
    for (int i = 0; i < nvs_gpu_count; i++) {
        world_require(!atomic_load(&nvs_gpus[i].waiters), "without a scheduler nobody waits for ever");
        end_context(&nvs_gpus[i]);
    }
    longjmp(told, 1); /* the helper runs as long as the process */
}

void world_goes_on(int64_t timeout_ns)
{
    pass_gates();
    if (end_ns) {
        end(timeout_ns);
        return;
    }
    while (left) {
        uint8_t byte = next();
        if (!acts[byte & 15]) {
            pass_time(byte >> 4, timeout_ns);
            return;
        }
        acts[byte & 15](&nvs_gpus[byte >> 4 & 1], byte >> 4);
    }
    begin_the_end();
}

void world_tell(const uint8_t *bytes, size_t count)
{
    story = bytes, left = count, end_ns = 0;
    world_reset();
    nvs_session_forked();
    nvs_session_start();
    if (!setjmp(told))
        world_helper(NULL);
}
