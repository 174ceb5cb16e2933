/* A CUDA program that uses its memory as it is told, one command per line on stdin, one answer "RESULT VALUE" per line on stdout:
 *
 *   init            a context on device 0
 *   alloc N         -> address
 *   free ADDRESS
 *   set ADDRESS N   a memset
 *   touch ADDRESS N TIMES   kernels that get the address and touch N bytes, one after the other
 *   spin US TIMES   kernels without a pointer; they touch all memory of the process
 *   advise ADDRESS N
 *   destroy         the context and all memory in it
 *
 * Each answers when the GPU has done it. */
#include <stdint.h>

#include "lib_driver.h"

static CUcontext context;
static CUfunction touch_kernel, spin_kernel;
static CUresult (*advise)(CUdeviceptr, size_t, CUmem_advise, CUdevice);

static CUresult init(void)
{
    CUmodule module;
    CUresult result = cu.Init(0);
    if (result == CUDA_SUCCESS)
        result = cu.CtxCreate(&context, 0, 0);
    if (result == CUDA_SUCCESS)
        result = cu.ModuleLoadData(&module, "");
    if (result == CUDA_SUCCESS)
        result = cu.ModuleGetFunction(&touch_kernel, module, "sim_touch");
    if (result == CUDA_SUCCESS)
        result = cu.ModuleGetFunction(&spin_kernel, module, "sim_spin_us");
    return result;
}

static CUresult launch(CUfunction kernel, uint64_t first, uint64_t second, uint64_t times)
{
    void *params[] = {&first, &second};
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < times && result == CUDA_SUCCESS; i++) {
        result = cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
        if (result == CUDA_SUCCESS)
            result = cu.CtxSynchronize();
    }
    return result;
}

static CUresult set(uint64_t address, uint64_t bytes)
{
    CUresult result = cu.MemsetD8Async(address, 0, bytes, NULL);
    return result == CUDA_SUCCESS ? cu.CtxSynchronize() : result;
}

static CUresult obey(const char *word, uint64_t a, uint64_t b, uint64_t c, CUdeviceptr *value)
{
    if (!strcmp(word, "init")) return init();
    if (!strcmp(word, "alloc")) return cu.MemAlloc(value, a);
    if (!strcmp(word, "free")) return cu.MemFree(a);
    if (!strcmp(word, "set")) return set(a, b);
    if (!strcmp(word, "touch")) return launch(touch_kernel, a, b, c);
    if (!strcmp(word, "spin")) return launch(spin_kernel, a, 0, b);
    if (!strcmp(word, "advise")) return advise(a, b, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
    if (!strcmp(word, "destroy")) return cu.CtxDestroy(context);
    return CUDA_ERROR_INVALID_VALUE;
}

int main(void)
{
    char line[256], word[32];
    if (lib_driver_find("dlsym"))
        return 1;
    *(void **)&advise = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAdvise");
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        unsigned long long a = 0, b = 0, c = 0;
        CUdeviceptr value = 0;
        if (sscanf(line, "%31s %llu %llu %llu", word, &a, &b, &c) < 1 || !strcmp(word, "exit"))
            return 0;
        CUresult result = obey(word, a, b, c, &value);
        printf("%d %llu\n", (int)result, (unsigned long long)value);
    }
    return 0;
}
