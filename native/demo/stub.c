/* Names to link against; never run. The driver that a program meets is the machine's, real or simulated. */
#define STUB(name) int name(void); __attribute__((visibility("default"))) int name(void) { return 999; }

STUB(cuCtxSetCurrent)
STUB(cuCtxSynchronize)
STUB(cuDeviceGet)
STUB(cuDeviceGetUuid_v2)
STUB(cuDevicePrimaryCtxRetain)
STUB(cuGetErrorName)
STUB(cuInit)
STUB(cuLaunchKernel)
STUB(cuMemAllocManaged)
STUB(cuMemAlloc_v2)
STUB(cuMemFree_v2)
STUB(cuMemGetInfo_v2)
STUB(cuModuleGetFunction)
STUB(cuModuleLoadData)
