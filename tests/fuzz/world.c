/* The rules of the world, checked at every step: what the library says is well-formed and timely; it acts on exactly
 * the frames that it was sent, however they were cut; a message about an earlier lock, another GPU or nothing known
 * changes nothing; and between two steps the gate, the turn and the account agree. */
#include "world.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "socket.h"

struct world world;
uint64_t world_frames[256];
struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
int nvs_gpu_count = WORLD_GPUS;
struct nvs_lock nvs_streams_lock;

void world_require(bool what, const char *words)
{
    if (!what) {
        fprintf(stderr, "does not hold: %s\n", words);
        abort();
    }
}

static bool has(const uint64_t *locks, uint64_t lock)
{
    for (int i = 0; i < WORLD_LOCKS; i++)
        if (locks[i] == lock)
            return true;
    return false;
}

static void remember(uint64_t *locks, uint64_t lock)
{
    memmove(locks + 1, locks, (WORLD_LOCKS - 1) * sizeof *locks);
    locks[0] = lock;
}

void world_reset(void)
{
    memset(&world, 0, offsetof(struct world, stream));
    memset((char *)&world + offsetof(struct world, said), 0, sizeof world - offsetof(struct world, said));
    world.now_ns = 1000 * NVS_MS;
    world.send_room = SIZE_MAX;
    memset(nvs_gpus, 0, sizeof nvs_gpus);
    nvs_streams_lock = (struct nvs_lock){0};
    for (int i = 0; i < nvs_gpu_count; i++) {
        nvs_gpus[i].index = i;
        nvs_account_init(&nvs_gpus[i].account, 1ull << 34, 0, i == 0);
        snprintf(nvs_gpus[i].label, sizeof nvs_gpus[i].label, "GPU-%d", i);
    }
}

void world_say(const void *bytes, size_t count)
{
    if (!world.is_connected || count > sizeof world.stream - world.said)
        return;
    memcpy(world.stream + world.said, bytes, count);
    world.said += count;
}

void world_check(void)
{
    for (int i = 0; i < nvs_gpu_count; i++) {
        const struct nvs_gpu *gpu = &nvs_gpus[i];
        const struct nvs_account *account = &gpu->account;
        bool is_scheduled = gpu->turn.state == NVS_TURN_NONE || gpu->turn.state == NVS_TURN_WAITING || gpu->turn.state == NVS_TURN_FREE;
        world_require(!is_scheduled || nvs_helper_is_registered(), "only who is registered waits for a scheduler");
        world_require(world.gpus[i].is_open == nvs_turn_is_open(&gpu->turn), "the gate is open in a turn, and only then");
        world_require(gpu->is_draining == (gpu->turn.state == NVS_TURN_DRAINING), "who gives a lock back drains, and nobody else");
        world_require(account->unswappable <= account->used, "a part is not more than the whole");
        world_require(nvs_account_total(account) <= account->card, "nobody is promised more than the card");
        uint64_t total = nvs_account_total(account), taken = account->used < total ? account->used : total;
        world_require(nvs_account_free(account) <= total - taken, "what is used is not free");
        world_require(!account->limit || account->others < total || !nvs_account_free(account), "what others use is not free");
    }
}

/* ---- frames, both ways ---- */

static const uint16_t ours[] = {
    [NVS_REQ_LOCK] = sizeof(struct nvs_msg_req_lock),     [NVS_LOCK_RELEASED] = sizeof(struct nvs_msg_lock_released),
    [NVS_MEM_UPDATE] = sizeof(struct nvs_msg_mem_update), [NVS_IDLE] = sizeof(struct nvs_msg_idle),
    [NVS_BUSY] = sizeof(struct nvs_msg_busy),             [NVS_BUDGET_ASK] = sizeof(struct nvs_msg_budget_ask),
    [NVS_BUDGET_RETURN] = sizeof(struct nvs_msg_budget_return),
};

static void check_release(int gpu, uint64_t lock)
{
    const struct world_gpu *state = &world.gpus[gpu];
    world_require(has(state->locks, lock), "a lock given back had been given");
    world_require(has(state->dropped, lock) || state->has_yielded, "a lock is given back when it is asked for by its number");
    world_require(!state->is_open && !state->is_busy, "a lock is given back with the gate closed and all work done");
}

/* `at` is a whole frame that the helper wants to send. */
static void hear(const uint8_t *at, const struct nvs_head *head)
{
    if (head->type == NVS_REGISTER) {
        const size_t bytes = sizeof(struct nvs_msg_register) + WORLD_GPUS * sizeof(struct nvs_gpu_entry);
        world_require(head->length == bytes && ++world.registers == 1, "one REGISTER on a connection, with all GPUs");
        return;
    }
    world_require(world.registers == 1, "REGISTER comes first");
    world_require(head->type < sizeof ours / sizeof *ours && head->length == ours[head->type], "what we say is a frame of ours");
    world_require(head->gpu < nvs_gpu_count, "we speak of GPUs that we registered");
    world_require(nvs_helper_is_registered() || head->type == NVS_BUDGET_RETURN, "before the answer only terms are talked about");
    if (head->type == NVS_LOCK_RELEASED) {
        struct nvs_msg_lock_released released;
        memcpy(&released, at, sizeof released);
        check_release(head->gpu, released.lock);
    } else if (head->type == NVS_BUDGET_ASK) {
        struct nvs_msg_budget_ask ask;
        memcpy(&ask, at, sizeof ask);
        world_require(ask.ask != 0, "a question has a number");
        world.last_ask = ask.ask;
    } else if (head->type == NVS_BUDGET_RETURN) {
        struct nvs_msg_budget_return back;
        memcpy(&back, at, sizeof back);
        world.has_returned = true;
        world.returned_serial = back.serial;
    }
}

