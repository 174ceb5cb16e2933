# The program that asks a GPU one question, for `nvshare doctor --gpu`. Like those of demo/, it knows nothing of nvshare.
PROBE       := $(TOP)/probe
PROBE_FILES := $(wildcard $(PROBE)/*.c) $(DEMO)/driver.c

$(OUT)/probe: $(PROBE_FILES) $(PROBE)/probe.h $(DEMO)/driver.h $(DEMO_BUILD)/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -D_GNU_SOURCE -I$(TOP)/include -I$(DEMO) -I$(PROBE) $(PROBE_FILES) $(ALL_LDFLAGS) \
	    $(DEMO_BUILD)/libcuda.so.1 -ldl -Wl,-z,lazy -o $@
PRODUCTS += $(OUT)/probe
