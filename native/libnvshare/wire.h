/* The protocol between libnvshare and the scheduler.
 * Generated from src/nvshare/wire/messages.py by `make generate`: do not edit. */

#ifndef NVS_WIRE_H
#define NVS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define NVS_PROTOCOL_VERSION 6
#define NVS_PING_SINCE 2
#define NVS_MOVES_SINCE 4
#define NVS_WORKING_SETS_SINCE 5
#define NVS_HOLDS_SINCE 5
#define NVS_MOVER_SINCE 5
#define NVS_JOBS_SINCE 5
#define NVS_GPU_TIME_SINCE 6
#define NVS_MEMORY_MODES_SINCE 6
#define NVS_ROOM_SINCE 6
#define NVS_LOOKS_MOST 256
#define NVS_LOOK_NS 1000000
#define NVS_MAX_FRAME 8192
#define NVS_MAX_GPUS 64
#define NVS_NAME_BYTES 48
#define NVS_LAST_NUMBER 41
#define NVS_MAX_BYTES UINT64_C(72057594037927936)
#define NVS_UNLIMITED UINT64_MAX

enum nvs_message_type {
    NVS_REGISTER = 1,
    NVS_SCHED_ON = 2,
    NVS_SCHED_OFF = 3,
    NVS_REQ_LOCK = 4,
    NVS_LOCK_OK = 5,
    NVS_DROP_LOCK = 6,
    NVS_LOCK_RELEASED = 7,
    NVS_SET_TQ = 8,
    NVS_MEM_UPDATE = 9,
    NVS_WAIT_FOR_MEM = 10,
    NVS_MEM_AVAILABLE = 11,
    NVS_UPDATE_LIMIT = 13,
    NVS_CONTENDED = 14,
    NVS_IDLE = 15,
    NVS_BUSY = 16,
    NVS_BUDGET = 17,
    NVS_BUDGET_ASK = 18,
    NVS_BUDGET_RECALL = 19,
    NVS_BUDGET_RETURN = 20,
    NVS_LONG_WAIT = 21,
    NVS_PING = 22,
    NVS_PONG = 23,
    NVS_CAPACITY = 24,
    NVS_MOVE_IN = 25,
    NVS_MOVE_OUT = 26,
    NVS_MOVED = 27,
    NVS_WORKING_SET = 28,
    NVS_SLOWED = 29,
    NVS_KEEP_ON_HOST = 30,
    NVS_ON_HOST = 31,
    NVS_MOVER = 32,
    NVS_COLLECTIVE = 33,
    NVS_DRAINED = 34,
    NVS_LET_ONE = 35,
    NVS_EXPECTED_START = 37,
    NVS_GPU_TIME = 38,
    NVS_CORE_LIMIT = 39,
    NVS_MEMORY_MODE = 40,
    NVS_ROOM_MADE = 41,
};

/* What a UUID names; decides its printed prefix. */
enum nvs_gpu_kind {
    NVS_GPU_KIND_GPU = 0,
    NVS_GPU_KIND_MIG = 1,
};

/* What a client is doing on a GPU when it registers. */
enum nvs_claim_state {
    NVS_CLAIM_STATE_IDLE = 0,
    NVS_CLAIM_STATE_HOLDING = 1,
    NVS_CLAIM_STATE_UNSHARED = 2,
};

/* Why a lock is taken back. */
enum nvs_drop_reason {
    NVS_DROP_REASON_QUANTUM = 1,
    NVS_DROP_REASON_GROWTH = 2,
    NVS_DROP_REASON_IDLE = 3,
};

/* Whether a client moves its memory in bulk, or why not. */
enum nvs_mover_state {
    NVS_MOVER_STATE_MOVES = 0,
    NVS_MOVER_STATE_SWITCHED_OFF = 1,
    NVS_MOVER_STATE_NATIVE = 2,
    NVS_MOVER_STATE_NO_PAGING = 3,
    NVS_MOVER_STATE_NO_EFFECT = 4,
};

/* What the device memory of a client is. */
enum nvs_memory_kind {
    NVS_MEMORY_KIND_MANAGED = 0,
    NVS_MEMORY_KIND_NATIVE = 1,
    NVS_MEMORY_KIND_CHECKPOINT = 2,
    NVS_MEMORY_KIND_NOT_SUSPENDED = 3,
};

/* What every frame starts with. */
struct nvs_head {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};

