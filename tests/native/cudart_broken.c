/* When things go wrong: a kernel that breaks its context, a child that was forked, threads that launch at once. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cudart_check.h"
#include "cudart_nvcc.h"

enum { THREADS = 4, LAUNCHES = 500 };

static void *launch_many(void *unused)
{
    cudaStream_t stream;
    (void)unused;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < LAUNCHES; i++) {
        if (i % 2)
            LAUNCH(DIM(1), DIM(32), stream, host_spin(1));
        else
            LAUNCH(DIM(1), DIM(32), stream, host_scale(NULL, 1.0f));
    }
    OK(cudaGetLastError());
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
    return NULL;
}

/* The first launches of a kernel resolve it; all threads may do so at once. */
static void threads_launch_at_once(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, launch_many, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(cudaDeviceSynchronize());
}

static void a_forked_child_ends_quietly_and_the_parent_goes_on(void)
{
    int status = -1;
    void *memory = NULL;
    pid_t child = fork();
    if (child == 0) {
        /* CUDA does not work in a forked child: an error, not a hang; and exit runs nvcc's unregistration. */
        exit(cudaMalloc(&memory, 1 << 20) == cudaSuccess ? 2 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    LAUNCH(DIM(1), DIM(32), 0, host_spin(10));
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
}

static void a_broken_context_stays_broken_until_the_device_is_reset(void)
{
    void *memory = NULL;
    LAUNCH(DIM(1), DIM(32), 0, host_trap());
    OK(cudaGetLastError()); /* the launch itself was fine */
    GIVES(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    GIVES(cudaErrorLaunchFailure, cudaGetLastError());
    GIVES(cudaErrorLaunchFailure, cudaGetLastError()); /* asking does not change it */
    GIVES(cudaErrorLaunchFailure, cudaMalloc(&memory, 1 << 20));
    OK(cudaDeviceReset());
    OK(cudaGetLastError());
    OK(cudaMalloc(&memory, 1 << 20));
    LAUNCH(DIM(1), DIM(32), 0, host_spin(10));
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    OK(cudaFree(memory));
}

int main(void)
{
    threads_launch_at_once();
    a_forked_child_ends_quietly_and_the_parent_goes_on();
    a_broken_context_stays_broken_until_the_device_is_reset();
    return failures != 0;
}
