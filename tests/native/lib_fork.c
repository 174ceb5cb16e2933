/* Children that are made while the library is being set up, and threads that find themselves in a child: lib_fork options|setup|clone|handler.
 *
 *   options   fork() while another thread reads the environment
 *   setup     fork() while another thread sets the library up
 *   clone     a bare clone of a process that is set up; in the child two threads call the driver at the same time
 *   handler   fork() of a process that is set up and has its own handler, which runs before the library's and calls the driver
 *
 * The functions of the C library that the library calls at these moments are this program's, which stops there. The child says "used".
 * When a line of input has come, the number of the child's helper threads is printed. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib_check.h"
#include "lib_driver.h"

/* The library finds this program's function, not that of the C library. */
#define INSTEAD __attribute__((visibility("default")))

static __thread const char *stops_in; /* this thread's next call of that function waits until it may go on */
static _Atomic int has_stopped, may_go_on;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static void stop_in(const char *function, int most_ms)
{
    if (!stops_in || strcmp(stops_in, function))
        return;
    stops_in = NULL;
    has_stopped = 1;
    for (int i = 0; i < most_ms && !may_go_on; i++)
        nap();
}

INSTEAD char *getenv(const char *name)
{
    static char *(*next)(const char *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "getenv");
    if (!strncmp(name, "NVSHARE_", 8))
        stop_in("getenv", 60000);
    return next(name);
}

INSTEAD int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    static int (*next)(pthread_key_t *, void (*)(void *));
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_key_create");
    stop_in("pthread_key_create", 60000);
    return next(key, destructor);
}

/* The library looks at its connection when it resets itself. The other thread comes within this time if nothing keeps it. */
INSTEAD int fstat(int fd, struct stat *status)
{
    static int (*next)(int, struct stat *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fstat");
    stop_in("fstat", 500);
    return next(fd, status);
}

static CUresult use(void)
{
    CUcontext context;
    CUdeviceptr memory;
    CUresult result = lib_driver_find("dlsym") == 0 ? cu.Init(0) : CUDA_ERROR_NOT_INITIALIZED;
    if (result == CUDA_SUCCESS)
        result = cu.CtxCreate(&context, 0, 0);
    return result == CUDA_SUCCESS ? cu.MemAlloc(&memory, 4096) : result;
}

static void *use_in_thread(void *function)
{
    stops_in = function;
    return (void *)(uintptr_t)use();
}

static int count_helpers(void)
{
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(threads));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file))
            count += !strcmp(name, "nvshare\n");
        if (file)
            fclose(file);
    }
    closedir(threads);
    return count;
}

/* Says that it is done, and ends the child when a line comes: its exit code is the number of helpers, or 100 if a call failed. */
static void end_child(CUresult result)
{
    char line[8];
    puts("used");
    fflush(stdout);
    long got = read(STDIN_FILENO, line, sizeof line);
    _exit(result == CUDA_SUCCESS && got > 0 ? count_helpers() : 100);
}

static int wait_for(pid_t child)
{
    int status = 0;
    CHECK(child > 0);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int fork_while_stopped(const char *function)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, use_in_thread, (void *)(uintptr_t)function);
    while (!has_stopped)
        nap();
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        end_child(use());
    }
    int helpers = wait_for(child);
    may_go_on = 1;
    pthread_join(thread, &result);
    EQUAL((uintptr_t)result, CUDA_SUCCESS);
    return helpers;
}

static int clone_with_two_threads(void)
{
    EQUAL(use(), CUDA_SUCCESS);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        pthread_t thread;
        void *result;
        alarm(20);
        pthread_create(&thread, NULL, use_in_thread, "fstat");
        while (!has_stopped)
            nap();
        CUresult own = use();
        pthread_join(thread, &result);
        end_child(own != CUDA_SUCCESS ? own : (CUresult)(uintptr_t)result);
    }
    return wait_for(child);
}

static CUresult used_in_handler;
static void use_in_handler(void)
{
    alarm(20);
    used_in_handler = use();
}

static int fork_with_handler(void)
{
    pthread_atfork(NULL, NULL, use_in_handler);
    EQUAL(use(), CUDA_SUCCESS);
    pid_t child = fork();
    if (child == 0) {
        CUresult own = use();
        end_child(own != CUDA_SUCCESS ? own : used_in_handler);
    }
    return wait_for(child);
}

static int helpers_of_child(const char *how)
{
    if (!strcmp(how, "clone"))
        return clone_with_two_threads();
    if (!strcmp(how, "handler"))
        return fork_with_handler();
    return fork_while_stopped(!strcmp(how, "setup") ? "pthread_key_create" : "getenv");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const char *how = argv[1];
    if (!strcmp(how, "setup") && lib_driver_find("dlsym") != 0)
        return 3; /* it reads the environment */
    printf("%d\n", helpers_of_child(how));
    return 0;
}
