# libnvshare.so and its C tests.

NVS_DIR    := $(TOP)/libnvshare
NVS_BUILD  := $(BUILD)/libnvshare
NVS_SRC    := $(sort $(wildcard $(NVS_DIR)/*.c $(NVS_DIR)/*/*.c))
NVS_OBJ    := $(patsubst $(NVS_DIR)/%.c,$(NVS_BUILD)/%.o,$(NVS_SRC))
NVS_CLIENT_SRC := $(sort $(wildcard $(NVS_DIR)/client/*.c))
NVS_CLIENT := $(patsubst $(NVS_DIR)/%.c,%.o,$(NVS_CLIENT_SRC))
NVS_PURE   := $(addprefix $(NVS_BUILD)/,$(addprefix base/,log.o options.o platform.o quantity.o) $(NVS_CLIENT) gate/pacing.o gate/sampling.o gate/slowness.o memory/ledger.o mover/chunk_set.o mover/prefetch_effect.o mover/plan.o mover/usage.o mover/working_set.o)
NVS_TESTS  := $(TOP)/../tests/native
NVS_ARCH   ?= $(shell uname -m)
# Thread-local variables by initial-exec: the library is there from the start, and a launch cannot afford a call to find them.
NVS_CFLAGS := -ftls-model=initial-exec -fno-plt -fno-semantic-interposition -D_GNU_SOURCE -I$(NVS_DIR) -I$(TOP)/include $(NVS_EXTRA_CFLAGS)

# Every take of a lock is checked against the order in base/lock.h.
ifneq (,$(SAN))
NVS_CFLAGS += -DNVS_CHECK_LOCK_ORDER
endif

# ThreadSanitizer does not follow fences; what ours order are atomics, which it does follow.
ifneq (,$(findstring thread,$(SAN)))
NVS_CFLAGS += -Wno-tsan
endif

PRODUCTS += $(OUT)/libnvshare.so
CHECKS   += $(patsubst $(NVS_TESTS)/lib_%.c,$(BUILD)/checks/lib_%,$(wildcard $(NVS_TESTS)/lib_*.c))

$(NVS_BUILD)/%.o: $(NVS_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(NVS_CFLAGS) -MMD -MP -c $< -o $@

# A sanitizer's runtime finds what it wraps by dlsym, which is ours, before it is ready for instrumented code.
$(addprefix $(NVS_BUILD)/,$(addprefix lookup/,dlsym.o elf.o exports.o real.o symbols.o) suspend/bypass.o suspend/stubs.o): NVS_CFLAGS += -fno-sanitize=all

# nodelete: a helper thread runs our code. No -lcuda: programs and sandboxes without a driver must start.
$(OUT)/libnvshare.so: $(NVS_OBJ) $(NVS_DIR)/lookup/exports.$(NVS_ARCH).map
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,libnvshare.so -Wl,-z,nodelete,-z,relro,-z,now -Wl,-Bsymbolic \
	    -Wl,--version-script=$(NVS_DIR)/lookup/exports.$(NVS_ARCH).map $(NVS_OBJ) $(ALL_LDFLAGS) -ldl -lpthread -o $@.new
	mv -f $@.new $@

# The client machine alone, for Python (nvshare.client_machine): it is pure, so all that it needs is in it.
PRODUCTS += $(OUT)/libnvshare_client.so
$(OUT)/libnvshare_client.so: $(NVS_CLIENT_SRC) $(wildcard $(NVS_DIR)/client/*.h) $(NVS_DIR)/wire.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(NVS_CFLAGS) -fvisibility=default -shared -Wl,-soname,libnvshare_client.so $(NVS_CLIENT_SRC) $(ALL_LDFLAGS) -o $@.new
	mv -f $@.new $@

# lib_unit_*: the pure parts, linked in; what they test of drains and advice is included, with stubs. The others are small CUDA programs that the Python tests run.
$(BUILD)/checks/lib_unit_%: $(NVS_TESTS)/lib_unit_%.c $(NVS_PURE)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D_GNU_SOURCE -I$(NVS_DIR) -I$(TOP)/include -MMD -MP $< $(NVS_PURE) $(ALL_LDFLAGS) -lpthread -o $@
$(BUILD)/checks/lib_unit_log: ALL_LDFLAGS += -Wl,--wrap=syscall
$(BUILD)/checks/lib_client_linked: $(NVS_TESTS)/lib_client.c $(BUILD)/null/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D_GNU_SOURCE -DLIB_LINKED -I$(TOP)/include $< $(ALL_LDFLAGS) -Wl,--unresolved-symbols=ignore-all \
	    -Wl,--no-as-needed $(BUILD)/null/libcuda.so.1 -ldl -lpthread -o $@
CHECKS += $(BUILD)/checks/lib_client_linked
$(BUILD)/checks/lib_no_memory: private ALL_LDFLAGS += -Wl,--no-as-needed $(BUILD)/null/libcuda.so.1
$(BUILD)/checks/lib_no_memory: $(BUILD)/null/libcuda.so.1
$(BUILD)/encoder/libnvidia-encode.so.1: $(NVS_TESTS)/encoder_stub.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -fvisibility=default -shared -Wl,-soname,libnvidia-encode.so.1 $< -o $@
CHECKS += $(BUILD)/encoder/libnvidia-encode.so.1
$(BUILD)/checks/liblarge_tls.so: $(NVS_TESTS)/large_tls.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -fvisibility=default -shared $< -o $@
CHECKS += $(BUILD)/checks/liblarge_tls.so
$(BUILD)/checks/lib_%: $(NVS_TESTS)/lib_%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D_GNU_SOURCE -I$(TOP)/include -MMD -MP $< $(ALL_LDFLAGS) -ldl -lpthread -o $@

# The programs of bench/library.py.
NVS_BENCH := $(TOP)/../bench/native
$(BUILD)/bench/lib_%: $(NVS_BENCH)/lib_%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D_GNU_SOURCE -I$(TOP)/include $< $(ALL_LDFLAGS) -ldl -lpthread -o $@
# As on a machine without membarrier: each thread executes a fence when it enters a gate.
$(BUILD)/lib_fenced/libnvshare.so: $(NVS_SRC) $(NVS_DIR)/lookup/exports.$(NVS_ARCH).map
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(NVS_CFLAGS) -DNVS_NO_MEMBARRIER -shared -Wl,-Bsymbolic \
	    -Wl,--version-script=$(NVS_DIR)/lookup/exports.$(NVS_ARCH).map $(NVS_SRC) $(ALL_LDFLAGS) -ldl -lpthread -o $@
BENCH += $(BUILD)/lib_fenced/libnvshare.so $(BUILD)/null/libcuda.so.1 $(patsubst $(NVS_BENCH)/%.c,$(BUILD)/bench/%,$(wildcard $(NVS_BENCH)/lib_*.c))
