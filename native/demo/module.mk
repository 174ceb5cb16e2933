# Ordinary CUDA programs, for `nvshare demo` and `nvshare doctor --gpu`. They know nothing of nvshare.
DEMO       := $(TOP)/demo
DEMO_BUILD := $(BUILD)/demo

$(DEMO_BUILD)/libcuda.so.1: $(DEMO)/stub.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,libcuda.so.1 $< $(ALL_LDFLAGS) -o $@

$(OUT)/demo/%: $(DEMO)/%.c $(DEMO)/driver.c $(DEMO)/driver.h $(DEMO_BUILD)/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D_GNU_SOURCE -I$(TOP)/include -I$(DEMO) $< $(DEMO)/driver.c $(ALL_LDFLAGS) \
	    $(DEMO_BUILD)/libcuda.so.1 -o $@
PRODUCTS += $(OUT)/demo/worker $(OUT)/demo/allocator
