/* Errors: the thread's last one, and their names. Rules of the runtime: NotReady is an answer, not an error, and is never
 * remembered; cudaGetLastError forgets what it tells, except an error that has ruined the context, which stays until
 * the device is reset.
 */
#include "runtime/runtime.h"

static _Thread_local cudaError_t last;

static const struct {
    cudaError_t value;
    const char *name, *text;
} errors[] = {
#define RT_ERROR(value, name, text) {value, #name, text},
#include "runtime/errors.def"
#undef RT_ERROR
};

enum { ERRORS = sizeof errors / sizeof errors[0] };

static int find(cudaError_t error)
{
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].value == error)
            return i;
    return -1;
}

static int ruins_the_context(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return 1;
    default:
        return 0;
    }
}

cudaError_t rt_error(CUresult result)
{
    return result == CUDA_SUCCESS || find((cudaError_t)result) >= 0 ? (cudaError_t)result : cudaErrorUnknown;
}

cudaError_t rt_leave(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady && !ruins_the_context(last))
        last = error;
    return error;
}

void rt_forget_errors(void)
{
    last = cudaSuccess;
}

RT_API cudaError_t cudaGetLastError(void);
RT_API cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    if (!ruins_the_context(error))
        last = cudaSuccess;
    return error;
}

RT_API cudaError_t cudaPeekAtLastError(void);
RT_API cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

RT_API const char *cudaGetErrorName(cudaError_t error);
RT_API const char *cudaGetErrorName(cudaError_t error)
{
    int i = find(error);
    return i < 0 ? "unrecognized error code" : errors[i].name;
}

RT_API const char *cudaGetErrorString(cudaError_t error);
RT_API const char *cudaGetErrorString(cudaError_t error)
{
    int i = find(error);
    return i < 0 ? "unrecognized error code" : errors[i].text;
}