/* One visible GPU in a REGISTER. `limit` and `budget` are the last ones the client was told. */
struct nvs_gpu_entry {
    uint8_t uuid[16];
    uint8_t kind;
    uint8_t state;
    uint16_t contexts;
    uint64_t size;
    uint64_t lock;
    uint64_t swappable;
    uint64_t unswappable;
    uint64_t limit;
    uint64_t budget;
};
_Static_assert(sizeof(struct nvs_gpu_entry) == 72, "gpu_entry");
_Static_assert(offsetof(struct nvs_gpu_entry, uuid) == 0, "gpu_entry.uuid");
_Static_assert(offsetof(struct nvs_gpu_entry, kind) == 16, "gpu_entry.kind");
_Static_assert(offsetof(struct nvs_gpu_entry, state) == 17, "gpu_entry.state");
_Static_assert(offsetof(struct nvs_gpu_entry, contexts) == 18, "gpu_entry.contexts");
_Static_assert(offsetof(struct nvs_gpu_entry, size) == 24, "gpu_entry.size");
_Static_assert(offsetof(struct nvs_gpu_entry, lock) == 32, "gpu_entry.lock");
_Static_assert(offsetof(struct nvs_gpu_entry, swappable) == 40, "gpu_entry.swappable");
_Static_assert(offsetof(struct nvs_gpu_entry, unswappable) == 48, "gpu_entry.unswappable");
_Static_assert(offsetof(struct nvs_gpu_entry, limit) == 56, "gpu_entry.limit");
_Static_assert(offsetof(struct nvs_gpu_entry, budget) == 64, "gpu_entry.budget");

/* I am here. `own_limit` is the process's environment's; `run` names one `nvshare run`, zero if none. */
struct nvs_msg_register {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint16_t version;
    int16_t priority;
    uint64_t own_limit;
    uint8_t run[16];
    char name[48];
    uint16_t weight;
    uint8_t entry_count;
    uint8_t entry_size;
};
_Static_assert(sizeof(struct nvs_msg_register) == 88, "register");
_Static_assert(offsetof(struct nvs_msg_register, length) == 0, "register.length");
_Static_assert(offsetof(struct nvs_msg_register, type) == 2, "register.type");
_Static_assert(offsetof(struct nvs_msg_register, gpu) == 3, "register.gpu");
_Static_assert(offsetof(struct nvs_msg_register, version) == 4, "register.version");
_Static_assert(offsetof(struct nvs_msg_register, priority) == 6, "register.priority");
_Static_assert(offsetof(struct nvs_msg_register, own_limit) == 8, "register.own_limit");
_Static_assert(offsetof(struct nvs_msg_register, run) == 16, "register.run");
_Static_assert(offsetof(struct nvs_msg_register, name) == 32, "register.name");
_Static_assert(offsetof(struct nvs_msg_register, weight) == 80, "register.weight");
_Static_assert(offsetof(struct nvs_msg_register, entry_count) == 82, "register.entry_count");
_Static_assert(offsetof(struct nvs_msg_register, entry_size) == 83, "register.entry_size");

/* Scheduling is on: ask for the lock before work. Also the answer to REGISTER. */
struct nvs_msg_sched_on {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint16_t version;
    uint64_t client;
};
_Static_assert(sizeof(struct nvs_msg_sched_on) == 16, "sched_on");
_Static_assert(offsetof(struct nvs_msg_sched_on, length) == 0, "sched_on.length");
_Static_assert(offsetof(struct nvs_msg_sched_on, type) == 2, "sched_on.type");
_Static_assert(offsetof(struct nvs_msg_sched_on, gpu) == 3, "sched_on.gpu");
_Static_assert(offsetof(struct nvs_msg_sched_on, version) == 4, "sched_on.version");
_Static_assert(offsetof(struct nvs_msg_sched_on, client) == 8, "sched_on.client");

/* Scheduling is off: everyone may run. Also an answer to REGISTER. */
struct nvs_msg_sched_off {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint16_t version;
    uint64_t client;
};
_Static_assert(sizeof(struct nvs_msg_sched_off) == 16, "sched_off");
_Static_assert(offsetof(struct nvs_msg_sched_off, length) == 0, "sched_off.length");
_Static_assert(offsetof(struct nvs_msg_sched_off, type) == 2, "sched_off.type");
_Static_assert(offsetof(struct nvs_msg_sched_off, gpu) == 3, "sched_off.gpu");
_Static_assert(offsetof(struct nvs_msg_sched_off, version) == 4, "sched_off.version");
_Static_assert(offsetof(struct nvs_msg_sched_off, client) == 8, "sched_off.client");

