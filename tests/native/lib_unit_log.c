/* Lines on a stderr that takes nothing: a full pipe, a pipe or socket without a reader. Nothing waits, and no signal reaches the program. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib_check.h"

static int own_stderr;
static int reader = -1; /* to be closed after stderr was asked whether it takes a line */
static int writer = -1; /* to be filled then, as by another process that has the same stderr */

static void fill(int fd)
{
    char block[1024] = {0};
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, block, sizeof block) > 0)
        ;
    while (write(fd, block, 1) > 0)
        ;
    fcntl(fd, F_SETFL, 0);
}

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    long result = __real_syscall(number, a, b, c, d, e, f);
    int saved = errno;
    if (number == SYS_ppoll && reader >= 0) {
        close(reader);
        reader = -1;
    }
    if (number == SYS_ppoll && writer >= 0) {
        fill(writer);
        writer = -1;
    }
    errno = saved;
    return result;
}

static void use_as_stderr(int fd)
{
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static bool is_sigpipe_pending(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE);
}

/* What is said while stderr is so, and nothing else: CHECK needs our own. */
static void say(void)
{
    errno = 7;
    alarm(30); /* ends the program if the line waits */
    nvs_warn("a line");
    alarm(0);
    int after = errno;
    dup2(own_stderr, STDERR_FILENO);
    EQUAL(after, 7);
    CHECK(!is_sigpipe_pending());
}

static void a_line_arrives(int domain)
{
    char text[64] = "";
    int ends[2];
    EQUAL(domain ? socketpair(domain, SOCK_STREAM, 0, ends) : pipe(ends), 0);
    use_as_stderr(ends[1]);
    say();
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    EQUAL(strcmp(text, "[NVSHARE][WARN]: a line\n"), 0);
    close(ends[0]);
}

/* The descriptor's flags are as before: the program's own writes still wait. */
static void nobody_waits_for_a_full(int domain, bool is_filled_late)
{
    int ends[2];
    EQUAL(domain ? socketpair(domain, SOCK_STREAM, 0, ends) : pipe(ends), 0);
    int flags = fcntl(ends[1], F_GETFL);
    int kept = dup(ends[1]);
    if (is_filled_late)
        writer = kept;
    else
        fill(ends[1]);
    use_as_stderr(ends[1]);
    say();
    EQUAL(fcntl(kept, F_GETFL), flags);
    EQUAL(writer, -1);
    close(kept);
    close(ends[0]);
}

static void nobody_is_killed_without_a_reader(int domain, bool goes_late)
{
    int ends[2];
    EQUAL(domain ? socketpair(domain, SOCK_STREAM, 0, ends) : pipe(ends), 0);
    if (goes_late)
        reader = ends[0];
    else
        close(ends[0]);
    use_as_stderr(ends[1]);
    say();
    EQUAL(reader, -1);
}

static void a_signal_of_the_program_stays(void)
{
    sigset_t sigpipe;
    int ends[2];
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &sigpipe, NULL);
    raise(SIGPIPE);
    EQUAL(pipe(ends), 0);
    reader = ends[0];
    use_as_stderr(ends[1]);
    nvs_warn("a line");
    dup2(own_stderr, STDERR_FILENO);
    CHECK(is_sigpipe_pending());
}

/* Whether the kernel writes to a pipe only if it can at once (RWF_NOWAIT). Older kernels do not. */
static bool nothing_waits_in_the_kernel(void)
{
    char byte = 0;
    int ends[2];
    EQUAL(pipe(ends), 0);
    bool is_known = __real_syscall(SYS_pwritev2, ends[1], (long)&(struct iovec){&byte, 1}, 1, -1, -1, RWF_NOWAIT) == 1;
    close(ends[0]);
    close(ends[1]);
    return is_known;
}

int main(void)
{
    own_stderr = dup(STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 2; i++) {
        int domain = i ? AF_UNIX : 0;
        a_line_arrives(domain);
        nobody_waits_for_a_full(domain, false);
        nobody_is_killed_without_a_reader(domain, false);
    }
    nobody_is_killed_without_a_reader(0, true);
    if (nothing_waits_in_the_kernel())
        nobody_waits_for_a_full(0, true);
    a_signal_of_the_program_stays();
    return DONE();
}
