#include "helper/user_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "client/as.h"
#include "gpu.h"
#include "helper/helper.h"

void nvs_user_lines_print(uint32_t todo, int error)
{
    if (todo & NVS_CLIENT_SAY_ALONE)
        nvs_info("no scheduler at %s (%s): running unshared until there is one", nvs_options()->socket, strerror(error));
    if (todo & NVS_CLIENT_SAY_UNHEARD)
        nvs_warn("the scheduler at %s has not answered: running unshared until it does; its log may say why", nvs_options()->socket);
    if (todo & NVS_CLIENT_SAY_BROKEN)
        nvs_warn("the scheduler sent what we do not understand; connecting again");
    if (todo & NVS_CLIENT_SAY_LOST)
        nvs_warn("the scheduler went away; this process goes on and joins again when it is back");
    if (todo & NVS_CLIENT_SAY_HUNG)
        nvs_warn("the scheduler does not answer; this process runs without a turn until it does, and keeps its place in the queue");
}

void nvs_user_lines_of_wait_for_limit(void)
{
    nvs_info("the first allocation waits for the scheduler, which may set a memory limit, for at most %lld s",
             (long long)(nvs_options()->join_ms + 999) / 1000);
}

void nvs_user_lines_of_no_limit(void)
{
    nvs_warn("there is no scheduler: this process allocates without it, and shares no memory limit with others until there is one");
}

/* Another process chose this name: control characters must not reach the terminal, nor those that UTF-8 encodes in two bytes. */
static void make_printable(unsigned char *text)
{
    for (unsigned char *c = text; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
            c[0] = c[1] = '?';
}

static const char *wanted(enum nvs_wait wait)
{
    return wait == NVS_WAIT_MEMORY ? "memory of " : wait == NVS_WAIT_LOCK ? "the lock of " : "";
}

/* By when the program will probably start on each GPU, in ms, and 1 more; 0: not known. EXPECTED_START is remembered until the
 * LONG_WAIT that it belongs to. Under SESSION: the helper or its deputy. */
static uint64_t starts[NVS_MAX_GPUS];

static void describe_start(char *text, size_t size, int gpu)
{
    *text = '\0';
    if (starts[gpu])
        snprintf(text, size, "; this program will probably start within %" PRIu64 " s", starts[gpu] / 1000 + 1);
    starts[gpu] = 0;
}

static void say_long_wait(const struct nvs_gpu *gpu, const struct nvs_msg_long_wait *wait)
{
    char holder[sizeof wait->holder + 1], start[80];
    describe_start(start, sizeof start, gpu->index);
    memcpy(holder, wait->holder, sizeof wait->holder);
    holder[sizeof wait->holder] = '\0';
    make_printable((unsigned char *)holder);
    if (!wait->place) {
        nvs_info("waiting for %s for %llu s: there is too little host memory for the GPU memory of %s, which would have to move there",
                 gpu->label, (unsigned long long)wait->waited_ms / 1000, *holder ? holder : "another process");
        return;
    }
    if (!wait->holders) {
        nvs_info("waiting for %s for %llu s: this program may be paused, have used its share of GPU time, or wait for other GPUs too; "
                 "`nvsharectl story` says why",
                 gpu->label, (unsigned long long)wait->waited_ms / 1000);
        return;
    }
    nvs_info("waiting for %s%s for %llu s, place %u in the queue; held by %s%s for %llu s%s",
             wanted(nvs_helper_client.gpus[gpu->index].wait), gpu->label, (unsigned long long)wait->waited_ms / 1000, wait->place,
             *holder ? holder : "another process", wait->holders > 1 ? " and others" : "", (unsigned long long)wait->held_ms / 1000, start);
}

void nvs_user_lines_of_frame(const uint8_t *frame)
{
    AS(nvs_head, head);
    const struct nvs_gpu *gpu = &nvs_gpus[head.gpu];
    if (head.type == NVS_SCHED_ON || head.type == NVS_SCHED_OFF) {
        AS(nvs_msg_sched_on, answer); /* SCHED_OFF has the same fields */
        nvs_debug("client %04llx: scheduling is %s", (unsigned long long)answer.client, head.type == NVS_SCHED_ON ? "on" : "off");
    } else if (head.type == NVS_LOCK_OK) {
        AS(nvs_msg_lock_ok, ok);
        nvs_debug("%s: lock %#llx%s", gpu->label, (unsigned long long)ok.lock, ok.contended ? ", contended" : "");
    } else if (head.type == NVS_DROP_LOCK) {
        AS(nvs_msg_drop_lock, drop);
        nvs_debug("%s: drop lock %#llx within %u ms, reason %u", gpu->label, (unsigned long long)drop.lock, drop.grace_ms, drop.reason);
    } else if (head.type == NVS_WAIT_FOR_MEM) {
        AS(nvs_msg_wait_for_mem, wait);
        nvs_debug("%s: no lock yet, place %u in the queue", gpu->label, wait.place);
    } else if (head.type == NVS_MEM_AVAILABLE) {
        nvs_debug("%s has room again: the lock follows", gpu->label);
    } else if (head.type == NVS_UPDATE_LIMIT) {
        AS(nvs_msg_update_limit, update);
        nvs_debug("Received UPDATE_LIMIT: %llu bytes", (unsigned long long)update.limit);
    } else if (head.type == NVS_EXPECTED_START) {
        AS(nvs_msg_expected_start, start);
        starts[head.gpu] = start.within_ms + 1;
    } else if (head.type == NVS_LONG_WAIT) {
        AS(nvs_msg_long_wait, wait);
        say_long_wait(gpu, &wait);
    }
}