/* I have work for this GPU; this is my exact memory on it. */
struct nvs_msg_req_lock {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint16_t contexts;
    uint64_t swappable;
    uint64_t unswappable;
};
_Static_assert(sizeof(struct nvs_msg_req_lock) == 24, "req_lock");
_Static_assert(offsetof(struct nvs_msg_req_lock, length) == 0, "req_lock.length");
_Static_assert(offsetof(struct nvs_msg_req_lock, type) == 2, "req_lock.type");
_Static_assert(offsetof(struct nvs_msg_req_lock, gpu) == 3, "req_lock.gpu");
_Static_assert(offsetof(struct nvs_msg_req_lock, contexts) == 4, "req_lock.contexts");
_Static_assert(offsetof(struct nvs_msg_req_lock, swappable) == 8, "req_lock.swappable");
_Static_assert(offsetof(struct nvs_msg_req_lock, unswappable) == 16, "req_lock.unswappable");

/* You may submit. `contended`: as in CONTENDED. */
struct nvs_msg_lock_ok {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t contended;
    uint64_t lock;
};
_Static_assert(sizeof(struct nvs_msg_lock_ok) == 16, "lock_ok");
_Static_assert(offsetof(struct nvs_msg_lock_ok, length) == 0, "lock_ok.length");
_Static_assert(offsetof(struct nvs_msg_lock_ok, type) == 2, "lock_ok.type");
_Static_assert(offsetof(struct nvs_msg_lock_ok, gpu) == 3, "lock_ok.gpu");
_Static_assert(offsetof(struct nvs_msg_lock_ok, contended) == 4, "lock_ok.contended");
_Static_assert(offsetof(struct nvs_msg_lock_ok, lock) == 8, "lock_ok.lock");

/* Stop submitting, drain, give the lock back within the grace time. */
struct nvs_msg_drop_lock {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t reason;
    uint32_t grace_ms;
    uint64_t lock;
};
_Static_assert(sizeof(struct nvs_msg_drop_lock) == 24, "drop_lock");
_Static_assert(offsetof(struct nvs_msg_drop_lock, length) == 0, "drop_lock.length");
_Static_assert(offsetof(struct nvs_msg_drop_lock, type) == 2, "drop_lock.type");
_Static_assert(offsetof(struct nvs_msg_drop_lock, gpu) == 3, "drop_lock.gpu");
_Static_assert(offsetof(struct nvs_msg_drop_lock, reason) == 4, "drop_lock.reason");
_Static_assert(offsetof(struct nvs_msg_drop_lock, grace_ms) == 8, "drop_lock.grace_ms");
_Static_assert(offsetof(struct nvs_msg_drop_lock, lock) == 16, "drop_lock.lock");

/* Given back. `again`: I still have work, queue me. */
struct nvs_msg_lock_released {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t again;
    uint64_t lock;
};
_Static_assert(sizeof(struct nvs_msg_lock_released) == 16, "lock_released");
_Static_assert(offsetof(struct nvs_msg_lock_released, length) == 0, "lock_released.length");
_Static_assert(offsetof(struct nvs_msg_lock_released, type) == 2, "lock_released.type");
_Static_assert(offsetof(struct nvs_msg_lock_released, gpu) == 3, "lock_released.gpu");
_Static_assert(offsetof(struct nvs_msg_lock_released, again) == 4, "lock_released.again");
_Static_assert(offsetof(struct nvs_msg_lock_released, lock) == 8, "lock_released.lock");

/* The operator's, over the operator's socket; a client that sends it is refused. */
struct nvs_msg_set_tq {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t seconds;
};
_Static_assert(sizeof(struct nvs_msg_set_tq) == 8, "set_tq");
_Static_assert(offsetof(struct nvs_msg_set_tq, length) == 0, "set_tq.length");
_Static_assert(offsetof(struct nvs_msg_set_tq, type) == 2, "set_tq.type");
_Static_assert(offsetof(struct nvs_msg_set_tq, gpu) == 3, "set_tq.gpu");
_Static_assert(offsetof(struct nvs_msg_set_tq, seconds) == 4, "set_tq.seconds");

