/* File descriptors in a process that may close every descriptor it finds. */
#ifndef NVS_FD_H
#define NVS_FD_H

#include <stdbool.h>
#include <sys/types.h>

/* A descriptor that is ours only while it still refers to the same socket. */
struct nvs_owned_fd { int fd; dev_t dev; ino_t ino; };
#define NVS_NO_FD ((struct nvs_owned_fd){.fd = -1})
/* Takes over `fd`: close-on-exec, moved to a high number where programs do not expect their own. */
struct nvs_owned_fd nvs_fd_own(int fd);
/* Asked immediately before each use: the program may close any number or put a descriptor of its own there. What remains is another
 * thread that does this between the question and the system call that follows. */
bool nvs_fd_is_ours(const struct nvs_owned_fd *owned);
void nvs_fd_close(struct nvs_owned_fd *owned);
/* These are no cancellation points (base/cancellation.h). The last two never wait. */
int nvs_fd_connect(const struct nvs_owned_fd *owned, const void *address, size_t bytes);
ssize_t nvs_fd_send(const struct nvs_owned_fd *owned, const void *bytes, size_t count);
ssize_t nvs_fd_receive(const struct nvs_owned_fd *owned, void *bytes, size_t count);

#endif
