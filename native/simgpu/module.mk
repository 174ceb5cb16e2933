# The simulated GPU: libcuda.so.1 here, libnvidia-ml.so.1 and libcudart in nvml.mk and cudart.mk.
SIM      := $(TOP)/simgpu
SIM_BUILD := $(BUILD)/simgpu
SIM_CFLAGS := $(ALL_CFLAGS) -I$(TOP)/include -I$(SIM) -MMD -MP

# Shared by the driver and NVML: the cards' state in mapped files.
SIM_STATE_OBJS := $(patsubst %,$(SIM_BUILD)/%.o,config device paging)
SIM_DRIVER_OBJS := $(SIM_STATE_OBJS) $(patsubst $(SIM)/%.c,$(SIM_BUILD)/%.o,\
	$(filter-out $(SIM)/config.c $(SIM)/device.c $(SIM)/paging.c $(SIM)/null.c $(SIM)/nvml% $(SIM)/cudart%,$(wildcard $(SIM)/*.c)))

$(SIM_BUILD)/%.o: $(SIM)/%.c
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -c $< -o $@

# -Bsymbolic: the driver calls its own functions even when another library of the process has the same names;
# nodelete: its threads outlive a dlclose.
$(OUT)/sim/libcuda.so.1: $(SIM_DRIVER_OBJS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete $(if $(SAN),,-Wl,-z,defs) $(ALL_LDFLAGS) $^ -o $@ -lpthread -ldl -lm
PRODUCTS += $(OUT)/sim/libcuda.so.1

-include $(SIM)/nvml.mk
-include $(SIM)/cudart.mk