/* My memory on this GPU has changed. */
struct nvs_msg_mem_update {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint16_t contexts;
    uint64_t swappable;
    uint64_t unswappable;
};
_Static_assert(sizeof(struct nvs_msg_mem_update) == 24, "mem_update");
_Static_assert(offsetof(struct nvs_msg_mem_update, length) == 0, "mem_update.length");
_Static_assert(offsetof(struct nvs_msg_mem_update, type) == 2, "mem_update.type");
_Static_assert(offsetof(struct nvs_msg_mem_update, gpu) == 3, "mem_update.gpu");
_Static_assert(offsetof(struct nvs_msg_mem_update, contexts) == 4, "mem_update.contexts");
_Static_assert(offsetof(struct nvs_msg_mem_update, swappable) == 8, "mem_update.swappable");
_Static_assert(offsetof(struct nvs_msg_mem_update, unswappable) == 16, "mem_update.unswappable");

/* You wait, at this place (1 is next). The GPU is full; or you are paused or have used your share of GPU time. */
struct nvs_msg_wait_for_mem {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t place;
};
_Static_assert(sizeof(struct nvs_msg_wait_for_mem) == 8, "wait_for_mem");
_Static_assert(offsetof(struct nvs_msg_wait_for_mem, length) == 0, "wait_for_mem.length");
_Static_assert(offsetof(struct nvs_msg_wait_for_mem, type) == 2, "wait_for_mem.type");
_Static_assert(offsetof(struct nvs_msg_wait_for_mem, gpu) == 3, "wait_for_mem.gpu");
_Static_assert(offsetof(struct nvs_msg_wait_for_mem, place) == 4, "wait_for_mem.place");

/* There is room again; LOCK_OK follows, for a gang once there is room at all its GPUs. */
struct nvs_msg_mem_available {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_mem_available) == 4, "mem_available");
_Static_assert(offsetof(struct nvs_msg_mem_available, length) == 0, "mem_available.length");
_Static_assert(offsetof(struct nvs_msg_mem_available, type) == 2, "mem_available.type");
_Static_assert(offsetof(struct nvs_msg_mem_available, gpu) == 3, "mem_available.gpu");

/* Your limit on this GPU; 0 is none. */
struct nvs_msg_update_limit {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t limit;
};
_Static_assert(sizeof(struct nvs_msg_update_limit) == 16, "update_limit");
_Static_assert(offsetof(struct nvs_msg_update_limit, length) == 0, "update_limit.length");
_Static_assert(offsetof(struct nvs_msg_update_limit, type) == 2, "update_limit.type");
_Static_assert(offsetof(struct nvs_msg_update_limit, gpu) == 3, "update_limit.gpu");
_Static_assert(offsetof(struct nvs_msg_update_limit, limit) == 8, "update_limit.limit");

/* Whether holders report their pauses: somebody waits, or (adaptive, balanced) not all clients fit together. */
struct nvs_msg_contended {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t contended;
};
_Static_assert(sizeof(struct nvs_msg_contended) == 6, "contended");
_Static_assert(offsetof(struct nvs_msg_contended, length) == 0, "contended.length");
_Static_assert(offsetof(struct nvs_msg_contended, type) == 2, "contended.type");
_Static_assert(offsetof(struct nvs_msg_contended, gpu) == 3, "contended.gpu");
_Static_assert(offsetof(struct nvs_msg_contended, contended) == 4, "contended.contended");

/* All I submitted has finished (sent while contended). */
struct nvs_msg_idle {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_idle) == 4, "idle");
_Static_assert(offsetof(struct nvs_msg_idle, length) == 0, "idle.length");
_Static_assert(offsetof(struct nvs_msg_idle, type) == 2, "idle.type");
_Static_assert(offsetof(struct nvs_msg_idle, gpu) == 3, "idle.gpu");

/* I work again (sent after IDLE). */
struct nvs_msg_busy {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_busy) == 4, "busy");
_Static_assert(offsetof(struct nvs_msg_busy, length) == 0, "busy.length");
_Static_assert(offsetof(struct nvs_msg_busy, type) == 2, "busy.type");
_Static_assert(offsetof(struct nvs_msg_busy, gpu) == 3, "busy.gpu");

