/* Streams, events, launches and code: order, time, the two default streams, waiting. */
#include "simgpu_check.h"

static CUstream new_stream(unsigned flags)
{
    CUstream stream = NULL;
    OK(cuStreamCreate, &stream, flags);
    return stream;
}

static void properties(CUcontext context)
{
    CUstream stream = NULL;
    int priority = 9;
    unsigned flags = 9;
    unsigned long long id = 0, other = 0;
    CUcontext seen = NULL;
    CUdevice device = 9;
    CUstreamAttrValue value = {.words = {42}}, got = {.words = {0}};
    OK(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, -3);
    PTSZ(CUDA_SUCCESS, cuStreamGetPriority, stream, &priority);
    PTSZ(CUDA_SUCCESS, cuStreamGetFlags, stream, &flags);
    TRUE_(priority == -3 && flags == CU_STREAM_NON_BLOCKING);
    PTSZ(CUDA_SUCCESS, cuStreamGetId, stream, &id);
    OK(cuStreamGetId, NULL, &other);
    TRUE_(id != other);
    OK(cuStreamGetId_ptsz, NULL, &id); /* NULL is another stream for the per-thread function */
    TRUE_(id != other);
    PTSZ(CUDA_SUCCESS, cuStreamGetCtx, stream, &seen);
    PTSZ(CUDA_SUCCESS, cuStreamGetDevice, stream, &device);
    TRUE_(seen == context && device == 0);
    PTSZ(CUDA_SUCCESS, cuStreamSetAttribute, stream, 3, &value);
    CUstream copy = new_stream(0);
    PTSZ(CUDA_SUCCESS, cuStreamCopyAttributes, copy, stream);
    PTSZ(CUDA_SUCCESS, cuStreamGetAttribute, copy, 3, &got);
    TRUE_(got.words[0] == 42);
    OK(cuStreamDestroy_v2, stream);
    IS(BAD_HANDLE, cuStreamDestroy_v2, stream);
    IS(BAD_HANDLE, cuStreamQuery, stream);
    IS(BAD_HANDLE, cuStreamDestroy_v2, NULL);
    IS(BAD_VALUE, cuStreamCreate, &stream, 99);
    double began = seconds();
    TRUE_(spin(copy, 20000) == CUDA_SUCCESS);
    OK(cuStreamDestroy, copy); /* waits for the kernel */
    TRUE_(seconds() - began >= 0.0199);
    IS(BAD_HANDLE, cuStreamDestroy, copy);
    IS(BAD_HANDLE, cuStreamDestroy, NULL);
}

