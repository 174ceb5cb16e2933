/* The rules of the world, checked at every step: what the library says is well-formed and timely; it acts on exactly
 * the frames that it was sent, however they were cut; a message about an earlier lock, another GPU or nothing known
 * changes nothing; and between two steps the gate, the turn and the account agree. */
#include "world.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helper/helper.h"
#include "helper/link.h"
#include "helper/user_lines.h"

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

static const struct nvs_turn *turn_of(int gpu) { return &nvs_helper_client.gpus[gpu].turn; }
static bool is_registered(void) { return nvs_helper_client.is_registered; }

void world_check(void)
{
    world_require(!world.is_recalled, "a recall is answered at once");
    for (int i = 0; i < nvs_gpu_count; i++) {
        const struct nvs_gpu *gpu = &nvs_gpus[i];
        const struct nvs_account *account = &gpu->account;
        const struct nvs_turn *turn = turn_of(i);
        bool is_scheduled = turn->state == NVS_TURN_NONE || turn->state == NVS_TURN_WAITING || turn->state == NVS_TURN_FREE;
        world_require(!is_scheduled || is_registered(), "only a registered client waits for a scheduler");
        world_require(world.gpus[i].is_open == nvs_turn_is_open(turn), "the gate is open in a turn, and only then");
        world_require(gpu->is_draining == (turn->state == NVS_TURN_DRAINING), "only a client that releases its lock drains");
        world_require(account->unswappable <= account->used, "a part is not more than the whole");
        world_require(nvs_account_total(account) <= account->card, "nobody is promised more than the card");
        world_require(turn->state != NVS_TURN_UNATTENDED || nvs_helper_client.is_hung, "a client runs without a turn only if the scheduler hangs");
        world_require(!(nvs_helper_client.is_hung && turn->state == NVS_TURN_WAITING), "nobody waits for a scheduler that hangs");
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
    [NVS_BUDGET_RETURN] = sizeof(struct nvs_msg_budget_return), [NVS_PING] = sizeof(struct nvs_msg_ping),
    [NVS_MOVED] = sizeof(struct nvs_msg_moved),           [NVS_WORKING_SET] = sizeof(struct nvs_msg_working_set),
    [NVS_SLOWED] = sizeof(struct nvs_msg_slowed),         [NVS_ON_HOST] = sizeof(struct nvs_msg_on_host),
    [NVS_MOVER] = sizeof(struct nvs_msg_mover),           [NVS_COLLECTIVE] = sizeof(struct nvs_msg_collective),
    [NVS_DRAINED] = sizeof(struct nvs_msg_drained),       [NVS_ROOM_MADE] = sizeof(struct nvs_msg_room_made),
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
    world_require(is_registered() || head->type == NVS_BUDGET_RETURN, "before the answer only terms are talked about");
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
        world_require(world.is_recalled && world.recalled_serial == back.serial, "a recall is answered, and nothing else");
        world.is_recalled = false;
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

/* What a frame found. */
struct before {
    struct nvs_turn turn;
    struct nvs_account account;
};

static bool is_turn(int gpu, const struct nvs_turn *expected)
{
    return turn_of(gpu)->state == expected->state && turn_of(gpu)->lock == expected->lock;
}

static void check_drop(int gpu, uint64_t lock, const struct nvs_turn *before)
{
    struct nvs_turn expected = *before;
    nvs_turn_input(&expected, before->state == NVS_TURN_HOLDING && before->lock == lock ? NVS_TURN_IN_DROP : NVS_TURN_IN_HEARD);
    world_require(is_turn(gpu, &expected), "a lock is dropped by its own number only");
}

/* A frame that breaks the protocol does what the loss of the connection does; any other is a sign of life. */
static bool is_untouched(const struct before *before, int gpu, bool good)
{
    struct nvs_turn expected = before->turn;
    nvs_turn_input(&expected, good ? NVS_TURN_IN_HEARD : NVS_TURN_IN_LOST);
    return is_turn(gpu, &expected) && !memcmp(&before->account, &nvs_gpus[gpu].account, sizeof before->account);
}

static void check_known(const struct nvs_head *head, const uint8_t *frame, const struct before *before)
{
    const struct nvs_gpu *gpu = &nvs_gpus[head->gpu];
    const struct nvs_turn *turn = turn_of(head->gpu);
    struct world_gpu *state = &world.gpus[head->gpu];
    if (head->type == NVS_LOCK_OK) {
        struct nvs_msg_lock_ok ok;
        memcpy(&ok, frame, sizeof ok);
        world_require(turn->state == NVS_TURN_FREE || (turn->state == NVS_TURN_HOLDING && turn->lock == ok.lock),
                      "a lock that is given is held");
        remember(state->locks, ok.lock);
        state->has_yielded = !atomic_load(&gpu->contexts);
    } else if (head->type == NVS_DROP_LOCK) {
        struct nvs_msg_drop_lock drop;
        memcpy(&drop, frame, sizeof drop);
        remember(state->dropped, drop.lock);
        check_drop(head->gpu, drop.lock, &before->turn);
    } else if (head->type == NVS_UPDATE_LIMIT) {
        struct nvs_msg_update_limit update;
        memcpy(&update, frame, sizeof update);
        world_require(gpu->account.limit == (update.limit < NVS_MAX_BYTES ? update.limit : NVS_MAX_BYTES), "a limit is taken over");
    } else if (head->type == NVS_CAPACITY) {
        world_require(gpu->account.room <= gpu->account.card, "no room is larger than the card");
    } else if (head->type == NVS_MOVE_IN || head->type == NVS_MOVE_OUT || head->type == NVS_KEEP_ON_HOST) {
        world_require(is_untouched(before, head->gpu, true), "a request to move memory changes no turn");
    } else if (head->type == NVS_LET_ONE) {
        world_require(is_untouched(before, head->gpu, true), "what is let through changes no turn");
    } else if (head->type == NVS_WAIT_FOR_MEM || head->type == NVS_MEM_AVAILABLE) {
        enum nvs_wait reason = head->type == NVS_WAIT_FOR_MEM ? NVS_WAIT_MEMORY : NVS_WAIT_LOCK;
        world_require(nvs_helper_client.gpus[head->gpu].wait == (turn->state == NVS_TURN_WAITING ? reason : NVS_WAIT_NONE),
                      "a waiter knows what it waits for");
    } else if (head->type == NVS_BUDGET_RECALL) {
        struct nvs_msg_budget_recall recall;
        memcpy(&recall, frame, sizeof recall);
        world.recalled_serial = recall.serial, world.is_recalled = true;
        world_require(gpu->account.budget <= before->account.budget || gpu->account.budget == gpu->account.used,
                      "a recall raises no budget");
    }
}

#define RECEIVE(name) \
    uint32_t name(struct nvs_client *client, int64_t now_ns, const uint8_t *frame, size_t bytes, struct nvs_account *account)
RECEIVE(__real_nvs_client_receive);
RECEIVE(__wrap_nvs_client_receive);
RECEIVE(__wrap_nvs_client_receive)
{
    struct before before[WORLD_GPUS];
    struct nvs_head head;
    for (int i = 0; i < nvs_gpu_count; i++)
        before[i] = (struct before){*turn_of(i), nvs_gpus[i].account};
    memcpy(&head, world.stream + world.handled, sizeof head);
    world_require(bytes == head.length && world.handled + bytes <= world.taken, "only whole frames are acted on");
    world_require(!memcmp(frame, world.stream + world.handled, bytes), "a frame arrives as it was sent");
    world.handled += bytes;
    bool was_registered = is_registered();
    uint32_t todo = __real_nvs_client_receive(client, now_ns, frame, bytes, account);
    bool good = !(todo & NVS_CLIENT_SAY_BROKEN);
    world_frames[head.type]++;
    world_require(!good || bytes >= world_least_bytes(head.type), "a frame that is too short is refused");
    bool is_for_all = head.type == NVS_SCHED_ON || head.type == NVS_SCHED_OFF;
    bool is_noise = head.type == NVS_PONG || head.type > NVS_LAST_NUMBER;
    for (int i = 0; i < nvs_gpu_count; i++)
        if (!good || is_noise || (!is_for_all && head.gpu != i))
            world_require(is_untouched(&before[i], i, good), "nonsense, the unknown and another GPU's affairs change nothing");
    world_require(was_registered || !good || is_for_all || head.type == NVS_UPDATE_LIMIT || head.type >= NVS_BUDGET,
                  "no turn before we are registered");
    if (good && !is_for_all && !is_noise)
        check_known(&head, frame, &before[head.gpu]);
    return todo;
}

void __real_nvs_user_lines_of_frame(const uint8_t *frame);
void __wrap_nvs_user_lines_of_frame(const uint8_t *frame);
void __wrap_nvs_user_lines_of_frame(const uint8_t *frame)
{
    __real_nvs_user_lines_of_frame(frame);
    if (frame[offsetof(struct nvs_head, type)] == NVS_LONG_WAIT)
        check_holder(frame);
}
