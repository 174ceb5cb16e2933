#include "helper/wake.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/lock.h"

static struct nvs_owned_fd wake_read = {.fd = -1}, wake_write = {.fd = -1};
static struct nvs_lock wake_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_WAKE);
/* True from a wake-up until the helper has begun the step that it asks for. So only the first of many wake-ups pays for a system
 * call, and a thread that allocates in a loop does not. */
static _Atomic bool is_woken;

int nvs_wake_fd(void) { return wake_read.fd; }

static bool is_whole(void) { return nvs_fd_is_ours(&wake_read) && nvs_fd_is_ours(&wake_write); }

bool nvs_wake_is_broken(void) { return wake_read.fd >= 0 && !is_whole(); }

void nvs_wake_open(void)
{
    int pair[2];
    nvs_lock_take(&wake_lock);
    nvs_fd_close(&wake_read);
    nvs_fd_close(&wake_write);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        wake_read = nvs_fd_own(pair[0]);
        wake_write = nvs_fd_own(pair[1]);
    }
    nvs_lock_give(&wake_lock);
}

/* Pairs with nvs_wake_clear: the caller changes its state (waiters, memory_changed, a question, is_exiting) and then exchanges
 * is_woken; the helper clears is_woken and then reads that state. Both are sequentially consistent. If the exchange finds true, the
 * helper has not cleared it yet and will read the new state. Otherwise the change would be seen only by the helper's safety net,
 * up to 5 s later. */
void nvs_wake_helper(void)
{
    int saved = errno;
    if (atomic_exchange(&is_woken, true))
        return;
    nvs_lock_take(&wake_lock);
    if (nvs_fd_is_ours(&wake_write))
        nvs_fd_send(&wake_write, "", 1);
    nvs_lock_give(&wake_lock);
    errno = saved;
}

void nvs_wake_clear(void)
{
    char bytes[64];
    if (is_whole())
        while (nvs_fd_receive(&wake_read, bytes, sizeof bytes) > 0)
            ;
    else
        nvs_wake_open(); /* the program closed one of them; a poll of the other end would return at once for ever */
    atomic_store(&is_woken, false); /* last: pairs with nvs_wake_helper */
}

void nvs_wake_forked(void)
{
    nvs_lock_reset(&wake_lock);
    nvs_fd_close(&wake_read);
    nvs_fd_close(&wake_write);
    atomic_store(&is_woken, false);
}
