/* Arrays, mipmapped arrays, texture and surface objects. Arrays are native memory in rows; textures only remember what
 * they were made of, since no kernel reads them. */
#include "driver/driver.h"

#include <string.h>

struct CUmipmappedArray_st { uint32_t kind; unsigned levels; CUarray level[16]; };

static unsigned element_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static CUresult make_array(CUarray *made, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    CUcontext context;
    struct sim_allocation *memory;
    SIM_TRY(sim_current(&context));
    unsigned element = shape != NULL ? element_bytes(shape->Format) * shape->NumChannels : 0;
    if (made == NULL || element == 0 || shape->Width == 0 || shape->NumChannels == 3 || shape->NumChannels > 4)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_capture_unsafe());
    size_t height = shape->Height > 0 ? shape->Height : 1, depth = shape->Depth > 0 ? shape->Depth : 1;
    size_t pitch = shape->Width * element;
    SIM_TRY(sim_memory_new(context, SIM_TRACE_ARRAY, pitch * height * depth, &memory));
    CUarray array = sim_handle_new(SIM_ARRAY, sizeof *array);
    if (array == NULL) {
        sim_memory_free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    array->shape = *shape;
    array->memory = memory;
    array->pitch = pitch;
    array->rows = height * depth;
    array->element = element;
    array->card = context->card;
    *made = array;
    return CUDA_SUCCESS;
}

static CUresult check(CUarray array)
{
    SIM_ENTER();
    return sim_is(array, SIM_ARRAY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) { return make_array(array, descriptor); }

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    SIM_ENTER();
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {.Width = descriptor->Width, .Height = descriptor->Height, .Format = descriptor->Format, .NumChannels = descriptor->NumChannels};
    return make_array(array, &full);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array)
{
    SIM_TRY(check(array));
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *descriptor = array->shape;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray array)
{
    SIM_TRY(check(array));
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *descriptor = (CUDA_ARRAY_DESCRIPTOR){array->shape.Width, array->shape.Height, array->shape.Format, array->shape.NumChannels};
    return CUDA_SUCCESS;
}

static void destroy(CUarray array)
{
    sim_card_drain(array->card);
    sim_memory_free(array->memory);
    sim_handle_free(array);
}

CUresult cuArrayDestroy(CUarray array)
{
    SIM_TRY(check(array));
    if (array->level)
        return CUDA_ERROR_INVALID_HANDLE; /* its mipmapped array's */
    destroy(array);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int index)
{
    SIM_TRY(check(array));
    (void)index;
    return plane == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE; /* no format here has planes */
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUarray array)
{
    SIM_TRY(check(array));
    return properties == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE; /* none is sparse */
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array, CUdevice device)
{
    unsigned card;
    SIM_TRY(check(array));
    SIM_TRY(sim_card_of(device, &card));
    if (requirements == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *requirements = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = array->pitch * array->rows, .alignment = 512};
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *made, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels)
{
    CUDA_ARRAY3D_DESCRIPTOR shape;
    SIM_ENTER();
    if (made == NULL || descriptor == NULL || levels == 0 || levels > 16)
        return CUDA_ERROR_INVALID_VALUE;
    CUmipmappedArray array = sim_handle_new(SIM_MIPMAP, sizeof *array);
    if (array == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    shape = *descriptor;
    for (; array->levels < levels; array->levels++) {
        CUresult result = make_array(&array->level[array->levels], &shape);
        if (result != CUDA_SUCCESS) {
            while (array->levels > 0)
                destroy(array->level[--array->levels]);
            sim_handle_free(array);
            return result;
        }
        array->level[array->levels]->level = true;
        shape.Width = shape.Width > 1 ? shape.Width / 2 : 1;
        shape.Height = shape.Height > 1 ? shape.Height / 2 : shape.Height;
        shape.Depth = shape.Depth > 1 ? shape.Depth / 2 : shape.Depth;
    }
    *made = array;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned int index)
{
    SIM_ENTER();
    if (!sim_is(array, SIM_MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    if (level == NULL || index >= array->levels)
        return CUDA_ERROR_INVALID_VALUE;
    *level = array->level[index];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    SIM_ENTER();
    if (!sim_is(array, SIM_MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    while (array->levels > 0)
        destroy(array->level[--array->levels]);
    sim_handle_free(array);
    return CUDA_SUCCESS;
}

/* ---- textures and surfaces ---- */

struct object { uint32_t kind; CUDA_RESOURCE_DESC resource; CUDA_TEXTURE_DESC texture; CUDA_RESOURCE_VIEW_DESC view; };

static CUresult make_object(enum sim_kind kind, const CUDA_RESOURCE_DESC *resource, unsigned long long *made, struct object **object)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (made == NULL || resource == NULL || resource->resType < 0 || resource->resType > 3)
        return CUDA_ERROR_INVALID_VALUE;
    *object = sim_handle_new(kind, sizeof **object);
    if (*object == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*object)->resource = *resource;
    *made = (unsigned long long)(uintptr_t)*object;
    return CUDA_SUCCESS;
}

static CUresult object_of(unsigned long long handle, enum sim_kind kind, struct object **object)
{
    SIM_ENTER();
    *object = (struct object *)(uintptr_t)handle;
    return sim_is(*object, kind) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectCreate(CUtexObject *handle, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct object *object;
    SIM_ENTER();
    if (texture == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(make_object(SIM_TEXTURE, resource, handle, &object));
    object->texture = *texture;
    if (view != NULL)
        object->view = *view;
    return CUDA_SUCCESS;
}

static CUresult destroy_object(unsigned long long handle, enum sim_kind kind)
{
    struct object *object;
    SIM_TRY(object_of(handle, kind, &object));
    sim_handle_free(object);
    return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject object) { return destroy_object(object, SIM_TEXTURE); }
CUresult cuSurfObjectDestroy(CUsurfObject object) { return destroy_object(object, SIM_SURFACE); }

CUresult cuSurfObjectCreate(CUsurfObject *handle, const CUDA_RESOURCE_DESC *resource)
{
    struct object *object;
    return make_object(SIM_SURFACE, resource, handle, &object);
}

#define OBJECT_GETTER(name, type, kind, field, handle_type) \
    CUresult name(type *out, handle_type handle) \
    { struct object *object; SIM_TRY(object_of(handle, kind, &object)); if (out == NULL) return CUDA_ERROR_INVALID_VALUE; \
      *out = object->field; return CUDA_SUCCESS; }
OBJECT_GETTER(cuTexObjectGetResourceDesc, CUDA_RESOURCE_DESC, SIM_TEXTURE, resource, CUtexObject)
OBJECT_GETTER(cuTexObjectGetTextureDesc, CUDA_TEXTURE_DESC, SIM_TEXTURE, texture, CUtexObject)
OBJECT_GETTER(cuTexObjectGetResourceViewDesc, CUDA_RESOURCE_VIEW_DESC, SIM_TEXTURE, view, CUtexObject)
OBJECT_GETTER(cuSurfObjectGetResourceDesc, CUDA_RESOURCE_DESC, SIM_SURFACE, resource, CUsurfObject)