static void events(void)
{
    CUevent a = NULL, b = NULL, untimed = NULL;
    CUipcEventHandle handle;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    float ms = 0;
    OK(cuEventCreate, &a, 0);
    OK(cuEventCreate, &b, CU_EVENT_BLOCKING_SYNC);
    OK(cuEventCreate, &untimed, CU_EVENT_DISABLE_TIMING);
    IS(BAD_VALUE, cuEventCreate, &untimed, CU_EVENT_INTERPROCESS); /* only without timing */
    OK(cuEventQuery, a); /* never recorded: complete */
    IS(BAD_HANDLE, cuEventElapsedTime, &ms, a, b);
    hold(stream);
    PTSZ(CUDA_SUCCESS, cuEventRecord, a, stream);
    TRUE_(spin(stream, 30000) == CUDA_SUCCESS);
    PTSZ(CUDA_SUCCESS, cuEventRecordWithFlags, b, stream, CU_EVENT_RECORD_DEFAULT);
    OK(cuEventRecord, untimed, stream);
    IS(CUDA_ERROR_NOT_READY, cuEventQuery, b);
    IS(CUDA_ERROR_NOT_READY, cuEventElapsedTime, &ms, a, b);
    PTSZ(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
    let_go();
    OK(cuEventSynchronize, b);
    OK(cuEventQuery, b);
    OK(cuEventElapsedTime, &ms, a, b);
    TRUE_(ms > 29.9 && ms < 30.1); /* the card's own time, whatever the machine does */
    OK(cuEventElapsedTime_v2, &ms, a, b);
    PTSZ(CUDA_SUCCESS, cuStreamSynchronize, stream);
    PTSZ(CUDA_SUCCESS, cuStreamQuery, stream);
    IS(BAD_HANDLE, cuEventElapsedTime, &ms, a, untimed);
    IS(BAD_VALUE, cuIpcGetEventHandle, &handle, a);
    IS(BAD_VALUE, cuIpcOpenEventHandle, &b, (CUipcEventHandle){{0}});
    OK(cuEventDestroy_v2, a);
    IS(BAD_HANDLE, cuEventDestroy_v2, a);
    OK(cuEventDestroy_v2, b);
    OK(cuEventDestroy_v2, untimed);
    OK(cuStreamDestroy_v2, stream);
}

/* An event makes one stream wait for another; an event destroyed meanwhile still does. */
static void waiting_for_events(CUcontext context)
{
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = NULL, whole = NULL;
    CUdeviceptr flag = 0;
    OK(cuMemAlloc_v2, &flag, 8);
    OK(cuMemsetD32_v2, flag, 0, 2);
    OK(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    OK(cuEventCreate, &whole, CU_EVENT_DISABLE_TIMING);
    hold(first);
    OK(cuEventRecord, event, first);
    PTSZ(CUDA_SUCCESS, cuStreamWaitEvent, second, event, 0);
    PTSZ(CUDA_SUCCESS, cuStreamWriteValue32, second, flag, 7, 0);
    OK(cuEventDestroy_v2, event);
    TRUE_(*(volatile unsigned *)(uintptr_t)flag == 0);
    let_go();
    OK(cuStreamSynchronize, second);
    TRUE_(*(volatile unsigned *)(uintptr_t)flag == 7);
    OK(cuStreamQuery, first);
    OK(cuCtxRecordEvent, context, whole);
    OK(cuCtxWaitEvent, context, whole);
    OK(cuEventSynchronize, whole);
    OK(cuEventDestroy_v2, whole);
    OK(cuMemFree_v2, flag);
    OK(cuStreamDestroy_v2, first);
    OK(cuStreamDestroy_v2, second);
}

/* A wait is for the record that was the last one when it was called, even if a later record is retired first. */
static void records_out_of_order(void)
{
    CUstream slow = new_stream(CU_STREAM_NON_BLOCKING), fast = new_stream(CU_STREAM_NON_BLOCKING), third = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = NULL;
    OK(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    hold(slow);
    OK(cuEventRecord, event, slow);
    OK(cuStreamWaitEvent, third, event, 0);
    OK(cuEventRecord, event, fast);
    OK(cuEventSynchronize, event); /* the last record is what is asked for */
    OK(cuEventQuery, event);
    IS(CUDA_ERROR_NOT_READY, cuStreamQuery, third);
    let_go();
    OK(cuStreamSynchronize, third);
    OK(cuStreamSynchronize, slow);
    OK(cuEventQuery, event); /* the older record does not undo it */
    OK(cuEventDestroy_v2, event);
    OK(cuStreamDestroy_v2, slow);
    OK(cuStreamDestroy_v2, fast);
    OK(cuStreamDestroy_v2, third);
}

/* Streams of two cards wait for each other. */
static void across_cards(CUcontext context)
{
    CUcontext second = NULL;
    CUstream here = new_stream(CU_STREAM_NON_BLOCKING), there = NULL;
    CUevent event = NULL, back = NULL;
    OK(cuDevicePrimaryCtxRetain, &second, 1);
    OK(cuCtxPushCurrent_v2, second);
    OK(cuStreamCreate, &there, CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate, &back, CU_EVENT_DISABLE_TIMING);
    OK(cuCtxPopCurrent_v2, NULL);
    OK(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    IS(BAD_HANDLE, cuEventRecord, event, there); /* an event is recorded on its own card */
    for (int i = 0; i < 200; i++) {
        TRUE_(spin(here, 10) == CUDA_SUCCESS);
        OK(cuEventRecord, event, here);
        OK(cuStreamWaitEvent, there, event, 0);
        OK(cuEventRecord, back, there);
        OK(cuStreamWaitEvent, here, back, 0);
    }
    OK(cuStreamSynchronize, here);
    OK(cuStreamSynchronize, there);
    OK(cuStreamDestroy_v2, here);
    OK(cuStreamDestroy_v2, there);
    OK(cuEventDestroy_v2, event);
    OK(cuEventDestroy_v2, back);
    OK(cuDevicePrimaryCtxRelease_v2, 1);
    OK(cuCtxSetCurrent, context);
}

/* The legacy stream waits for blocking streams and they for it; non-blocking ones go their own way. */
static void legacy_stream(void)
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_one = new_stream(CU_STREAM_NON_BLOCKING);
    hold(free_one);
    TRUE_(spin(NULL, 10) == CUDA_SUCCESS);
    OK(cuStreamSynchronize, NULL);
    IS(CUDA_ERROR_NOT_READY, cuStreamQuery, free_one);
    let_go();
    OK(cuStreamSynchronize, free_one);
    hold(blocking);
    IS(CUDA_ERROR_NOT_READY, cuStreamQuery, NULL); /* it would have to wait */
    let_go();
    OK(cuStreamSynchronize, NULL);
    OK(cuStreamQuery, blocking);
    TRUE_(spin(NULL, 50000) == CUDA_SUCCESS);
    TRUE_(spin(blocking, 10) == CUDA_SUCCESS);
    OK(cuStreamSynchronize, blocking); /* behind the legacy stream's kernel */
    OK(cuStreamQuery, NULL);
    hold(CU_STREAM_PER_THREAD);
    IS(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz, NULL);
    let_go();
    OK(cuStreamSynchronize_ptsz, NULL);
    OK(cuStreamQuery, CU_STREAM_LEGACY);
    OK(cuStreamDestroy_v2, blocking);
    OK(cuStreamDestroy_v2, free_one);
}

static void *thread_streams(void *out)
{
    CUcontext context = out;
    unsigned long long *id = malloc(sizeof *id);
    cuCtxSetCurrent(context);
    cuStreamGetId_ptsz(NULL, id);
    return id;
}

static void each_thread_has_its_own_stream(CUcontext context)
{
    pthread_t thread;
    void *other = NULL;
    unsigned long long own = 0, again = 0;
    OK(cuStreamGetId_ptsz, NULL, &own);
    OK(cuStreamGetId, CU_STREAM_PER_THREAD, &again);
    TRUE_(own == again);
    pthread_create(&thread, NULL, thread_streams, context);
    pthread_join(thread, &other);
    TRUE_(*(unsigned long long *)other != own);
    free(other);
}

static void values_in_memory(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    unsigned long long *cell = NULL;
    OK(cuMemHostAlloc, (void **)&cell, 64, 0);
    memset(cell, 0, 64);
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)cell;
    PTSZ(CUDA_SUCCESS, cuStreamWriteValue64, stream, at, 5, 0);
    PTSZ(CUDA_SUCCESS, cuStreamWriteValue32_v2, stream, at + 8, 6, 0);
    PTSZ(CUDA_SUCCESS, cuStreamWriteValue64_v2, stream, at + 16, 7, 0);
    OK(cuStreamSynchronize, stream);
    TRUE_(cell[0] == 5 && cell[1] == 6 && cell[2] == 7);
    PTSZ(CUDA_SUCCESS, cuStreamWaitValue32, stream, at, 5, CU_STREAM_WAIT_VALUE_GEQ);
    PTSZ(CUDA_SUCCESS, cuStreamWaitValue32_v2, stream, at + 8, 2, CU_STREAM_WAIT_VALUE_AND);
    PTSZ(CUDA_SUCCESS, cuStreamWaitValue64, stream, at, 5, CU_STREAM_WAIT_VALUE_EQ);
    PTSZ(CUDA_SUCCESS, cuStreamWaitValue64_v2, stream, at + 24, 0, CU_STREAM_WAIT_VALUE_NOR);
    OK(cuStreamSynchronize, stream);
    OK(cuStreamWaitValue64, stream, at + 32, 1, CU_STREAM_WAIT_VALUE_GEQ);
    IS(CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
    __atomic_store_n(&cell[4], 1, __ATOMIC_RELEASE); /* the host lets it go */
    OK(cuStreamSynchronize, stream);
    CUstreamBatchMemOpParams operations[2] = {{.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = at, .v.value = 9}},
                                              {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .address = at, .v.value64 = 9}}};
    PTSZ(CUDA_SUCCESS, cuStreamBatchMemOp, stream, 2, operations, 0);
    PTSZ(CUDA_SUCCESS, cuStreamBatchMemOp_v2, stream, 2, operations, 0);
    OK(cuStreamSynchronize, stream);
    TRUE_(cell[0] == 9);
    IS(BAD_VALUE, cuStreamWaitValue64, stream, at + 4, 0, 0);
    OK(cuMemFreeHost, cell);
    OK(cuMemAllocManaged, &at, 64, CU_MEM_ATTACH_GLOBAL);
    IS(BAD_VALUE, cuStreamWriteValue32, stream, at, 1, 0); /* managed memory is refused */
    IS(BAD_VALUE, cuStreamWaitValue64_v2, stream, at, 0, 0);
    operations[0].writeValue.address = at;
    IS(BAD_VALUE, cuStreamBatchMemOp, stream, 2, operations, 0);
    OK(cuMemFree_v2, at);
    OK(cuStreamDestroy_v2, stream);
}

/* A kernel that waits for a flag lets kernels of other streams run. */
static void kernel_that_waits(void)
{
    CUstream waiting = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    unsigned long long *flag = NULL, one = 1;
    OK(cuMemHostAlloc, (void **)&flag, 8, 0);
    *flag = 0;
    void *params[] = {&flag, &one};
    OK(cuLaunchKernel, kernel("sim_wait_flag"), 1, 1, 1, 1, 1, 1, 0, waiting, params, NULL);
    TRUE_(spin(other, 1000) == CUDA_SUCCESS);
    OK(cuStreamWriteValue64, other, (CUdeviceptr)(uintptr_t)flag, 1, 0);
    OK(cuStreamSynchronize, waiting);
    OK(cuMemFreeHost, flag);
    OK(cuStreamDestroy_v2, waiting);
    OK(cuStreamDestroy_v2, other);
}

static int calls;
static void count_call(void *data) { calls += *(int *)data; }
static void count_callback(CUstream stream, CUresult status, void *data) { calls += stream != NULL && status == CUDA_SUCCESS ? *(int *)data : 0; }

static void launches(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUfunction function = kernel("some_kernel"), timed = kernel("sim_spin_us");
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, NULL, 0};
    unsigned long long us = 20000;
    void *params[] = {&us}, *extra[] = {(void *)1, &us, (void *)2, &(size_t){sizeof us}, NULL};
    int one = 1;
    PTSZ(CUDA_SUCCESS, cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
    PTSZ(CUDA_SUCCESS, cuLaunchKernelEx, &config, function, NULL, NULL);
    PTSZ(CUDA_SUCCESS, cuLaunchCooperativeKernel, function, 1, 1, 1, 32, 1, 1, 0, stream, NULL);
    CUDA_LAUNCH_PARAMS each = {function, 1, 1, 1, 32, 1, 1, 0, stream, NULL}, nowhere = {function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL};
    OK(cuLaunchCooperativeKernelMultiDevice, &each, 1, 0);
    IS(BAD_HANDLE, cuLaunchCooperativeKernelMultiDevice, &nowhere, 1, 0);
    IS(BAD_VALUE, cuLaunchKernel, function, 0, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
    IS(BAD_VALUE, cuLaunchKernel, function, 1, 1, 1, 2048, 1, 1, 0, stream, NULL, NULL);
    IS(BAD_HANDLE, cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    IS(BAD_VALUE, cuLaunchKernel, timed, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    IS(BAD_VALUE, cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, &(void *){(void *)99});
    double before = seconds();
    OK(cuLaunchKernel, timed, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
    OK(cuLaunchKernel, timed, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra);
    PTSZ(CUDA_SUCCESS, cuLaunchHostFunc, stream, count_call, &one);
    PTSZ(CUDA_SUCCESS, cuStreamAddCallback, stream, count_callback, &one, 0);
    OK(cuStreamSynchronize, stream);
    TRUE_(calls == 4 && seconds() - before >= 0.0399);
    for (int i = 0; i < 5000; i++) /* more than a stream holds */
        OK(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
    OK(cuStreamSynchronize, stream);
    OK(cuStreamDestroy_v2, stream);
}

static const char ptx[] = ".version 8.0\n.target sm_80\n.visible .entry first(\n)\n{\n}\n.entry second(.param .u64 p)\n{\n}\n";

static void modules(void)
{
    CUmodule module = NULL, same = NULL;
    CUfunction function = NULL, list[4];
    CUdeviceptr pointer = 0;
    size_t bytes = 0, offset = 0;
    unsigned count = 0;
    int value = 0;
    const char *name = NULL;
    char path[64];
    snprintf(path, sizeof path, "/tmp/simgpu-check-%d.ptx", (int)getpid());
    FILE *file = fopen(path, "w");
    fputs(ptx, file);
    fclose(file);
    OK(cuModuleLoad, &module, path);
    unlink(path);
    IS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad, &same, path);
    OK(cuModuleUnload, module);
    OK(cuModuleLoadFatBinary, &module, "some fat binary");
    OK(cuModuleUnload, module);
    OK(cuModuleLoadDataEx, &module, ptx, 0, NULL, NULL);
    OK(cuModuleGetFunctionCount, &count, module);
    TRUE_(count == 2);
    OK(cuModuleEnumerateFunctions, list, 4, module);
    OK(cuModuleGetFunction, &function, module, "second");
    TRUE_(function == list[1]);
    IS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "third");
    OK(cuModuleGetGlobal_v2, &pointer, &bytes, module, "table");
    TRUE_(pointer != 0 && bytes > 0);
    OK(cuModuleGetLoadingMode, &value);
    OK(cuFuncGetName, &name, function);
    TRUE_(strcmp(name, "second") == 0);
    OK(cuFuncGetModule, &same, function);
    TRUE_(same == module);
    OK(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    TRUE_(value == 1024);
    OK(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536);
    OK(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    TRUE_(value == 65536);
    OK(cuFuncSetCacheConfig, function, 1);
    OK(cuFuncSetSharedMemConfig, function, 1);
    OK(cuFuncGetParamInfo, function, 0, &offset, &bytes);
    TRUE_(offset == 0 && bytes == 8);
    IS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 1, &offset, &bytes);
    OK(cuFuncIsLoaded, &value, function);
    OK(cuFuncLoad, function);
    OK(cuModuleUnload, module);
    IS(BAD_HANDLE, cuModuleUnload, module);
    IS(BAD_HANDLE, cuFuncLoad, function);
}

static const char param_ptx[] =
    ".version 8.0\n.visible .entry all(\n\t.param .u32 n,\n\t.param .u64 .ptr .global .align 128 p,\n\t.param .align 16 .b8 s[24],\n"
    "\t.param .f16 h,\n\t.param .f64 d\n)\n.entry none\n{\n}\n.entry strange(.param .what x)\n";

static void kernel_parameters(void)
{
    static const size_t offsets[] = {0, 8, 16, 40, 48}, sizes[] = {4, 8, 24, 2, 8};
    CUmodule module = NULL;
    CUfunction function = NULL;
    size_t offset = 0, bytes = 0;
    OK(cuModuleLoadData, &module, param_ptx);
    OK(cuModuleGetFunction, &function, module, "all");
    for (size_t i = 0; i < 5; i++) {
        OK(cuFuncGetParamInfo, function, i, &offset, &bytes);
        TRUE_(offset == offsets[i] && bytes == sizes[i]);
    }
    IS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 5, &offset, &bytes);
    OK(cuModuleGetFunction, &function, module, "none");
    IS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 0, &offset, &bytes);
    OK(cuModuleGetFunction, &function, module, "strange");
    IS(CUDA_ERROR_NOT_SUPPORTED, cuFuncGetParamInfo, function, 0, &offset, &bytes);
    OK(cuModuleUnload, module);
    OK(cuModuleLoadFatBinary, &module, "some fat binary");
    OK(cuModuleGetFunction, &function, module, "any");
    IS(CUDA_ERROR_NOT_SUPPORTED, cuFuncGetParamInfo, function, 0, &offset, &bytes);
    OK(cuModuleUnload, module);
}

static void libraries(void)
{
    CUlibrary library = NULL, same = NULL;
    CUkernel kernel_ = NULL, list[4];
    CUfunction function = NULL;
    CUmodule module = NULL;
    CUdeviceptr pointer = 0;
    size_t bytes = 0, offset = 0;
    unsigned count = 0;
    int value = 0;
    void *nothing = NULL;
    const char *name = NULL;
    IS(CUDA_ERROR_FILE_NOT_FOUND, cuLibraryLoadFromFile, &library, "/no/such/file", NULL, NULL, 0, NULL, NULL, 0);
    OK(cuLibraryLoadData, &library, ptx, NULL, NULL, 0, NULL, NULL, 0);
    OK(cuLibraryGetKernelCount, &count, library);
    OK(cuLibraryEnumerateKernels, list, 4, library);
    OK(cuLibraryGetKernel, &kernel_, library, "first");
    TRUE_(count == 2 && kernel_ == list[0]);
    OK(cuLibraryGetModule, &module, library);
    IS(CUDA_ERROR_NOT_PERMITTED, cuModuleUnload, module);
    OK(cuLibraryGetGlobal, &pointer, &bytes, library, "global");
    OK(cuLibraryGetManaged, &pointer, &bytes, library, "managed");
    IS(CUDA_ERROR_NOT_FOUND, cuLibraryGetUnifiedFunction, &nothing, library, "first");
    OK(cuKernelGetFunction, &function, kernel_);
    OK(cuKernelGetLibrary, &same, kernel_);
    OK(cuKernelGetName, &name, kernel_);
    TRUE_(same == library && strcmp(name, "first") == 0);
    OK(cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1, kernel_, 0);
    OK(cuKernelGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel_, 0);
    TRUE_(value == 1);
    OK(cuKernelSetCacheConfig, kernel_, 2, 0);
    IS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo, kernel_, 0, &offset, &bytes); /* it has none */
    OK(cuLaunchKernel, (CUfunction)kernel_, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL); /* a kernel may stand for its function */
    OK(cuCtxSynchronize);
    OK(cuLibraryUnload, library);
    IS(BAD_HANDLE, cuLibraryUnload, library);
}

static size_t shared_of(int block) { return (size_t)block; }

static void linker_and_occupancy(void)
{
    CUlinkState state = NULL;
    void *image = NULL;
    size_t size = 0;
    CUmodule module = NULL;
    CUfunction function = kernel("some_kernel");
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0};
    int blocks = 0, block = 0;
    OK(cuLinkCreate_v2, 0, NULL, NULL, &state);
    IS(CUDA_ERROR_INVALID_IMAGE, cuLinkComplete, state, &image, &size);
    OK(cuLinkAddData_v2, state, 1, (void *)ptx, sizeof ptx, "name", 0, NULL, NULL);
    IS(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile_v2, state, 1, "/no/such/file", 0, NULL, NULL);
    OK(cuLinkComplete, state, &image, &size);
    OK(cuModuleLoadData, &module, image);
    OK(cuModuleUnload, module);
    OK(cuLinkDestroy, state);
    OK(cuLinkCreate, 0, NULL, NULL, &state);
    OK(cuLinkAddData, state, 1, (void *)ptx, sizeof ptx, "name", 0, NULL, NULL);
    IS(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile, state, 1, "/no/such/file", 0, NULL, NULL);
    OK(cuLinkDestroy, state);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, function, 256, 0);
    TRUE_(blocks == 8);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &blocks, function, 2048, 0, 0);
    TRUE_(blocks == 0);
    OK(cuOccupancyMaxPotentialBlockSize, &blocks, &block, function, shared_of, 0, 0);
    TRUE_(block == 1024 && blocks > 0);
    OK(cuOccupancyMaxPotentialBlockSizeWithFlags, &blocks, &block, function, NULL, 0, 128, 0);
    TRUE_(block == 128);
    OK(cuOccupancyAvailableDynamicSMemPerBlock, &size, function, 2, 128);
    TRUE_(size > 0);
    OK(cuOccupancyMaxPotentialClusterSize, &blocks, function, &config);
    OK(cuOccupancyMaxActiveClusters, &blocks, function, &config);
    TRUE_(blocks > 0);
}

int main(void)
{
    setenv("NVSHARE_SIM_GPUS", "2", 1);
    CUcontext context = start();
    properties(context);
    events();
    waiting_for_events(context);
    records_out_of_order();
    across_cards(context);
    legacy_stream();
    each_thread_has_its_own_stream(context);
    values_in_memory();
    kernel_that_waits();
    launches();
    modules();
    kernel_parameters();
    libraries();
    linker_and_occupancy();
    return done();
}
