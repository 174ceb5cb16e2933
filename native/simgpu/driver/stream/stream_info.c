/* What streams say about themselves, attributes, and operations on values in memory. */
#include "driver/driver.h"

#include <string.h>

static CUresult priority_of(CUstream handle, int *priority, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (priority == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

static CUresult flags_of(CUstream handle, unsigned int *flags, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

static CUresult id_of(CUstream handle, unsigned long long *id, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *id = stream->id;
    return CUDA_SUCCESS;
}

static CUresult context_of(CUstream handle, CUcontext *context, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->context->green)
        return CUDA_ERROR_NOT_SUPPORTED; /* it has no context of the old kind */
    *context = stream->context;
    return CUDA_SUCCESS;
}

static CUresult device_of(CUstream handle, CUdevice *device, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = stream->context->device;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) { return priority_of(stream, priority, false); }
CUresult cuStreamGetPriority_ptsz(CUstream stream, int *priority) { return priority_of(stream, priority, true); }
CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags) { return flags_of(stream, flags, false); }
CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags) { return flags_of(stream, flags, true); }
CUresult cuStreamGetId(CUstream stream, unsigned long long *id) { return id_of(stream, id, false); }
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long *id) { return id_of(stream, id, true); }
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) { return context_of(stream, context, false); }
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context) { return context_of(stream, context, true); }
CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) { return device_of(stream, device, false); }
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice *device) { return device_of(stream, device, true); }

/* ---- attributes: kept and given back ---- */

static CUresult attribute_of(CUstream handle, int attribute, CUstreamAttrValue **value, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (attribute < 1 || attribute >= 16)
        return CUDA_ERROR_INVALID_VALUE;
    *value = &stream->attributes[attribute % 8];
    return CUDA_SUCCESS;
}

static CUresult get_attribute(CUstream stream, int attribute, CUstreamAttrValue *value, bool per_thread)
{
    CUstreamAttrValue *kept;
    SIM_TRY(attribute_of(stream, attribute, &kept, per_thread));
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, kept, sizeof *value);
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUstream stream, int attribute, const CUstreamAttrValue *value, bool per_thread)
{
    CUstreamAttrValue *kept;
    SIM_TRY(attribute_of(stream, attribute, &kept, per_thread));
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(kept, value, sizeof *kept);
    return CUDA_SUCCESS;
}

static CUresult copy_attributes(CUstream to, CUstream from, bool per_thread)
{
    CUstream destination, source;
    SIM_TRY(sim_stream_resolve(to, per_thread, &destination));
    SIM_TRY(sim_stream_resolve(from, per_thread, &source));
    memcpy(destination->attributes, source->attributes, sizeof source->attributes);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream stream, int attribute, CUstreamAttrValue *value) { return get_attribute(stream, attribute, value, false); }
CUresult cuStreamGetAttribute_ptsz(CUstream stream, int attribute, CUstreamAttrValue *value) { return get_attribute(stream, attribute, value, true); }
CUresult cuStreamSetAttribute(CUstream stream, int attribute, const CUstreamAttrValue *value) { return set_attribute(stream, attribute, value, false); }
CUresult cuStreamSetAttribute_ptsz(CUstream stream, int attribute, const CUstreamAttrValue *value) { return set_attribute(stream, attribute, value, true); }
CUresult cuStreamCopyAttributes(CUstream to, CUstream from) { return copy_attributes(to, from, false); }
CUresult cuStreamCopyAttributes_ptsz(CUstream to, CUstream from) { return copy_attributes(to, from, true); }

/* ---- values in memory ---- */

static CUresult value_op(CUstream handle, bool per_thread, uint32_t kind, bool wide, CUdeviceptr address, uint64_t value, unsigned flags)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    const struct sim_allocation *allocation = sim_memory_at(address);
    bool managed = allocation != NULL && allocation->memory == SIM_TRACE_MANAGED; /* not supported, as in CUDA */
    if (address == 0 || address % (wide ? 8 : 4) != 0 || managed)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = kind};
    op.u.value.address = address;
    op.u.value.value = value;
    op.u.value.wide = wide;
    op.u.value.flags = flags;
    return sim_submit(stream, &op);
}

#define VALUE_PAIR(name, type, kind, wide) \
    CUresult name(CUstream stream, CUdeviceptr address, type value, unsigned int flags) \
    { return value_op(stream, false, kind, wide, address, value, flags); } \
    CUresult name##_ptsz(CUstream stream, CUdeviceptr address, type value, unsigned int flags) \
    { return value_op(stream, true, kind, wide, address, value, flags); }
VALUE_PAIR(cuStreamWaitValue32, cuuint32_t, SIM_OP_WAIT_VALUE, false)
VALUE_PAIR(cuStreamWaitValue64, cuuint64_t, SIM_OP_WAIT_VALUE, true)
VALUE_PAIR(cuStreamWriteValue32, cuuint32_t, SIM_OP_WRITE_VALUE, false)
VALUE_PAIR(cuStreamWriteValue64, cuuint64_t, SIM_OP_WRITE_VALUE, true)
VALUE_PAIR(cuStreamWaitValue32_v2, cuuint32_t, SIM_OP_WAIT_VALUE, false)
VALUE_PAIR(cuStreamWaitValue64_v2, cuuint64_t, SIM_OP_WAIT_VALUE, true)
VALUE_PAIR(cuStreamWriteValue32_v2, cuuint32_t, SIM_OP_WRITE_VALUE, false)
VALUE_PAIR(cuStreamWriteValue64_v2, cuuint64_t, SIM_OP_WRITE_VALUE, true)

static CUresult batch_value(CUstream stream, bool per_thread, const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return value_op(stream, per_thread, SIM_OP_WAIT_VALUE, false, op->waitValue.address, op->waitValue.v.value, op->waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return value_op(stream, per_thread, SIM_OP_WAIT_VALUE, true, op->waitValue.address, op->waitValue.v.value64, op->waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return value_op(stream, per_thread, SIM_OP_WRITE_VALUE, false, op->writeValue.address, op->writeValue.v.value, op->writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return value_op(stream, per_thread, SIM_OP_WRITE_VALUE, true, op->writeValue.address, op->writeValue.v.value64, op->writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_SUCCESS; /* stream order is all there is */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult batch(CUstream stream, bool per_thread, unsigned count, const CUstreamBatchMemOpParams *operations, unsigned flags)
{
    SIM_ENTER();
    if (count == 0 || count > 256 || operations == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        SIM_TRY(batch_value(stream, per_thread, &operations[i]));
    return CUDA_SUCCESS;
}

#define BATCH(name, per_thread) \
    CUresult name(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags) \
    { return batch(stream, per_thread, count, operations, flags); }
BATCH(cuStreamBatchMemOp, false)
BATCH(cuStreamBatchMemOp_ptsz, true)
BATCH(cuStreamBatchMemOp_v2, false)
BATCH(cuStreamBatchMemOp_v2_ptsz, true)

/* Attaching managed memory to a stream only matters for cards without concurrent managed access. */
static CUresult attach(CUstream handle, CUdeviceptr pointer, unsigned flags, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    struct sim_allocation *allocation = sim_memory_at(pointer);
    if (allocation == NULL || allocation->memory != SIM_TRACE_MANAGED || (flags & ~7u) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr pointer, size_t length, unsigned int flags)
{
    (void)length;
    return attach(stream, pointer, flags, false);
}

CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr pointer, size_t length, unsigned int flags)
{
    (void)length;
    return attach(stream, pointer, flags, true);
}