/* You may have this much in all. `others`: what the group's other processes use. `ask`: the question answered. */
struct nvs_msg_budget {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t serial;
    uint32_t ask;
    uint64_t budget;
    uint64_t others;
};
_Static_assert(sizeof(struct nvs_msg_budget) == 32, "budget");
_Static_assert(offsetof(struct nvs_msg_budget, length) == 0, "budget.length");
_Static_assert(offsetof(struct nvs_msg_budget, type) == 2, "budget.type");
_Static_assert(offsetof(struct nvs_msg_budget, gpu) == 3, "budget.gpu");
_Static_assert(offsetof(struct nvs_msg_budget, serial) == 4, "budget.serial");
_Static_assert(offsetof(struct nvs_msg_budget, ask) == 8, "budget.ask");
_Static_assert(offsetof(struct nvs_msg_budget, budget) == 16, "budget.budget");
_Static_assert(offsetof(struct nvs_msg_budget, others) == 24, "budget.others");

/* I need this much in all; 0 only asks what the others use. */
struct nvs_msg_budget_ask {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t ask;
    uint64_t need;
};
_Static_assert(sizeof(struct nvs_msg_budget_ask) == 16, "budget_ask");
_Static_assert(offsetof(struct nvs_msg_budget_ask, length) == 0, "budget_ask.length");
_Static_assert(offsetof(struct nvs_msg_budget_ask, type) == 2, "budget_ask.type");
_Static_assert(offsetof(struct nvs_msg_budget_ask, gpu) == 3, "budget_ask.gpu");
_Static_assert(offsetof(struct nvs_msg_budget_ask, ask) == 4, "budget_ask.ask");
_Static_assert(offsetof(struct nvs_msg_budget_ask, need) == 8, "budget_ask.need");

/* Give back what you do not use, down to `keep`. */
struct nvs_msg_budget_recall {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t serial;
    uint64_t keep;
};
_Static_assert(sizeof(struct nvs_msg_budget_recall) == 16, "budget_recall");
_Static_assert(offsetof(struct nvs_msg_budget_recall, length) == 0, "budget_recall.length");
_Static_assert(offsetof(struct nvs_msg_budget_recall, type) == 2, "budget_recall.type");
_Static_assert(offsetof(struct nvs_msg_budget_recall, gpu) == 3, "budget_recall.gpu");
_Static_assert(offsetof(struct nvs_msg_budget_recall, serial) == 4, "budget_recall.serial");
_Static_assert(offsetof(struct nvs_msg_budget_recall, keep) == 8, "budget_recall.keep");

/* My budget now, and what I use of it. */
struct nvs_msg_budget_return {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t serial;
    uint64_t budget;
    uint64_t used;
};
_Static_assert(sizeof(struct nvs_msg_budget_return) == 24, "budget_return");
_Static_assert(offsetof(struct nvs_msg_budget_return, length) == 0, "budget_return.length");
_Static_assert(offsetof(struct nvs_msg_budget_return, type) == 2, "budget_return.type");
_Static_assert(offsetof(struct nvs_msg_budget_return, gpu) == 3, "budget_return.gpu");
_Static_assert(offsetof(struct nvs_msg_budget_return, serial) == 4, "budget_return.serial");
_Static_assert(offsetof(struct nvs_msg_budget_return, budget) == 8, "budget_return.budget");
_Static_assert(offsetof(struct nvs_msg_budget_return, used) == 16, "budget_return.used");

/* You wait unusually long: tell the user who holds the GPU, so that the program does not look hung. */
struct nvs_msg_long_wait {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t place;
    uint32_t holders;
    uint64_t waited_ms;
    uint64_t held_ms;
    char holder[48];
};
_Static_assert(sizeof(struct nvs_msg_long_wait) == 80, "long_wait");
_Static_assert(offsetof(struct nvs_msg_long_wait, length) == 0, "long_wait.length");
_Static_assert(offsetof(struct nvs_msg_long_wait, type) == 2, "long_wait.type");
_Static_assert(offsetof(struct nvs_msg_long_wait, gpu) == 3, "long_wait.gpu");
_Static_assert(offsetof(struct nvs_msg_long_wait, place) == 4, "long_wait.place");
_Static_assert(offsetof(struct nvs_msg_long_wait, holders) == 8, "long_wait.holders");
_Static_assert(offsetof(struct nvs_msg_long_wait, waited_ms) == 16, "long_wait.waited_ms");
_Static_assert(offsetof(struct nvs_msg_long_wait, held_ms) == 24, "long_wait.held_ms");
_Static_assert(offsetof(struct nvs_msg_long_wait, holder) == 32, "long_wait.holder");

