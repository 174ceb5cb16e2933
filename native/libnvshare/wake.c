#include "wake.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "platform.h"
#include "session.h"

static struct nvs_owned_fd wake_read = {.fd = -1}, wake_write = {.fd = -1};
static struct nvs_lock wake_lock;
static _Atomic bool is_woken;

int nvs_wake_fd(void) { return wake_read.fd; }

void nvs_wake_open(void)
{
    int pair[2];
    nvs_lock_take(&wake_lock);
    nvs_fd_close(&wake_read);
    nvs_fd_close(&wake_write);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        wake_read = nvs_own_fd(pair[0]);
        wake_write = nvs_own_fd(pair[1]);
    }
    nvs_lock_give(&wake_lock);
}

void nvs_session_wake(void)
{
    int saved = errno;
    if (atomic_exchange(&is_woken, true))
        return;
    nvs_lock_take(&wake_lock);
    if (nvs_fd_is_ours(&wake_write))
        send(wake_write.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    nvs_lock_give(&wake_lock);
    errno = saved;
}

void nvs_wake_clear(void)
{
    char bytes[64];
    if (nvs_fd_is_ours(&wake_read))
        while (recv(wake_read.fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            ;
    else
        nvs_wake_open(); /* the program closed what it did not open */
    atomic_store(&is_woken, false);
}

void nvs_wake_forked(void)
{
    wake_lock = (struct nvs_lock){0};
    nvs_fd_close(&wake_read);
    nvs_fd_close(&wake_write);
    atomic_store(&is_woken, false);
}
