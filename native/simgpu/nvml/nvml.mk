# The simulated NVML: its own calls over the cards' shared state.

NVML_OBJS := $(call SIM_OBJS,nvml)

$(OUT)/sim/libnvidia-ml.so.1: $(NVML_OBJS) $(SIM_STATE_OBJS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libnvidia-ml.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete $(if $(SAN),,-Wl,-z,defs) $(ALL_LDFLAGS) $^ -o $@ -lpthread -lm
PRODUCTS += $(OUT)/sim/libnvidia-ml.so.1

$(BUILD)/checks/nvml_calls: $(TOP)/../tests/native/nvml_calls.c $(OUT)/sim/libnvidia-ml.so.1
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) $< $(OUT)/sim/libnvidia-ml.so.1 $(ALL_LDFLAGS) -o $@
CHECKS += $(BUILD)/checks/nvml_calls
