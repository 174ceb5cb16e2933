/* Contexts: making and destroying them, the stack of each thread, waiting for all work of one. */
#define _GNU_SOURCE
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

#define STACK_DEPTH 64

static __thread struct { CUcontext at[STACK_DEPTH]; int depth; } stack;

CUresult sim_context_check(CUcontext context)
{
    if (context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!sim_is(context, SIM_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)atomic_load_explicit(&context->error, memory_order_relaxed);
}

CUresult sim_current(CUcontext *context)
{
    SIM_ENTER();
    *context = stack.depth > 0 ? stack.at[stack.depth - 1] : NULL;
    return sim_context_check(*context);
}

static void default_limits(CUcontext context)
{
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

static void change_contexts(unsigned card, int by)
{
    struct sim_card *state = sim.view.cards[card];
    sim_card_lock(state);
    state->slots[sim.view.slots[card]].contexts += (uint32_t)by;
    sim_card_unlock(state);
    sim_trace_point(SIM_TRACE_CONTEXT, card, sim_config()->context_bytes, 0, by > 0);
}

CUresult sim_context_make(CUdevice device, unsigned flags, bool primary, CUcontext *made)
{
    unsigned card;
    struct sim_engine *engine;
    SIM_TRY(sim_card_of(device, &card));
    SIM_TRY(sim_engine_get(card, &engine));
    SIM_TRY(sim_charge(card, sim_config()->context_bytes));
    CUcontext context = sim_handle_new(SIM_CONTEXT, sizeof *context);
    if (context == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->card = card;
    context->device = device;
    context->flags = flags;
    context->primary = primary;
    context->engine = engine;
    context->id = atomic_fetch_add(&sim.ids, 1) + 1;
    pthread_mutex_init(&context->lock, NULL);
    default_limits(context);
    CUresult result = sim_stream_make(context, CU_STREAM_DEFAULT, 0, &context->legacy);
    if (result != CUDA_SUCCESS)
        return result;
    context->legacy->id = context->id << 32;
    change_contexts(card, 1);
    *made = context;
    return CUDA_SUCCESS;
}

void sim_context_destroy(CUcontext context)
{
    sim_context_drain(context);
    for (CUstream stream = context->streams, next; stream != NULL; stream = next) {
        next = stream->next;
        atomic_store(&stream->dying, true);
    }
    atomic_store(&context->legacy->dying, true);
    sim_pool_forget(context);
    sim_memory_free_of(context);
    sim_wait_for_pipe("NVSHARE_SIM_CONTEXT_END"); /* meanwhile other threads may be given this memory */
    sim_context_uncharge_limits(context);
    sim_code_context_gone(context);
    change_contexts(context->card, -1);
    sim_uncharge(context->card, sim_config()->context_bytes);
    pthread_mutex_destroy(&context->lock);
    sim_handle_free(context);
}

CUresult sim_context_drain(CUcontext context)
{
    /* The counts to wait for are taken first, so that work submitted meanwhile does not prolong the wait. */
    struct mark { CUstream stream; uint64_t count; } few[32], *marks = few;
    size_t count = 1, at = 0;
    pthread_mutex_lock(&context->lock);
    for (CUstream stream = context->streams; stream != NULL; stream = stream->next)
        count++;
    if (count > 32 && (marks = malloc(count * sizeof *marks)) == NULL) {
        pthread_mutex_unlock(&context->lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    marks[at++] = (struct mark){context->legacy, atomic_load(&context->legacy->tail)};
    for (CUstream stream = context->streams; stream != NULL; stream = stream->next)
        marks[at++] = (struct mark){stream, atomic_load(&stream->tail)};
    pthread_mutex_unlock(&context->lock);
    for (at = 0; at < count; at++)
        sim_stream_await(marks[at].stream, context->engine, marks[at].count);
    if (marks != few)
        free(marks);
    return (CUresult)atomic_load(&context->error);
}

void sim_context_pass_lock(CUcontext context)
{
    if (sim.module_load_ns == 0 || context == NULL)
        return;
    pthread_mutex_lock(&context->lock);
    pthread_mutex_unlock(&context->lock);
}

/* ---- ordinary contexts ---- */

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    SIM_ENTER();
    if (context == NULL || (flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0 || stack.depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    CUresult result = sim_context_make(device, flags, false, context);
    pthread_mutex_unlock(&sim.lock);
    if (result == CUDA_SUCCESS) {
        sim_context_remember(*context);
        stack.at[stack.depth++] = *context;
    }
    return result;
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device)
{
    SIM_ENTER();
    if (affinity != NULL || count != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    SIM_ENTER();
    if (params != NULL && (params->numExecAffinityParams != 0 || params->cigParams != NULL))
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    SIM_ENTER();
    if (!sim_is(context, SIM_CONTEXT) || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth > 0 && stack.at[stack.depth - 1] == context)
        stack.depth--;
    sim_context_forget(context);
    sim_context_destroy(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
    SIM_ENTER();
    if (context == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_current(context));
    (*context)->attached++;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context)
{
    CUcontext current;
    SIM_TRY(sim_current(&current));
    if (context != current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->attached > 0) {
        context->attached--;
        return CUDA_SUCCESS;
    }
    return cuCtxDestroy_v2(context);
}

/* The forms from before CUDA 4.0, which the driver exports under these names. The first differs in the API version of its context only. */
CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) { return cuCtxCreate_v2(context, flags, device); }

/* A context that is attached more than once is refused. One that is current to another thread would be, too; that is not simulated. */
CUresult cuCtxDestroy(CUcontext context)
{
    SIM_ENTER();
    if (sim_is(context, SIM_CONTEXT) && context->attached > 0)
        return CUDA_ERROR_INVALID_VALUE;
    return cuCtxDestroy_v2(context);
}

/* ---- the thread's stack ---- */

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    SIM_ENTER();
    if (!sim_is_live(context, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY((CUresult)atomic_load(&context->error));
    stack.at[stack.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    SIM_ENTER();
    if (stack.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack.depth--;
    if (context != NULL)
        *context = stack.at[stack.depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    SIM_ENTER();
    if (context == NULL) {
        if (stack.depth > 0)
            stack.depth--;
        return CUDA_SUCCESS;
    }
    if (!sim_is(context, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth == 0)
        stack.depth = 1;
    stack.at[stack.depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    SIM_ENTER();
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *context = stack.depth > 0 ? stack.at[stack.depth - 1] : NULL;
    return sim_is(*context, SIM_CONTEXT) ? (CUresult)atomic_load(&(*context)->error) : CUDA_SUCCESS; /* as every call after a fault */
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    SIM_ENTER();
    if (context == NULL)
        SIM_TRY(sim_current(&context));
    SIM_TRY(sim_context_check(context));
    SIM_TRY(sim_capture_no_context_sync(context));
    SIM_TRY(sim_context_drain(context));
    sim_pool_trim_all(context->card);
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    return cuCtxSynchronize_v2(context);
}
