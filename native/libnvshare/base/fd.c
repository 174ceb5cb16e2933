#include "base/fd.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HIGH_DESCRIPTOR = 960 };

static int least_high_number(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > HIGH_DESCRIPTOR + 8)
        return HIGH_DESCRIPTOR;
    return limit.rlim_cur > 16 ? (int)limit.rlim_cur - 8 : 0;
}

/* Another thread may put a descriptor of the program over the low number at any moment (dup2). Then the low number is not closed,
 * because it is the program's, and the copy is, because it refers to the program's file. */
struct nvs_owned_fd nvs_fd_own(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        syscall(SYS_close, fd);
        return NVS_NO_FD;
    }
    struct nvs_owned_fd low = {.fd = fd, .dev = st.st_dev, .ino = st.st_ino}, high = low;
    high.fd = fcntl(fd, F_DUPFD_CLOEXEC, least_high_number());
    if (high.fd < 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        return low;
    }
    nvs_fd_close(&low);
    if (nvs_fd_is_ours(&high))
        return high;
    syscall(SYS_close, high.fd);
    return NVS_NO_FD;
}

bool nvs_fd_is_ours(const struct nvs_owned_fd *owned)
{
    struct stat st;
    return owned->fd >= 0 && fstat(owned->fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == owned->dev &&
           st.st_ino == owned->ino;
}

void nvs_fd_close(struct nvs_owned_fd *owned)
{
    if (nvs_fd_is_ours(owned))
        syscall(SYS_close, owned->fd);
    *owned = NVS_NO_FD;
}

int nvs_fd_connect(const struct nvs_owned_fd *owned, const void *address, size_t bytes)
{
    return (int)syscall(SYS_connect, owned->fd, address, bytes);
}

ssize_t nvs_fd_send(const struct nvs_owned_fd *owned, const void *bytes, size_t count)
{
    return syscall(SYS_sendto, owned->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
}

ssize_t nvs_fd_receive(const struct nvs_owned_fd *owned, void *bytes, size_t count)
{
    return syscall(SYS_recvfrom, owned->fd, bytes, count, MSG_DONTWAIT, NULL, NULL);
}
