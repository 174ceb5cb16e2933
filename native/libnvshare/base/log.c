#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/options.h"

enum { LINE_BYTES = 512, MAX_LINES = 200, MAX_DEBUG_LINES = 100000 };

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
    long written = syscall(SYS_write, STDERR_FILENO, text, (size_t)at); /* no cancellation point: base/cancellation.h */
    (void)written; /* an error here cannot be reported */
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
