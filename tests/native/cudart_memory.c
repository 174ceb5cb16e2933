/* The runtime's memory and copies: what goes in comes out, what is freed is given back, what is wrong is refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cudart_check.h"
#include "cudart_runtime.h"

enum { N = 4096 };

static void fill(unsigned char *at, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (unsigned char)(i * 31 + seed);
}

static void allocation(void)
{
    void *p = &p, *q = NULL;
    size_t before, during, after, total;
    OK(cudaFree(NULL));
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaMalloc(&p, 0));
    CHECK(p == NULL);
    OK(cudaMalloc(&p, 256 << 20));
    OK(cudaMallocManaged(&q, 1 << 20, cudaMemAttachGlobal));
    ((char *)q)[0] = 1; /* managed memory is the host's too */
    OK(cudaMemGetInfo(&during, &total));
    CHECK(before - during >= 256 << 20);
    OK(cudaFree(p));
    OK(cudaFree(q));
    OK(cudaMemGetInfo(&after, &total));
    CHECK(after == before);
    GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 1));
    GIVES(cudaErrorInvalidValue, cudaMallocManaged(&q, 0, cudaMemAttachGlobal));
    GIVES(cudaErrorInvalidValue, cudaFree((void *)0x1234));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&p, total + 1));
}

static void kinds_of_pointers(void)
{
    struct cudaPointerAttributes what;
    void *device, *managed, *host;
    int local;
    OK(cudaMalloc(&device, N));
    OK(cudaMallocManaged(&managed, N, cudaMemAttachGlobal));
    OK(cudaMallocHost(&host, N));
    OK(cudaPointerGetAttributes(&what, device));
    CHECK(what.device == 0 && what.devicePointer == device);
    CHECK(what.type == cudaMemoryTypeDevice); /* also with libnvshare in between, which gives managed memory for it */
    OK(cudaPointerGetAttributes(&what, (char *)managed + 100));
    CHECK(what.type == cudaMemoryTypeManaged && what.hostPointer != NULL);
    OK(cudaPointerGetAttributes(&what, host));
    CHECK(what.type == cudaMemoryTypeHost && what.hostPointer == host);
    OK(cudaPointerGetAttributes(&what, &local));
    CHECK(what.type == cudaMemoryTypeUnregistered && what.devicePointer == NULL);
    OK(cudaFree(device));
    OK(cudaFree(managed));
    OK(cudaFreeHost(host));
}

static void host_memory(void)
{
    void *host, *seen;
    unsigned flags = 0;
    char *own = aligned_alloc(4096, 8192);
    OK(cudaHostAlloc(&host, N, cudaHostAllocPortable | cudaHostAllocMapped));
    OK(cudaHostGetDevicePointer(&seen, host, 0));
    CHECK(seen != NULL);
    OK(cudaHostGetFlags(&flags, host));
    CHECK((flags & cudaHostAllocPortable) != 0);
    OK(cudaFreeHost(host));
    OK(cudaFreeHost(NULL));
    OK(cudaHostRegister(own, 8192, 0));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own, 8192, 0));
    OK(cudaHostUnregister(own));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
    free(own);
}

