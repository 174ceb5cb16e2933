/* The public face of the stand-in CUDA runtime: the types, constants and signatures that programs compiled
 * against CUDA 12 or 13 pass over the ABI. Only facts of that ABI live here; two layouts differ between the
 * majors, and NVS_CUDART_MAJOR (12 or 13) selects one. Handles are the driver's own handles, as they are in the
 * real runtime, so a program may mix both APIs.
 */
#ifndef CUDART_API_H
#define CUDART_API_H

#include <stddef.h>

#include "cuda_api.h"

#ifndef NVS_CUDART_MAJOR
#define NVS_CUDART_MAJOR 12
#endif
#if NVS_CUDART_MAJOR == 12
#define NVS_CUDART_VERSION 12080
#else
#define NVS_CUDART_VERSION 13000
#endif

typedef int cudaError_t;

enum {
#define RT_ERROR(value, name, text) name = value,
#include "runtime/errors.def"
#undef RT_ERROR
};

typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
typedef CUgraph cudaGraph_t;
typedef CUgraphNode cudaGraphNode_t;
typedef CUgraphExec cudaGraphExec_t;
typedef CUmemoryPool cudaMemPool_t;
typedef CUfunction cudaFunction_t;
typedef CUkernel cudaKernel_t;
typedef CUlibrary cudaLibrary_t;
typedef struct cudaArray *cudaArray_t;
typedef const struct cudaArray *cudaArray_const_t;

typedef void (*cudaHostFn_t)(void *user);
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void *user);

#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)
#define cudaStreamNonBlocking 1u
#define cudaEventDisableTiming 2u
#define cudaEventInterprocess 4u
#define cudaMemAttachGlobal 1u
#define cudaHostAllocPortable 1u
#define cudaHostAllocMapped 2u
#define cudaCpuDeviceId (-1)

typedef struct {
    unsigned x, y, z;
} dim3;

enum { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
enum { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive, cudaStreamCaptureStatusInvalidated };
enum { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound, cudaDriverEntryPointVersionNotSufficent };
enum { cudaEnableDefault, cudaEnableLegacyStream, cudaEnablePerThreadDefaultStream };
enum { cudaMemPoolAttrReleaseThreshold = 4, cudaMemPoolAttrReservedMemCurrent = 5, cudaMemPoolAttrUsedMemCurrent = 7 };
enum { cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrWarpSize = 10, cudaDevAttrMultiProcessorCount = 16 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };

typedef CUipcMemHandle cudaIpcMemHandle_t;
typedef CUipcEventHandle cudaIpcEventHandle_t;
typedef CUuuid cudaUUID_t;

struct cudaExtent {
    size_t width, height, depth;
};
struct cudaPos {
    size_t x, y, z;
};
struct cudaPitchedPtr {
    void *ptr;
    size_t pitch, xsize, ysize;
};
struct cudaChannelFormatDesc {
    int x, y, z, w;
    int f; /* 0 signed, 1 unsigned, 2 float, 3 none */
};

struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    struct cudaPos srcPos;
    struct cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    struct cudaPos dstPos;
    struct cudaPitchedPtr dstPtr;
    struct cudaExtent extent;
    int kind;
};

struct cudaPointerAttributes {
    int type;
    int device;
    void *devicePointer;
    void *hostPointer;
#if NVS_CUDART_MAJOR >= 13
    long reserved[8];
#endif
};

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, preferredShmemCarveout;
    int clusterDimMustBeSet, requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
    int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
    int reserved[16];
};

struct cudaMemLocation {
    int type; /* 1 device, 2 host */
    int id;
};
struct cudaMemAccessDesc {
    struct cudaMemLocation location;
    int flags;
};
struct cudaMemPoolProps {
    int allocType, handleTypes;
    struct cudaMemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};

/* An attribute of a launch: 4 bytes of id, 4 of padding, 64 of value; the driver's CUlaunchAttribute is the same. */
typedef struct {
    int id;
    char pad[4];
    char value[64];
} cudaLaunchAttribute;

typedef struct {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
};
struct cudaMemsetParams {
    void *dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};
struct cudaHostNodeParams {
    cudaHostFn_t fn;
    void *userData;
};
typedef struct {
    int result;
    cudaGraphNode_t errorNode, errorFromNode;
} cudaGraphExecUpdateResultInfo;

/* The device properties come from a list, because the two majors disagree on which of them exist. */
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    char luid[8];
    unsigned luidDeviceNodeMask;
#define RT_PROP(type, name, count, attribute) type name count;
#include "runtime/properties.def"
#undef RT_PROP
#if NVS_CUDART_MAJOR == 12
    int reserved[63];
#else
    int reserved[56];
#endif
};

_Static_assert(sizeof(struct cudaDeviceProp) == (NVS_CUDART_MAJOR == 12 ? 1032 : 1008), "cudaDeviceProp");
_Static_assert(sizeof(struct cudaPointerAttributes) == (NVS_CUDART_MAJOR == 12 ? 24 : 88), "cudaPointerAttributes");
_Static_assert(sizeof(struct cudaFuncAttributes) == 144, "cudaFuncAttributes");
_Static_assert(sizeof(struct cudaMemcpy3DParms) == 160, "cudaMemcpy3DParms");
_Static_assert(sizeof(struct cudaMemPoolProps) == 88, "cudaMemPoolProps");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56 && sizeof(cudaLaunchAttribute) == 72, "launch configuration");
_Static_assert(sizeof(struct cudaKernelNodeParams) == 56 && sizeof(struct cudaMemsetParams) == 40, "node parameters");

#endif
