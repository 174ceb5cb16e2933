/* What each message from the scheduler means. */
#include "client/as.h"
#include "client/parts.h"

static const uint16_t least_bytes[] = {
    [NVS_SCHED_ON] = sizeof(struct nvs_msg_sched_on),         [NVS_SCHED_OFF] = sizeof(struct nvs_msg_sched_off),
    [NVS_LOCK_OK] = sizeof(struct nvs_msg_lock_ok),           [NVS_DROP_LOCK] = sizeof(struct nvs_msg_drop_lock),
    [NVS_WAIT_FOR_MEM] = sizeof(struct nvs_msg_wait_for_mem), [NVS_MEM_AVAILABLE] = sizeof(struct nvs_msg_mem_available),
    [NVS_UPDATE_LIMIT] = sizeof(struct nvs_msg_update_limit), [NVS_CONTENDED] = sizeof(struct nvs_msg_contended),
    [NVS_BUDGET] = sizeof(struct nvs_msg_budget),             [NVS_BUDGET_RECALL] = sizeof(struct nvs_msg_budget_recall),
    [NVS_LONG_WAIT] = sizeof(struct nvs_msg_long_wait),       [NVS_PONG] = sizeof(struct nvs_msg_pong),
    [NVS_CAPACITY] = sizeof(struct nvs_msg_capacity),         [NVS_MOVE_IN] = sizeof(struct nvs_msg_move_in),
    [NVS_MOVE_OUT] = sizeof(struct nvs_msg_move_out),         [NVS_KEEP_ON_HOST] = sizeof(struct nvs_msg_keep_on_host),
    [NVS_LET_ONE] = sizeof(struct nvs_msg_let_one),           [NVS_EXPECTED_START] = sizeof(struct nvs_msg_expected_start),
};

/* Of memory, as the scheduler states it. What a frame may state is more than a scheduler accepts of us, and sums of it could overflow. */
static uint64_t amount(uint64_t stated) { return stated < NVS_MAX_BYTES ? stated : NVS_MAX_BYTES; }

static void on_scheduling(struct nvs_client *client, const uint8_t *frame, bool is_on)
{
    AS(nvs_msg_sched_on, answer); /* SCHED_OFF has the same fields */
    bool first = !client->is_registered;
    client->is_registered = true;
    client->is_expected = false;
    client->attempts_failed = 0;
    client->version = answer.version;
    client->paces = is_on;
    nvs_connection_decide_join(client);
    if (first) {
        nvs_frames_collective(client);
        nvs_frames_core_limit(client);
    }
    for (int i = 0; i < client->gpu_count; i++) {
        struct nvs_turn *turn = &client->gpus[i].turn;
        nvs_client_apply(client, i, is_on ? nvs_turn_sched_on(turn, first) : nvs_turn_input(turn, NVS_TURN_IN_SCHED_OFF));
        if (first && client->gpus[i].held_bytes && client->version >= NVS_HOLDS_SINCE)
            nvs_frames_on_host(client, i, client->gpus[i].held_bytes); /* for an earlier scheduler */
    }
}

static void on_contended(struct nvs_client *client, int index, bool contended)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    if (gpu->turn.state != NVS_TURN_HOLDING)
        return; /* sent before the scheduler received our LOCK_RELEASED */
    gpu->turn.contended = contended;
    gpu->idle_reported = gpu->idle_reported && contended;
    nvs_client_apply(client, index, NVS_DO_WATCH);
}

/* The scheduler says it for one lock, or (0) for a process that has none: for another one it comes too late. */
static void on_move(struct nvs_client *client, int index, uint8_t type, const uint8_t *frame)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    AS(nvs_msg_move_in, move); /* MOVE_OUT has the same fields */
    if (gpu->turn.lock != move.lock)
        return;
    if (type == NVS_MOVE_OUT && move.lock) {
        gpu->owed_bytes = amount(move.most);
    } else if (type == NVS_MOVE_OUT && !nvs_turn_is_open(&gpu->turn)) {
        gpu->move_bytes = amount(move.most);
        nvs_client_apply(client, index, NVS_DO_MOVE_OUT);
    } else if (gpu->turn.state == NVS_TURN_HOLDING) {
        gpu->move_bytes = amount(move.most);
        nvs_client_apply(client, index, NVS_DO_MOVE_IN);
    }
}

