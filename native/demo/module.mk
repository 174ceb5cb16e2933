# Ordinary CUDA programs, for `nvshare demo` and `nvshare doctor --gpu`. They know nothing of nvshare.
DEMO       := $(TOP)/demo
DEMO_BUILD := $(BUILD)/demo

# Something to link against that is only a name: the driver comes with the machine, real or simulated.
$(DEMO_BUILD)/libcuda.so.1:
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libcuda.so.1 -x c /dev/null -o $@

$(OUT)/demo/%: $(DEMO)/%.c $(DEMO)/driver.c $(DEMO)/driver.h $(DEMO_BUILD)/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D_GNU_SOURCE -I$(TOP)/include -I$(DEMO) $< $(DEMO)/driver.c $(ALL_LDFLAGS) \
	    -Wl,--no-as-needed $(DEMO_BUILD)/libcuda.so.1 -Wl,--unresolved-symbols=ignore-all -o $@
PRODUCTS += $(OUT)/demo/worker $(OUT)/demo/allocator
