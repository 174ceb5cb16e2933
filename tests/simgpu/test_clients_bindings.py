"""NVIDIA's own Python binding of the driver API, cuda-bindings, on the simulated driver, unchanged."""

from nvshare.simgpu.trace import Copy, Kind
from simgpu.node import Node

HELPERS = '''
import ctypes
from cuda.bindings import driver as cu

def ok(result):
    error, *values = result
    assert error == cu.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else tuple(values) or None

def fails(expected, result):
    assert result[0] == expected, result[0]

PTX = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u64 x, .param .f32 a) { ret; }
.visible .entry sim_spin_us(.param .u64 us) { ret; }
"""

ok(cu.cuInit(0))
device = ok(cu.cuDeviceGet(0))
context = ok(cu.cuDevicePrimaryCtxRetain(device))
ok(cu.cuCtxSetCurrent(context))
'''


def test_devices_and_memory(node: Node) -> None:
    node.python(
        HELPERS
        + """
assert ok(cu.cuDeviceGetCount()) == 2
assert ok(cu.cuDriverGetVersion()) >= 12000
name = ok(cu.cuDeviceGetName(100, device))
assert name.split(b"\\0")[0] == b"Simulated GPU", name
assert len(bytes(ok(cu.cuDeviceGetUuid(device)).bytes)) == 16
assert ok(cu.cuDeviceTotalMem(device)) == 16 << 30
assert ok(cu.cuDeviceGetAttribute(cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, device)) == 32
free, total = ok(cu.cuMemGetInfo())
data = bytes(range(256)) * 4096
memory = ok(cu.cuMemAlloc(len(data)))
ok(cu.cuMemcpyHtoD(memory, data, len(data)))
other = ok(cu.cuMemAlloc(len(data)))
ok(cu.cuMemcpyDtoD(other, memory, len(data)))
ok(cu.cuMemsetD8(other, 0xff, 16))
back = bytearray(len(data))
ok(cu.cuMemcpyDtoH(back, other, len(data)))
assert back[:16] == b"\\xff" * 16 and back[16:] == data[16:]
fails(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc(17 << 30))
ok(cu.cuMemFree(memory)); ok(cu.cuMemFree(other))
assert ok(cu.cuMemGetInfo()) == (free, total)
managed = ok(cu.cuMemAllocManaged(1 << 20, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
ctypes.memset(int(managed), 5, 100)
assert ctypes.string_at(int(managed), 100) == b"\\x05" * 100
fails(cu.CUresult.CUDA_ERROR_INVALID_VALUE, cu.cuIpcGetMemHandle(managed))
ok(cu.cuMemFree(managed))
"""
    )
    (trace,) = node.traces()
    copies = {record.detail for record in trace.of_kind(Kind.COPY)}
    assert {Copy.HTOD, Copy.DTOD, Copy.DTOH} <= copies


def test_launches_streams_and_events(node: Node) -> None:
    node.python(
        HELPERS
        + """
module = ok(cu.cuModuleLoadData(PTX))
saxpy = ok(cu.cuModuleGetFunction(module, b"saxpy"))
spin = ok(cu.cuModuleGetFunction(module, b"sim_spin_us"))
fails(cu.CUresult.CUDA_ERROR_NOT_FOUND, cu.cuModuleGetFunction(module, b"no_such_kernel"))
stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
start, stop = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
ok(cu.cuEventRecord(start, stream))
ok(cu.cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, stream, ((100_000_000,), (ctypes.c_uint64,)), 0))
ok(cu.cuEventRecord(stop, stream))
fails(cu.CUresult.CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream))
ok(cu.cuEventSynchronize(stop))
ok(cu.cuStreamSynchronize(stream))  # an event is reached a moment before its stream has ended
ok(cu.cuStreamQuery(stream))
assert ok(cu.cuEventElapsedTime(start, stop)) > 0
memory = ok(cu.cuMemAlloc(4096))
for _ in range(5):
    ok(cu.cuLaunchKernel(saxpy, 4, 1, 1, 256, 1, 1, 0, stream, ((memory, 2.0), (None, ctypes.c_float)), 0))
config = cu.CUlaunchConfig()
config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1
config.hStream = stream
ok(cu.cuLaunchKernelEx(config, saxpy, ((memory, 1.0), (None, ctypes.c_float)), 0))
ok(cu.cuStreamSynchronize(stream))
"""
    )
    (trace,) = node.traces()
    assert len(trace.kernels("saxpy")) == 6
    (spin,) = trace.kernels("sim_spin_us")
    assert spin.end_ns is not None
    assert spin.end_ns - spin.begin_ns >= 990_000_000  # 100 s of simulated time at a hundredth


def test_capture_and_graphs(node: Node) -> None:
    node.python(
        HELPERS
        + """
data, back = bytes(range(256)), bytearray(256)
memory = ok(cu.cuMemAlloc(256))
stream = ok(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING.value))
ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
ok(cu.cuMemsetD8Async(memory, 9, 256, stream))
fails(cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuCtxSynchronize())
fails(cu.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream))
ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
ok(cu.cuMemsetD8Async(memory, 9, 256, stream))
graph = ok(cu.cuStreamEndCapture(stream))
executable = ok(cu.cuGraphInstantiate(graph, 0))
ok(cu.cuMemcpyHtoD(memory, data, 256))
ok(cu.cuGraphLaunch(executable, stream))
ok(cu.cuStreamSynchronize(stream))
ok(cu.cuMemcpyDtoH(back, memory, 256))
assert back == b"\\x09" * 256
ok(cu.cuGraphExecDestroy(executable)); ok(cu.cuGraphDestroy(graph))
"""
    )


def test_virtual_memory_management_and_pools(node: Node) -> None:
    node.python(
        HELPERS
        + """
prop = cu.CUmemAllocationProp()
prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
prop.location.id = 0
size = ok(cu.cuMemGetAllocationGranularity(
    prop, cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM)) * 4
address = ok(cu.cuMemAddressReserve(size, 0, 0, 0))
handle = ok(cu.cuMemCreate(size, prop, 0))
ok(cu.cuMemMap(address, size, 0, handle, 0))
access = cu.CUmemAccessDesc()
access.location = prop.location
access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
ok(cu.cuMemSetAccess(address, size, [access], 1))
ok(cu.cuMemRelease(handle))
ok(cu.cuMemsetD8(address, 3, size))
back = bytearray(16)
ok(cu.cuMemcpyDtoH(back, address, 16))
assert back == b"\\x03" * 16
ok(cu.cuMemUnmap(address, size)); ok(cu.cuMemAddressFree(address, size))
stream = ok(cu.cuStreamCreate(0))
memory = ok(cu.cuMemAllocAsync(1 << 20, stream))
ok(cu.cuMemsetD8Async(memory, 1, 1 << 20, stream))
ok(cu.cuMemFreeAsync(memory, stream))
ok(cu.cuStreamSynchronize(stream))
"""
    )