/* Are you there? From version 2 on: sent only to a scheduler that says it speaks it. */
struct nvs_msg_ping {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_ping) == 4, "ping");
_Static_assert(offsetof(struct nvs_msg_ping, length) == 0, "ping.length");
_Static_assert(offsetof(struct nvs_msg_ping, type) == 2, "ping.type");
_Static_assert(offsetof(struct nvs_msg_ping, gpu) == 3, "ping.gpu");

/* Yes: the answer to PING. */
struct nvs_msg_pong {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_pong) == 4, "pong");
_Static_assert(offsetof(struct nvs_msg_pong, length) == 0, "pong.length");
_Static_assert(offsetof(struct nvs_msg_pong, type) == 2, "pong.type");
_Static_assert(offsetof(struct nvs_msg_pong, gpu) == 3, "pong.gpu");

/* How much of the card you may use in all: its size less the reserve, less foreign memory, less what other clients */
struct nvs_msg_capacity {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t room;
    uint64_t context;
};
_Static_assert(sizeof(struct nvs_msg_capacity) == 24, "capacity");
_Static_assert(offsetof(struct nvs_msg_capacity, length) == 0, "capacity.length");
_Static_assert(offsetof(struct nvs_msg_capacity, type) == 2, "capacity.type");
_Static_assert(offsetof(struct nvs_msg_capacity, gpu) == 3, "capacity.gpu");
_Static_assert(offsetof(struct nvs_msg_capacity, room) == 8, "capacity.room");
_Static_assert(offsetof(struct nvs_msg_capacity, context) == 16, "capacity.context");

/* You hold this lock, and memory of yours may be on the host: bring what you use to the GPU, at most so much. */
struct nvs_msg_move_in {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t lock;
    uint64_t most;
};
_Static_assert(sizeof(struct nvs_msg_move_in) == 24, "move_in");
_Static_assert(offsetof(struct nvs_msg_move_in, length) == 0, "move_in.length");
_Static_assert(offsetof(struct nvs_msg_move_in, type) == 2, "move_in.type");
_Static_assert(offsetof(struct nvs_msg_move_in, gpu) == 3, "move_in.gpu");
_Static_assert(offsetof(struct nvs_msg_move_in, lock) == 8, "move_in.lock");
_Static_assert(offsetof(struct nvs_msg_move_in, most) == 16, "move_in.most");

/* When you have released this lock, move so much memory to the host. Sent before DROP_LOCK. */
struct nvs_msg_move_out {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t lock;
    uint64_t most;
};
_Static_assert(sizeof(struct nvs_msg_move_out) == 24, "move_out");
_Static_assert(offsetof(struct nvs_msg_move_out, length) == 0, "move_out.length");
_Static_assert(offsetof(struct nvs_msg_move_out, type) == 2, "move_out.type");
_Static_assert(offsetof(struct nvs_msg_move_out, gpu) == 3, "move_out.gpu");
_Static_assert(offsetof(struct nvs_msg_move_out, lock) == 8, "move_out.lock");
_Static_assert(offsetof(struct nvs_msg_move_out, most) == 16, "move_out.most");

/* I moved so many bytes, in so much time. From version 4 on: sent only to a scheduler that says it speaks it. */
struct nvs_msg_moved {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t to_host;
    uint64_t moved;
    uint64_t took_ns;
};
_Static_assert(sizeof(struct nvs_msg_moved) == 24, "moved");
_Static_assert(offsetof(struct nvs_msg_moved, length) == 0, "moved.length");
_Static_assert(offsetof(struct nvs_msg_moved, type) == 2, "moved.type");
_Static_assert(offsetof(struct nvs_msg_moved, gpu) == 3, "moved.gpu");
_Static_assert(offsetof(struct nvs_msg_moved, to_host) == 4, "moved.to_host");
_Static_assert(offsetof(struct nvs_msg_moved, moved) == 8, "moved.moved");
_Static_assert(offsetof(struct nvs_msg_moved, took_ns) == 16, "moved.took_ns");

