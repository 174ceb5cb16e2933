#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

enum { LINE_BYTES = 512, MAX_LINES = 200, MAX_DEBUG_LINES = 100000 };

/* Another process may have filled the pipe since poll was called: then a kernel that supports RWF_NOWAIT for pipes does not wait. A file
 * may refuse such a write although a write to it needs no reader. */
static long write_now(const char *text, size_t bytes)
{
    struct stat status;
    struct iovec all = {(void *)(uintptr_t)text, bytes};
    if (fstat(STDERR_FILENO, &status) == 0 && S_ISFIFO(status.st_mode)) {
        long written = syscall(SYS_pwritev2, STDERR_FILENO, &all, 1L, -1L, -1L, RWF_NOWAIT);
        if (written >= 0 || errno == EAGAIN || errno == EPIPE)
            return written;
    }
    return syscall(SYS_write, STDERR_FILENO, text, bytes);
}

/* The reader may go away after it was asked for. Then the kernel sends SIGPIPE to this thread, and the program has not deserved it: it
 * is blocked, and taken back unless one was pending already. */
static void write_without_sigpipe(const char *text, size_t bytes)
{
    sigset_t sigpipe, pending, before;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
    sigpending(&pending);
    if (write_now(text, bytes) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        syscall(SYS_rt_sigtimedwait, &sigpipe, NULL, &(struct timespec){0}, _NSIG / 8);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Never waits for a reader: the helper prints while it holds the conversation with the scheduler, and nobody may ever read a full pipe
 * or a terminal that was stopped (Ctrl-S). O_NONBLOCK would be set for everybody who has the file. So the line is dropped unless it can
 * be written at once. A pipe that poll calls writable has room for PIPE_BUF (4096) bytes, and a file always has. A terminal may have
 * less room than the line: if it was nearly full when its reader stopped, we wait with the program's own output. A named pipe, and with an
 * older kernel any pipe, may be filled by another process before we write: then we wait too. An error, too, drops the line: it cannot be
 * reported. By syscall(), because these calls are cancellation points (base/cancellation.h). */
static void write_at_once(const char *text, size_t bytes)
{
    struct pollfd polled = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (syscall(SYS_sendto, STDERR_FILENO, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) >= 0 || errno != ENOTSOCK)
        return;
    if (syscall(SYS_ppoll, &polled, 1, &(struct timespec){0}, NULL, 0) == 1 && polled.revents == POLLOUT)
        write_without_sigpipe(text, bytes);
}

static void line(const char *level, _Atomic int *left, const char *format, va_list arguments)
{
    char text[LINE_BYTES];
    int saved = errno, rest = atomic_fetch_sub(left, 1);
    if (rest <= 0) {
        atomic_store(left, 0);
        errno = saved;
        return;
    }
    int at = snprintf(text, sizeof text, "[NVSHARE][%s]: ", level);
    int more = vsnprintf(text + at, sizeof text - (size_t)at - 1, format, arguments);
    at += more < 0 ? 0 : more;
    if (at > LINE_BYTES - 2)
        at = LINE_BYTES - 2;
    text[at++] = '\n';
    write_at_once(text, (size_t)at);
    errno = saved;
}

static _Atomic int lines_left = MAX_LINES, debug_lines_left = MAX_DEBUG_LINES;

#define LINE(name, level, left) \
    void name(const char *format, ...) \
    { \
        va_list arguments; \
        va_start(arguments, format); \
        line(level, left, format, arguments); \
        va_end(arguments); \
    }

LINE(nvs_info, "INFO", &lines_left)
LINE(nvs_warn, "WARN", &lines_left)

void nvs_debug(const char *format, ...)
{
    if (!nvs_options()->debug)
        return;
    va_list arguments;
    va_start(arguments, format);
    line("DEBUG", &debug_lines_left, format, arguments);
    va_end(arguments);
}