static void copies(void)
{
    static unsigned char in[N], out[N];
    void *a, *b;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&a, N));
    OK(cudaMalloc(&b, N));
    fill(in, N, 1);
    OK(cudaMemcpy(a, in, N, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, a, N, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(out, b, N, cudaMemcpyDeviceToHost));
    CHECK(memcmp(in, out, N) == 0);
    fill(in, N, 2);
    OK(cudaMemcpyAsync(a, in, N, cudaMemcpyDefault, stream));
    OK(cudaMemcpyAsync(b, a, N, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemcpyAsync_ptsz(out, b, 0, cudaMemcpyDeviceToHost, stream));
    OK(cudaMemcpyAsync(out, b, N, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(memcmp(in, out, N) == 0);
    OK(cudaMemset(a, 0x5a, N));
    OK(cudaMemsetAsync(a, 0xa5, N / 2, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy_ptds(out, a, N, cudaMemcpyDefault));
    CHECK(out[0] == 0xa5 && out[N / 2 - 1] == 0xa5 && out[N / 2] == 0x5a && out[N - 1] == 0x5a);
    OK(cudaMemcpyPeer(b, 0, a, 0, N));
    OK(cudaMemcpyPeerAsync(a, 0, b, 0, N, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(in, b, N, cudaMemcpyDeviceToHost));
    CHECK(memcmp(in, out, N) == 0);
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(a, in, N, 17));
    GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(b, 9, a, 0, N));
    OK(cudaMemcpy(a, in, 0, cudaMemcpyHostToDevice));
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaStreamDestroy(stream));
}

static void copies_in_two_and_three_dimensions(void)
{
    enum { W = 100, H = 8, D = 3 };
    static unsigned char in[W * H * D], out[W * H * D];
    struct cudaPitchedPtr box;
    void *plane;
    size_t pitch;
    fill(in, sizeof in, 7);
    OK(cudaMallocPitch(&plane, &pitch, W, H));
    CHECK(pitch >= W && pitch % 32 == 0);
    OK(cudaMemcpy2D(plane, pitch, in, W, W, H, cudaMemcpyHostToDevice));
    OK(cudaMemset2D(plane, pitch, 0xee, 10, 2));
    OK(cudaMemset2DAsync(plane, pitch, 0xdd, 10, 1, 0));
    OK(cudaMemcpy2DAsync(out, W, plane, pitch, W, H, cudaMemcpyDeviceToHost, 0));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 0xdd && out[W] == 0xee && out[10] == in[10] && memcmp(out + 2 * W, in + 2 * W, (H - 2) * W) == 0);
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(plane, 10, in, W, W, H, cudaMemcpyHostToDevice));
    OK(cudaFree(plane));

    OK(cudaMalloc3D(&box, (struct cudaExtent){W, H, D}));
    struct cudaMemcpy3DParms copy = {.srcPtr = {in, W, W, H}, .dstPtr = box, .extent = {W, H, D}, .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&copy));
    memset(out, 0, sizeof out);
    copy = (struct cudaMemcpy3DParms){.srcPtr = box, .dstPtr = {out, W, W, H}, .extent = {W, H, D}, .kind = cudaMemcpyDeviceToHost};
    OK(cudaMemcpy3DAsync(&copy, 0));
    OK(cudaDeviceSynchronize());
    CHECK(memcmp(in, out, sizeof in) == 0);
    OK(cudaFree(box.ptr));
}

static void arrays(void)
{
    enum { W = 16, H = 4 };
    float in[H][W], out[H][W];
    struct cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 0, 0, 0, 2), got;
    struct cudaExtent extent;
    unsigned flags;
    cudaArray_t flat, deep;
    fill((unsigned char *)in, sizeof in, 9);
    OK(cudaMallocArray(&flat, &desc, W, H, 0));
    OK(cudaMemcpy2DToArray(flat, 0, 0, in, sizeof in[0], sizeof in[0], H, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DFromArray(out, sizeof out[0], flat, 0, 0, sizeof out[0], H, cudaMemcpyDeviceToHost));
    CHECK(memcmp(in, out, sizeof in) == 0);
    OK(cudaArrayGetInfo(&got, &extent, &flags, flat));
    CHECK(extent.width == W && extent.height == H && extent.depth == 0 && got.x == 32 && got.f == 2);
    OK(cudaGetChannelDesc(&got, flat));
    CHECK(memcmp(&got, &desc, sizeof got) == 0);
    OK(cudaFreeArray(flat));
    OK(cudaFreeArray(NULL));
    OK(cudaMalloc3DArray(&deep, &desc, (struct cudaExtent){W, H, 2}, 0));
    struct cudaMemcpy3DParms copy = {.srcPtr = {in, sizeof in[0], W, H}, .dstArray = deep, .extent = {W, H, 1}, .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&copy));
    OK(cudaFreeArray(deep));
    desc.x = 7;
    GIVES(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&flat, &desc, W, H, 0));
}

