/* What each message from the scheduler means to us. */
#include <stdatomic.h>
#include <string.h>

#include "helper.h"
#include "log.h"
#include "options.h"
#include "turns.h"

static uint8_t claim(const struct nvs_turn *turn)
{
    if (turn->state == NVS_TURN_HOLDING || turn->state == NVS_TURN_DRAINING)
        return NVS_CLAIM_STATE_HOLDING;
    return nvs_turn_is_open(turn) ? NVS_CLAIM_STATE_UNSHARED : NVS_CLAIM_STATE_IDLE;
}

static struct nvs_gpu_entry entry_of(struct nvs_gpu *gpu)
{
    struct nvs_gpu_entry entry = {.kind = gpu->kind, .state = claim(&gpu->turn), .size = gpu->bytes};
    gpu->turn.said_idle = entry.state == NVS_CLAIM_STATE_IDLE;
    memcpy(entry.uuid, gpu->uuid, sizeof entry.uuid);
    entry.lock = entry.state == NVS_CLAIM_STATE_HOLDING ? gpu->turn.lock : 0;
    entry.contexts = (uint16_t)atomic_load(&gpu->contexts);
    nvs_lock_take(&gpu->account_lock);
    entry.unswappable = gpu->account.unswappable;
    entry.swappable = gpu->account.used - gpu->account.unswappable;
    entry.limit = gpu->account.limit;
    entry.budget = gpu->account.budget;
    gpu->told_used = gpu->account.used;
    nvs_lock_give(&gpu->account_lock);
    gpu->told_unswappable = entry.unswappable;
    gpu->told_contexts = entry.contexts;
    return entry;
}

void nvs_messages_register(void)
{
    struct {
        struct nvs_msg_register head;
        struct nvs_gpu_entry entries[NVS_MAX_GPUS];
    } frame;
    const struct nvs_options *options = nvs_options();
    memset(&frame, 0, sizeof frame);
    size_t bytes = sizeof frame.head + (size_t)nvs_gpu_count * sizeof *frame.entries;
    frame.head = (struct nvs_msg_register){.length = (uint16_t)bytes, .type = NVS_REGISTER, .version = NVS_PROTOCOL_VERSION};
    frame.head.priority = (int16_t)options->priority;
    frame.head.weight = (uint16_t)options->weight;
    frame.head.own_limit = options->limit_bytes;
    frame.head.entry_count = (uint8_t)nvs_gpu_count;
    frame.head.entry_size = sizeof *frame.entries;
    memcpy(frame.head.run, options->run, sizeof frame.head.run);
    memcpy(frame.head.name, options->name, sizeof frame.head.name);
    for (int i = 0; i < nvs_gpu_count; i++)
        frame.entries[i] = entry_of(&nvs_gpus[i]);
    nvs_helper_send(&frame, bytes);
}

static void on_scheduling(bool is_on)
{
    bool first = !nvs_helper_is_registered();
    nvs_helper_registered(is_on);
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_turns_apply(&nvs_gpus[i], is_on ? nvs_turn_sched_on(&nvs_gpus[i].turn, first) : nvs_turn_sched_off(&nvs_gpus[i].turn));
}

static void on_limit(struct nvs_gpu *gpu, uint64_t limit)
{
    nvs_debug("Received UPDATE_LIMIT: %llu bytes", (unsigned long long)limit);
    nvs_lock_take(&gpu->account_lock);
    nvs_account_limit(&gpu->account, limit);
    nvs_lock_give(&gpu->account_lock);
}

static void on_budget(struct nvs_gpu *gpu, const struct nvs_msg_budget *budget)
{
    nvs_lock_take(&gpu->account_lock);
    if (budget->serial)
        nvs_account_budget(&gpu->account, budget->budget, budget->others);
    else
        gpu->account.others = budget->others; /* only an answer: what we have stays as it is */
    nvs_lock_give(&gpu->account_lock);
    nvs_session_answer(budget->ask, budget->budget);
}

static void on_recall(struct nvs_gpu *gpu, const struct nvs_msg_budget_recall *recall)
{
    nvs_lock_take(&gpu->account_lock);
    nvs_account_recall(&gpu->account, recall->keep);
    nvs_lock_give(&gpu->account_lock);
    nvs_turns_send_budget_return(gpu, recall->serial);
}

/* Another process's word for itself: no place for control characters in our terminal, not for those that UTF-8 writes
 * as two bytes either. */