/* Of my swappable memory I have used so many bytes lately. Not known: what I have allocated counts. */
struct nvs_msg_working_set {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t is_known;
    uint64_t used;
};
_Static_assert(sizeof(struct nvs_msg_working_set) == 16, "working_set");
_Static_assert(offsetof(struct nvs_msg_working_set, length) == 0, "working_set.length");
_Static_assert(offsetof(struct nvs_msg_working_set, type) == 2, "working_set.type");
_Static_assert(offsetof(struct nvs_msg_working_set, gpu) == 3, "working_set.gpu");
_Static_assert(offsetof(struct nvs_msg_working_set, is_known) == 4, "working_set.is_known");
_Static_assert(offsetof(struct nvs_msg_working_set, used) == 8, "working_set.used");

/* I hold the lock, and my work has taken so many times longer than usual for some seconds. */
struct nvs_msg_slowed {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint32_t factor;
};
_Static_assert(sizeof(struct nvs_msg_slowed) == 8, "slowed");
_Static_assert(offsetof(struct nvs_msg_slowed, length) == 0, "slowed.length");
_Static_assert(offsetof(struct nvs_msg_slowed, type) == 2, "slowed.type");
_Static_assert(offsetof(struct nvs_msg_slowed, gpu) == 3, "slowed.gpu");
_Static_assert(offsetof(struct nvs_msg_slowed, factor) == 4, "slowed.factor");

/* Your group uses more than its limit: keep so many bytes of your memory on the host, and use them from there. */
struct nvs_msg_keep_on_host {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t keep;
};
_Static_assert(sizeof(struct nvs_msg_keep_on_host) == 16, "keep_on_host");
_Static_assert(offsetof(struct nvs_msg_keep_on_host, length) == 0, "keep_on_host.length");
_Static_assert(offsetof(struct nvs_msg_keep_on_host, type) == 2, "keep_on_host.type");
_Static_assert(offsetof(struct nvs_msg_keep_on_host, gpu) == 3, "keep_on_host.gpu");
_Static_assert(offsetof(struct nvs_msg_keep_on_host, keep) == 8, "keep_on_host.keep");

/* So many bytes of my memory are kept on the host; also after registering, if there are any. */
struct nvs_msg_on_host {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t held;
};
_Static_assert(sizeof(struct nvs_msg_on_host) == 16, "on_host");
_Static_assert(offsetof(struct nvs_msg_on_host, length) == 0, "on_host.length");
_Static_assert(offsetof(struct nvs_msg_on_host, type) == 2, "on_host.type");
_Static_assert(offsetof(struct nvs_msg_on_host, gpu) == 3, "on_host.gpu");
_Static_assert(offsetof(struct nvs_msg_on_host, held) == 8, "on_host.held");

/* Whether I move my memory on this GPU in bulk: a MoverState. While I have sent none, I do. */
struct nvs_msg_mover {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t state;
};
_Static_assert(sizeof(struct nvs_msg_mover) == 6, "mover");
_Static_assert(offsetof(struct nvs_msg_mover, length) == 0, "mover.length");
_Static_assert(offsetof(struct nvs_msg_mover, type) == 2, "mover.type");
_Static_assert(offsetof(struct nvs_msg_mover, gpu) == 3, "mover.gpu");
_Static_assert(offsetof(struct nvs_msg_mover, state) == 4, "mover.state");

/* My kernels wait for those of other processes of my group. From version 5 on: sent only to a scheduler that */
struct nvs_msg_collective {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_collective) == 4, "collective");
_Static_assert(offsetof(struct nvs_msg_collective, length) == 0, "collective.length");
_Static_assert(offsetof(struct nvs_msg_collective, type) == 2, "collective.type");
_Static_assert(offsetof(struct nvs_msg_collective, gpu) == 3, "collective.gpu");

/* The answer to LET_ONE: what was let through has finished, or nobody waited. */
struct nvs_msg_drained {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_drained) == 4, "drained");
_Static_assert(offsetof(struct nvs_msg_drained, length) == 0, "drained.length");
_Static_assert(offsetof(struct nvs_msg_drained, type) == 2, "drained.type");
_Static_assert(offsetof(struct nvs_msg_drained, gpu) == 3, "drained.gpu");

/* You have no lock, but work of your group waits for yours: let one submission through, and answer with DRAINED */
struct nvs_msg_let_one {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
};
_Static_assert(sizeof(struct nvs_msg_let_one) == 4, "let_one");
_Static_assert(offsetof(struct nvs_msg_let_one, length) == 0, "let_one.length");
_Static_assert(offsetof(struct nvs_msg_let_one, type) == 2, "let_one.type");
_Static_assert(offsetof(struct nvs_msg_let_one, gpu) == 3, "let_one.gpu");