static void pools(void)
{
    struct cudaMemPoolProps props = {.allocType = 1, .location = {1, 0}};
    struct cudaMemAccessDesc access = {.location = {1, 0}, .flags = 3};
    uint64_t threshold = 1 << 20, value = 0;
    cudaMemPool_t pool, fallback;
    cudaStream_t stream;
    int flags = 0;
    void *p, *q, *none;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    CHECK(value == threshold);
    OK(cudaMemPoolSetAccess(pool, &access, 1));
    OK(cudaMemPoolGetAccess(&flags, pool, &access.location));
    CHECK(flags == 3);
    OK(cudaMallocFromPoolAsync(&p, 4 << 20, pool, stream));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
    CHECK(value >= 4 << 20);
    OK(cudaFreeAsync(p, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &value));
    CHECK(value == 0);
    OK(cudaMemPoolDestroy(pool));
    OK(cudaMallocAsync(&q, 1 << 20, stream));
    OK(cudaMemsetAsync(q, 1, 1 << 20, stream));
    OK(cudaFreeAsync(q, stream));
    OK(cudaFreeAsync(NULL, stream));
    OK(cudaMallocAsync(&none, 0, stream));
    CHECK(none == NULL);
    OK(cudaStreamSynchronize(stream));
    OK(cudaDeviceGetDefaultMemPool(&fallback, 0));
    OK(cudaMemPoolTrimTo(fallback, 0));
    GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&q, (size_t)1 << 50, stream));
    OK(cudaStreamDestroy(stream));
}

static void hints(void)
{
    void *managed;
    int where = 99;
    OK(cudaMallocManaged(&managed, 4 << 20, cudaMemAttachGlobal));
#if NVS_CUDART_MAJOR == 12
    OK(cudaMemAdvise(managed, 4 << 20, 3 /* preferred location */, 0));
    OK(cudaMemPrefetchAsync(managed, 4 << 20, 0, 0));
#else
    OK(cudaMemAdvise(managed, 4 << 20, 3, (struct cudaMemLocation){1, 0}));
    OK(cudaMemPrefetchAsync(managed, 4 << 20, (struct cudaMemLocation){1, 0}, 0, 0));
#endif
    OK(cudaDeviceSynchronize());
    OK(cudaMemRangeGetAttribute(&where, sizeof where, 2 /* preferred location */, managed, 4 << 20));
    CHECK(where == 0);
    int preferred = 99, read_mostly = 99, which[] = {2, 1};
    void *answers[] = {&preferred, &read_mostly};
    size_t sizes[] = {sizeof preferred, sizeof read_mostly};
    OK(cudaMemRangeGetAttributes(answers, sizes, which, 2, managed, 4 << 20));
    CHECK(preferred == 0 && read_mostly == 0);
    OK(cudaStreamAttachMemAsync(0, managed, 0, cudaMemAttachGlobal));
    OK(cudaFree(managed));
}

static void sharing_between_processes(void)
{
    cudaIpcMemHandle_t handle;
    cudaIpcEventHandle_t event_handle;
    cudaEvent_t event, opened;
    void *managed, *mapped;
    OK(cudaMallocManaged(&managed, 1 << 20, cudaMemAttachGlobal));
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, managed)); /* managed memory has none */
    memset(&handle, 0, sizeof handle);
    CHECK(cudaIpcOpenMemHandle(&mapped, handle, 1) != cudaSuccess);
    CHECK(cudaIpcCloseMemHandle(managed) != cudaSuccess);
    OK(cudaFree(managed));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaIpcGetEventHandle(&event_handle, event) != cudaSuccess); /* not made for it */
    memset(&event_handle, 0, sizeof event_handle);
    CHECK(cudaIpcOpenEventHandle(&opened, event_handle) != cudaSuccess);
    OK(cudaEventDestroy(event));
}

int main(void)
{
    allocation();
    kinds_of_pointers();
    host_memory();
    copies();
    copies_in_two_and_three_dimensions();
    arrays();
    pools();
    hints();
    sharing_between_processes();
    return failures != 0;
}
