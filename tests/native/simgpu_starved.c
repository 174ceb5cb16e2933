/* The card's clock decides when work has ended, no matter which thread has a processor: this program shares one
 * processor with the card's execution thread and never leaves it to that thread while kernels run. */
#include "simgpu_check.h"

#include <dirent.h>
#include <sched.h>

enum { KERNELS = 40 };
static const double KERNEL_S = 2e-3;

/* Threads that are started later inherit it. */
static void stay_on_one_processor(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    TRUE_(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* The thread named so runs only when no other thread wants the processor. */
static bool starve(const char *name)
{
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char path[300], seen[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%31s", seen) == 1 && strcmp(seen, name) == 0)
            found = sched_setscheduler(atoi(task->d_name), SCHED_IDLE, &(struct sched_param){0}) == 0;
        if (file != NULL)
            fclose(file);
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

static void compute_until(double time)
{
    while (seconds() < time)
        ;
}

/* How many of the kernels had not ended by the card's answer although they had by the clock. */
static unsigned late_answers(CUstream stream, CUevent event)
{
    unsigned late = 0;
    for (int i = 0; i < KERNELS; i++) {
        double before = seconds();
        OK(spin, stream, (unsigned long long)(KERNEL_S * 1e6));
        if (event != NULL)
            OK(cuEventRecord, event, stream);
        double after = seconds();
        CUresult early = event != NULL ? cuEventQuery(event) : cuStreamQuery(stream);
        TRUE_(early == CUDA_ERROR_NOT_READY || seconds() >= before + KERNEL_S);
        compute_until(after + KERNEL_S);
        late += (event != NULL ? cuEventQuery(event) : cuStreamQuery(stream)) != CUDA_SUCCESS;
        while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
            ;
    }
    return late;
}

int main(void)
{
    CUstream stream;
    CUevent event;
    stay_on_one_processor();
    start();
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    OK(spin, stream, 1);
    OK(cuStreamSynchronize, stream);
    TRUE_(starve("sim-gpu0"));
    TRUE_(late_answers(stream, NULL) == 0);
    TRUE_(late_answers(NULL, NULL) == 0);
    TRUE_(late_answers(stream, event) == 0);
    return done();
}
