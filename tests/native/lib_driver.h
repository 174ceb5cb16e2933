/* The driver's functions as test programs call them, found in one of the ways that programs use. */
#ifndef LIB_DRIVER_H
#define LIB_DRIVER_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_types.h"

/* F(short name, name for cuGetProcAddress, exported symbol, CUDA version, parameters) */
#define LIB_FUNCTIONS(F) \
    F(Init, cuInit, cuInit, 2000, (unsigned)) \
    F(CtxCreate, cuCtxCreate, cuCtxCreate_v2, 3020, (CUcontext *, unsigned, CUdevice)) \
    F(CtxDestroy, cuCtxDestroy, cuCtxDestroy_v2, 4000, (CUcontext)) \
    F(CtxPopCurrent, cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, (CUcontext *)) \
    F(CtxSetCurrent, cuCtxSetCurrent, cuCtxSetCurrent, 4000, (CUcontext)) \
    F(CtxSynchronize, cuCtxSynchronize, cuCtxSynchronize, 2000, (void)) \
    F(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice)) \
    F(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, (CUdevice)) \
    F(DeviceTotalMem, cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, (size_t *, CUdevice)) \
    F(ModuleLoad, cuModuleLoad, cuModuleLoad, 2000, (CUmodule *, const char *)) \
    F(ModuleLoadData, cuModuleLoadData, cuModuleLoadData, 2000, (CUmodule *, const void *)) \
    F(ModuleGetFunction, cuModuleGetFunction, cuModuleGetFunction, 2000, (CUfunction *, CUmodule, const char *)) \
    F(ModuleGetGlobal, cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020, (CUdeviceptr *, size_t *, CUmodule, const char *)) \
    F(LibraryLoadData, cuLibraryLoadData, cuLibraryLoadData, 12000, (CUlibrary *, const void *, int *, void **, unsigned, int *, void **, unsigned)) \
    F(LibraryGetManaged, cuLibraryGetManaged, cuLibraryGetManaged, 12000, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
    F(LaunchKernel, cuLaunchKernel, cuLaunchKernel, 4000, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
    F(MemAlloc, cuMemAlloc, cuMemAlloc_v2, 3020, (CUdeviceptr *, size_t)) \
    F(MemAllocManaged, cuMemAllocManaged, cuMemAllocManaged, 6000, (CUdeviceptr *, size_t, unsigned)) \
    F(MemAllocPitch, cuMemAllocPitch, cuMemAllocPitch_v2, 3020, (CUdeviceptr *, size_t *, size_t, size_t, unsigned)) \
    F(MemAllocAsync, cuMemAllocAsync, cuMemAllocAsync, 11020, (CUdeviceptr *, size_t, CUstream)) \
    F(MemAllocFromPoolAsync, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
    F(MemPoolCreate, cuMemPoolCreate, cuMemPoolCreate, 11020, (CUmemoryPool *, const CUmemPoolProps *)) \
    F(MemGetDefaultMemPool, cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000, (CUmemoryPool *, CUmemLocation *, int)) \
    F(MemGetMemPool, cuMemGetMemPool, cuMemGetMemPool, 13000, (CUmemoryPool *, CUmemLocation *, int)) \
    F(CtxSetLimit, cuCtxSetLimit, cuCtxSetLimit, 3010, (CUlimit, size_t)) \
    F(MemFree, cuMemFree, cuMemFree_v2, 3020, (CUdeviceptr)) \
    F(MemFreeAsync, cuMemFreeAsync, cuMemFreeAsync, 11020, (CUdeviceptr, CUstream)) \
    F(MemCreate, cuMemCreate, cuMemCreate, 10020, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
    F(MemRelease, cuMemRelease, cuMemRelease, 10020, (CUmemGenericAllocationHandle)) \
    F(MemAddressReserve, cuMemAddressReserve, cuMemAddressReserve, 10020, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
    F(MemMap, cuMemMap, cuMemMap, 10020, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
    F(MemUnmap, cuMemUnmap, cuMemUnmap, 10020, (CUdeviceptr, size_t)) \
    F(ArrayCreate, cuArrayCreate, cuArrayCreate_v2, 3020, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *)) \
    F(ArrayDestroy, cuArrayDestroy, cuArrayDestroy, 2000, (CUarray)) \
    F(MemHostRegister, cuMemHostRegister, cuMemHostRegister_v2, 6050, (void *, size_t, unsigned)) \
    F(LaunchHostFunc, cuLaunchHostFunc, cuLaunchHostFunc, 10000, (CUstream, CUhostFn, void *)) \
    F(MemsetD32Async, cuMemsetD32Async, cuMemsetD32Async, 3020, (CUdeviceptr, unsigned, size_t, CUstream)) \
    F(MemGetInfo, cuMemGetInfo, cuMemGetInfo_v2, 3020, (size_t *, size_t *)) \
    F(MemcpyHtoD, cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, (CUdeviceptr, const void *, size_t)) \
    F(MemcpyDtoH, cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, (void *, CUdeviceptr, size_t)) \
    F(StreamCreate, cuStreamCreate, cuStreamCreate, 2000, (CUstream *, unsigned)) \
    F(StreamDestroy, cuStreamDestroy, cuStreamDestroy_v2, 4000, (CUstream)) \
    F(StreamWriteValue32, cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, (CUstream, CUdeviceptr, unsigned, unsigned)) \
    F(IpcGetMemHandle, cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (CUipcMemHandle *, CUdeviceptr)) \
    F(StreamSynchronize, cuStreamSynchronize, cuStreamSynchronize, 2000, (CUstream)) \
    F(StreamWaitEvent, cuStreamWaitEvent, cuStreamWaitEvent, 3020, (CUstream, CUevent, unsigned)) \
    F(StreamBeginCapture, cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, (CUstream, CUstreamCaptureMode)) \
    F(StreamEndCapture, cuStreamEndCapture, cuStreamEndCapture, 10000, (CUstream, CUgraph *)) \
    F(EventCreate, cuEventCreate, cuEventCreate, 2000, (CUevent *, unsigned)) \
    F(EventRecord, cuEventRecord, cuEventRecord, 2000, (CUevent, CUstream)) \
    F(EventDestroy, cuEventDestroy, cuEventDestroy_v2, 4000, (CUevent)) \
    F(GraphCreate, cuGraphCreate, cuGraphCreate, 10000, (CUgraph *, unsigned)) \
    F(GraphAddMemAllocNode, cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *)) \
    F(GraphGetNodes, cuGraphGetNodes, cuGraphGetNodes, 10000, (CUgraph, CUgraphNode *, size_t *)) \
    F(GraphNodeGetType, cuGraphNodeGetType, cuGraphNodeGetType, 10000, (CUgraphNode, CUgraphNodeType *)) \
    F(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, (CUgraphExec *, CUgraph, unsigned long long)) \
    F(GraphLaunch, cuGraphLaunch, cuGraphLaunch, 10000, (CUgraphExec, CUstream)) \
    F(GraphExecDestroy, cuGraphExecDestroy, cuGraphExecDestroy, 10000, (CUgraphExec)) \
    F(GraphDestroy, cuGraphDestroy, cuGraphDestroy, 10000, (CUgraph)) \
    F(MemsetD8Async, cuMemsetD8Async, cuMemsetD8Async, 3020, (CUdeviceptr, unsigned char, size_t, CUstream))

static struct {
#define LIB_FIELD(name, asked, symbol, version, params) CUresult (*name) params;
    LIB_FUNCTIONS(LIB_FIELD)
} cu;

#ifdef LIB_LINKED
#define LIB_EXTERN(name, asked, symbol, version, params) extern CUresult symbol params;
LIB_FUNCTIONS(LIB_EXTERN)
#endif

static inline int lib_driver_find(const char *how)
{
#ifdef LIB_LINKED
    (void)how;
#define LIB_TAKE(name, asked, symbol, version, params) cu.name = symbol;
    LIB_FUNCTIONS(LIB_TAKE)
    return 0;
#else
    bool is_global = !strcmp(how, "default");
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | (is_global ? RTLD_GLOBAL : 0)), *where = is_global ? RTLD_DEFAULT : driver;
    CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) = NULL;
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    *(void **)&ask = dlsym(driver, "cuGetProcAddress_v2");
    if (!strcmp(how, "procaddress")) {
#define LIB_ASK(name, asked, symbol, version, params) \
        if (ask(#asked, (void **)&cu.name, version, 0, NULL) != CUDA_SUCCESS) \
            return fprintf(stderr, "no %s\n", #asked), -1;
        LIB_FUNCTIONS(LIB_ASK)
    } else {
#define LIB_LOOK(name, asked, symbol, version, params) \
        if (!(*(void **)&cu.name = dlsym(where, #symbol))) \
            return fprintf(stderr, "no %s\n", #symbol), -1;
        LIB_FUNCTIONS(LIB_LOOK)
    }
    return 0;
#endif
}

#endif