static void make_printable(unsigned char *text)
{
    for (unsigned char *c = text; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
            c[0] = c[1] = '?';
}

static void on_long_wait(const struct nvs_gpu *gpu, const struct nvs_msg_long_wait *wait)
{
    char holder[sizeof wait->holder + 1];
    memcpy(holder, wait->holder, sizeof wait->holder);
    holder[sizeof wait->holder] = '\0';
    make_printable((unsigned char *)holder);
    nvs_info("waiting for %s for %llu s, place %u in the queue; held by %s%s for %llu s", gpu->label,
             (unsigned long long)wait->waited_ms / 1000, wait->place, *holder ? holder : "another process",
             wait->holders > 1 ? " and others" : "", (unsigned long long)wait->held_ms / 1000);
}

static const uint16_t least_bytes[] = {
    [NVS_SCHED_ON] = sizeof(struct nvs_msg_sched_on),           [NVS_SCHED_OFF] = sizeof(struct nvs_msg_sched_off),
    [NVS_LOCK_OK] = sizeof(struct nvs_msg_lock_ok),             [NVS_DROP_LOCK] = sizeof(struct nvs_msg_drop_lock),
    [NVS_WAIT_FOR_MEM] = sizeof(struct nvs_msg_wait_for_mem),   [NVS_MEM_AVAILABLE] = sizeof(struct nvs_msg_mem_available),
    [NVS_UPDATE_LIMIT] = sizeof(struct nvs_msg_update_limit),   [NVS_CONTENDED] = sizeof(struct nvs_msg_contended),
    [NVS_BUDGET] = sizeof(struct nvs_msg_budget),               [NVS_BUDGET_RECALL] = sizeof(struct nvs_msg_budget_recall),
    [NVS_LONG_WAIT] = sizeof(struct nvs_msg_long_wait),
};

/* A frame as a struct of its own: the buffer's bytes are not aligned. */
#define AS(type, name) \
    struct type name; \
    memcpy(&name, frame, sizeof name)

static void on_turn_message(struct nvs_gpu *gpu, uint8_t type, const uint8_t *frame)
{
    if (type == NVS_LOCK_OK || type == NVS_WAIT_FOR_MEM)
        gpu->asked_ns = 0;
    if (type == NVS_LOCK_OK) {
        AS(nvs_msg_lock_ok, ok);
        nvs_debug("%s: lock %#llx%s", gpu->label, (unsigned long long)ok.lock, ok.contended ? ", contended" : "");
        nvs_turns_apply(gpu, nvs_turn_lock_ok(&gpu->turn, ok.lock, ok.contended));
    } else if (type == NVS_DROP_LOCK) {
        AS(nvs_msg_drop_lock, drop);
        nvs_debug("%s: drop lock %#llx, reason %u", gpu->label, (unsigned long long)drop.lock, drop.reason);
        nvs_turns_apply(gpu, nvs_turn_drop(&gpu->turn, drop.lock));
    } else if (type == NVS_CONTENDED) {
        AS(nvs_msg_contended, contended);
        nvs_turns_contended(gpu, contended.contended);
    } else if (type == NVS_WAIT_FOR_MEM) {
        AS(nvs_msg_wait_for_mem, wait);
        nvs_debug("%s is full: place %u in the queue", gpu->label, wait.place);
    } else if (type == NVS_LONG_WAIT) {
        AS(nvs_msg_long_wait, wait);
        on_long_wait(gpu, &wait);
    }
}

static void on_memory_message(struct nvs_gpu *gpu, uint8_t type, const uint8_t *frame)
{
    if (type == NVS_UPDATE_LIMIT) {
        AS(nvs_msg_update_limit, update);
        on_limit(gpu, update.limit);
    } else if (type == NVS_BUDGET) {
        AS(nvs_msg_budget, budget);
        on_budget(gpu, &budget);
    } else if (type == NVS_BUDGET_RECALL) {
        AS(nvs_msg_budget_recall, recall);
        on_recall(gpu, &recall);
    }
}

bool nvs_messages_handle(const uint8_t *frame)
{
    AS(nvs_head, head);
    if (head.type >= sizeof least_bytes / sizeof *least_bytes || !least_bytes[head.type])
        return head.type > NVS_LONG_WAIT; /* a newer scheduler may say more than we know; nonsense it may not say */
    if (head.length < least_bytes[head.type] || head.gpu >= nvs_gpu_count)
        return false;
    struct nvs_gpu *gpu = &nvs_gpus[head.gpu];
    if (head.type == NVS_SCHED_ON || head.type == NVS_SCHED_OFF) {
        on_scheduling(head.type == NVS_SCHED_ON);
        return true;
    }
    /* Our terms come before the answer, turns only after it. */
    bool is_terms = head.type == NVS_UPDATE_LIMIT || head.type == NVS_BUDGET || head.type == NVS_BUDGET_RECALL;
    if (!nvs_helper_is_registered() && !is_terms)
        return false;
    on_turn_message(gpu, head.type, frame);
    on_memory_message(gpu, head.type, frame);
    return true;
}