static void on_turn_message(struct nvs_client *client, int index, uint8_t type, const uint8_t *frame)
{
    struct nvs_client_gpu *gpu = &client->gpus[index];
    bool is_waiting = gpu->wait != NVS_WAIT_NONE;
    if (type == NVS_LOCK_OK) {
        AS(nvs_msg_lock_ok, ok);
        if (gpu->turn.state != NVS_TURN_WAITING)
            gpu->yields_without_contexts = true; /* granted with the lock of another GPU: released if there is no context here */
        nvs_client_apply(client, index, nvs_turn_lock_ok(&gpu->turn, ok.lock, ok.contended));
    } else if (type == NVS_DROP_LOCK) {
        AS(nvs_msg_drop_lock, drop);
        nvs_client_apply(client, index, nvs_turn_drop(&gpu->turn, drop.lock));
    } else if (type == NVS_CONTENDED) {
        AS(nvs_msg_contended, contended);
        on_contended(client, index, contended.contended);
    } else if (type == NVS_WAIT_FOR_MEM) {
        gpu->wait = is_waiting ? NVS_WAIT_MEMORY : NVS_WAIT_NONE;
    } else if (type == NVS_MEM_AVAILABLE) {
        gpu->wait = is_waiting ? NVS_WAIT_LOCK : NVS_WAIT_NONE;
    } else if (type == NVS_MOVE_IN || type == NVS_MOVE_OUT) {
        on_move(client, index, type, frame);
    } else if (type == NVS_LET_ONE) {
        nvs_client_apply(client, index, NVS_DO_LET_ONE);
    }
}

static void on_budget(struct nvs_client *client, const struct nvs_msg_budget *budget, struct nvs_account *account)
{
    if (budget->serial)
        nvs_account_budget(account, budget->budget, amount(budget->others));
    else
        account->others = amount(budget->others); /* only an answer: what we have stays as it is */
    if (!budget->ask)
        return;
    client->open_asks -= client->open_asks > 0;
    client->out.ask = budget->ask;
    client->out.granted = budget->budget;
    client->out.todo |= NVS_CLIENT_ANSWER;
}

static void on_memory_message(struct nvs_client *client, int index, uint8_t type, const uint8_t *frame, struct nvs_account *account)
{
    if (type == NVS_UPDATE_LIMIT) {
        AS(nvs_msg_update_limit, update);
        nvs_account_limit(account, amount(update.limit));
    } else if (type == NVS_BUDGET) {
        AS(nvs_msg_budget, budget);
        on_budget(client, &budget, account);
    } else if (type == NVS_CAPACITY) {
        AS(nvs_msg_capacity, capacity);
        nvs_account_capacity(account, amount(capacity.room), amount(capacity.context));
    } else if (type == NVS_KEEP_ON_HOST) {
        AS(nvs_msg_keep_on_host, order);
        client->gpus[index].keep_bytes = amount(order.keep);
        nvs_client_apply(client, index, NVS_DO_HOLD);
    } else if (type == NVS_BUDGET_RECALL) {
        AS(nvs_msg_budget_recall, recall);
        nvs_account_recall(account, recall.keep);
        nvs_frames_budget_return(client, index, recall.serial, account);
    }
}

bool nvs_receive_frame(struct nvs_client *client, const uint8_t *frame, size_t bytes, struct nvs_account *account)
{
    int gpu = nvs_client_gpu_of(client, frame, bytes);
    if (bytes < sizeof(struct nvs_head))
        return false;
    AS(nvs_head, head);
    if (head.length != bytes)
        return false;
    if (head.type >= sizeof least_bytes / sizeof *least_bytes || !least_bytes[head.type])
        return head.type > NVS_LAST_NUMBER; /* higher numbers come from a newer scheduler; the others are not for clients */
    if (bytes < least_bytes[head.type] || gpu < 0 || !account)
        return false;
    if (head.type == NVS_SCHED_ON || head.type == NVS_SCHED_OFF) {
        on_scheduling(client, frame, head.type == NVS_SCHED_ON);
        return true;
    }
    /* What we may allocate may come before the answer to our registration, everything else only after it. */
    bool is_about_memory = head.type == NVS_UPDATE_LIMIT || head.type == NVS_BUDGET || head.type == NVS_BUDGET_RECALL
                        || head.type == NVS_CAPACITY;
    if (!client->is_registered && !is_about_memory)
        return false;
    on_turn_message(client, gpu, head.type, frame);
    on_memory_message(client, gpu, head.type, frame, account);
    return true;
}
