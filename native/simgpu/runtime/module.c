/* What nvcc's host code registers before main: a fat binary per translation unit, a host function per kernel, a host
 * variable per device variable. Nothing of it reaches the driver until it is first used, because at that time no driver
 * may be loaded yet. A lookup is on the path of every launch and takes no lock: entries are only ever added at the
 * head of a chain, and one that is unregistered is emptied, not freed.
 *
 * A fat binary becomes one driver library (cuLibraryLoadData), which serves every context.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum { BUCKETS = 1 << 14, WRAPPER_MAGIC = 0x466243b1 };

/* How nvcc wraps the image: magic, version, the image, and for separate compilation further images. */
struct wrapper {
    int magic, version;
    const void *data;
    void *more;
};

struct image {
    void *handle[1]; /* what nvcc's code passes back; its address is the handle */
    const struct wrapper *wrapper;
    CUlibrary library; /* NULL until first used */
    struct image *next;
};

enum kind { KERNEL, VARIABLE, MANAGED };

struct entry {
    const void *_Atomic host;
    struct image *image; /* NULL for a noted kernel handle */
    const char *name;
    size_t bytes; /* of a variable, as the compiler registered it */
    enum kind kind;
    _Atomic(CUkernel) kernel; /* NULL until first launched */
    struct entry *next;
};

static _Atomic(struct entry *) table[BUCKETS];
static struct image *images; /* every one ever registered, so that handles stay valid */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner; /* the process that registered: a forked child must not touch the parent's code */

static _Atomic(struct entry *) *bucket(const void *host)
{
    uint64_t key = (uint64_t)(uintptr_t)host * 0x9e3779b97f4a7c15u;
    return &table[key >> 50];
}

static struct entry *find(const void *host)
{
    struct entry *e = atomic_load_explicit(bucket(host), memory_order_acquire);
    while (e != NULL && atomic_load_explicit(&e->host, memory_order_relaxed) != host)
        e = e->next;
    return e;
}

static void insert(struct entry *e)
{
    pthread_mutex_lock(&registry);
    _Atomic(struct entry *) *head = bucket(e->host);
    e->next = atomic_load_explicit(head, memory_order_relaxed);
    atomic_store_explicit(head, e, memory_order_release);
    pthread_mutex_unlock(&registry);
}

static void add(void **handle, const void *host, const char *name, size_t bytes, enum kind kind)
{
    struct entry *e = calloc(1, sizeof *e);
    if (e == NULL || handle == NULL)
        return;
    *e = (struct entry){.host = host, .image = (struct image *)handle, .name = name, .bytes = bytes, .kind = kind};
    insert(e);
}

void rt_note_kernel(CUkernel kernel)
{
    struct entry *e = find(kernel) == NULL ? calloc(1, sizeof *e) : NULL;
    if (e == NULL)
        return;
    *e = (struct entry){.host = kernel, .kernel = kernel, .kind = KERNEL};
    insert(e);
}

void rt_forget_kernel(CUkernel kernel)
{
    struct entry *e = find(kernel);
    if (e != NULL && e->image == NULL)
        atomic_store(&e->host, NULL);
}

/* With the registry locked. */
static cudaError_t load(struct image *image)
{
    if (image->library != NULL)
        return cudaSuccess;
    if (image->wrapper == NULL || image->wrapper->magic != WRAPPER_MAGIC)
        return cudaErrorInvalidKernelImage;
    return rt_error(rt_legacy.LibraryLoadData(&image->library, image->wrapper->data, NULL, NULL, 0, NULL, NULL, 0));
}

static cudaError_t resolve(struct entry *e, CUkernel *kernel)
{
    pthread_mutex_lock(&registry);
    cudaError_t error = load(e->image);
    if (!error)
        error = rt_error(rt_legacy.LibraryGetKernel(kernel, e->image->library, e->name));
    if (!error)
        atomic_store_explicit(&e->kernel, *kernel, memory_order_release);
    pthread_mutex_unlock(&registry);
    return error == cudaErrorSymbolNotFound ? cudaErrorInvalidDeviceFunction : error;
}

cudaError_t rt_kernel_of(const void *function, CUkernel *kernel)
{
    struct entry *e = function == NULL ? NULL : find(function);
    if (e == NULL || e->kind != KERNEL)
        return cudaErrorInvalidDeviceFunction;
    *kernel = atomic_load_explicit(&e->kernel, memory_order_acquire);
    return *kernel != NULL ? cudaSuccess : resolve(e, kernel);
}

const void *rt_host_of(CUfunction wanted)
{
    for (int i = 0; i < BUCKETS; i++)
        for (struct entry *e = atomic_load(&table[i]); e != NULL; e = e->next) {
            CUkernel kernel = atomic_load(&e->kernel);
            CUfunction function = NULL;
            if (kernel != NULL && ((CUfunction)kernel == wanted ||
                                   (rt_legacy.KernelGetFunction(&function, kernel) == CUDA_SUCCESS && function == wanted)))
                return atomic_load(&e->host);
        }
    return NULL;
}

