/* Kernels of libraries: a launch takes them in place of functions, and the mover asks the driver about the parameters of either. */
#include "hooks/hooks.h"
#include "memory/entries.h"
#include "memory/memory.h"

static void note(CUkernel kernel, CUlibrary library)
{
    struct nvs_ledger_entry entry = {.key = (uintptr_t)kernel, .owner = (uintptr_t)library, .kind = NVS_KIND_KERNEL};
    if (kernel)
        nvs_entries_note(&entry);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    NVS_BEGIN_HOOK(cuLibraryGetKernel(kernel, library, name));
    CUresult result = nvs_real.cuLibraryGetKernel(kernel, library, name);
    if (result == CUDA_SUCCESS)
        note(*kernel, library);
    return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library)
{
    NVS_BEGIN_HOOK(cuLibraryEnumerateKernels(kernels, count, library));
    unsigned known = 0;
    CUresult result = nvs_real.cuLibraryEnumerateKernels(kernels, count, library);
    if (result == CUDA_SUCCESS && nvs_real.cuLibraryGetKernelCount(&known, library) == CUDA_SUCCESS)
        for (unsigned i = 0; i < count && i < known; i++)
            note(kernels[i], library);
    return result;
}

/* Before the driver's call: another function may get such a handle at once. */
CUresult cuLibraryUnload(CUlibrary library)
{
    NVS_BEGIN_HOOK(cuLibraryUnload(library));
    nvs_entries_forget(NVS_KIND_KERNEL, (uintptr_t)library);
    return nvs_real.cuLibraryUnload(library);
}
