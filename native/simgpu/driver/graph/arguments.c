/* The parameters of kernel nodes. They belong to the node, as in CUDA: the caller's arrays may go once the node is made. Clones and
 * instances share them. Of a kernel whose parameters are not known, an array of them cannot be copied: its node has none. */
#include "driver/graph/graph.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS *params) { return params->func != NULL ? params->func : (CUfunction)params->kern; }

/* How many parameters the kernel has, and in how many bytes they are. */
static size_t count_params(CUfunction function, size_t *bytes)
{
    size_t count = 0, offset, size;
    *bytes = 0;
    for (; cuFuncGetParamInfo(function, count, &offset, &size) == CUDA_SUCCESS; count++)
        *bytes = offset + size;
    return count;
}

/* Room for so many pointers, and for so many bytes behind them. */
static struct sim_arguments *allocate(const CUDA_KERNEL_NODE_PARAMS *given, size_t pointers, size_t bytes)
{
    struct sim_arguments *made = calloc(1, sizeof *made + pointers * sizeof *made->pointers + bytes);
    if (made == NULL)
        return NULL;
    atomic_store(&made->references, 1);
    made->params = *given;
    made->params.kernelParams = made->params.extra = NULL;
    return made;
}

static struct sim_arguments *copy_array(const CUDA_KERNEL_NODE_PARAMS *given)
{
    size_t bytes, offset, size, count = count_params(function_of(given), &bytes);
    struct sim_arguments *made = allocate(given, count, bytes);
    if (made == NULL || count == 0)
        return made;
    char *values = (char *)&made->pointers[count];
    made->params.kernelParams = made->pointers;
    for (size_t i = 0; i < count; i++) {
        cuFuncGetParamInfo(function_of(given), i, &offset, &size);
        made->pointers[i] = values + offset;
        if (given->kernelParams[i] != NULL)
            memcpy(values + offset, given->kernelParams[i], size);
    }
    return made;
}

static struct sim_arguments *copy_buffer(const CUDA_KERNEL_NODE_PARAMS *given)
{
    enum { WORDS = 6 }; /* the list, its end, and the size */
    const void *buffer = NULL;
    size_t bytes = 0;
    for (void **word = given->extra; word[0] != CU_LAUNCH_PARAM_END; word += 2) {
        if (word[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = word[1];
        else if (word[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(size_t *)word[1];
    }
    struct sim_arguments *made = allocate(given, WORDS, buffer != NULL ? bytes : 0);
    if (made == NULL || buffer == NULL)
        return made;
    void **list = made->pointers, *copy = &made->pointers[WORDS];
    memcpy(copy, buffer, bytes);
    memcpy(&list[5], &bytes, sizeof bytes);
    list[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    list[1] = copy;
    list[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    list[3] = &list[5];
    list[4] = CU_LAUNCH_PARAM_END;
    made->params.extra = list;
    return made;
}

struct sim_arguments *sim_arguments_new(const CUDA_KERNEL_NODE_PARAMS *given)
{
    if (given->kernelParams != NULL)
        return copy_array(given);
    return given->extra != NULL ? copy_buffer(given) : allocate(given, 0, 0);
}

struct sim_arguments *sim_arguments_retain(struct sim_arguments *arguments)
{
    if (arguments != NULL)
        atomic_fetch_add(&arguments->references, 1);
    return arguments;
}

void sim_arguments_release(struct sim_arguments *arguments)
{
    if (arguments != NULL && atomic_fetch_sub(&arguments->references, 1) == 1)
        free(arguments);
}