cudaError_t rt_symbol_of(const void *symbol, CUdeviceptr *address, size_t *bytes)
{
    struct entry *e = symbol == NULL ? NULL : find(symbol);
    if (e == NULL || e->kind == KERNEL)
        return cudaErrorInvalidSymbol;
    pthread_mutex_lock(&registry);
    cudaError_t error = load(e->image);
    if (!error)
        error = rt_error(e->kind == MANAGED ? rt_legacy.LibraryGetManaged(address, bytes, e->image->library, e->name)
                                            : rt_legacy.LibraryGetGlobal(address, bytes, e->image->library, e->name));
    pthread_mutex_unlock(&registry);
    if (!error && *bytes < e->bytes)
        error = cudaErrorInvalidSymbol; /* the image has a smaller one of that name */
    if (!error)
        *bytes = e->bytes;
    return error == cudaErrorSymbolNotFound ? cudaErrorInvalidSymbol : error;
}

RT_API void **__cudaRegisterFatBinary(void *wrapper);
RT_API void **__cudaRegisterFatBinary(void *wrapper)
{
    struct image *image = calloc(1, sizeof *image);
    if (image == NULL)
        return NULL;
    image->wrapper = wrapper;
    image->handle[0] = image;
    pthread_mutex_lock(&registry);
    if (images == NULL)
        owner = getpid();
    image->next = images;
    images = image;
    pthread_mutex_unlock(&registry);
    return image->handle;
}

RT_API void __cudaRegisterFatBinaryEnd(void **handle);
RT_API void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

/* At exit or dlclose: the host addresses may be reused by another library, so they must not be found again. A forked child
 * that exits changes nothing: the state of the driver and of our lock is unknown there. */
RT_API void __cudaUnregisterFatBinary(void **handle);
RT_API void __cudaUnregisterFatBinary(void **handle)
{
    struct image *image = (struct image *)handle;
    if (image == NULL || getpid() != owner)
        return;
    pthread_mutex_lock(&registry);
    for (int i = 0; i < BUCKETS; i++)
        for (struct entry *e = atomic_load(&table[i]); e != NULL; e = e->next)
            if (e->image == image)
                atomic_store(&e->host, NULL);
    if (image->library != NULL)
        rt_legacy.LibraryUnload(image->library);
    image->library = NULL;
    pthread_mutex_unlock(&registry);
}

RT_API void __cudaRegisterFunction(void **handle, const char *host, char *device_function, const char *name, int thread_limit,
                                   void *tid, void *bid, void *block, void *grid, int *warp);
RT_API void __cudaRegisterFunction(void **handle, const char *host, char *device_function, const char *name, int thread_limit,
                                   void *tid, void *bid, void *block, void *grid, int *warp)
{
    (void)device_function, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add(handle, host, name, 0, KERNEL);
}

RT_API void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int ext, size_t bytes, int constant, int global);
RT_API void __cudaRegisterVar(void **handle, char *host, char *address, const char *name, int ext, size_t bytes, int constant, int global)
{
    (void)address, (void)ext, (void)constant, (void)global;
    add(handle, host, name, bytes, VARIABLE);
}

RT_API void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name, int ext, size_t bytes, int constant,
                                     int global);
RT_API void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name, int ext, size_t bytes, int constant,
                                     int global)
{
    (void)address, (void)ext, (void)constant, (void)global;
    add(handle, host, name, bytes, MANAGED);
}

/* Before main's first use of a managed variable: its host pointer gets the address. */
static void bind_managed(struct image *image)
{
    for (int i = 0; i < BUCKETS; i++)
        for (struct entry *e = atomic_load(&table[i]); e != NULL; e = e->next) {
            CUdeviceptr address;
            size_t bytes;
            const void *host = atomic_load(&e->host);
            if (e->image == image && e->kind == MANAGED && host != NULL && rt_symbol_of(host, &address, &bytes) == cudaSuccess)
                *(void **)(uintptr_t)host = (void *)(uintptr_t)address;
        }
}

RT_API char __cudaInitModule(void **handle);
RT_API char __cudaInitModule(void **handle)
{
    if (handle != NULL && rt_enter() == cudaSuccess)
        bind_managed((struct image *)handle);
    return 1;
}

static cudaError_t symbol_address(void **address, size_t *bytes, const void *symbol)
{
    CUdeviceptr at = 0;
    size_t size = 0;
    cudaError_t error = rt_symbol_of(symbol, &at, &size);
    if (error == cudaSuccess && address != NULL)
        *address = (void *)(uintptr_t)at;
    if (error == cudaSuccess && bytes != NULL)
        *bytes = size;
    return error;
}

RT_CALL(cudaGetSymbolAddress, (void **address, const void *symbol), ((void)d, symbol_address(address, NULL, symbol)))
RT_CALL(cudaGetSymbolSize, (size_t *bytes, const void *symbol), ((void)d, symbol_address(NULL, bytes, symbol)))
