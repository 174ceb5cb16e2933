# The simulated GPU: libcuda.so.1 and a null driver here, libnvidia-ml.so.1 and libcudart in nvml/ and runtime/.
SIM        := $(TOP)/simgpu
SIM_BUILD  := $(BUILD)/simgpu
SIM_CFLAGS := $(ALL_CFLAGS) -I$(TOP)/include -I$(SIM) -MMD -MP
SIM_OBJS    = $(patsubst $(SIM)/%.c,$(SIM_BUILD)/%.o,$(sort $(wildcard $(patsubst %,$(SIM)/%/*.c,$(1)))))

# Shared by the driver and NVML: the cards' state in mapped files.
SIM_STATE_OBJS  := $(call SIM_OBJS,state) $(SIM_BUILD)/quantity.o
SIM_DRIVER_OBJS := $(SIM_STATE_OBJS) $(call SIM_OBJS,driver driver/*)
SIM_NULL_OBJS   := $(call SIM_OBJS,null)

$(SIM_BUILD)/%.o: $(SIM)/%.c
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -c $< -o $@

# Amounts of memory are read as in libnvshare, by the same file.
$(SIM_BUILD)/quantity.o: $(TOP)/libnvshare/base/quantity.c
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -I$(TOP)/libnvshare -c $< -o $@
$(SIM_BUILD)/state/config.o: SIM_CFLAGS += -I$(TOP)/libnvshare

# -Bsymbolic: the driver calls its own functions even when another library of the process has the same names;
# nodelete: its threads outlive a dlclose. Put in place by rename: a process may have the old one mapped.
SIM_LINK = $(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete $(if $(SAN),,-Wl,-z,defs) $(ALL_LDFLAGS) $(1) -o $(2).$$$$$$$$ -lpthread -ldl -lm && mv $(2).$$$$$$$$ $(2)

$(OUT)/sim/libcuda.so.1: $(SIM_DRIVER_OBJS)
	@mkdir -p $(@D)
	$(call SIM_LINK,$^,$@)
$(BUILD)/null/libcuda.so.1: $(SIM_NULL_OBJS)
	@mkdir -p $(@D)
	$(call SIM_LINK,$^,$@)
# Programs that compile against the driver (Triton) link with this name.
$(OUT)/sim/libcuda.so: $(OUT)/sim/libcuda.so.1
	ln -sf libcuda.so.1 $@
PRODUCTS += $(OUT)/sim/libcuda.so.1 $(OUT)/sim/libcuda.so

# C programs of the tests and benchmarks; linked to the simulated driver, found at run time by LD_LIBRARY_PATH.
SIM_CHECKS := $(patsubst $(TOP)/../tests/native/%.c,$(BUILD)/checks/%,$(filter-out %/simgpu_unit_state.c,$(wildcard $(TOP)/../tests/native/simgpu_*.c)))
$(SIM_CHECKS): $(BUILD)/checks/%: $(TOP)/../tests/native/%.c $(OUT)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) $< -o $@ $(ALL_LDFLAGS) $(OUT)/sim/libcuda.so.1 -lpthread
$(BUILD)/bench/launch_sim: $(TOP)/../bench/native/launch_sim.c $(OUT)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) $< -o $@ $(ALL_LDFLAGS) $(OUT)/sim/libcuda.so.1 -lpthread
$(BUILD)/checks/simgpu_unit_state: $(TOP)/../tests/native/simgpu_unit_state.c $(SIM_STATE_OBJS)
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) $^ -o $@ $(ALL_LDFLAGS) -lpthread
CHECKS += $(SIM_CHECKS) $(BUILD)/checks/simgpu_unit_state $(BUILD)/null/libcuda.so.1 $(BUILD)/bench/launch_sim
BENCH += $(BUILD)/bench/launch_sim $(BUILD)/checks/simgpu_worker # bench/switches.py: what the link does alone

include $(SIM)/nvml/nvml.mk
include $(SIM)/runtime/runtime.mk