/* You will probably have the lock within this time: for the line about a long wait. Sent before LONG_WAIT, if it */
struct nvs_msg_expected_start {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t within_ms;
};
_Static_assert(sizeof(struct nvs_msg_expected_start) == 16, "expected_start");
_Static_assert(offsetof(struct nvs_msg_expected_start, length) == 0, "expected_start.length");
_Static_assert(offsetof(struct nvs_msg_expected_start, type) == 2, "expected_start.type");
_Static_assert(offsetof(struct nvs_msg_expected_start, gpu) == 3, "expected_start.gpu");
_Static_assert(offsetof(struct nvs_msg_expected_start, within_ms) == 8, "expected_start.within_ms");

/* Whether work of mine was unfinished, at each of `count` looks (0 to LOOKS_MOST) from number `first` on. */
struct nvs_msg_gpu_time {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint16_t count;
    uint64_t first;
    uint64_t busy_0;
    uint64_t busy_1;
    uint64_t busy_2;
    uint64_t busy_3;
};
_Static_assert(sizeof(struct nvs_msg_gpu_time) == 48, "gpu_time");
_Static_assert(offsetof(struct nvs_msg_gpu_time, length) == 0, "gpu_time.length");
_Static_assert(offsetof(struct nvs_msg_gpu_time, type) == 2, "gpu_time.type");
_Static_assert(offsetof(struct nvs_msg_gpu_time, gpu) == 3, "gpu_time.gpu");
_Static_assert(offsetof(struct nvs_msg_gpu_time, count) == 4, "gpu_time.count");
_Static_assert(offsetof(struct nvs_msg_gpu_time, first) == 8, "gpu_time.first");
_Static_assert(offsetof(struct nvs_msg_gpu_time, busy_0) == 16, "gpu_time.busy_0");
_Static_assert(offsetof(struct nvs_msg_gpu_time, busy_1) == 24, "gpu_time.busy_1");
_Static_assert(offsetof(struct nvs_msg_gpu_time, busy_2) == 32, "gpu_time.busy_2");
_Static_assert(offsetof(struct nvs_msg_gpu_time, busy_3) == 40, "gpu_time.busy_3");

/* My environment wants at most this much of each GPU's time for my group, in percent (1 to 100); 0 is no limit. In */
struct nvs_msg_core_limit {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t percent;
};
_Static_assert(sizeof(struct nvs_msg_core_limit) == 6, "core_limit");
_Static_assert(offsetof(struct nvs_msg_core_limit, length) == 0, "core_limit.length");
_Static_assert(offsetof(struct nvs_msg_core_limit, type) == 2, "core_limit.type");
_Static_assert(offsetof(struct nvs_msg_core_limit, gpu) == 3, "core_limit.gpu");
_Static_assert(offsetof(struct nvs_msg_core_limit, percent) == 4, "core_limit.percent");

/* What all my device memory is: a MemoryKind. While I have sent none, it is managed. */
struct nvs_msg_memory_mode {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint8_t mode;
};
_Static_assert(sizeof(struct nvs_msg_memory_mode) == 6, "memory_mode");
_Static_assert(offsetof(struct nvs_msg_memory_mode, length) == 0, "memory_mode.length");
_Static_assert(offsetof(struct nvs_msg_memory_mode, type) == 2, "memory_mode.type");
_Static_assert(offsetof(struct nvs_msg_memory_mode, gpu) == 3, "memory_mode.gpu");
_Static_assert(offsetof(struct nvs_msg_memory_mode, mode) == 4, "memory_mode.mode");

/* A move to the host has ended, and I have no lock. At most `left` bytes of my swappable memory are on the card */
struct nvs_msg_room_made {
    uint16_t length;
    uint8_t type;
    uint8_t gpu;
    uint64_t left;
};
_Static_assert(sizeof(struct nvs_msg_room_made) == 16, "room_made");
_Static_assert(offsetof(struct nvs_msg_room_made, length) == 0, "room_made.length");
_Static_assert(offsetof(struct nvs_msg_room_made, type) == 2, "room_made.type");
_Static_assert(offsetof(struct nvs_msg_room_made, gpu) == 3, "room_made.gpu");
_Static_assert(offsetof(struct nvs_msg_room_made, left) == 8, "room_made.left");

#endif