void __real_nvs_link_put(struct nvs_link *link, const void *frame, size_t bytes);
void __wrap_nvs_link_put(struct nvs_link *link, const void *frame, size_t bytes);
void __wrap_nvs_link_put(struct nvs_link *link, const void *frame, size_t bytes)
{
    struct nvs_head head;
    memcpy(&head, frame, sizeof head);
    if (!nvs_link_is_up(link))
        return;
    world_require(bytes == head.length && bytes <= NVS_MAX_FRAME, "a frame says how long it is");
    hear(frame, &head);
    __real_nvs_link_put(link, frame, bytes);
    world.put += bytes;
    world_require(link->is_stuck || link->out_bytes == world.put - world.sent, "what we say has no gaps");
}

/* A name in letters, of whatever alphabet, is told as it is. */
static void check_holder(const uint8_t *frame)
{
    char holder[NVS_NAME_BYTES + 1] = "";
    bool is_letters = true;
    memcpy(holder, frame + offsetof(struct nvs_msg_long_wait, holder), NVS_NAME_BYTES);
    for (const char *c = holder; *c; c++)
        is_letters = is_letters && ((uint8_t)*c >= 0xa0 || (*c >= ' ' && *c < 0x7f));
    world_require(!is_letters || strstr(world.line, holder), "a holder is called by its name");
}

static void check_known(const struct nvs_head *head, const uint8_t *frame, const struct nvs_gpu *before)
{
    const struct nvs_gpu *gpu = &nvs_gpus[head->gpu];
    struct world_gpu *state = &world.gpus[head->gpu];
    if (head->type == NVS_LOCK_OK) {
        struct nvs_msg_lock_ok ok;
        memcpy(&ok, frame, sizeof ok);
        world_require(gpu->turn.state == NVS_TURN_FREE || (gpu->turn.state == NVS_TURN_HOLDING && gpu->turn.lock == ok.lock),
                      "a lock that is given is held");
        remember(state->locks, ok.lock);
        state->has_yielded = !atomic_load(&gpu->contexts);
    } else if (head->type == NVS_DROP_LOCK) {
        struct nvs_msg_drop_lock drop;
        memcpy(&drop, frame, sizeof drop);
        remember(state->dropped, drop.lock);
        bool is_meant = before->turn.state == NVS_TURN_HOLDING && before->turn.lock == drop.lock;
        world_require(is_meant == (gpu->turn.state != before->turn.state), "a lock is dropped by its own number only");
    } else if (head->type == NVS_UPDATE_LIMIT) {
        world_require(!memcmp(&gpu->account.limit, frame + offsetof(struct nvs_msg_update_limit, limit), 8), "a limit is taken over");
    } else if (head->type == NVS_LONG_WAIT) {
        check_holder(frame);
    } else if (head->type == NVS_BUDGET_RECALL) {
        struct nvs_msg_budget_recall recall;
        memcpy(&recall, frame, sizeof recall);
        world_require(world.has_returned && world.returned_serial == recall.serial, "a recall is answered");
        world_require(gpu->account.budget <= before->account.budget || gpu->account.budget == gpu->account.used,
                      "a recall raises no budget");
    }
}

static bool is_untouched(const struct nvs_gpu *before, int gpu)
{
    const struct nvs_gpu *now = &nvs_gpus[gpu];
    return before->turn.state == now->turn.state && before->turn.lock == now->turn.lock &&
           !memcmp(&before->account, &now->account, sizeof now->account);
}

bool __real_nvs_messages_handle(const uint8_t *frame);
bool __wrap_nvs_messages_handle(const uint8_t *frame);
bool __wrap_nvs_messages_handle(const uint8_t *frame)
{
    struct nvs_gpu before[WORLD_GPUS];
    struct nvs_head head;
    memcpy(before, nvs_gpus, sizeof before);
    memcpy(&head, world.stream + world.handled, sizeof head);
    world_require(world.handled + head.length <= world.taken, "only whole frames are acted on");
    world_require(!memcmp(frame, world.stream + world.handled, head.length), "a frame arrives as it was sent");
    world.handled += head.length;
    world.has_returned = false;
    bool was_registered = nvs_helper_is_registered(), good = __real_nvs_messages_handle(frame);
    world_frames[head.type]++;
    world_require(!good || head.length >= world_least_bytes(head.type), "a frame that is too short is refused");
    bool is_for_all = head.type == NVS_SCHED_ON || head.type == NVS_SCHED_OFF;
    for (int i = 0; i < nvs_gpu_count; i++)
        if (!good || head.type > NVS_LONG_WAIT || (!is_for_all && head.gpu != i))
            world_require(is_untouched(&before[i], i), "nonsense, the unknown and another GPU's affairs change nothing");
    world_require(was_registered || !good || is_for_all || head.type == NVS_UPDATE_LIMIT || head.type >= NVS_BUDGET,
                  "no turn before we are registered");
    if (good && !is_for_all && head.type <= NVS_LONG_WAIT)
        check_known(&head, frame, &before[head.gpu]);
    return good;
}
