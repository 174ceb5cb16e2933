/* The first calls of a process that gets no memory from the kernel: the library cannot set itself up, and the driver answers. Linked with
 * the driver, because a lookup would make the library find the driver's functions earlier. */
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda_api.h"
#include "lib_check.h"

static bool is_refused;

/* The library finds this program's function, not that of the C library. */
__attribute__((visibility("default"))) void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (is_refused) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}

int main(void)
{
    CUcontext context;
    CUdeviceptr memory;
    size_t available, total;
    is_refused = true;
    EQUAL(cuMemFree_v2(4096), CUDA_SUCCESS);
    EQUAL(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
    is_refused = false;
    EQUAL(cuInit(0), CUDA_SUCCESS);
    EQUAL(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    EQUAL(cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
    EQUAL(cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    EQUAL(total - available, 4096);
    return DONE();
}
